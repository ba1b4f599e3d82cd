//! Opens models from texts: `follower`, `random`, `openai:MODEL@ADDRESS`, `anthropic:MODEL@ADDRESS`, `local:DIR`,
//! `tinker:BASE=FOLDER@ADDRESS`, `script:FILE`, `router:NAME`. All models of a run share one budget.

use crate::events::{Event, EventSink, Warning};
use crate::idle::{self, IdleTally};
use crate::model_folders::folder_name;
use crate::routers::{OpenRouter, RouterPlugins, router_name};
use crate::tinker::{TinkerModel, TinkerVersion};
use crate::{AppError, ConfirmedEndpoints, RequestError, drivers};
use clawhost_child::ChildProgram;
use clawhost_core::{KnownSecrets, Llm, Secret, Teacher, TokenModel, Usage, nearest};
use clawhost_engine::ModelGrants;
use clawhost_follower::{Follower, RandomPlayer};
use clawhost_gateway::ModelSource;
use clawhost_learn::router::RewardRange;
use clawhost_learning::{RoutingFailure, RoutingFailures};
use clawhost_model::device::{Backend, ChildProber, Chosen, ComputeDevice, DeviceChoice, choose};
use clawhost_model::tokens::TextHost;
use clawhost_model::{AdapterFolder, HubCache, LocalModel, TokenCalls};
use clawhost_providers::{
    Account, Budget, Dialect, Endpoint, EndpointConfig, EndpointTeacher, Guarded, Metered, MeteredTeacher, Prices,
    Scripted, Spending, Upstream, UpstreamConfig, key_from_file,
};
use clawhost_run_config::{BudgetSpec, Grant, Key, LocalModelText};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Default time limit in seconds of an endpoint's answer.
pub const MODEL_TIMEOUT_SECONDS: u64 = 120;
/// Default number of retries after temporary failures.
pub const RETRIES: u32 = 4;

/// How models are called and computed on this machine. It changes no result.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// The device of local models.
    pub device: DeviceChoice,
    /// A program that tries devices, and may crash while doing so: it prints the result of [`clawhost_model::device::answer_probe`]
    /// for its last argument. `None`: local models run on the processor.
    pub probe: Option<ChildProgram>,
    /// Where tokenizers and chat templates of model folders are interpreted.
    pub texts: TextHost,
    /// Addresses that may have keys from the environment, beside the providers' own.
    pub confirmed: ConfirmedEndpoints,
    /// Files with keys: `FILE` for every kind of endpoint, or `openai=FILE`, `anthropic=FILE`.
    pub api_key_files: Vec<String>,
    /// Time limit in seconds of an endpoint's answer.
    pub timeout_seconds: u64,
    /// Number of retries after temporary failures.
    pub retries: u32,
    /// The folder of routers. `None`: there are none.
    pub routers: Option<PathBuf>,
    /// Where models are found that are named as on the Hugging Face hub.
    pub hub: HubCache,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            device: DeviceChoice::Auto,
            probe: None,
            texts: TextHost::InProcess,
            confirmed: ConfirmedEndpoints::default(),
            api_key_files: Vec::new(),
            timeout_seconds: MODEL_TIMEOUT_SECONDS,
            retries: RETRIES,
            routers: None,
            hub: HubCache::default(),
        }
    }
}

impl ModelSettings {
    /// Chooses a device for a model with this number of parameters, and opens it.
    ///
    /// # Errors
    /// The requested device is missing or does not work.
    pub fn open_device(&self, parameters: u64, events: &dyn EventSink) -> Result<ComputeDevice, AppError> {
        Ok(self.choose_device(parameters, events)?.0)
    }

    /// As [`ModelSettings::open_device`], with the details of the choice.
    ///
    /// # Errors
    /// As [`ModelSettings::open_device`].
    pub fn choose_device(&self, parameters: u64, events: &dyn EventSink) -> Result<(ComputeDevice, Chosen), AppError> {
        let Some(program) = &self.probe else {
            let device = ComputeDevice::processor();
            let (title, because) = ("this processor".to_owned(), "no other device is tried".to_owned());
            let chosen = Chosen { name: device.name(), title, because, passed_over: Vec::new() };
            return Ok((device, chosen));
        };
        let prober = ChildProber::new(program.clone());
        let built = drivers().built();
        let chosen = choose(self.device, parameters, &built, &prober)?;
        let device = ComputeDevice::open(chosen.name, drivers())?;
        // If there was no choice, nothing is reported.
        if built != [Backend::Cpu] {
            let Chosen { name, title, because, passed_over } = chosen.clone();
            let chosen = format!("{name} ({title}): {because}");
            events.event(Event::Warning(Warning::Device { chosen, passed_over }));
        }
        Ok((device, chosen))
    }
}

/// The digest of the weights that answered, from the version of a local model: `WEIGHTS+FORMAT`.
pub(crate) fn weights_of(version: &str) -> &str {
    version.split_once('+').map_or(version, |(weights, _)| weights)
}

/// Opens models from texts, all under one budget.
pub struct ModelFactory {
    settings: ModelSettings,
    budget: Budget,
    /// Of granted models, inside of the whole budget.
    grant_budget: Budget,
    prices: Option<Prices>,
    concurrency: usize,
    /// The kind of endpoint to which a key file without a kind belongs: the first that requested it.
    plain_key_for: Mutex<Option<Dialect>>,
    spent: Arc<Account>,
    spent_by_plugins: Arc<Account>,
    idle: Arc<IdleTally>,
    router_plugins: RouterPlugins,
    router_failures: Arc<RoutingFailures>,
    /// The local model whose weights learn, with its name in the table of the router that the policy names.
    learner: Option<(String, Arc<LocalModel>)>,
    secrets: KnownSecrets,
}

/// How a gateway asks an endpoint.
#[derive(Debug, Clone, Default)]
pub struct ServedOptions {
    /// Its key. `None`: the one of its kind, if its address may have it.
    pub key: Option<Secret>,
    /// Whether a client's own key is passed on. Then it has none of its own.
    pub passes_key: bool,
    /// Longest silence in seconds. `None`: that of all models.
    pub timeout_seconds: Option<u64>,
    /// The number that a local model's answers give as the version of its weights.
    pub weights_number: u64,
    /// The folder with the version of the weights of a model at a Tinker service. `None`: its base model answers.
    pub version: Option<PathBuf>,
}

/// Whether a model is asked over the network, from its text.
pub(crate) fn is_endpoint(spec: &str) -> bool {
    let is_one = |kind: &str| kind == "tinker" || Dialect::ALL.into_iter().any(|dialect| dialect.name() == kind);
    spec.split_once(':').is_some_and(|(kind, _)| is_one(kind))
}

/// A policy model, and whether it reads system messages.
pub(crate) struct Opened {
    pub(crate) model: Arc<dyn Llm>,
    /// Whether its chat template omits the system prompt.
    pub(crate) ignores_system_prompt: bool,
}

impl ModelFactory {
    /// Models under this budget, with at most `concurrency` concurrent calls. `secrets` receives the keys that are read: none of
    /// them is in any answer.
    pub fn new(settings: ModelSettings, budget: &BudgetSpec, concurrency: usize, secrets: KnownSecrets) -> Self {
        Self {
            settings,
            budget: Budget { tokens: budget.max_tokens_total, cost: budget.max_cost },
            grant_budget: Budget { tokens: budget.max_grant_tokens, cost: None },
            prices: budget.price.map(|price| Prices { input: price.input, output: price.output }),
            concurrency,
            plain_key_for: Mutex::new(None),
            spent: Arc::default(),
            spent_by_plugins: Arc::default(),
            idle: Arc::default(),
            router_plugins: RouterPlugins::default(),
            router_failures: Arc::default(),
            learner: None,
            secrets,
        }
    }

    /// The plugins of routers that are opened from now on.
    pub(crate) fn set_router_plugins(&mut self, plugins: RouterPlugins) {
        self.router_plugins = plugins;
    }

    /// The local model that learns behind the router of the policy. It is open already.
    pub(crate) fn set_learner(&mut self, name: String, model: Arc<LocalModel>) {
        self.learner = Some((name, model));
    }

    /// The plugins of routers.
    pub(crate) fn router_plugins(&self) -> &RouterPlugins {
        &self.router_plugins
    }

    /// Warns of routers whose plugin failed, so that their incumbent decided.
    pub(crate) fn warn_of_routers(&self, events: &dyn EventSink) {
        for RoutingFailure { router, count, first } in self.router_failures.all() {
            events.event(Event::Warning(Warning::RouterPluginFailed { router, count, first }));
        }
    }

    /// The usage of all models together.
    pub fn spent(&self) -> Spending {
        self.spent.spent()
    }

    /// The number of answers of a built-in policy, if it found nothing to act on in any of them.
    pub(crate) fn only_idle_answers(&self) -> Option<u64> {
        self.idle.all_idle()
    }

    pub(crate) fn meter(&self) -> Arc<Account> {
        self.spent.clone()
    }

    /// Whether prices are known.
    pub fn is_priced(&self) -> bool {
        self.prices.is_some()
    }

    /// Counts tokens that were paid for before.
    pub fn paid(&self, usage: Usage) {
        self.spent.add(usage, self.prices);
    }

    /// Whether plugins have a budget of their own.
    pub(crate) fn limits_plugins(&self) -> bool {
        self.grant_budget.tokens.is_some()
    }

    /// Counts tokens that plugins used before.
    pub(crate) fn paid_by_plugins(&self, usage: Usage) {
        self.spent_by_plugins.add(usage, None);
    }

    /// The key of an endpoint from the file for its kind, or the file for all kinds.
    fn key_of_files(&self, dialect: Dialect) -> Result<Option<Secret>, AppError> {
        let kind_of = |text: &'_ str| {
            let kinds = Dialect::ALL.into_iter();
            let found =
                kinds.filter_map(|kind| Some((kind, text.strip_prefix(kind.name())?.strip_prefix('=')?.to_owned())));
            found.into_iter().next()
        };
        let files = &self.settings.api_key_files;
        let own = files.iter().find_map(|text| kind_of(text).filter(|(kind, _)| *kind == dialect));
        let plain = files.iter().find(|text| kind_of(text).is_none());
        let path = match (own, plain) {
            (Some((_, path)), _) => Some(path),
            (None, Some(path)) => {
                let mut first = self.plain_key_for.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(first) = first.filter(|first| *first != dialect) {
                    let (one, other) = (first.name().to_owned(), dialect.name().to_owned());
                    return Err(RequestError::OneKeyFile { one, other }.into());
                }
                *first = Some(dialect);
                Some(path.clone())
            }
            (None, None) => None,
        };
        if let Some(path) = path {
            return match key_from_file(Path::new(&path))? {
                Some(key) => Ok(Some(key)),
                None => Err(RequestError::EmptyKeyFile { path }.into()),
            };
        }
        Ok(None)
    }

    /// Name and address of an endpoint's model, from a text behind its kind.
    fn named<'a>(dialect: Dialect, spec: &str, rest: &'a str) -> Result<(&'a str, &'a str), AppError> {
        let (name, address) = rest.split_once('@').unwrap_or((rest, dialect.home()));
        if name.is_empty() {
            let (spec, kind, address) = (spec.to_owned(), dialect.name().to_owned(), address.to_owned());
            return Err(RequestError::NoModelName { spec, kind, address }.into());
        }
        Ok((name, address))
    }

    /// The key for an address, and whether one is held back from it.
    fn key_for(
        &self,
        dialect: Dialect,
        address: &str,
        events: &dyn EventSink,
    ) -> Result<(Option<Secret>, bool), AppError> {
        let may_have = self.settings.confirmed.may_have_key(dialect, address)?;
        let of_environment = || std::env::var(dialect.key_variable()).ok().and_then(|text| Secret::new(&text));
        let (key, key_held_back) = match (self.key_of_files(dialect)?, may_have) {
            (Some(key), _) => (Some(key), false),
            (None, true) => (of_environment(), false),
            (None, false) => (None, of_environment().is_some()),
        };
        if key_held_back {
            let (variable, address) = (dialect.key_variable().to_owned(), address.to_owned());
            events.event(Event::Warning(Warning::KeyHeldBack { variable, address }));
        }
        Ok((key, key_held_back))
    }

    /// A client, with the key that it uses.
    fn endpoint(
        &self,
        dialect: Dialect,
        (name, address): (&str, &str),
        options: &ServedOptions,
        events: &dyn EventSink,
    ) -> Result<(Endpoint, Option<Secret>), AppError> {
        let (key, key_held_back) = match (&options.key, options.passes_key) {
            (Some(key), _) => (Some(key.clone()), false),
            (None, true) => (None, false),
            (None, false) => self.key_for(dialect, address, events)?,
        };
        let endpoint = Endpoint::new(EndpointConfig {
            key: key.clone(),
            key_held_back,
            without_key: options.passes_key,
            known: self.secrets.clone(),
            timeout: self.timeout(options),
            retries: self.settings.retries,
            concurrency: self.concurrency,
            ..EndpointConfig::new(dialect, name, address)
        })?;
        if endpoint.key().is_some_and(|key| !key.is_scrubbed()) {
            events.event(Event::Warning(Warning::KeyNotScrubbed { kind: dialect.name().to_owned() }));
        }
        Ok((endpoint, key))
    }

    fn timeout(&self, options: &ServedOptions) -> Duration {
        Duration::from_secs(options.timeout_seconds.unwrap_or(self.settings.timeout_seconds))
    }

    /// The text of a model with the folder in which it was found, if it is a local one.
    ///
    /// # Errors
    /// As [`ModelSettings::model_folder`].
    pub(crate) fn with_folder<'a>(&self, spec: &'a str) -> Result<Cow<'a, str>, AppError> {
        match LocalModelText::of(spec) {
            Some(text) if !Path::new(text.folder).exists() => {
                let folder = self.settings.model_folder(text.folder)?;
                Ok(format!("local:{}{}", folder.display(), text.options).into())
            }
            _ => Ok(spec.into()),
        }
    }

    /// A local model. `number`: that of the weights in answers.
    pub(crate) fn local(
        &self,
        text: &LocalModelText<'_>,
        number: u64,
        events: &dyn EventSink,
    ) -> Result<Arc<LocalModel>, AppError> {
        let folder = self.settings.model_folder(text.folder)?;
        let model = self.settings.read_local(text, events)?;
        let device = self.settings.open_device(model.config.parameters(), events)?;
        Ok(model.open_version(number, &folder_name(&folder), &device)?)
    }

    /// The policy model.
    pub(crate) fn policy(&self, spec: &str, events: &dyn EventSink) -> Result<Opened, AppError> {
        let wrong = |error: AppError| error.of_option(Key::Policy);
        if let Some(name) = router_name(spec) {
            let opened = self.policy_router(name, None, events).map_err(wrong)?;
            let model = Arc::new(opened.model(&self.router_failures)?);
            let ignores = self.learner.as_ref().is_some_and(|(_, learner)| learner.ignores_system_prompt());
            return Ok(Opened { model, ignores_system_prompt: ignores });
        }
        let Some(text) = LocalModelText::of(spec) else {
            let model = idle::counted(spec, self.model(spec, events).map_err(wrong)?, &self.idle);
            return Ok(Opened { model, ignores_system_prompt: false });
        };
        Ok(self.opened(self.local(&text, 0, events).map_err(wrong)?))
    }

    /// A local model that is open already.
    pub(crate) fn opened(&self, model: Arc<LocalModel>) -> Opened {
        Opened { ignores_system_prompt: model.ignores_system_prompt(), model: self.metered(model) }
    }

    /// The model of a text, metered by the budget.
    ///
    /// # Errors
    /// The text is not a model, or the model cannot be used.
    pub fn model(&self, spec: &str, events: &dyn EventSink) -> Result<Arc<dyn Llm>, AppError> {
        if let Some(name) = router_name(spec) {
            // Its models are metered.
            return Ok(Arc::new(self.router(name, events)?.model(&self.router_failures)?));
        }
        if let Some(text) = LocalModelText::of(spec) {
            return Ok(self.metered(self.local(&text, 0, events)?));
        }
        let (kind, rest) = spec.split_once(':').unwrap_or((spec, ""));
        let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.name() == kind && !rest.is_empty());
        let model: Arc<dyn Llm> = match (dialect, kind) {
            (Some(dialect), _) => {
                let named = Self::named(dialect, spec, rest)?;
                Arc::new(self.endpoint(dialect, named, &ServedOptions::default(), events)?.0)
            }
            (_, "follower") if rest.is_empty() => Arc::new(Follower),
            (_, "random") if rest.is_empty() => Arc::new(RandomPlayer),
            (_, "tinker") if !rest.is_empty() => self.at_service(spec, &ServedOptions::default(), events)?.1,
            (_, "script") if !rest.is_empty() => Arc::new(Scripted::from_file(Path::new(rest))?),
            _ => {
                let known = ["follower", "random", "openai", "anthropic", "local", "tinker", "script", "router"];
                let nearest = nearest(kind, known).filter(|name| *name != kind).map(str::to_owned);
                return Err(RequestError::UnknownModel { spec: spec.to_owned(), nearest }.into());
            }
        };
        Ok(self.metered(model))
    }

    /// The folder of routers. `None`: there are none.
    pub(crate) fn routers(&self) -> Option<&Path> {
        self.settings.routers.as_deref()
    }

    /// The router of the policy, with the model that learns among its models. `rewards`: the range of rewards, if it has learned nothing yet.
    ///
    /// # Errors
    /// There is no such router, or one of its models cannot be used.
    pub(crate) fn policy_router(
        &self,
        name: &str,
        rewards: Option<RewardRange>,
        events: &dyn EventSink,
    ) -> Result<OpenRouter, AppError> {
        let learner = self.learner.as_ref().map(|(alias, model)| (alias.as_str(), self.metered(model.clone())));
        OpenRouter::open(self.settings.routers.as_deref(), name, rewards, (self, learner), events)
    }

    /// Another router with its models.
    ///
    /// # Errors
    /// As [`ModelFactory::policy_router`].
    fn router(&self, name: &str, events: &dyn EventSink) -> Result<OpenRouter, AppError> {
        OpenRouter::open(self.settings.routers.as_deref(), name, None, (self, None), events)
    }

    /// A model for a gateway: requests of its dialect are forwarded, others are translated. Returns its name, too.
    ///
    /// # Errors
    /// The text is not a model, or the model cannot be used.
    pub fn served(
        &self,
        spec: &str,
        options: &ServedOptions,
        events: &dyn EventSink,
    ) -> Result<(String, ModelSource), AppError> {
        // A router is an alias of a gateway, and no model of one.
        if router_name(spec).is_some() {
            return Err(RequestError::NotServed { spec: spec.to_owned() }.into());
        }
        let (kind, rest) = spec.split_once(':').unwrap_or((spec, ""));
        let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.name() == kind && !rest.is_empty());
        let Some(dialect) = dialect else {
            if let Some(text) = LocalModelText::of(spec) {
                let model = self.local(&text, options.weights_number, events)?;
                return Ok((folder_name(Path::new(text.folder)), self.served_local(model)));
            }
            if kind == "tinker" {
                let (name, model) = self.at_service(spec, options, events)?;
                return Ok((name, ModelSource::Local(self.metered(model))));
            }
            let model = self.model(spec, events).map_err(|error| match error {
                AppError::Request(RequestError::UnknownModel { spec, .. }) => RequestError::NotServed { spec }.into(),
                other => other,
            })?;
            return Ok((kind.to_owned(), ModelSource::Local(model)));
        };
        let (name, address) = Self::named(dialect, spec, rest)?;
        let (endpoint, key) = self.endpoint(dialect, (name, address), options, events)?;
        let client = self.metered(Arc::new(endpoint));
        let upstream = Upstream::new(UpstreamConfig {
            dialect,
            base_url: address.to_owned(),
            key,
            silence: self.timeout(options),
            known: self.secrets.clone(),
        })?;
        let (upstream, model) = (Arc::new(upstream), name.to_owned());
        Ok((name.to_owned(), ModelSource::Endpoint { upstream, client, model, passes_key: options.passes_key }))
    }

    /// A model whose weights are at a service, and its name.
    fn at_service(
        &self,
        spec: &str,
        options: &ServedOptions,
        events: &dyn EventSink,
    ) -> Result<(String, Arc<dyn Llm>), AppError> {
        let tinker = TinkerModel::of(spec)?;
        let tinker = tinker.ok_or_else(|| RequestError::UnknownModel { spec: spec.to_owned(), nearest: None })?;
        let texts = tinker.texts(&self.settings)?;
        if !texts.ignored.is_empty() {
            let folder = tinker.folder.display().to_string();
            events.event(Event::Warning(Warning::SamplingIgnored { folder, settings: texts.ignored.clone() }));
        }
        let version = options.version.as_deref().map(TinkerVersion::read).transpose()?.flatten();
        let service = tinker.service(
            &self.settings,
            &self.secrets,
            options.key.clone(),
            options.timeout_seconds.map(Duration::from_secs),
        )?;
        let name = texts.format.name.clone();
        Ok((name, tinker.open(texts, &service, version.as_ref(), options.weights_number)?))
    }

    /// A local model of a gateway.
    pub(crate) fn served_local(&self, model: Arc<LocalModel>) -> ModelSource {
        let tokens = Arc::new(TokenCalls::new(model.clone()));
        ModelSource::LocalTokens { model: self.metered(model), tokens }
    }

    /// A local model with an adapter, of a gateway. `number`: that of the weights in answers.
    ///
    /// # Errors
    /// The adapter belongs to another model, or the model is on a device, which cannot share its weights.
    pub(crate) fn adapted(
        &self,
        base: &Arc<LocalModel>,
        number: u64,
        adapter: &AdapterFolder,
    ) -> Result<ModelSource, AppError> {
        let adapted = base.adapted(number, adapter)?;
        let adapted = adapted.ok_or_else(|| {
            RequestError::Other("adapters of users and projects need a model on the processor".to_owned())
        })?;
        Ok(self.served_local(adapted))
    }

    /// An endpoint as the teacher of a local model, metered by the budget. Checks that both have the same tokens, and that it names so many
    /// likely ones.
    ///
    /// # Errors
    /// The endpoint does not score given tokens, or has other tokens.
    pub(crate) async fn teacher(
        &self,
        (spec, likely): (&str, u8),
        learner: Arc<dyn TokenModel>,
        events: &dyn EventSink,
    ) -> Result<Arc<dyn Teacher>, AppError> {
        let dialect = Dialect::OpenAi;
        let rest = spec.strip_prefix(dialect.name()).and_then(|rest| rest.strip_prefix(':'));
        let rest = rest.ok_or_else(|| RequestError::NoTeacher { teacher: spec.to_owned() })?;
        let (endpoint, _) =
            self.endpoint(dialect, Self::named(dialect, spec, rest)?, &ServedOptions::default(), events)?;
        let teacher = EndpointTeacher::new(endpoint, learner);
        let teacher = MeteredTeacher::new(teacher, self.budget, self.prices, self.spent.clone());
        let refused = |error| RequestError::Teacher { teacher: spec.to_owned(), error };
        teacher.check(likely).await.map_err(refused)?;
        Ok(Arc::new(teacher))
    }

    fn metered(&self, model: Arc<dyn Llm>) -> Arc<dyn Llm> {
        let guarded = Arc::new(Guarded::new(model, self.secrets.clone()));
        Arc::new(Metered::new(guarded, self.budget, self.prices, self.spent.clone()))
    }

    /// Opens the models that plugins may use.
    ///
    /// # Errors
    /// A granted model cannot be used.
    pub fn grants(&self, grants: &[Grant], events: &dyn EventSink) -> Result<ModelGrants, AppError> {
        let mut all = ModelGrants::default();
        for grant in grants {
            match grant {
                Grant::Kv => all.kv = true,
                Grant::Model { alias, spec } => {
                    let model = self.model(spec, events).map_err(|error| error.of_option(Key::Grants))?;
                    let own = Metered::new(model, self.grant_budget, None, self.spent_by_plugins.clone());
                    all.models.insert(alias.clone(), Arc::new(own));
                }
            }
        }
        Ok(all)
    }
}
