//! The configuration of a gateway: `gateway.toml` in its data folder. What it names is served beside the models of a request.

use crate::connect::KeyName;
use crate::live::{LearningSection, LiveMode, ScoringSection, ShadowSection, SkillsSection, WeightsSection};
use crate::routers::router_name;
use crate::{AppError, RequestError};
use clawhost_core::did_you_mean;
use clawhost_gateway::{RecordPolicy, Redaction, RedactionSettings};
use clawhost_providers::Prices;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The file in the data folder.
pub const GATEWAY_FILE: &str = "gateway.toml";
/// Largest size in bytes: hundreds of models.
const BYTES: u64 = 1 << 20;
/// Longest time limit of a model's answer in seconds: an hour.
const LONGEST_SECONDS: u64 = 3600;
/// Most further attempts at a model. A client waits for all of them.
pub const MOST_RETRIES: u32 = 10;
/// Tokens of a context: below, hardly any instructions fit; above, no model reads.
const CONTEXT_TOKENS: std::ops::RangeInclusive<u64> = 256..=100_000_000;
/// Highest price of a million tokens in dollars: far above that of any model, so that a price per token is not taken for one.
const HIGHEST_PRICE: f64 = 100_000.0;

/// The configuration of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayFile {
    /// How it is reached.
    #[serde(default)]
    pub gateway: GatewaySection,
    /// The certificate that it shows. `None`: connections are not encrypted.
    pub tls: Option<TlsSection>,
    /// What it writes about its requests.
    #[serde(default)]
    pub log: LogSection,
    /// What its guidance is made of.
    #[serde(default)]
    pub skills: SkillsSection,
    /// The rewards that judge every live episode.
    #[serde(default)]
    pub scoring: ScoringSection,
    /// How lessons are learned from live sessions.
    #[serde(default)]
    pub learning: LearningSection,
    /// How the weights of a local model learn from live sessions.
    #[serde(default)]
    pub weights: WeightsSection,
    /// Shadow answers with lessons on trial.
    #[serde(default)]
    pub shadow: ShadowSection,
    /// What is redacted in records.
    #[serde(default)]
    pub redaction: RedactionSection,
    /// How long records are kept.
    #[serde(default)]
    pub retention: RetentionSection,
    /// The models by alias.
    #[serde(default)]
    pub models: BTreeMap<String, ModelSection>,
}

/// How a gateway is reached, and how long its sessions last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewaySection {
    /// Address and port.
    pub listen: Option<String>,
    /// Names under which it may be addressed, beside those of this machine.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Seconds after its last exchange at which a session ends.
    pub session_idle_seconds: Option<u64>,
    /// What is recorded of clients without a key.
    #[serde(default)]
    pub record: RecordPolicy,
    /// How much it does beside recording.
    #[serde(default)]
    pub mode: LiveMode,
}

/// The certificate of a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    /// The file of the certificate, followed by those that lead to a known authority, as PEM.
    pub certificate: String,
    /// The file of its private key, as PEM.
    pub key: String,
}

/// What a gateway writes about its requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSection {
    /// Whether it writes a line for each.
    #[serde(default)]
    pub access: bool,
}

/// How long records of clients without a key are kept; a key has its own days.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSection {
    /// Days, at least 1. `None`: for ever.
    pub days: Option<u32>,
}

/// What is redacted in records.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedactionSection {
    /// Keys and tokens of well-known forms.
    pub keys: bool,
    /// E-mail addresses.
    pub emails: bool,
    /// Regular expressions.
    pub patterns: Vec<String>,
}

impl Default for RedactionSection {
    fn default() -> Self {
        let RedactionSettings { keys, emails, patterns } = RedactionSettings::default();
        Self { keys, emails, patterns }
    }
}

impl RedactionSection {
    /// The compiled patterns.
    ///
    /// # Errors
    /// A pattern cannot be used.
    pub fn compiled(&self) -> Result<Redaction, AppError> {
        self.checked().map_err(|why| RequestError::File { path: GATEWAY_FILE.to_owned(), why }.into())
    }

    fn checked(&self) -> Result<Redaction, String> {
        let Self { keys, emails, patterns } = self.clone();
        Redaction::new(&RedactionSettings { keys, emails, patterns }).map_err(|error| format!("redaction.{error}"))
    }
}

/// A served model: either one model, or others in the order in which they are asked.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// The model, as of a policy.
    pub model: Option<String>,
    /// Aliases of this file: each is asked if those before it gave no answer.
    #[serde(default)]
    pub first_of: Vec<String>,
    /// The variable of the environment that has the key.
    pub key_env: Option<String>,
    /// The file that has the key.
    pub key_file: Option<String>,
    /// Whether a client's own key is passed on.
    #[serde(default)]
    pub pass_key: bool,
    /// Longest silence in seconds.
    pub timeout_seconds: Option<u64>,
    /// Further attempts after one that failed.
    #[serde(default)]
    pub retries: u32,
    /// Most tokens of a request: a longer one loses its oldest turns.
    pub max_context_tokens: Option<u64>,
    /// US dollars for a million tokens that the model reads.
    pub price_in_per_million: Option<f64>,
    /// US dollars for a million tokens that it writes.
    pub price_out_per_million: Option<f64>,
}

impl ModelSection {
    /// Whether a router chooses the model.
    fn routes(&self) -> bool {
        self.model.as_deref().is_some_and(|model| router_name(model).is_some())
    }

    /// Its prices, if they are set.
    pub fn prices(&self) -> Option<Prices> {
        Some(Prices { input: self.price_in_per_million?, output: self.price_out_per_million? })
    }
}

impl GatewayFile {
    /// The file of a data folder. Without one, everything is left to the request.
    ///
    /// # Errors
    /// The file cannot be read, or says what cannot be.
    pub fn of(folder: &Path) -> Result<Self, AppError> {
        let path = folder.join(GATEWAY_FILE);
        if !path.exists() {
            return Ok(Self::default());
        }
        let wrong = |why: String| AppError::from(RequestError::File { path: path.display().to_string(), why });
        let text = clawhost_files::read_text(&path, BYTES).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text).map_err(wrong)
    }

    /// Reads the text of a file. The error says what is wrong and where.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {}{}", error.message(), did_you_mean(error.message()))
        })?;
        file.redaction.checked()?;
        file.skills.check()?;
        file.learning.check()?;
        file.weights.plan()?;
        file.shadow.plan()?;
        if file.retention.days == Some(0) {
            return Err("retention.days: must be at least 1".to_owned());
        }
        for (alias, section) in &file.models {
            file.check(section).map_err(|why| format!("models.{alias}: {why}"))?;
        }
        Ok(file)
    }

    /// The keys that differ from a gateway's start and count from its next one. `given`: whether the address and the
    /// certificate were given beside the file.
    pub(crate) fn needs_restart(&self, started: &Self, (listens, has_tls): (bool, bool)) -> Vec<String> {
        let listen = !listens && self.gateway.listen != started.gateway.listen;
        let tls = !has_tls && self.tls.is_some() != started.tls.is_some();
        let log = self.log != started.log;
        let redaction = self.redaction != started.redaction;
        let retention = self.retention != started.retention;
        let scoring = self.scoring != started.scoring;
        let learning = self.learning != started.learning;
        let keys = [
            ("gateway.listen", listen),
            ("tls", tls),
            ("log", log),
            ("redaction", redaction),
            ("retention", retention),
            ("scoring", scoring),
            ("learning", learning),
            ("weights", self.weights != started.weights),
            ("shadow", self.shadow != started.shadow),
            ("gateway.mode", self.gateway.mode.trains_weights() != started.gateway.mode.trains_weights()),
        ];
        keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key.to_owned()).collect()
    }

    fn check(&self, section: &ModelSection) -> Result<(), String> {
        let is_list = !section.first_of.is_empty();
        if is_list == section.model.is_some() {
            return Err("either `model` or `first_of` must be there".to_owned());
        }
        if is_list {
            let own = ModelSection { first_of: section.first_of.clone(), ..ModelSection::default() };
            if *section != own {
                return Err("beside `first_of` nothing can be set: the models that it lists have settings".to_owned());
            }
            for alias in &section.first_of {
                match self.models.get(alias) {
                    None => return Err(format!("first_of: there is no `{alias}` among the models")),
                    Some(listed) if listed.model.is_none() => {
                        return Err(format!("first_of: `{alias}` is a list itself"));
                    }
                    Some(listed) if listed.routes() => return Err(format!("first_of: `{alias}` is a router")),
                    Some(_) => {}
                }
            }
        }
        if section.routes() && *section != (ModelSection { model: section.model.clone(), ..ModelSection::default() }) {
            return Err("beside a router nothing can be set: the models that it chooses from have settings".to_owned());
        }
        // The message does not repeat it: it may be a key.
        if section.key_env.as_ref().is_some_and(|name| name.parse::<KeyName>().is_err()) {
            return Err("key_env: it names a variable of the environment; a key itself does not belong here".to_owned());
        }
        let keys = [section.key_env.is_some(), section.key_file.is_some(), section.pass_key];
        if keys.into_iter().filter(|given| *given).count() > 1 {
            return Err("of `key_env`, `key_file` and `pass_key` one at most can be set".to_owned());
        }
        if section.timeout_seconds.is_some_and(|seconds| !(1..=LONGEST_SECONDS).contains(&seconds)) {
            return Err(format!("timeout_seconds: must be from 1 to {LONGEST_SECONDS}"));
        }
        if section.retries > MOST_RETRIES {
            return Err(format!("retries: must be from 0 to {MOST_RETRIES}"));
        }
        if section.max_context_tokens.is_some_and(|tokens| !CONTEXT_TOKENS.contains(&tokens)) {
            let (least, most) = (CONTEXT_TOKENS.start(), CONTEXT_TOKENS.end());
            return Err(format!("max_context_tokens: must be from {least} to {most}"));
        }
        if section.price_in_per_million.is_some() != section.price_out_per_million.is_some() {
            return Err("of `price_in_per_million` and `price_out_per_million` both must be set".to_owned());
        }
        let prices = [
            ("price_in_per_million", section.price_in_per_million),
            ("price_out_per_million", section.price_out_per_million),
        ];
        let is_wrong = |price: f64| !(0.0..=HIGHEST_PRICE).contains(&price);
        if let Some((name, _)) = prices.into_iter().find(|(_, price)| price.is_some_and(is_wrong)) {
            return Err(format!("{name}: must be from 0 to {HIGHEST_PRICE}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_models_and_lists_of_them() {
        let file = GatewayFile::parse(
            r#"
            [gateway]
            listen = "127.0.0.1:9"
            [models.fast]
            model = "openai:a@http://127.0.0.1:1/v1"
            key_env = "FAST_KEY"
            timeout_seconds = 5
            retries = 2
            [models.main]
            first_of = ["fast", "slow"]
            [models.slow]
            model = "local:models/tiny"
            "#,
        )
        .unwrap();
        assert_eq!(file.gateway.listen.as_deref(), Some("127.0.0.1:9"));
        assert_eq!(file.models["main"].first_of, ["fast", "slow"]);
        let fast = &file.models["fast"];
        assert_eq!((fast.key_env.as_deref(), fast.timeout_seconds, fast.retries), (Some("FAST_KEY"), Some(5), 2));
    }

    #[test]
    fn keys_are_redacted_unless_the_file_says_otherwise() {
        let check = |text: &str, expect: &str| {
            let redaction = GatewayFile::parse(text).unwrap().redaction.compiled().unwrap();
            let said = "a@b.example AKIAIOSFODNN7EXAMPLE x-1";
            assert_eq!(redaction.text(said).as_deref().unwrap_or(said), expect, "{text}");
        };
        check("", "a@b.example [redacted:key] x-1");
        check("[redaction]\nemails = true", "[redacted:email] [redacted:key] x-1");
        check("[redaction]\nkeys = false\npatterns = ['x-\\d']", "a@b.example AKIAIOSFODNN7EXAMPLE [redacted:pattern]");
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        let check = |text: &str, expect: &str| {
            let error = GatewayFile::parse(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("[models.a]\nmodel = 5", "line 2: ");
        check("[models.a]\nmodel = \"x\"\nretires = 1", "unknown field `retires`");
        check("[model.a]\nmodel = \"x\"", "did you mean `models`?");
        check("[models.a]\nmodel = \"x\"\nkey_env = \"sk-1\"", "names a variable");
        check("[gateway]\nrecord = \"some\"", "write all, no-train or off");
        check("[retention]\ndays = 0", "retention.days: must be at least 1");
        check("[redaction]\npatterns = [\"a\", \"(\"]", "redaction.patterns[1]: ");
        check("[models.a]", "models.a: either `model` or `first_of`");
        check("[models.a]\nmodel = \"x\"\nfirst_of = [\"b\"]", "models.a: either");
        check("[models.a]\nfirst_of = [\"b\"]", "there is no `b`");
        check("[models.a]\nfirst_of = [\"a\"]", "`a` is a list itself");
        check("[models.a]\nmodel = \"router:r\"\nretries = 1", "models.a: beside a router nothing can be set");
        check("[models.a]\nfirst_of = [\"b\"]\n[models.b]\nmodel = \"router:r\"", "first_of: `b` is a router");
        check("[models.a]\nfirst_of = [\"b\"]\nretries = 1\n[models.b]\nmodel = \"x\"", "nothing can be set");
        check("[models.a]\nmodel = \"x\"\nkey_env = \"K\"\npass_key = true", "one at most");
        check("[models.a]\nmodel = \"x\"\ntimeout_seconds = 0", "from 1 to 3600");
        check("[models.a]\nmodel = \"x\"\nretries = 11", "from 0 to 10");
        check("[models.a]\nmodel = \"x\"\nprice_in_per_million = 1.5", "both must be set");
        check("[models.a]\nmodel = \"x\"\nmax_context_tokens = 255", "from 256 to 100000000");
        let prices = |price: &str| {
            format!("[models.a]\nmodel = \"x\"\nprice_in_per_million = {price}\nprice_out_per_million = 1")
        };
        ["-0.1", "nan", "inf", "1e6"]
            .iter()
            .for_each(|price| check(&prices(price), "models.a: price_in_per_million: must be from 0 to 100000"));
    }

    #[test]
    fn what_a_running_gateway_cannot_change_is_named() {
        let check = |text: &str, expect: &[&str]| {
            let waiting = GatewayFile::parse(text).unwrap().needs_restart(&GatewayFile::default(), (false, false));
            assert_eq!(waiting, expect, "{text}");
        };
        check("[gateway]\nrecord = \"off\"\nhosts = [\"a.example\"]\nsession_idle_seconds = 5", &[]);
        check("[gateway]\nlisten = \"127.0.0.1:1\"\nmode = \"skills\"", &["gateway.listen"]);
        check("[tls]\ncertificate = \"c\"\nkey = \"k\"", &["tls"]);
        check("[log]\naccess = true", &["log"]);
        check("[redaction]\nemails = true", &["redaction"]);
        check("[retention]\ndays = 3", &["retention"]);
        check("[scoring]\nrewards = [\"r.wasm\"]", &["scoring"]);
        check("[learning]\nlive_trials = true", &["learning"]);
        check("[shadow]\nscopes = [\"all\"]", &["shadow"]);
    }
}
