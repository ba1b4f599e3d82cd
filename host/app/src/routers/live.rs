//! A router that a gateway serves: it chooses a model for every session.

use clawhost_core::{Digest, ModelRequest, derive_seed};
use clawhost_gateway::{Chooser, Choosing, Chosen};
use clawhost_learn::LearnError;
use clawhost_learn::router::{Request, Router, failures, opening, seed_of};
use std::sync::{Arc, PoisonError, RwLock};

/// Milliseconds of a second.
const SECOND_MS: u64 = 1000;

/// A router whose state is replaced when rewards come.
pub(crate) struct LiveRouter {
    name: String,
    router: RwLock<Arc<Router>>,
}

impl LiveRouter {
    pub(crate) fn new(name: &str, router: Router) -> Self {
        Self { name: name.to_owned(), router: RwLock::new(Arc::new(router)) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The state that decides now.
    pub(crate) fn router(&self) -> Arc<Router> {
        self.router.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another state decides from now on.
    pub(crate) fn replace(&self, router: Router) {
        *self.router.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(router);
    }

    fn decide(&self, choosing: &Choosing<'_>) -> Result<Chosen, LearnError> {
        let Choosing { request: ModelRequest { messages, tools, .. }, session, at_ms } = *choosing;
        // What is not recorded has no session: all of its requests are decided about by their common beginning.
        let (messages, seed) = match session {
            Some(session) => (messages.as_slice(), derive_seed(0, &Digest::of(session.as_bytes()).to_string(), 0)),
            None => (opening(messages), seed_of(opening(messages))),
        };
        let router = self.router();
        let (features, words) = router.request(messages, tools.len())?;
        let (session, time) = (session.unwrap_or_default(), at_ms / SECOND_MS);
        let decision = router.decide(&Request { session, time, features: &features, words: &words, seed })?;
        let action = decision.action()?;
        let text = serde_json::to_string(&decision).map_err(|error| LearnError::Router(error.to_string()))?;
        Ok(Chosen { model: action.model.clone(), then: action.then.clone(), decision: text })
    }
}

impl Chooser for LiveRouter {
    fn router(&self) -> &str {
        &self.name
    }

    fn choose(&self, choosing: &Choosing<'_>) -> Result<Chosen, String> {
        self.decide(choosing).map_err(|error| error.to_string())
    }

    fn failures(&self, request: &ModelRequest) -> u32 {
        failures(&request.messages)
    }
}
