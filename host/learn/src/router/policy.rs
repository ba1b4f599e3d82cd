//! Policies: how a request gets its model.

use super::features::Features;
use super::settings::{NEW_UNTIL, RouterSettings, WARM_UP_SHARE};
use super::table::Table;
use super::tiers::Tiers;
use crate::LearnError;
use serde::{Deserialize, Serialize};

/// A policy that learns nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fixed {
    /// Always this model.
    Model(String),
    /// A model for each tier of complexity.
    Tiers(Tiers),
}

impl Fixed {
    /// The model for a request.
    ///
    /// # Errors
    /// The table does not have it, or has none of the tiers.
    pub fn model<'a>(&'a self, features: &Features, table: &Table) -> Result<&'a str, LearnError> {
        match self {
            Self::Model(model) if table.has(model) => Ok(model),
            Self::Model(model) => Err(table.unknown(model)),
            Self::Tiers(tiers) => tiers.model(features, table).ok_or_else(|| table.unknown("of a tier")),
        }
    }
}

/// Who decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A policy that learns nothing.
    Fixed(Fixed),
    /// What the router learned, with exploration; after a warm-up.
    Learned,
    /// The action of the highest estimated utility, without exploration. Its log cannot be evaluated or learned from
    /// without bias.
    Greedy,
    /// Every action with equal probability.
    Random,
}

/// What SquareCB knows about an action.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimated {
    /// Estimated utility.
    pub(super) utility: f64,
    /// Outcomes learned from.
    pub(super) outcomes: u64,
}

/// Index of the highest utility; of equal ones the first.
pub(super) fn best(actions: &[Estimated]) -> usize {
    let better = |best: usize, (at, action): (usize, &Estimated)| {
        if actions.get(best).is_none_or(|known| action.utility > known.utility) { at } else { best }
    };
    actions.iter().enumerate().fold(0, better)
}

/// Inverse-gap weighting (Abe and Long 1999; SquareCB, Foster and Rakhlin 2020): an action whose estimate is below the best
/// by a gap has probability `1 / (K + gamma gap)`, with `gamma = exploration sqrt(K t)` after `t` outcomes, and the best has
/// the rest. No action has less than `floor / K`, and no new one less than in the warm-up.
pub(super) fn inverse_gap(actions: &[Estimated], outcomes: u64, settings: &RouterSettings) -> Vec<f64> {
    let count = actions.len() as f64;
    let gamma = settings.exploration * (count * outcomes as f64).sqrt();
    let best = best(actions);
    let top = actions.get(best).map_or(0.0, |action| action.utility);
    let one = |action: &Estimated| {
        let share = if action.outcomes < NEW_UNTIL { settings.floor.max(WARM_UP_SHARE) } else { settings.floor };
        (count + gamma * (top - action.utility)).recip().max(share / count)
    };
    let mut propensities: Vec<f64> = actions.iter().map(one).collect();
    let others: f64 = propensities.iter().enumerate().filter(|(at, _)| *at != best).map(|(_, value)| value).sum();
    if let Some(own) = propensities.get_mut(best) {
        *own = 1.0 - others;
    }
    propensities
}
