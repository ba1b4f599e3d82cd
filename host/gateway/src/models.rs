//! The models that are served, by alias.

use crate::GatewayError;
use crate::breaker::Breaker;
use crate::observe::Counter;
use crate::routing::Routing;
use clawhost_core::{AnsweringModel, LiveSession, Llm, LlmIdentity, ModelResponse, TokenModel};
use clawhost_providers::{Dialect, Prices, Upstream};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};

/// What answers for an alias.
#[derive(Clone)]
pub enum ModelSource {
    /// An endpoint. Requests of its dialect are forwarded byte for byte; others are translated.
    Endpoint {
        /// Forwards.
        upstream: Arc<Upstream>,
        /// Translates.
        client: Arc<dyn Llm>,
        /// The model's name there.
        model: String,
        /// Whether a client's own key is passed on, if the upstream has none of its own.
        passes_key: bool,
    },
    /// A model of this process.
    Local(Arc<dyn Llm>),
    /// A model of this process that works on tokens, too.
    LocalTokens {
        /// Answers conversations.
        model: Arc<dyn Llm>,
        /// Answers requests in tokens.
        tokens: Arc<dyn TokenModel>,
    },
}

impl ModelSource {
    /// The model.
    pub fn identity(&self) -> LlmIdentity {
        match self {
            Self::Endpoint { client, .. } => client.identity(),
            Self::Local(model) | Self::LocalTokens { model, .. } => model.identity(),
        }
    }

    /// The model as answers name it. Only of a model of this process the version is known before it answers.
    pub(crate) fn asked(&self) -> AnsweringModel {
        let LlmIdentity { model, version, .. } = self.identity();
        AnsweringModel { model, version: self.is_local().then_some(version) }
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local(_) | Self::LocalTokens { .. })
    }

    /// Names the model of this process in its answer.
    pub(crate) fn named(&self, mut response: ModelResponse) -> ModelResponse {
        if self.is_local() {
            response.answered_by.get_or_insert_with(|| self.asked());
        }
        response
    }

    /// The upstream, if it has this dialect.
    pub(crate) fn speaks(&self, dialect: Dialect) -> Option<(&Arc<Upstream>, &str, bool)> {
        match self {
            Self::Endpoint { upstream, model, passes_key, .. } if upstream.dialect() == dialect => {
                Some((upstream, model, *passes_key))
            }
            Self::Endpoint { .. } | Self::Local(_) | Self::LocalTokens { .. } => None,
        }
    }

    /// The model of this process that works on tokens.
    pub(crate) fn tokens(&self) -> Option<&Arc<dyn TokenModel>> {
        match self {
            Self::LocalTokens { tokens, .. } => Some(tokens),
            Self::Endpoint { .. } | Self::Local(_) => None,
        }
    }

    /// The model behind its port.
    pub fn model(&self) -> &Arc<dyn Llm> {
        match self {
            Self::Endpoint { client, .. } => client,
            Self::Local(model) | Self::LocalTokens { model, .. } => model,
        }
    }
}

/// One of the models that may answer for an alias.
#[derive(Clone)]
pub struct Candidate {
    /// What answers.
    pub source: ModelSource,
    /// Further attempts after one that failed before anything of an answer was passed on.
    pub retries: u32,
    /// What its tokens cost in US dollars, if that is known.
    pub prices: Option<Prices>,
    /// Most tokens that it reads, by an estimate; a longer request loses its oldest turns.
    pub max_context: Option<u64>,
    /// What answers sessions of single scopes in its place.
    pub own: OwnSources,
    /// What is known of its endpoint. Aliases that share a candidate share this.
    pub(crate) health: Arc<Health>,
}

/// What answers the sessions of a scope in the place of a model: the same model with what that scope has taught it. By scope, as
/// `LEVEL:OWNER/NAME`.
pub type OwnSources = Arc<BTreeMap<String, ModelSource>>;

/// What is known of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Health {
    pub(crate) breaker: Breaker,
    /// Whether it answers other requests and has no `/responses`.
    pub(crate) without_responses: AtomicBool,
    /// Attempts to get an answer.
    pub(crate) attempts: Counter,
    /// Those that gave none.
    pub(crate) failures: Counter,
}

impl Health {
    /// An attempt was answered. Returns whether the model rested until now.
    pub(crate) fn succeeded(&self) -> bool {
        self.attempts.add(1);
        self.breaker.succeeded()
    }

    /// An attempt was not answered. Returns whether the model rests from now on.
    pub(crate) fn failed(&self, now_us: u64) -> bool {
        self.attempts.add(1);
        self.failures.add(1);
        self.breaker.failed(now_us)
    }
}

impl Candidate {
    /// A candidate that is asked once.
    pub fn new(source: ModelSource) -> Self {
        Self { source, retries: 0, prices: None, max_context: None, own: Arc::default(), health: Arc::default() }
    }

    /// The same with prices.
    #[must_use]
    pub fn priced(mut self, prices: Option<Prices>) -> Self {
        self.prices = prices;
        self
    }

    /// The same with a longest conversation in tokens.
    #[must_use]
    pub fn reading(mut self, tokens: Option<u64>) -> Self {
        self.max_context = tokens;
        self
    }

    /// The same with what answers single scopes.
    #[must_use]
    pub fn with_own(mut self, own: OwnSources) -> Self {
        self.own = own;
        self
    }

    /// The candidate for a session behind the key of its client. Only sessions of a scope reach what that scope has taught.
    fn of_session(&self, owner: &str, session: &LiveSession) -> Option<Self> {
        if self.own.is_empty() {
            return None;
        }
        let source = session.scopes(owner).find_map(|scope| self.own.get(&scope))?.clone();
        Some(Self { source, own: Arc::default(), ..self.clone() })
    }

    /// The same, asked up to this many times more.
    #[must_use]
    pub fn retried(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }
}

/// A served model.
#[derive(Clone)]
pub struct ServedModel {
    /// Its name for clients.
    pub alias: String,
    /// What answers.
    pub first: Candidate,
    /// What is asked, in this order, while nothing before it gave an answer.
    pub then: Vec<Candidate>,
    /// How the model is chosen. `None`: the candidates are asked in their order.
    pub routing: Option<Routing>,
}

impl ServedModel {
    /// A model under an alias, asked once.
    pub fn new(alias: impl Into<String>, source: ModelSource) -> Self {
        Self { alias: alias.into(), first: Candidate::new(source), then: Vec::new(), routing: None }
    }

    /// The same for a session behind the key of its client, with what its scopes have taught. `None`: nothing differs.
    pub(crate) fn of_session(&self, owner: &str, session: &LiveSession) -> Option<Self> {
        let own = |candidate: &Candidate| candidate.of_session(owner, session);
        if !self.candidates().any(|candidate| own(candidate).is_some()) {
            return None;
        }
        let of = |candidate: &Candidate| own(candidate).unwrap_or_else(|| candidate.clone());
        let (first, then) = (of(&self.first), self.then.iter().map(of).collect());
        Some(Self { alias: self.alias.clone(), first, then, routing: self.routing.clone() })
    }

    /// What answers requests of a dialect that are no conversations and are passed on. Always the first endpoint of it, since vectors and log-probs of
    /// two models cannot be compared. `None`: there is no such endpoint, or a router chooses between models.
    pub(crate) fn passes_to(&self, dialect: Dialect) -> Option<(&Candidate, (&Arc<Upstream>, &str, bool))> {
        let all = self.candidates().filter(|_| self.routing.is_none());
        all.filter_map(|candidate| Some((candidate, candidate.source.speaks(dialect)?))).next()
    }

    /// The endpoint that answers its `/v1/embeddings`, and the model's name there.
    pub fn embeddings(&self) -> Option<(&Arc<Upstream>, &str)> {
        let (_, (upstream, model, _)) = self.passes_to(Dialect::OpenAi)?;
        Some((upstream, model))
    }

    pub(crate) fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        std::iter::once(&self.first).chain(&self.then)
    }
}

impl std::fmt::Debug for ServedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let models: Vec<LlmIdentity> = self.candidates().map(|candidate| candidate.source.identity()).collect();
        f.debug_struct("ServedModel").field("alias", &self.alias).field("models", &models).finish()
    }
}

/// All of them. They can be replaced while the gateway runs; a request keeps those that it began with.
#[derive(Debug)]
pub(crate) struct Models(RwLock<Arc<[Arc<ServedModel>]>>);

/// Models as they are looked up.
///
/// # Errors
/// There is none, or two have one alias.
fn listed(models: Vec<ServedModel>) -> Result<Arc<[Arc<ServedModel>]>, GatewayError> {
    check_models(&models)?;
    Ok(models.into_iter().map(Arc::new).collect())
}

/// Whether a gateway can serve these models.
///
/// # Errors
/// There is none, or two have one alias.
pub fn check_models(models: &[ServedModel]) -> Result<(), GatewayError> {
    if models.is_empty() {
        return Err(GatewayError::NoModel);
    }
    for (at, model) in models.iter().enumerate() {
        if models.iter().take(at).any(|known| known.alias == model.alias) {
            return Err(GatewayError::AliasTwice(model.alias.clone()));
        }
    }
    Ok(())
}

impl Models {
    pub(crate) fn new(models: Vec<ServedModel>) -> Result<Self, GatewayError> {
        Ok(Self(RwLock::new(listed(models)?)))
    }

    /// Replaces all of them.
    ///
    /// # Errors
    /// As [`Models::new`]. The former models stay.
    pub(crate) fn replace(&self, models: Vec<ServedModel>) -> Result<(), GatewayError> {
        let models = listed(models)?;
        let before = std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), models);
        // Outside of the lock: it may free gigabytes.
        drop(before);
        Ok(())
    }

    /// The models as they are now.
    pub(crate) fn all(&self) -> Arc<[Arc<ServedModel>]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn find(&self, alias: &str) -> Option<Arc<ServedModel>> {
        self.all().iter().find(|model| model.alias == alias).cloned()
    }

    pub(crate) fn aliases(&self) -> Vec<String> {
        self.all().iter().map(|model| model.alias.clone()).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clawhost_core::{ModelError, ModelRequest};

    struct Named(&'static str);

    #[async_trait::async_trait]
    impl Llm for Named {
        fn identity(&self) -> LlmIdentity {
            LlmIdentity { provider: String::new(), model: self.0.to_owned(), version: String::new() }
        }
        async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
            Err(ModelError::Stopped)
        }
    }

    /// A model that has a name and no answer.
    pub(crate) fn source(name: &'static str) -> ModelSource {
        ModelSource::Local(Arc::new(Named(name)))
    }

    #[test]
    fn what_a_scope_has_taught_answers_its_own_sessions_behind_its_own_key_alone() {
        let own = BTreeMap::from([
            ("user:shop/ada".to_owned(), source("of ada")),
            ("project:shop/tax".to_owned(), source("of tax")),
        ]);
        let first = Candidate::new(source("base")).with_own(Arc::new(own));
        let served =
            ServedModel { alias: "m".to_owned(), first, then: vec![Candidate::new(source("other"))], routing: None };
        let check = |owner: &str, user: Option<&str>, project: Option<&str>, expect: &[&str]| {
            let session = LiveSession {
                user: user.map(str::to_owned),
                project: project.map(str::to_owned),
                ..LiveSession::new("s", "a", "m")
            };
            let found = served.of_session(owner, &session);
            let asked = found.as_ref().unwrap_or(&served);
            let names: Vec<String> = asked.candidates().map(|one| one.source.identity().model).collect();
            assert_eq!(names, expect, "{owner} {user:?} {project:?}");
        };
        check("shop", Some("ada"), None, &["of ada", "other"]);
        check("shop", Some("ben"), None, &["base", "other"]);
        check("shop", Some("ben"), Some("tax"), &["of tax", "other"]);
        check("shop", None, None, &["base", "other"]);
        check("bank", Some("ada"), Some("tax"), &["base", "other"]);
        check("", Some("shop/ada"), None, &["base", "other"]);
    }
}
