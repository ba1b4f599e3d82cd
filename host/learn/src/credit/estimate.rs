//! Effects with their uncertainty.

use super::rows::Rows;
use super::sums::Credit;
use super::symmetric::Symmetric;
use crate::EntryId;
use crate::normal::{interval, one_sided_e_value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Nothing is decided about an entry before it has been drawn for so many groups.
pub const DECIDABLE_GROUPS: u64 = 6;

/// Nor before there are so many residual degrees of freedom, or twice as many as there are columns: with fewer,
/// standard errors are too small.
const DECIDABLE_DEGREES: i64 = 40;

/// Added to the diagonal of the normal equations: next to nothing beside one group, and it gives a column that says
/// nothing an effect of 0.
const RIDGE: f64 = 1e-6;

/// What is known of an entry's worth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Reward that the entry adds, on average over its tasks and over the other entries on trial.
    pub effect: f64,
    /// Of the effect; over 0.
    pub standard_error: f64,
    /// 95 %, and holds however often one looks.
    pub interval: (f64, f64),
    /// Evidence that it helps: an e-value for [`super::e_bh`]. 1, which is none, until it is decidable.
    pub admit: f64,
    /// Evidence that it harms, in the same way.
    pub harm: f64,
    /// Groups that say something about it.
    pub groups: u64,
    /// Members of these.
    pub episodes: u64,
    /// Of the regression: episodes less groups less columns. Negative while there are more unknowns than episodes.
    pub residual_degrees: i64,
    /// Whether there is enough to decide by.
    pub decidable: bool,
}

/// The least-squares effects, by column, and the inverse of the normal equations.
pub(super) fn effects(credit: &Credit) -> (Vec<f64>, Vec<Vec<f64>>) {
    let inverse = credit.gram.inverse(RIDGE);
    let times = |row: &Vec<f64>| row.iter().zip(&credit.columns).map(|(cell, column)| cell * column.with_reward).sum();
    (inverse.iter().map(times).collect(), inverse)
}

/// Adds a group's products of columns times squared residuals.
pub(super) fn squares(rows: &Rows, effects: &[f64], to: &mut Symmetric) {
    let centred = rows.centred();
    let mut weights = centred.residuals(effects);
    weights.iter_mut().for_each(|residual| *residual *= *residual);
    centred.products(&weights, |row, column, product| to.add(row, column, product));
}

/// Every column's estimate. Variances are those of White's sandwich, which holds whatever the noise of each row, times
/// `n / (n - groups - columns)` (HC1: MacKinnon and White 1985).
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
        // Rewards may happen to be all alike: no estimate is surer than one reward in all that the entry was drawn for.
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
