//! Sets a gateway up: writes the answers to a few questions into `gateway.toml`, and leaves everything else in it as it is.

use crate::configuration::ConfigurationFile;
use crate::connect::KeyName;
use crate::models::is_endpoint;
use crate::served_models::key_of_file;
use crate::{AppError, GATEWAY_LISTEN, RequestError, folder_name};
use clawhost_core::escaped;
use clawhost_gateway::RecordPolicy;
use clawhost_model::ModelFolder;
use clawhost_providers::Dialect;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where the key of a model comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelKey {
    /// From the usual variable of its kind, if its address may have that key.
    Usual,
    /// From a variable of the environment.
    Variable(KeyName),
    /// From a file.
    File(String),
    /// From the client that asks.
    OfClient,
}

/// A model by its text, as of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSpec(String);

impl ModelSpec {
    /// Checks a text without opening the model.
    ///
    /// # Errors
    /// It is no model that a gateway could serve.
    pub fn of(text: &str) -> Result<Self, AppError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let unknown = || RequestError::NotServed { spec: escaped(text, 200) };
        if let Some(dialect) = Dialect::ALL.into_iter().find(|dialect| dialect.name() == kind) {
            let (name, address) = rest.split_once('@').unwrap_or((rest, dialect.home()));
            if name.is_empty() {
                let (spec, address) = (escaped(text, 200), address.to_owned());
                return Err(RequestError::NoModelName { spec, kind: kind.to_owned(), address }.into());
            }
            let is_address =
                url::Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            return if is_address { Ok(Self(text.to_owned())) } else { Err(unknown().into()) };
        }
        match (kind, rest.is_empty()) {
            ("local", false) if ModelFolder::is_one(Path::new(rest)).unwrap_or_default() => {
                // The gateway may be started in another folder.
                let folder = std::path::absolute(rest).unwrap_or_else(|_| PathBuf::from(rest));
                Ok(Self(format!("local:{}", folder.display())))
            }
            ("local", false) => Err(RequestError::NoModelFolder { folder: escaped(rest, 200) }.into()),
            ("follower" | "random", true) => Ok(Self(text.to_owned())),
            _ => Err(unknown().into()),
        }
    }

    /// The name under which clients could ask for it.
    pub fn alias(&self) -> String {
        let (kind, rest) = self.0.split_once(':').unwrap_or((&self.0, ""));
        match kind {
            "local" => folder_name(Path::new(rest)),
            _ if rest.is_empty() => kind.to_owned(),
            _ => rest.split_once('@').map_or(rest, |(name, _)| name).to_owned(),
        }
    }

    /// The variable whose key it gets without further settings. `None`: it gets none.
    pub fn usual_variable(&self) -> Option<&'static str> {
        let (kind, rest) = self.0.split_once(':')?;
        let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.name() == kind)?;
        let is_home = rest.split_once('@').is_none_or(|(_, address)| address.trim_end_matches('/') == dialect.home());
        is_home.then(|| dialect.key_variable())
    }

    /// Whether it is asked over the network.
    pub fn is_endpoint(&self) -> bool {
        is_endpoint(&self.0)
    }
}

/// What a gateway is set up with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupRequest {
    /// The model.
    pub model: ModelSpec,
    /// Its name for clients.
    pub alias: String,
    /// Its key.
    pub key: ModelKey,
    /// Address and port.
    pub listen: String,
    /// What is recorded of clients without a key.
    pub record: RecordPolicy,
}

impl SetupRequest {
    /// The variable from which the model's key comes, if `is_set` says that it has none.
    pub fn missing_variable(&self, is_set: impl Fn(&str) -> bool) -> Option<String> {
        let variable = match &self.key {
            ModelKey::Variable(name) => Some(name.as_str()),
            ModelKey::Usual => self.model.usual_variable(),
            ModelKey::File(_) | ModelKey::OfClient => None,
        };
        variable.filter(|name| !is_set(name)).map(str::to_owned)
    }
}

/// What the configuration of a data folder says already, as defaults of questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupDefaults {
    /// The first model of the file with its alias.
    pub model: Option<(String, String)>,
    /// Address and port.
    pub listen: String,
    /// What is recorded of clients without a key.
    pub record: RecordPolicy,
}

/// The defaults of a data folder.
///
/// # Errors
/// Its configuration cannot be read.
pub fn setup_defaults(folder: &Path) -> Result<SetupDefaults, AppError> {
    let configuration = ConfigurationFile::of(folder)?;
    let text = |path: &[&str]| configuration.get(path).and_then(|value| value.as_str().map(str::to_owned));
    let first = configuration.get(&["models"]).and_then(|models| {
        let models = models.as_object()?.clone();
        models.into_iter().find_map(|(alias, section)| Some((section.get("model")?.as_str()?.to_owned(), alias)))
    });
    let record = text(&["gateway", "record"]).and_then(|text| text.parse().ok());
    Ok(SetupDefaults {
        model: first,
        listen: text(&["gateway", "listen"]).unwrap_or_else(|| GATEWAY_LISTEN.to_owned()),
        record: record.unwrap_or_default(),
    })
}

/// A gateway that was set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetUp {
    /// The file that was written.
    pub file: PathBuf,
    /// Whether other machines can reach the address, so that the gateway needs a key of a client.
    pub is_reachable: bool,
}

/// Writes the configuration of a gateway. Nothing is written before it is valid as a whole.
///
/// # Errors
/// An answer is invalid, or the file cannot be read or written.
pub fn set_up(folder: &Path, request: &SetupRequest) -> Result<SetUp, AppError> {
    let mut configuration = ConfigurationFile::of(folder)?;
    let SetupRequest { model, alias, key, listen, record } = request;
    let is_alias = !alias.is_empty() && alias.len() <= 200 && alias.chars().all(|c| c.is_ascii_graphic());
    if !is_alias {
        return Err(RequestError::ModelAlias { alias: escaped(alias, 60) }.into());
    }
    let section = ["models", alias.as_str()];
    let of_section = |name: &'static str| [section[0], section[1], name];
    for name in ["first_of", "key_env", "key_file", "pass_key"] {
        configuration.remove(&of_section(name));
    }
    configuration.set(&of_section("model"), &Value::from(model.0.as_str()))?;
    match key {
        ModelKey::Usual => {}
        ModelKey::Variable(name) => configuration.set(&of_section("key_env"), &Value::from(name.as_str()))?,
        ModelKey::File(path) => {
            key_of_file(path)?;
            configuration.set(&of_section("key_file"), &Value::from(path.as_str()))?;
        }
        ModelKey::OfClient => configuration.set(&of_section("pass_key"), &Value::from(true))?,
    }
    // Defaults need no line, except in the place of another value.
    let gateway =
        [("listen", listen.as_str(), GATEWAY_LISTEN), ("record", record.name(), RecordPolicy::default().name())];
    for (name, value, default) in gateway {
        let path = ["gateway", name];
        if value != default || configuration.get(&path).is_some() {
            configuration.set(&path, &Value::from(value))?;
        }
    }
    configuration.write()?;
    let is_reachable = match listen.parse::<SocketAddr>() {
        Ok(address) => !address.ip().is_loopback(),
        Err(_) => !listen.starts_with("localhost:"),
    };
    Ok(SetUp { file: configuration.path().to_owned(), is_reachable })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway_file::GATEWAY_FILE;

    fn request() -> SetupRequest {
        SetupRequest {
            model: ModelSpec::of("openai:qwen3@http://127.0.0.1:8000/v1").unwrap(),
            alias: "fast".into(),
            key: ModelKey::Usual,
            listen: GATEWAY_LISTEN.into(),
            record: RecordPolicy::All,
        }
    }

    #[test]
    fn only_answers_that_differ_from_the_defaults_are_written() {
        let check = |request: SetupRequest, expect: &str, is_reachable: bool| {
            let folder = tempfile::tempdir().unwrap();
            let done = set_up(folder.path(), &request).unwrap();
            assert_eq!(std::fs::read_to_string(&done.file).unwrap(), expect);
            assert_eq!(done.is_reachable, is_reachable);
        };
        let model = "[models.fast]\nmodel = \"openai:qwen3@http://127.0.0.1:8000/v1\"\n";
        check(request(), model, false);
        let key = ModelKey::Variable("QWEN_KEY".parse().unwrap());
        check(SetupRequest { key, ..request() }, &format!("{model}key_env = \"QWEN_KEY\"\n"), false);
        check(SetupRequest { key: ModelKey::OfClient, ..request() }, &format!("{model}pass_key = true\n"), false);
        check(
            SetupRequest { listen: "0.0.0.0:9000".into(), record: RecordPolicy::NoTrain, ..request() },
            &format!("{model}\n[gateway]\nlisten = \"0.0.0.0:9000\"\nrecord = \"no-train\"\n"),
            true,
        );
    }

    #[test]
    fn comments_other_models_and_settings_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(GATEWAY_FILE);
        let before = "# mine\n[gateway]\nlisten = \"127.0.0.1:1\" # here\n\n[models.fast]\nmodel = \"follower\" # old\nkey_env = \"A\"\nretries = 2\n\n[models.other]\nmodel = \"random\"\n";
        std::fs::write(&path, before).unwrap();
        set_up(folder.path(), &request()).unwrap();
        let expect = before
            .replace("127.0.0.1:1\"", "127.0.0.1:8700\"")
            .replace("follower", "openai:qwen3@http://127.0.0.1:8000/v1")
            .replace("key_env = \"A\"\n", "");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expect);
        let defaults = setup_defaults(folder.path()).unwrap();
        assert_eq!(defaults.model, Some(("openai:qwen3@http://127.0.0.1:8000/v1".into(), "fast".into())));
    }

    #[test]
    fn a_model_is_checked_before_it_is_written() {
        let check = |text: &str, alias: Option<&str>, variable: Option<&str>| {
            let spec = ModelSpec::of(text).ok();
            assert_eq!(spec.as_ref().map(ModelSpec::alias).as_deref(), alias, "{text}");
            assert_eq!(spec.and_then(|spec| spec.usual_variable()), variable, "{text}");
        };
        check("openai:gpt-5", Some("gpt-5"), Some("OPENAI_API_KEY"));
        check("anthropic:claude-opus-5", Some("claude-opus-5"), Some("ANTHROPIC_API_KEY"));
        check("openai:qwen3@http://127.0.0.1:8000/v1", Some("qwen3"), None);
        check("follower", Some("follower"), None);
        for wrong in ["", "openai", "openai:", "openai:@http://a", "openai:m@nowhere", "local:/nowhere", "gpt-5"] {
            check(wrong, None, None);
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        let spec = ModelSpec::of(&format!("local:{}", folder.path().display())).unwrap();
        assert_eq!((spec.alias(), spec.is_endpoint()), (folder_name(folder.path()), false));
    }

    #[test]
    fn a_variable_that_has_no_key_is_named() {
        let check = |model: &str, key: ModelKey, is_set: bool, expect: Option<&str>| {
            let request = SetupRequest { model: ModelSpec::of(model).unwrap(), key, ..request() };
            assert_eq!(request.missing_variable(|_| is_set).as_deref(), expect, "{request:?}");
        };
        let variable = || ModelKey::Variable("QWEN_KEY".parse().unwrap());
        check("openai:m@http://127.0.0.1:1/v1", variable(), false, Some("QWEN_KEY"));
        check("openai:m@http://127.0.0.1:1/v1", variable(), true, None);
        check("openai:m@http://127.0.0.1:1/v1", ModelKey::Usual, false, None);
        check("anthropic:m", ModelKey::Usual, false, Some("ANTHROPIC_API_KEY"));
        check("openai:m", ModelKey::OfClient, false, None);
    }

    #[test]
    fn an_invalid_file_or_answer_leaves_the_file_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(GATEWAY_FILE);
        std::fs::write(&path, "[gatewey]\n").unwrap();
        assert!(set_up(folder.path(), &request()).unwrap_err().to_string().contains("did you mean `gateway`?"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[gatewey]\n");
        let alias = SetupRequest { alias: "a b".into(), ..request() };
        assert!(set_up(folder.path(), &alias).unwrap_err().to_string().contains("cannot be the name of a model"));
    }
}
