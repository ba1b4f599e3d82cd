//! Why a router chooses as it does, and what it has learned about every action.

use super::policy::best;
use super::settings::NEW_UNTIL;
use super::summary::buckets;
use super::{Action, AskedPlugin, Decision, Features, Policy, Request, RequestSummary, Router};
use crate::LearnError;
use clawhost_core::Message;
use serde::Serialize;

/// Why an action was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A fixed or uniform policy decides, and not what was learned.
    Policy,
    /// The router still warms up, and this is the incumbent's choice.
    Incumbent,
    /// The router still warms up, and the draw fell on this action.
    WarmUp,
    /// The action has the highest expected utility.
    Best,
    /// A plugin decides, and not what was learned.
    Plugin,
    /// The plugin that decides failed, so the incumbent decided.
    Fallback,
    /// Another action is expected to be better, and the draw fell on this one: what is never tried cannot be learned.
    Exploration,
}

/// What was known about an action when a decision was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Considered {
    /// The action.
    #[serde(flatten)]
    pub action: Action,
    /// Its probability, 0 to 1.
    pub propensity: f64,
    /// Expected reward.
    pub reward: f64,
    /// Expected cost at today's prices.
    pub cost: f64,
    /// Expected reward minus the weighted cost.
    pub utility: f64,
    /// Outcomes that these expectations come from.
    pub outcomes: u64,
}

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// All actions, in the order of [`super::Table::actions`].
    pub considered: Vec<Considered>,
    /// Index of the action with the highest expected utility.
    pub best: usize,
    /// Why the chosen action was chosen.
    pub reason: Reason,
}

/// What was learned about an action.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LearnedAction {
    /// The action.
    #[serde(flatten)]
    pub action: Action,
    /// Outcomes learned from.
    pub outcomes: u64,
    /// Whether it is new: tried more often than its estimate asks for.
    pub is_new: bool,
    /// Expected reward of an average request.
    pub reward: f64,
    /// Expected cost of an average request at today's prices.
    pub cost: f64,
    /// The utility of both.
    pub utility: f64,
    /// By how much one deviation of a feature from its mean changes the log-odds of the reward.
    pub weights: Vec<(String, f64)>,
}

impl Router {
    /// The features of a conversation, and the buckets of its words.
    ///
    /// # Errors
    /// A feature that is not finite.
    pub fn request(&self, messages: &[Message], tools: usize) -> Result<(Features, Vec<u16>), LearnError> {
        let words = buckets(messages);
        let likeness = self.likeness().of(&words);
        let features = Features::of(&RequestSummary { likeness, ..RequestSummary::of(messages, tools) })?;
        Ok((features, words))
    }

    /// Decides about a session as [`Router::decide`] does, and says why.
    ///
    /// # Errors
    /// Those of [`Router::decide`].
    pub fn explain(&self, request: &Request<'_>) -> Result<Explanation, LearnError> {
        self.explained(request.features, self.decide(request)?)
    }

    /// Says why a decision of this state was made.
    ///
    /// # Errors
    /// Features of other names.
    pub fn explained(&self, features: &Features, decision: Decision) -> Result<Explanation, LearnError> {
        let expected = self.expected(features)?;
        let best = best(&self.estimated(features));
        let by_plugin = |plugin: &AskedPlugin| if plugin.failure.is_some() { Reason::Fallback } else { Reason::Plugin };
        let learned = || match &self.settings.policy {
            Policy::Fixed(_) | Policy::Random => Reason::Policy,
            Policy::Learned if self.warm_up_left() > 0 => {
                let incumbent = self.settings.incumbent.model(features, &self.table);
                let incumbent = incumbent.and_then(|model| self.index(model)).ok();
                if incumbent == Some(decision.chosen) { Reason::Incumbent } else { Reason::WarmUp }
            }
            Policy::Greedy | Policy::Learned if decision.chosen == best => Reason::Best,
            Policy::Greedy | Policy::Learned => Reason::Exploration,
        };
        let reason = decision.plugin.as_ref().map_or_else(learned, by_plugin);
        let considered = expected.into_iter().zip(&decision.choices).zip(&self.arms);
        let considered = considered.map(|((expected, choice), arm)| Considered {
            action: expected.action,
            propensity: choice.propensity,
            reward: expected.reward,
            cost: expected.cost,
            utility: expected.utility,
            outcomes: arm.outcomes,
        });
        Ok(Explanation { considered: considered.collect(), best, reason, decision })
    }

    /// Outcomes that are missing until the router decides by what it learned.
    pub fn warm_up_left(&self) -> u64 {
        self.settings.warm_up.saturating_sub(self.learned)
    }

    /// What was learned about every action, in the order of [`super::Table::actions`].
    pub fn actions(&self) -> Vec<LearnedAction> {
        // The intercept alone: every feature at its mean.
        let average: Vec<f64> =
            std::iter::once(1.0).chain(std::iter::repeat_n(0.0, self.scale.columns().saturating_sub(1))).collect();
        let one = |arm: &super::Arm| {
            let reward = arm.reward(&average, &self.settings);
            let cost = arm.cost(&average, &self.settings, &self.table);
            let weights = self.names().iter().cloned().zip(arm.reward_weights().iter().skip(1).copied());
            LearnedAction {
                action: arm.action.clone(),
                outcomes: arm.outcomes,
                is_new: arm.outcomes < NEW_UNTIL,
                reward,
                cost,
                utility: self.utility(reward, cost),
                weights: weights.collect(),
            }
        };
        self.arms.iter().map(one).collect()
    }
}
