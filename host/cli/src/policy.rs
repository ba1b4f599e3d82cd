//! From words to models: `follower`, `openai:MODEL@ADDRESS`, `script:FILE`.

use crate::args;
use crate::exit::UsageError;
use crate::plugin::nearest;
use clawhost_core::Llm;
use clawhost_engine::ModelGrants;
use clawhost_follower::Follower;
use clawhost_providers::{Budget, Metered, OpenAi, OpenAiConfig, Prices, Scripted, Secret, Spending};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where `openai:MODEL` without an address goes.
const OPENAI: &str = "https://api.openai.com/v1";

/// Makes models from words, all under one budget.
pub(crate) struct Models<'a> {
    options: &'a args::Run,
    pub(crate) spent: Arc<Mutex<Spending>>,
}

impl<'a> Models<'a> {
    pub(crate) fn new(options: &'a args::Run) -> Self {
        Self { options, spent: Arc::default() }
    }

    fn key(&self) -> anyhow::Result<Option<Secret>> {
        if let Some(path) = &self.options.api_key_file {
            let key = Secret::from_file(path)?;
            return match key {
                Some(key) => Ok(Some(key)),
                None => Err(UsageError(format!("{}: the key file is empty", path.display())).into()),
            };
        }
        Ok(std::env::var("OPENAI_API_KEY").ok().and_then(|text| Secret::new(&text)))
    }

    /// The model for a spec, with the run's budget around it.
    pub(crate) fn model(&self, spec: &str) -> anyhow::Result<Arc<dyn Llm>> {
        let (kind, rest) = spec.split_once(':').unwrap_or((spec, ""));
        let model: Arc<dyn Llm> = match kind {
            "follower" if rest.is_empty() => Arc::new(Follower),
            "script" if !rest.is_empty() => Arc::new(Scripted::from_file(Path::new(rest))?),
            "openai" if !rest.is_empty() => {
                let (name, address) = rest.split_once('@').unwrap_or((rest, OPENAI));
                if name.is_empty() {
                    return Err(UsageError(format!("`{spec}` names no model; write openai:MODEL@{address}")).into());
                }
                Arc::new(OpenAi::new(OpenAiConfig {
                    key: self.key()?,
                    timeout: Duration::from_secs(self.options.model_timeout),
                    retries: self.options.retries,
                    concurrency: usize::from(self.options.concurrency),
                    ..OpenAiConfig::new(name, address)
                })?)
            }
            _ => {
                let known = ["follower", "openai", "script"];
                let hint = nearest(kind, known.into_iter()).filter(|name| *name != kind);
                let hint = hint.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
                return Err(UsageError(format!(
                    "`{spec}` is no model; write follower, openai:MODEL@http://HOST:PORT/v1, or script:FILE{hint}"
                ))
                .into());
            }
        };
        let budget = Budget { tokens: self.options.max_tokens_total, cost: self.options.max_cost };
        let prices = self.options.price.map(|(input, output)| Prices { input, output });
        Ok(Arc::new(Metered::new(model, budget, prices, self.spent.clone())))
    }

    /// What `--grant` allows.
    pub(crate) fn grants(&self) -> anyhow::Result<ModelGrants> {
        let mut grants = ModelGrants::default();
        for grant in &self.options.grant {
            if grant == "kv" {
                grants.kv = true;
            } else if let Some((alias, spec)) = grant.strip_prefix("llm:").and_then(|rest| rest.split_once('=')) {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                if alias.is_empty() || !alias.chars().all(plain) {
                    let message =
                        format!("`{alias}` is no alias: letters, digits, `-` and `_`, as in llm:judge=follower");
                    return Err(UsageError(message).into());
                }
                grants.models.insert(alias.to_owned(), self.model(spec)?);
            } else {
                let message = format!("`{grant}` is no grant; write kv, or llm:ALIAS=SPEC as in llm:judge=follower");
                return Err(UsageError(message).into());
            }
        }
        Ok(grants)
    }
}
