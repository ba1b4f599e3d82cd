//! Aliases whose model a router chooses: the port of the router, and the candidates that it chooses from.

use crate::models::{Candidate, ServedModel};
use async_trait::async_trait;
use clawhost_capture::Routed;
use clawhost_core::ModelRequest;
use std::sync::Arc;

/// A request that needs a model.
#[derive(Debug, Clone, Copy)]
pub struct Choosing<'a> {
    /// The conversation.
    pub request: &'a ModelRequest,
    /// The session, as `RUN/EPISODE`. `None`: it is not recorded, so each of its requests is decided about, and equally.
    pub session: Option<&'a str>,
    /// Unix time in milliseconds.
    pub at_ms: u64,
}

/// A choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The model, by its name in the router's table.
    pub model: String,
    /// The model that takes over when that one has failed.
    pub then: Option<String>,
    /// The decision with the probabilities of all actions, as JSON text.
    pub decision: String,
    /// Why the plugin of the router did not make this choice, if it should have.
    pub failure: Option<String>,
}

/// Chooses models for sessions.
#[async_trait]
pub trait Chooser: Send + Sync {
    /// The name of the router.
    fn router(&self) -> &str;
    /// Chooses in microseconds, or as long as a plugin may take. The session waits for it.
    ///
    /// # Errors
    /// There is no choice; the text says why.
    async fn choose(&self, choosing: &Choosing<'_>) -> Result<Chosen, String>;
    /// Failures of tools that a conversation reports.
    fn failures(&self, request: &ModelRequest) -> u32;
}

/// How an alias gets its model.
#[derive(Clone)]
pub struct Routing {
    /// The router.
    pub chooser: Arc<dyn Chooser>,
    /// The names, in the router's table, of the alias's candidates, in their order.
    pub names: Vec<String>,
}

impl std::fmt::Debug for Routing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Routing").field("router", &self.chooser.router()).field("names", &self.names).finish()
    }
}

impl ServedModel {
    /// The candidate of a name in the router's table.
    fn named(&self, name: &str) -> Option<&Candidate> {
        let names = &self.routing.as_ref()?.names;
        self.candidates().zip(names).find(|(_, known)| *known == name).map(|(candidate, _)| candidate)
    }

    /// The same alias with what a router chose: the model, and the one that takes over. `None`: there is no such model.
    pub(crate) fn chosen(&self, routed: &Routed) -> Option<Self> {
        let first = self.named(routed.asked())?.clone();
        let then = routed.then.as_deref().filter(|_| !routed.is_escalated).and_then(|name| self.named(name));
        Some(Self { alias: self.alias.clone(), first, then: then.cloned().into_iter().collect(), routing: None })
    }
}
