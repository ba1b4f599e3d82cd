//! Effects and their uncertainty.

use super::rows::Rows;
use super::sums::Credit;
use super::symmetric::Symmetric;
use crate::EntryId;
use crate::normal::{interval, one_sided_e_value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Groups that an entry must have been drawn for before it is decidable.
pub const DECIDABLE_GROUPS: u64 = 6;

/// Residual degrees of freedom before an entry is decidable: this many, or twice the number of columns if that is more. With
/// fewer, the standard errors are biased downwards.
const DECIDABLE_DEGREES: i64 = 40;

/// Added to the diagonal of the normal equations. Negligible against one group; a column without information gets effect 0.
const RIDGE: f64 = 1e-6;

/// What is known about the effect of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean reward that the entry adds, over its tasks and over the other entries on trial.
    pub effect: f64,
    /// Standard error of the effect; greater than 0.
    pub standard_error: f64,
    /// 95 % confidence sequence of the effect: valid however often it is looked at.
    pub interval: (f64, f64),
    /// Evidence that the entry helps: an e-value for [`super::e_bh`]. It is 1 (no evidence) until the entry is decidable.
    pub admit: f64,
    /// Evidence that the entry harms, likewise.
    pub harm: f64,
    /// Groups in which some members were shown the entry and some were not.
    pub groups: u64,
    /// Episodes of these groups.
    pub episodes: u64,
    /// Of the regression: episodes minus groups minus columns. Negative while there are more unknowns than episodes.
    pub residual_degrees: i64,
    /// Whether there is enough data for a decision.
    pub decidable: bool,
}

/// The least-squares effect of each column, and the inverse of the normal equations.
pub(super) fn effects(credit: &Credit) -> (Vec<f64>, Vec<Vec<f64>>) {
    let inverse = credit.gram.inverse(RIDGE);
    let times = |row: &Vec<f64>| row.iter().zip(&credit.columns).map(|(cell, column)| cell * column.with_reward).sum();
    (inverse.iter().map(times).collect(), inverse)
}

/// Adds a group's products of columns, weighted with squared residuals.
pub(super) fn squares(rows: &Rows, effects: &[f64], to: &mut Symmetric) {
    let centred = rows.centred();
    let mut weights = centred.residuals(effects);
    weights.iter_mut().for_each(|residual| *residual *= *residual);
    centred.products(&weights, |row, column, product| to.add(row, column, product));
}

/// The estimate of every column. The variance is White's sandwich estimator, which allows for heteroscedasticity, times `n /
/// (n - groups - columns)` (HC1: MacKinnon and White 1985).
pub(super) fn estimates(credit: &Credit) -> BTreeMap<EntryId, Estimate> {
    let (effects, inverse) = effects(credit);
    let mut middle = credit.settled.squares.clone();
    credit.window.iter().for_each(|rows| squares(rows, &effects, &mut middle));
    let count = credit.columns.len() as i64;
    let groups = credit.settled.groups + credit.window.len() as u64;
    let episodes = credit.settled.episodes + credit.window.iter().map(Rows::episodes).sum::<u64>();
    let residual_degrees = episodes as i64 - groups as i64 - count;
    let correction = episodes as f64 / residual_degrees.max(1) as f64;
    let columns = credit.columns.iter().zip(&effects).zip(&inverse);
    let estimate = columns.map(|((column, effect), influence)| {
        let variance = middle.quadratic(influence) * correction;
        // All rewards may be equal by chance. The floor corresponds to a difference of one reward over all episodes of the
        // entry.
        let floor = (column.episodes.max(1) as f64).powi(-2);
        let standard_error = (variance.max(0.0) + floor).sqrt();
        let decidable = column.groups >= DECIDABLE_GROUPS && residual_degrees >= DECIDABLE_DEGREES.max(2 * count);
        let evidence = |effect: f64| if decidable { one_sided_e_value(effect, standard_error) } else { 1.0 };
        let estimate = Estimate {
            effect: *effect,
            standard_error,
            interval: interval(*effect, standard_error),
            admit: evidence(*effect),
            harm: evidence(-effect),
            groups: column.groups,
            episodes: column.episodes,
            residual_degrees,
            decidable,
        };
        (column.entry.clone(), estimate)
    });
    estimate.collect()
}
