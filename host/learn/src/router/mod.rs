//! The router layer: which model a session is given, learned from rewards and prices.
//!
//! ```text
//! RequestSummary ─▶ Features ─▶ Router::decide ─▶ Decision (all propensities), which waits
//!                                   ▲                                               │ reward, within seven days
//!                                   └──────────── Router::learn ◀── Logged ◀────────┘
//!                                                                     └─▶ offline evaluation ─▶ promotion
//! ```
//!
//! - An [`Action`] is a model, or a model and another one that takes over on failure. It is chosen once, when a session
//!   starts: a change of model inside a session would lose its prompt cache and change its tone.
//! - The utility of an action is its expected reward minus the weight of cost times its expected cost, in reference costs. The
//!   weight is fixed, or follows a [`Budget`].
//! - Reward and use of every action are regressions on the [`Features`], updated outcome by outcome. Decisions follow by
//!   inverse-gap weighting (SquareCB), whose propensities are known in closed form. The log of decisions can therefore be evaluated
//!   ([`offline`]) for any other policy, and a new version of a router is promoted by it ([`promotion`]).
//! - A plugin may decide in the place of all that ([`AskedPlugin`]). Its decisions have propensities, too, so all of it holds for their log.
//! - Time is that of the caller; randomness is a seed of the caller. [`Router::decide`] changes nothing: a router changes only by
//!   outcomes, by another table, or by spend.

mod arm;
mod budget;
mod decision;
mod explanation;
mod features;
mod layer;
mod likeness;
pub mod offline;
mod plugin;
mod policy;
pub mod promotion;
pub mod recorded;
mod ridge;
mod scale;
mod settings;
mod simulation;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod tiers;
mod world;

pub use budget::Budget;
pub use decision::{Choice, DECISION_FORMAT, Decision, Logged, Outcome};
pub use explanation::{Considered, Explanation, LearnedAction, Reason};
pub use features::{CLASS_BUCKETS, FEATURES, Features, RequestSummary};
pub use likeness::{Likeness, REQUEST_BUCKETS, WORD_BUCKETS, word_buckets};
pub use plugin::AskedPlugin;
pub use policy::{Fixed, Policy};
pub use settings::{
    CostWeight, EXPLORATION, FLOOR, FORGETTING, NEW_UNTIL, PATIENCE, RewardRange, RouterSettings, WARM_UP,
    WARM_UP_SHARE,
};
pub use simulation::{Earned, Simulation, SimulationReport, simulate, simulation};
pub use summary::{failures, opening, seed_of};
pub use table::{ACTIONS, Action, Table};
pub use tiers::Tiers;
pub use world::{Noticing, WorldModel, WorldSettings};

use crate::LearnError;
use crate::random::Random;
use arm::Arm;
use budget::Dual;
use clawhost_core::{Digest, EpisodeId};
use policy::{Estimated, best, inverse_gap};
use scale::Scale;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A request that needs a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request<'a> {
    /// The session.
    pub session: &'a str,
    /// Seconds of the caller's clock.
    pub time: u64,
    /// What is known about it.
    pub features: &'a Features,
    /// Buckets of its words ([`word_buckets`]); may be empty.
    pub words: &'a [u16],
    /// Seed of the draw: equal seeds draw equally.
    pub seed: u64,
}

/// What a router expects of an action.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// The action.
    pub action: Action,
    /// Reward.
    pub reward: f64,
    /// Cost at today's prices.
    pub cost: f64,
    /// Reward minus the weighted cost.
    pub utility: f64,
}

/// How many outcomes a router learned from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Learned {
    /// Outcomes learned from.
    pub used: u64,
    /// Outcomes of actions that are not in the table any more.
    pub gone: u64,
}

/// A router.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Router {
    settings: RouterSettings,
    table: Table,
    scale: Scale,
    /// One for each action of the table, in its order.
    arms: Vec<Arm>,
    likeness: Likeness,
    /// Outcomes learned from.
    learned: u64,
    /// Outcomes of actions that had left the table.
    gone: u64,
    version: u64,
    /// Weight of cost, if it follows a budget.
    dual: Option<Dual>,
    /// Decisions of episodes whose rewards will be in the next batch.
    #[serde(skip)]
    staged: BTreeMap<EpisodeId, (Decision, [f64; 2])>,
    /// Decisions whose model failed since the last batch.
    #[serde(skip)]
    failed: Vec<Logged>,
    #[serde(skip)]
    pending: Vec<Logged>,
    /// Digests, computed on demand.
    #[serde(skip)]
    named: OnceLock<Digest>,
    #[serde(skip)]
    identified: OnceLock<Digest>,
}

impl Router {
    /// A router that has learned nothing. `names` are those of the features, in their order: [`Features::names_of_requests`], or the
    /// caller's own; none at all is a router without features.
    ///
    /// # Errors
    /// Settings or a table out of range, or too many names.
    pub fn new(settings: RouterSettings, table: Table, names: Vec<String>) -> Result<Self, LearnError> {
        settings.check()?;
        table.check()?;
        Features::new(names.iter().map(|name| (name.clone().into(), 0.0)).collect())?;
        let scale = Scale::new(names);
        let arms = table.actions().into_iter().map(|action| Arm::new(action, scale.columns())).collect();
        let dual = Dual::of(&settings.cost_weight);
        Ok(Self {
            settings,
            table,
            scale,
            arms,
            likeness: Likeness::default(),
            learned: 0,
            gone: 0,
            version: 0,
            dual,
            staged: BTreeMap::new(),
            failed: Vec::new(),
            pending: Vec::new(),
            named: OnceLock::new(),
            identified: OnceLock::new(),
        })
    }

    /// The state that [`Layer::snapshot`](crate::Layer::snapshot) wrote.
    ///
    /// # Errors
    /// It is no state of a router, or its parts do not fit each other.
    pub fn from_state(bytes: &[u8]) -> Result<Self, LearnError> {
        let damaged = |error: serde_json::Error| LearnError::Router(format!("a state that cannot be read: {error}"));
        let router: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        router.check()?;
        Ok(router)
    }

    /// Decides about a session. Takes some microseconds and changes nothing.
    ///
    /// # Errors
    /// Features of other names, or a fixed policy whose model is not in the table.
    pub fn decide(&self, request: &Request<'_>) -> Result<Decision, LearnError> {
        let propensities = self.propensities(&self.settings.policy, request.features)?;
        let mut left = Random(request.seed).uniform();
        let mut drawn = 0;
        for (at, propensity) in propensities.iter().enumerate().filter(|(_, propensity)| **propensity > 0.0) {
            // Rounding may leave a rest after the last one, which then is chosen.
            drawn = at;
            left -= propensity;
            if left < 0.0 {
                break;
            }
        }
        Ok(self.decision(request, propensities, drawn))
    }

    /// The record of a decision with these probabilities, in the order of the actions.
    fn decision(&self, request: &Request<'_>, propensities: Vec<f64>, chosen: usize) -> Decision {
        let actions = self.arms.iter().map(|arm| arm.action.clone());
        let choices = actions.zip(propensities).map(|(action, propensity)| Choice { action, propensity });
        Decision {
            format: DECISION_FORMAT,
            session: request.session.to_owned(),
            time: request.time,
            version: self.version,
            parameters: self.identity(),
            features: request.features.clone(),
            words: request.words.to_vec(),
            choices: choices.collect(),
            chosen,
            plugin: None,
        }
    }

    /// The probabilities of a policy that always takes one action.
    fn only(&self, chosen: usize) -> Vec<f64> {
        (0..self.arms.len()).map(|at| if at == chosen { 1.0 } else { 0.0 }).collect()
    }

    /// The probability of every action under a policy, in the order of [`Table::actions`].
    ///
    /// # Errors
    /// Features of other names, or a fixed policy whose model is not in the table.
    pub fn propensities(&self, policy: &Policy, features: &Features) -> Result<Vec<f64>, LearnError> {
        self.scale.check(features)?;
        let uniform = (self.arms.len() as f64).recip();
        match policy {
            Policy::Random => Ok(vec![uniform; self.arms.len()]),
            Policy::Fixed(fixed) => self.index(fixed.model(features, &self.table)?).map(|chosen| self.only(chosen)),
            Policy::Greedy => Ok(self.only(best(&self.estimated(features)))),
            Policy::Learned if self.learned >= self.settings.warm_up => {
                Ok(inverse_gap(&self.estimated(features), self.learned, &self.settings))
            }
            Policy::Learned => {
                // An incumbent that left the table has no say: then every action is as good as another.
                let incumbent = self.settings.incumbent.model(features, &self.table);
                let incumbent = incumbent.and_then(|model| self.index(model)).ok();
                let one = |at: usize| match incumbent {
                    None => uniform,
                    Some(own) => WARM_UP_SHARE * uniform + if at == own { 1.0 - WARM_UP_SHARE } else { 0.0 },
                };
                Ok((0..self.arms.len()).map(one).collect())
            }
        }
    }

    /// Index of the action of a model alone.
    fn index(&self, model: &str) -> Result<usize, LearnError> {
        let alone = |arm: &Arm| arm.action.then.is_none() && arm.action.model == model;
        self.arms.iter().position(alone).ok_or_else(|| self.table.unknown(model))
    }

    fn estimated(&self, features: &Features) -> Vec<Estimated> {
        let row = self.scale.standardised(features);
        let one = |arm: &Arm| {
            let (reward, cost) = (arm.reward(&row, &self.settings), arm.cost(&row, &self.settings, &self.table));
            Estimated { utility: self.utility(reward, cost), outcomes: arm.outcomes }
        };
        self.arms.iter().map(one).collect()
    }

    /// What is expected of every action, in the order of [`Table::actions`].
    ///
    /// # Errors
    /// Features of other names.
    pub fn expected(&self, features: &Features) -> Result<Vec<Expected>, LearnError> {
        self.scale.check(features)?;
        let row = self.scale.standardised(features);
        let one = |arm: &Arm| {
            let (reward, cost) = (arm.reward(&row, &self.settings), arm.cost(&row, &self.settings, &self.table));
            Expected { action: arm.action.clone(), reward, cost, utility: self.utility(reward, cost) }
        };
        Ok(self.arms.iter().map(one).collect())
    }

    /// The weight of cost now: reward that one reference cost is worth.
    pub fn cost_weight(&self) -> f64 {
        match (&self.settings.cost_weight, &self.dual) {
            (CostWeight::Fixed(weight), _) => *weight,
            (CostWeight::Budget(_), Some(dual)) => dual.weight,
            (CostWeight::Budget(budget), None) => budget.start,
        }
    }

    /// The utility of a reward at a cost.
    pub fn utility(&self, reward: f64, cost: f64) -> f64 {
        reward - self.cost_weight() * cost / self.settings.reference_cost
    }

    /// Cost of an outcome at today's prices; `None` if a model of the action has left the table.
    pub fn cost(&self, action: &Action, outcome: &Outcome) -> Option<f64> {
        self.table.cost(action, outcome.units)
    }

    /// Takes the cost of a session into account that ended at `now` (seconds of the caller's clock). Without a budget it does
    /// nothing. It is separate from [`Router::learn`], because a cost is known days before its reward.
    ///
    /// # Errors
    /// A cost that is negative or not finite.
    pub fn spend(&mut self, now: u64, cost: f64) -> Result<(), LearnError> {
        self.pay(cost, |dual, budget| dual.spend(budget, now, cost))
    }

    /// As [`Router::spend`], for a run whose clock must decide nothing, so that equal runs are equal: it counts as no time.
    ///
    /// # Errors
    /// A cost that is negative or not finite.
    pub fn charge(&mut self, cost: f64) -> Result<(), LearnError> {
        self.pay(cost, |dual, budget| dual.charge(budget, cost))
    }

    fn pay(&mut self, cost: f64, taken: impl FnOnce(&mut Dual, &Budget)) -> Result<(), LearnError> {
        if !cost.is_finite() || cost < 0.0 {
            return Err(LearnError::Router(format!("a cost of {cost}; finite and at least 0")));
        }
        if let (CostWeight::Budget(budget), Some(dual)) = (&self.settings.cost_weight, &mut self.dual) {
            taken(dual, budget);
            self.touched();
        }
        Ok(())
    }

    /// Takes over the weight of cost of another state of this router, if both follow a budget. What was spent is the same for all states.
    pub fn take_weight_of(&mut self, other: &Self) {
        if self.dual.is_some() && other.dual.is_some() {
            self.dual.clone_from(&other.dual);
            self.touched();
        }
    }

    /// Checks a decision with its outcome, as [`Router::learn`] does.
    ///
    /// # Errors
    /// A record of another format, features of other names, or an outcome out of range.
    pub fn check_logged(&self, Logged { decision, outcome }: &Logged) -> Result<(), LearnError> {
        decision.check()?;
        self.scale.check(&decision.features)?;
        outcome.check(self.settings.rewards)
    }

    /// Learns from outcomes, in their order, and becomes the next version. Outcomes of actions that have left the table teach
    /// nothing and are counted.
    ///
    /// # Errors
    /// A record of another format, features of other names, or an outcome out of range. Nothing was learned then.
    pub fn learn(&mut self, logged: &[Logged]) -> Result<Learned, LearnError> {
        logged.iter().try_for_each(|logged| self.check_logged(logged))?;
        let mut learned = Learned::default();
        for Logged { decision, outcome } in logged {
            let action = decision.action()?;
            let Some(arm) = self.arms.iter_mut().find(|arm| arm.action == *action) else {
                learned.gone += 1;
                continue;
            };
            self.scale.observe(&decision.features);
            arm.update(&self.scale.standardised(&decision.features), outcome, &self.settings);
            let failure = (self.settings.rewards.high - outcome.reward) / self.settings.rewards.width();
            self.likeness.observe(&decision.words, failure);
            learned.used += 1;
        }
        self.gone += learned.gone;
        if learned.used > 0 {
            self.learned += learned.used;
            self.version += 1;
        }
        if !logged.is_empty() {
            self.touched();
            // Here instead of at the next decision, which is waited for.
            self.identity();
        }
        Ok(learned)
    }

    /// Replaces the table: prices change, models come and go. Actions that stay keep what was learned about them; those that come
    /// back begin anew. It is the next version.
    ///
    /// # Errors
    /// The table is empty, or names a price out of range. Nothing changed then.
    pub fn replace_table(&mut self, table: Table) -> Result<(), LearnError> {
        table.check()?;
        let mut old = std::mem::take(&mut self.arms);
        let columns = self.scale.columns();
        let keep = |action: Action| match old.iter().position(|arm| arm.action == action) {
            Some(at) => old.swap_remove(at),
            None => Arm::new(action, columns),
        };
        self.arms = table.actions().into_iter().map(keep).collect();
        self.table = table;
        self.version += 1;
        self.touched();
        Ok(())
    }

    /// Takes over what an operator may change: the table, the incumbent and the weight of cost. What is equal stays, so the version grows
    /// only with a change.
    ///
    /// # Errors
    /// One of them is out of range. Nothing changed then.
    pub fn reconfigure(&mut self, table: Table, incumbent: Fixed, cost_weight: CostWeight) -> Result<(), LearnError> {
        let settings = RouterSettings { incumbent, cost_weight, ..self.settings.clone() };
        settings.check()?;
        if table != self.table {
            self.replace_table(table)?;
        }
        if settings != self.settings {
            if settings.cost_weight != self.settings.cost_weight {
                self.dual = Dual::of(&settings.cost_weight);
            }
            self.settings = settings;
            self.version += 1;
            self.touched();
        }
        Ok(())
    }

    /// Another policy decides from now on. It is the next version.
    pub fn set_policy(&mut self, policy: Policy) {
        self.settings.policy = policy;
        self.version += 1;
        self.touched();
    }

    /// The same state under the number of another version.
    pub fn renumber(&mut self, version: u64) {
        self.version = version;
        self.touched();
    }

    /// Invalidates the cached digests after a change of state.
    fn touched(&mut self) {
        self.named = OnceLock::new();
        self.identified = OnceLock::new();
    }

    /// The settings.
    pub fn settings(&self) -> &RouterSettings {
        &self.settings
    }

    /// The models and their prices.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Names of the features, in order.
    pub fn names(&self) -> &[String] {
        self.scale.names()
    }

    /// What was hard, by words.
    pub fn likeness(&self) -> &Likeness {
        &self.likeness
    }

    /// Number of outcomes learned from.
    pub fn learned(&self) -> u64 {
        self.learned
    }

    /// Outcomes that taught nothing, because their action had left the table.
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// The version: it grows with every step, every table and every policy.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Identity of the parameters, a part of a `StateId`: the digest of everything that can change a decision. The version is no part of
    /// it, so routers that decide equally have equal identities.
    pub fn identity(&self) -> Digest {
        let parameters =
            (&self.settings, &self.table, &self.scale, &self.arms, &self.likeness, self.learned, &self.dual);
        *self.identified.get_or_init(|| Digest::of(&serde_json::to_vec(&parameters).unwrap_or_default()))
    }

    /// Checks a state that was read: what [`Router::new`] guarantees holds.
    fn check(&self) -> Result<(), LearnError> {
        self.settings.check()?;
        self.table.check()?;
        let actions = self.table.actions();
        let fits = self.arms.iter().map(|arm| &arm.action).eq(&actions)
            && self.arms.iter().all(|arm| arm.has_columns(self.scale.columns()))
            && self.scale.is_whole()
            && self.dual.is_some() == matches!(self.settings.cost_weight, CostWeight::Budget(_));
        if fits { Ok(()) } else { Err(LearnError::Router("a state whose parts do not fit each other".into())) }
    }
}
