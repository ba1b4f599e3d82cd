//! The router port: a plugin that chooses a model for a session.

use crate::{About, Attributes, Context, Failure, PluginIdentity};
use async_trait::async_trait;

/// The probabilities of a choice add up to 1 within this: what rounding of some additions can cost, and more.
pub const PROPENSITY_ROUNDING: f64 = 1e-6;

/// What a session can be given, as a router plugin sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteCandidate {
    /// Its name, unlike that of all others.
    pub name: String,
    /// Price of a million tokens of its model.
    pub price: f64,
    /// Price of a million tokens of the model that takes over when the first one fails, if there is one.
    pub then_price: Option<f64>,
}

/// A choice between candidates.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteChoice {
    /// Index of the chosen candidate, whose probability is above 0.
    pub chosen: usize,
    /// The probability of each candidate, 0 to 1, in the order of the candidates. They add up to 1 within [`PROPENSITY_ROUNDING`].
    pub propensities: Vec<f64>,
}

/// Chooses a model for a session.
#[async_trait]
pub trait ModelRouter: Send + Sync {
    /// Identity of the plugin.
    fn identity(&self) -> &PluginIdentity;
    /// Description.
    fn about(&self) -> &About;
    /// Chooses by the named features of a request. Equal arguments give equal choices.
    async fn route(
        &self,
        context: &Context,
        features: &[(String, f64)],
        candidates: &[RouteCandidate],
    ) -> Result<RouteChoice, Failure>;
}

/// A router plugin with the options that an operator chose.
#[derive(Clone)]
pub struct RoutingPlugin {
    /// The plugin.
    pub router: std::sync::Arc<dyn ModelRouter>,
    /// Its options.
    pub options: Attributes,
}

impl std::fmt::Debug for RoutingPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoutingPlugin").field("plugin", self.router.identity()).field("options", &self.options).finish()
    }
}
