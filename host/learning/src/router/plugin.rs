//! Decisions of router plugins, and their failures.

use clawhost_core::{Context, Failure, RoutingPlugin, derive_seed};
use clawhost_learn::LearnError;
use clawhost_learn::router::{Decision, Request, Router};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A decision, and the failure of the plugin that should have made it.
#[derive(Debug)]
pub struct PluginDecision {
    /// The decision: of the plugin, or of the incumbent if that failed.
    pub decision: Decision,
    /// Why the plugin did not decide.
    pub failure: Option<Failure>,
}

/// Asks a plugin for a decision. If it fails, the router's incumbent decides.
///
/// # Errors
/// Features of other names.
pub async fn decide_by_plugin(
    router: &Router,
    plugin: &RoutingPlugin,
    request: &Request<'_>,
) -> Result<PluginDecision, LearnError> {
    // Any number is a seed of a request; that of a plugin is below 2^53.
    let context = Context { seed: derive_seed(request.seed, "route", 0), options: plugin.options.clone() };
    let features: Vec<(String, f64)> =
        request.features.names().map(str::to_owned).zip(request.features.values()).collect();
    let choice = plugin.router.route(&context, &features, &router.candidates()).await;
    let decision = router.decide_by(request, plugin, choice.as_ref())?;
    Ok(PluginDecision { decision, failure: choice.err() })
}

/// Failures of the plugin of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingFailure {
    /// The router.
    pub router: String,
    /// How often its plugin failed.
    pub count: u64,
    /// The first failure.
    pub first: Failure,
}

/// Counts the failures of router plugins.
#[derive(Debug, Default)]
pub struct RoutingFailures(Mutex<BTreeMap<String, RoutingFailure>>);

impl RoutingFailures {
    /// One more.
    pub fn add(&self, router: &str, failure: Failure) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || RoutingFailure { router: router.to_owned(), count: 0, first: failure };
        all.entry(router.to_owned()).or_insert_with(new).count += 1;
    }

    /// All so far, by the name of the router.
    pub fn all(&self) -> Vec<RoutingFailure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
