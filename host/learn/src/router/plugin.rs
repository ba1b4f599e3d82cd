//! Decisions of a plugin: it gives every action a probability and draws one, in the place of what the router learned. The record is the same,
//! so the log can be evaluated for any other policy, and the router learns from it beside.

use super::{Decision, Request, Router};
use crate::LearnError;
use clawhost_core::{Digest, Failure, RouteCandidate, RouteChoice, RoutingPlugin};
use serde::{Deserialize, Serialize};

/// The plugin that was asked for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedPlugin {
    /// Its name.
    pub name: String,
    /// The component.
    pub digest: Digest,
    /// Kind and code of the failure because of which it did not decide: the incumbent did, with probability 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Router {
    /// The actions as a plugin sees them, in the order of [`super::Table::actions`].
    pub fn candidates(&self) -> Vec<RouteCandidate> {
        let price = |model: &str| self.table.price(model).unwrap_or_default();
        let one = |arm: &super::Arm| RouteCandidate {
            name: arm.action.to_string(),
            price: price(&arm.action.model),
            then_price: arm.action.then.as_deref().map(price),
        };
        self.arms.iter().map(one).collect()
    }

    /// Identity of what decides where a plugin does: its component, its options, and what changes the features that it sees.
    pub fn identity_with(&self, plugin: &RoutingPlugin) -> Digest {
        let parts = (plugin.router.identity(), &plugin.options);
        self.identity().extended(&serde_json::to_vec(&parts).unwrap_or_default())
    }

    /// The decision of a plugin that was asked about [`Router::candidates`]. If it failed, the incumbent decides; if that has left the
    /// table, the first action is taken.
    ///
    /// # Errors
    /// Features of other names, or a choice that does not fit the actions.
    pub fn decide_by(
        &self,
        request: &Request<'_>,
        plugin: &RoutingPlugin,
        choice: Result<&RouteChoice, &Failure>,
    ) -> Result<Decision, LearnError> {
        self.scale.check(request.features)?;
        let (propensities, chosen) = match choice {
            Ok(RouteChoice { chosen, propensities }) if propensities.len() == self.arms.len() => {
                (propensities.clone(), *chosen)
            }
            Ok(RouteChoice { propensities, .. }) => {
                let (found, expected) = (propensities.len(), self.arms.len());
                return Err(LearnError::Router(format!("a choice with {found} probabilities for {expected} actions")));
            }
            Err(_) => {
                let incumbent = self.settings.incumbent.model(request.features, &self.table);
                let chosen = incumbent.and_then(|model| self.index(model)).unwrap_or_default();
                (self.only(chosen), chosen)
            }
        };
        let asked = AskedPlugin {
            name: plugin.router.identity().name.clone(),
            digest: plugin.router.identity().digest,
            failure: choice.err().map(Failure::label),
        };
        let decision = self.decision(request, propensities, chosen);
        let decision = Decision { parameters: self.identity_with(plugin), plugin: Some(asked), ..decision };
        decision.check()?;
        Ok(decision)
    }
}
