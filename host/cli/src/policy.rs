//! From words to models: `follower`, `openai:MODEL@ADDRESS`, `anthropic:MODEL@ADDRESS`, `local:DIR`, `script:FILE`.

use crate::args;
use crate::device::DeviceOption;
use crate::exit::UsageError;
use crate::plugin::nearest;
use clawhost_core::{Llm, Usage};
use clawhost_engine::ModelGrants;
use clawhost_follower::Follower;
use clawhost_model::{LocalModel, ModelFolder};
use clawhost_providers::{Budget, Dialect, Endpoint, EndpointConfig, Metered, Prices, Scripted, Secret, Spending};
use std::cell::Cell;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A model that lies in a folder.
///
/// # Errors
/// There is none that runs here.
pub(crate) fn local(folder: &Path) -> anyhow::Result<ModelFolder> {
    let shown = folder.display();
    if !folder.join("config.json").exists() {
        let why = "there is no config.json, so it is no model's folder; `clawhost model init DIR` makes a tiny one";
        return Err(UsageError(format!("{shown}: {why}")).into());
    }
    let model = ModelFolder::read(folder).map_err(|error| UsageError(format!("{shown}: {error}")))?;
    if !model.ignored.is_empty() {
        let asked = model.ignored.join(", ");
        let _ = writeln!(
            anstream::stderr(),
            "note: {shown}: generation_config.json asks for {asked}, which answers here do not follow"
        );
    }
    Ok(model)
}

/// What a model is called by its folder.
pub(crate) fn folder_name(folder: &Path) -> String {
    let named = folder.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    named.unwrap_or_else(|| "local".to_owned())
}

/// Makes models from words, all under one budget.
pub(crate) struct Models<'a> {
    endpoint: &'a args::EndpointOptions,
    device: DeviceOption,
    grants: &'a [String],
    budget: Budget,
    prices: Option<Prices>,
    concurrency: usize,
    /// The kind of endpoint that a key file without a kind is for: the first that asked.
    plain_key_for: Cell<Option<Dialect>>,
    pub(crate) spent: Arc<Mutex<Spending>>,
}

impl<'a> Models<'a> {
    pub(crate) fn new(options: &'a args::ModelOptions, concurrency: usize) -> Self {
        let budget = Budget { tokens: options.max_tokens_total, cost: options.max_cost };
        let prices = options.price.map(|(input, output)| Prices { input, output });
        Self {
            device: options.device,
            grants: &options.grant,
            budget,
            prices,
            concurrency,
            ..Self::bare(&options.endpoint)
        }
    }

    /// Models without grants and budgets.
    pub(crate) fn bare(endpoint: &'a args::EndpointOptions) -> Self {
        Self {
            endpoint,
            device: DeviceOption::default(),
            grants: &[],
            budget: Budget::default(),
            prices: None,
            concurrency: 1,
            plain_key_for: Cell::new(None),
            spent: Arc::default(),
        }
    }

    /// Counts tokens that were paid for before.
    pub(crate) fn paid(&self, usage: Usage) {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).add(usage, self.prices);
    }

    /// The key of an endpoint: from the file for its kind, the file for all kinds, or its variable.
    fn key(&self, dialect: Dialect) -> anyhow::Result<Option<Secret>> {
        let kind_of = |text: &'a str| {
            let kinds = Dialect::ALL.into_iter();
            kinds.filter_map(|kind| Some((kind, text.strip_prefix(kind.name())?.strip_prefix('=')?))).next()
        };
        let files = self.endpoint.api_key_file.iter().map(String::as_str);
        let own = files.clone().find_map(|text| kind_of(text).filter(|(kind, _)| *kind == dialect));
        let path = own.map(|(_, path)| path).or_else(|| files.clone().find(|text| kind_of(text).is_none()));
        if own.is_none() && path.is_some() {
            let first = self.plain_key_for.replace(Some(dialect));
            if let Some(first) = first.filter(|first| *first != dialect) {
                let (one, other) = (first.name(), dialect.name());
                let message =
                    format!("one --api-key-file for two kinds of endpoints; write {one}=FILE and {other}=FILE");
                return Err(UsageError(message).into());
            }
        }
        if let Some(path) = path {
            return match Secret::from_file(Path::new(path))? {
                Some(key) => Ok(Some(key)),
                None => Err(UsageError(format!("{path}: the key file is empty")).into()),
            };
        }
        Ok(std::env::var(dialect.key_variable()).ok().and_then(|text| Secret::new(&text)))
    }

    /// An endpoint's client.
    fn endpoint(&self, dialect: Dialect, spec: &str, rest: &str) -> anyhow::Result<Endpoint> {
        let (name, address) = rest.split_once('@').unwrap_or((rest, dialect.home()));
        if name.is_empty() {
            let kind = dialect.name();
            return Err(UsageError(format!("`{spec}` names no model; write {kind}:MODEL@{address}")).into());
        }
        Ok(Endpoint::new(EndpointConfig {
            key: self.key(dialect)?,
            timeout: Duration::from_secs(self.endpoint.model_timeout),
            retries: self.endpoint.retries,
            concurrency: self.concurrency,
            ..EndpointConfig::new(dialect, name, address)
        })?)
    }

    /// The model for a spec, and whether it never sees what the system says.
    pub(crate) fn policy(&self, spec: &str) -> anyhow::Result<(Arc<dyn Llm>, bool)> {
        let Some(folder) = spec.strip_prefix("local:").filter(|folder| !folder.is_empty()) else {
            return Ok((self.model(spec)?, false));
        };
        let model = self.local(folder)?;
        Ok((self.metered(model.clone()), model.drops_system()))
    }

    fn local(&self, folder: &str) -> anyhow::Result<Arc<LocalModel>> {
        let path = Path::new(folder);
        let model = local(path)?;
        let (device, _) = self.device.open(model.config.parameters())?;
        Ok(model.open(&folder_name(path), &device)?)
    }

    /// The model for a spec, with the run's budget around it.
    pub(crate) fn model(&self, spec: &str) -> anyhow::Result<Arc<dyn Llm>> {
        let (kind, rest) = spec.split_once(':').unwrap_or((spec, ""));
        let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.name() == kind && !rest.is_empty());
        let model: Arc<dyn Llm> = match (dialect, kind) {
            (Some(dialect), _) => Arc::new(self.endpoint(dialect, spec, rest)?),
            (_, "follower") if rest.is_empty() => Arc::new(Follower),
            (_, "local") if !rest.is_empty() => self.local(rest)?,
            (_, "script") if !rest.is_empty() => Arc::new(Scripted::from_file(Path::new(rest))?),
            _ => {
                let known = ["follower", "openai", "anthropic", "local", "script"];
                let hint = nearest(kind, known.into_iter()).filter(|name| *name != kind);
                let hint = hint.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
                return Err(UsageError(format!(
                    "`{spec}` is no model; write follower, openai:MODEL@http://HOST:PORT/v1, anthropic:MODEL@http://HOST:PORT/v1, \
                     local:DIR, or script:FILE{hint}"
                ))
                .into());
            }
        };
        Ok(self.metered(model))
    }

    /// A model with the run's budget around it.
    pub(crate) fn metered(&self, model: Arc<dyn Llm>) -> Arc<dyn Llm> {
        Arc::new(Metered::new(model, self.budget, self.prices, self.spent.clone()))
    }

    /// What `--grant` allows.
    pub(crate) fn grants(&self) -> anyhow::Result<ModelGrants> {
        let mut grants = ModelGrants::default();
        for grant in self.grants {
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
