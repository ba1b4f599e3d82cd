//! Offline evaluation: what another policy would have earned, from the log of decisions with their propensities.
//!
//! Two estimates are made. *Doubly robust* (Dudik, Langford, Li 2011): a model of reward and cost predicts every action, and the
//! residual of the action taken, weighted by the ratio of probabilities, corrects it. Weights are clipped. The model is cross-fitted in the
//! order of time: each fold is judged by a model of the earlier folds alone. *SNIPS* (Swaminathan and Joachims 2015): the weighted mean of the
//! outcomes, without a model and without clipping. Where the two disagree, the propensities, the model or the support are wrong, and the
//! evaluation is refused. It is refused as well if the log holds too little about the policy.
//!
//! Intervals are empirical Bernstein bounds (Maurer and Pontil 2009, theorem 4), given the requests and the propensities of the log.

use super::policy::Policy;
use super::{Logged, Router};
use crate::LearnError;
use serde::{Deserialize, Serialize};

/// Largest weight of an outcome in the doubly robust estimate.
pub const LARGEST_WEIGHT: f64 = 10.0;
/// Least effective sample: squared sum of the weights, divided by the sum of their squares.
pub const LEAST_EFFECTIVE_SAMPLE: f64 = 200.0;
/// Standard errors, of the less precise one, by which the two estimates may differ.
pub const DISAGREEMENT: f64 = 2.0;
/// Largest share of a policy's choices that the log could not have made.
pub const UNSUPPORTED: f64 = 0.01;
/// Folds of the log. The first one only trains.
const FOLDS: usize = 5;

/// A policy of a router.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The router, with its table and its estimates.
    pub router: &'a Router,
    /// The policy.
    pub policy: &'a Policy,
}

/// A mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The doubly robust estimate.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Bounds of the empirical Bernstein interval.
    pub interval: (f64, f64),
}

/// Why a log does not tell what a policy would earn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The effective sample is below [`LEAST_EFFECTIVE_SAMPLE`].
    EffectiveSample {
        /// What it is.
        found: f64,
    },
    /// More than [`UNSUPPORTED`] of the choices have probability 0 in the log.
    Unsupported {
        /// Their share.
        share: f64,
    },
    /// The two estimates differ by more than [`DISAGREEMENT`] standard errors.
    Disagreement {
        /// Doubly robust estimate of the utility.
        doubly_robust: f64,
        /// SNIPS estimate of the utility.
        snips: f64,
    },
}

/// What a policy would earn per request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// Utility.
    pub utility: Estimate,
    /// Utility by SNIPS.
    pub snips: f64,
    /// Reward.
    pub reward: Estimate,
    /// Cost.
    pub cost: Estimate,
    /// Effective sample.
    pub effective_sample: f64,
    /// Why these numbers are not to be trusted.
    pub refusal: Option<Refusal>,
}

/// A candidate compared with what is served, on one log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Outcomes that were judged: those after the first fold.
    pub judged: usize,
    /// Outcomes left out, because their action is not in the table any more.
    pub left_out: usize,
    /// The candidate.
    pub candidate: Value,
    /// What is served.
    pub served: Value,
    /// Utility of the candidate minus that of the served policy.
    pub gain: Estimate,
    /// Reward of the candidate minus that of the served policy.
    pub reward_gain: Estimate,
}

impl Evaluation {
    /// About how many decisions a log of `decisions` lacks until both effective samples reach [`LEAST_EFFECTIVE_SAMPLE`], which grow with
    /// it. 0: none. A log that tells nothing yet lacks at least those of a policy that decided everything in it.
    pub fn missing(&self, decisions: usize) -> u64 {
        let found = self.candidate.effective_sample.min(self.served.effective_sample);
        if found >= LEAST_EFFECTIVE_SAMPLE {
            return 0;
        }
        // The first fold is not judged, and no sample is larger than the number of its outcomes.
        let least = LEAST_EFFECTIVE_SAMPLE * FOLDS as f64 / (FOLDS - 1) as f64;
        let wanted = if found > 0.0 { decisions as f64 * LEAST_EFFECTIVE_SAMPLE / found } else { least };
        ((wanted.max(least) - decisions as f64).ceil() as u64).max(1)
    }
}

/// A reward and a cost, and the utility that they add up to.
#[derive(Debug, Clone, Copy, Default)]
struct Figures([f64; 3]);

impl Figures {
    fn new(router: &Router, reward: f64, cost: f64) -> Self {
        Self([router.utility(reward, cost), reward, cost])
    }

    /// These plus `weight` times others.
    fn plus(self, weight: f64, other: Self) -> Self {
        let mut sum = self;
        sum.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += weight * other);
        sum
    }
}

/// One outcome from the view of a policy.
#[derive(Debug, Clone, Default)]
struct Judged {
    /// Expected by the model.
    modelled: Figures,
    /// Doubly robust.
    corrected: Figures,
    /// Ratio of probabilities of the action taken.
    weight: f64,
    /// The same, clipped, of every action that the log could have taken.
    clipped: Vec<f64>,
    /// Probability of actions that the log could not have taken.
    unsupported: f64,
}

/// A row of the log, judged.
#[derive(Debug, Clone)]
struct Row {
    /// What was observed.
    observed: Figures,
    candidate: Judged,
    served: Judged,
}

/// Compares a candidate with the served policy on a log, with intervals that miss the truth with probability `alpha` each.
///
/// # Errors
/// A record of another format, features of other names, an outcome out of range, two routers with different tables, or an `alpha` that is
/// not between 0 and 1.
pub fn evaluate(
    log: &[Logged],
    candidate: Target<'_>,
    served: Target<'_>,
    alpha: f64,
) -> Result<Evaluation, LearnError> {
    if candidate.router.table() != served.router.table() {
        return Err(LearnError::Router("candidate and served policy have different tables of models".into()));
    }
    if !(alpha > 0.0 && alpha < 1.0) {
        return Err(LearnError::Router(format!("an alpha of {alpha}; above 0 and below 1")));
    }
    for logged in log {
        logged.decision.check()?;
        logged.outcome.check(candidate.router.settings().rewards)?;
    }
    let cost = |logged: &Logged| candidate.router.cost(logged.decision.action().ok()?, &logged.outcome);
    let mut usable: Vec<(&Logged, f64)> = log.iter().filter_map(|logged| Some((logged, cost(logged)?))).collect();
    let left_out = log.len() - usable.len();
    usable.sort_by(|(one, _), (other, _)| {
        (one.decision.time, &one.decision.session).cmp(&(other.decision.time, &other.decision.session))
    });
    let rows = judged(&usable, candidate, served)?;
    // Of a residual: of the reward, of the cost, and of what they add up to.
    let costs = rows.iter().flat_map(|row| [row.observed, row.candidate.modelled, row.served.modelled]);
    let largest_cost = costs.map(|Figures([_, _, cost])| cost).fold(0.0, f64::max);
    let reward = candidate.router.settings().rewards.width();
    let worth = candidate.router.utility(0.0, 0.0) - candidate.router.utility(0.0, largest_cost);
    let bounds = [reward + worth, reward, largest_cost];
    let one = |own: fn(&Row) -> &Judged| Value::of(&rows, own, bounds, alpha);
    let gain = |figure: usize| {
        let pairs = rows.iter().map(|row| (&row.candidate, &row.served));
        estimate(pairs, figure, bounds, alpha)
    };
    Ok(Evaluation {
        judged: rows.len(),
        left_out,
        candidate: one(|row| &row.candidate),
        served: one(|row| &row.served),
        gain: gain(UTILITY),
        reward_gain: gain(REWARD),
    })
}

/// Positions in [`Figures`].
const UTILITY: usize = 0;
const REWARD: usize = 1;
const COST: usize = 2;

/// Judges all folds but the first, each by a model of the earlier ones.
fn judged(usable: &[(&Logged, f64)], candidate: Target<'_>, served: Target<'_>) -> Result<Vec<Row>, LearnError> {
    let router = candidate.router;
    let settings = super::RouterSettings { forgetting: 1.0, ..router.settings().clone() };
    let mut model = Router::new(settings, router.table().clone(), router.names().to_vec())?;
    let mut rows = Vec::new();
    for (number, fold) in usable.chunks(usable.len().div_ceil(FOLDS).max(1)).enumerate() {
        for (logged, cost) in fold.iter().filter(|_| number > 0) {
            let expected = model.expected(&logged.decision.features)?;
            let modelled: Vec<Figures> =
                expected.iter().map(|expected| Figures::new(router, expected.reward, expected.cost)).collect();
            let observed = Figures::new(router, logged.outcome.reward, *cost);
            let judge = |target: Target<'_>| judge(logged, target, observed, &modelled);
            rows.push(Row { observed, candidate: judge(candidate)?, served: judge(served)? });
        }
        let fold: Vec<Logged> = fold.iter().map(|(logged, _)| (*logged).clone()).collect();
        model.learn(&fold)?;
    }
    Ok(rows)
}

/// One outcome from the view of a policy. `modelled` is in the order of the table's actions.
fn judge(logged: &Logged, target: Target<'_>, observed: Figures, modelled: &[Figures]) -> Result<Judged, LearnError> {
    let taken = logged.decision.action()?;
    let wanted = target.router.propensities(target.policy, &logged.decision.features)?;
    let mut judged = Judged::default();
    let mut of_taken = Figures::default();
    for ((action, probability), figures) in target.router.table().actions().iter().zip(wanted).zip(modelled) {
        judged.modelled = judged.modelled.plus(probability, *figures);
        let logged = logged.decision.choices.iter().find(|choice| choice.action == *action);
        let propensity = logged.map_or(0.0, |choice| choice.propensity);
        if propensity <= 0.0 {
            judged.unsupported += probability;
            judged.clipped.push(0.0);
            continue;
        }
        let weight = probability / propensity;
        judged.clipped.push(weight.min(LARGEST_WEIGHT));
        if action == taken {
            judged.weight = weight;
            of_taken = *figures;
        }
    }
    let weight = judged.weight.min(LARGEST_WEIGHT);
    judged.corrected = judged.modelled.plus(weight, observed).plus(-weight, of_taken);
    Ok(judged)
}

impl Value {
    fn of(rows: &[Row], own: fn(&Row) -> &Judged, bounds: [f64; 3], alpha: f64) -> Self {
        let nothing = Judged::default();
        let figure = |figure| estimate(rows.iter().map(|row| (own(row), &nothing)), figure, bounds, alpha);
        let count = rows.len() as f64;
        let weights: f64 = rows.iter().map(|row| own(row).weight).sum();
        let squares: f64 = rows.iter().map(|row| own(row).weight.powi(2)).sum();
        let weighted: f64 = rows.iter().map(|row| own(row).weight * at(row.observed, UTILITY)).sum();
        let unsupported = rows.iter().map(|row| own(row).unsupported).sum::<f64>() / count;
        let effective_sample = if squares > 0.0 { weights * weights / squares } else { 0.0 };
        let snips = if weights > 0.0 { weighted / weights } else { 0.0 };
        let utility = figure(UTILITY);
        // SNIPS is, up to higher orders, the mean of these (the delta method).
        let residual = |row: &Row| own(row).weight * (at(row.observed, UTILITY) - snips) * count / weights;
        let residuals: Vec<f64> = rows.iter().map(residual).collect();
        let standard_error = utility.standard_error.max((moments(&residuals).1 / count).sqrt());
        let difference = (utility.value - snips).abs();
        let refusal = if effective_sample < LEAST_EFFECTIVE_SAMPLE {
            Some(Refusal::EffectiveSample { found: effective_sample })
        } else if unsupported > UNSUPPORTED {
            Some(Refusal::Unsupported { share: unsupported })
        } else if difference > DISAGREEMENT * standard_error {
            Some(Refusal::Disagreement { doubly_robust: utility.value, snips })
        } else {
            None
        };
        Self { utility, snips, reward: figure(REWARD), cost: figure(COST), effective_sample, refusal }
    }
}

fn at(Figures(figures): Figures, figure: usize) -> f64 {
    figures.get(figure).copied().unwrap_or_default()
}

/// The mean difference of one figure between pairs of judgements.
fn estimate<'a>(
    pairs: impl Iterator<Item = (&'a Judged, &'a Judged)>,
    figure: usize,
    bounds: [f64; 3],
    alpha: f64,
) -> Estimate {
    let bound = bounds.get(figure).copied().unwrap_or_default();
    let mut values = Vec::new();
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for (one, other) in pairs {
        values.push(at(one.corrected, figure) - at(other.corrected, figure));
        // Where a value could have been, given the request and its propensities, but not the action taken and its outcome.
        let modelled = at(one.modelled, figure) - at(other.modelled, figure);
        let none = std::iter::repeat(&0.0);
        let weights = one.clipped.iter().zip(other.clipped.iter().chain(none));
        let reach = bound * weights.map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
        low = low.min(modelled - reach);
        high = high.max(modelled + reach);
    }
    let (value, variance) = moments(&values);
    let count = values.len() as f64;
    if values.len() < 2 {
        return Estimate { value, standard_error: f64::MAX, interval: (f64::MIN, f64::MAX) };
    }
    let log = (4.0 / alpha).ln();
    let half = (2.0 * variance * log / count).sqrt() + 7.0 * (high - low) * log / (3.0 * (count - 1.0));
    Estimate { value, standard_error: (variance / count).sqrt(), interval: (value - half, value + half) }
}

/// Mean and variance; 0 of fewer than two values.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    if values.len() < 2 {
        return (values.first().copied().unwrap_or_default(), 0.0);
    }
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0))
}
