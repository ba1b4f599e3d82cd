//! Effects and their uncertainty.

use super::rows::{Centred, Rows};
use super::sums::Credit;
use crate::EntryId;
use crate::normal::{interval_of_few, normal_of_t, one_sided_e_value};
use crate::symmetric::Symmetric;
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

/// Terms of the series in [`enlarged`]. A group that decides an effect nearly alone needs more; such an effect is not decidable.
const TERMS: u32 = 64;
/// Size at which the rest of the series is negligible, relative to the residuals.
const NEGLIGIBLE: f64 = 1e-9;

/// The residuals of a group, enlarged by what the group itself contributed to the effects: `(I - H)^(-1/2) e`, where H is the group's part of
/// the projection onto the columns (CR2: Bell and McCaffrey 2002). Without it, few groups look too certain. The power is summed as a
/// binomial series.
fn enlarged(centred: &Centred, residuals: Vec<f64>, inverse: &[Vec<f64>]) -> Vec<f64> {
    let size = |values: &[f64]| values.iter().map(|value| value.abs()).sum::<f64>();
    let (mut sum, mut term) = (residuals.clone(), residuals);
    let least = NEGLIGIBLE * size(&sum);
    for number in 1..=TERMS {
        let factor = f64::from(2 * number - 1) / f64::from(2 * number);
        term = centred.projected(&term, inverse);
        term.iter_mut().for_each(|value| *value *= factor);
        sum.iter_mut().zip(&term).for_each(|(sum, term)| *sum += term);
        if size(&term) <= least {
            break;
        }
    }
    sum
}

/// Adds the products of a group's scores: of each column the sum over members of its indicator times the residual. Members share the entry's
/// effect on their task, so they are no independent observations; groups are.
pub(super) fn squares(rows: &Rows, (effects, inverse): (&[f64], &[Vec<f64>]), to: &mut Symmetric) {
    let centred = rows.centred();
    let residuals = enlarged(&centred, centred.residuals(effects), inverse);
    let scores: Vec<(usize, f64)> = centred.scores(&residuals).collect();
    for (place, (row, left)) in scores.iter().enumerate() {
        scores.iter().take(place + 1).for_each(|(column, right)| to.add(*row, *column, left * right));
    }
}

/// The estimate of every column. The variance is the sandwich estimator that sums scores by group (Liang and Zeger 1986), with the residuals of
/// CR2; evidence and intervals use Student's t with the entry's groups minus one as degrees of freedom.
pub(super) fn estimates(credit: &Credit) -> BTreeMap<EntryId, Estimate> {
    let (effects, inverse) = effects(credit);
    let mut middle = credit.settled.squares.clone();
    credit.window.iter().for_each(|rows| squares(rows, (&effects, &inverse), &mut middle));
    let count = credit.columns.len() as i64;
    let groups = credit.settled.groups + credit.window.len() as u64;
    let episodes = credit.settled.episodes + credit.window.iter().map(Rows::episodes).sum::<u64>();
    let residual_degrees = episodes as i64 - groups as i64 - count;
    let columns = credit.columns.iter().zip(&effects).zip(&inverse);
    let estimate = columns.map(|((column, effect), influence)| {
        let variance = middle.quadratic(influence);
        // All rewards may be equal by chance. The floor corresponds to a difference of one reward over all episodes of the
        // entry.
        let floor = (column.episodes.max(1) as f64).powi(-2);
        let standard_error = (variance.max(0.0) + floor).sqrt();
        let decidable = column.groups >= DECIDABLE_GROUPS && residual_degrees >= DECIDABLE_DEGREES.max(2 * count);
        // With fewer than are decidable, the interval is only shown: it has the width of the fewest.
        let degrees = column.groups.max(DECIDABLE_GROUPS).saturating_sub(1) as f64;
        let z = normal_of_t(effect / standard_error, degrees);
        let evidence = |z: f64| if decidable { one_sided_e_value(z, standard_error) } else { 1.0 };
        let estimate = Estimate {
            effect: *effect,
            standard_error,
            interval: interval_of_few(*effect, standard_error, degrees),
            admit: evidence(z),
            harm: evidence(-z),
            groups: column.groups,
            episodes: column.episodes,
            residual_degrees,
            decidable,
        };
        (column.entry.clone(), estimate)
    });
    estimate.collect()
}
