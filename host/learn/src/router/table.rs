//! The models that a router chooses from, with their prices, and the actions that follow from them.

use crate::LearnError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Most actions. Every action is explored, so more of them take longer to learn.
pub const ACTIONS: usize = 32;
/// Largest price: a larger one is a mistake, and would leave the range of numbers.
const LARGEST_PRICE: f64 = 1e9;

/// What a session is given: a model, and possibly another one once the first has failed.
///
/// An escalation is an action of its own: its reward is what the session ends with, and its cost that of both attempts. It is
/// chosen at the session's start, so that a decision has one propensity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Action {
    /// The model that starts.
    pub model: String,
    /// The model that takes over when a failure is noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.then {
            None => f.write_str(&self.model),
            Some(then) => write!(f, "{} > {then}", self.model),
        }
    }
}

/// Models with prices, and the escalations that are allowed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    prices: BTreeMap<String, f64>,
    escalations: BTreeSet<(String, String)>,
}

impl Table {
    /// A table of models, each with its price per unit of use, in a currency of the caller. What a unit is (a request, a million
    /// tokens) is the caller's choice, and the same for all models. A local model may cost 0.
    ///
    /// # Errors
    /// No model, a model twice, more than [`ACTIONS`], or a price that is negative, above 1e9 or not finite.
    pub fn new(models: impl IntoIterator<Item = (String, f64)>) -> Result<Self, LearnError> {
        let mut table = Self::default();
        for (model, price) in models {
            if table.prices.insert(model.clone(), price).is_some() {
                return Err(LearnError::Router(format!("model {model} is named twice")));
            }
        }
        table.check()?;
        Ok(table)
    }

    /// The table with one more escalation: `to` takes over when `from` has failed.
    ///
    /// # Errors
    /// One of them is not in the table, both are the same, or there are more than [`ACTIONS`] actions.
    pub fn with_escalation(mut self, from: &str, to: &str) -> Result<Self, LearnError> {
        self.escalations.insert((from.to_owned(), to.to_owned()));
        self.check()?;
        Ok(self)
    }

    pub(super) fn check(&self) -> Result<(), LearnError> {
        if self.prices.is_empty() {
            return Err(LearnError::NoModels);
        }
        if let Some((model, price)) = self.prices.iter().find(|(_, price)| !(0.0..=LARGEST_PRICE).contains(*price)) {
            return Err(LearnError::Price { model: model.clone(), price: *price });
        }
        for (from, to) in &self.escalations {
            if let Some(unknown) = [from, to].into_iter().find(|model| !self.has(model)) {
                return Err(self.unknown(unknown));
            }
            if from == to {
                return Err(LearnError::Router(format!("{from} escalates to itself")));
            }
        }
        let actions = self.prices.len() + self.escalations.len();
        if actions > ACTIONS {
            return Err(LearnError::Router(format!("{actions} models and escalations; at most {ACTIONS}")));
        }
        Ok(())
    }

    /// The error that names a model that is not in the table.
    pub(super) fn unknown(&self, model: &str) -> LearnError {
        let known: Vec<&str> = self.models().collect();
        LearnError::UnknownModel { model: model.to_owned(), known: known.join(", ") }
    }

    /// Whether the table has a model.
    pub fn has(&self, model: &str) -> bool {
        self.prices.contains_key(model)
    }

    /// The models, by name.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.prices.keys().map(String::as_str)
    }

    /// Price of a model per unit of use.
    pub fn price(&self, model: &str) -> Option<f64> {
        self.prices.get(model).copied()
    }

    /// All actions: every model alone, then the escalations, by name.
    pub fn actions(&self) -> Vec<Action> {
        let alone = self.models().map(|model| Action { model: model.to_owned(), then: None });
        let both = self.escalations.iter().map(|(from, to)| Action { model: from.clone(), then: Some(to.clone()) });
        alone.chain(both).collect()
    }

    /// Median price of a unit, over the models that cost something; `None` if none does. With two middle ones it is their mean.
    pub fn median_price(&self) -> Option<f64> {
        let mut prices: Vec<f64> = self.prices.values().copied().filter(|price| *price > 0.0).collect();
        prices.sort_by(f64::total_cmp);
        let high = *prices.get(prices.len() / 2)?;
        let low = *prices.get(prices.len().checked_sub(1)? / 2)?;
        Some(f64::midpoint(low, high))
    }

    /// Cost of an action that used this many units of its first and of its second model; `None` for an unknown model.
    pub(super) fn cost(&self, action: &Action, units: [f64; 2]) -> Option<f64> {
        let [first, second] = units;
        let then = action.then.as_deref().map_or(Some(0.0), |then| self.price(then))?;
        Some(self.price(&action.model)? * first + then * second)
    }
}
