//! A seeded world of requests and models with known truth, in which routers are tested and demonstrated.
//!
//! A request has the features of real ones, drawn at random. A weighted sum of them, with weights drawn from the seed, says how
//! hard it is. The probability that a model is right is a logistic function of this sum: its offset is set so that the model is
//! right in a given share of the requests, its slope so that the sum tells the requests that the first model gets right from
//! the others with a given AUC.

use super::decision::Outcome;
use super::features::{Features, RequestSummary};
use super::ridge::logistic;
use super::table::{Action, Table};
use crate::LearnError;
use crate::random::Random;
use serde::{Deserialize, Serialize};

/// Requests from which slope and offsets are set. The AUC of fresh requests is then within .01 of the given one.
const CALIBRATION: usize = 4_096;
/// Halvings of an interval when a root is searched: beyond the precision of numbers.
const HALVINGS: usize = 60;
/// Bounds of offset and slope.
const LARGEST: f64 = 60.0;
/// Task classes of the world.
const CLASSES: [&str; 4] = ["question", "code", "search", "write"];

/// A model of the world. It uses one unit per request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorldModel {
    /// Its name.
    pub name: String,
    /// Its price per request.
    pub price: f64,
    /// Share of requests that it gets right, above 0 and below 1.
    pub right: f64,
    /// How strongly its success follows the features, as a share of the first model's slope.
    pub follows: f64,
}

/// How well failures are noticed, if models may escalate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Noticing {
    /// Share of failures that are noticed, 0 to 1.
    pub failures: f64,
    /// Share of successes that are taken for failures, 0 to 1.
    pub false_alarms: f64,
}

/// What a world is like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorldSettings {
    /// The models, the cheapest first.
    pub models: Vec<WorldModel>,
    /// AUC of the features for whether the first model is right, 0.5 to 0.99; 0.5 if features carry nothing.
    pub auc: f64,
    /// Every model may escalate to the last one, if failures are noticed.
    pub escalation: Option<Noticing>,
    /// Weight of cost.
    pub cost_weight: f64,
    /// Decisions to learn from.
    pub decisions: u64,
    /// Fresh requests on which the frozen policies are compared.
    pub fresh: u64,
    /// See [`super::FLOOR`].
    pub floor: f64,
    /// See [`super::FORGETTING`].
    pub forgetting: f64,
    /// See [`super::EXPLORATION`].
    pub exploration: f64,
}

impl Default for WorldSettings {
    /// Two models with prices 1 and 10 that are right in 60 % and 90 % of the requests. At this weight of cost neither of them
    /// is much better than the other for all requests.
    fn default() -> Self {
        let model =
            |name: &str, price: f64, right: f64, follows: f64| WorldModel { name: name.into(), price, right, follows };
        Self {
            models: vec![model("cheap", 1.0, 0.6, 1.0), model("dear", 10.0, 0.9, 0.3)],
            auc: 0.92,
            escalation: None,
            cost_weight: 0.15,
            decisions: 2_000,
            fresh: 20_000,
            floor: super::FLOOR,
            forgetting: super::FORGETTING,
            exploration: super::EXPLORATION,
        }
    }
}

/// What is true of an action for one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Truth {
    pub(super) reward: f64,
    pub(super) cost: f64,
}

/// A request of the world.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    pub(super) features: Features,
    /// Index of its task class.
    pub(super) class: usize,
    /// Probability that each model is right.
    right: Vec<f64>,
}

/// A world.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct World {
    settings: WorldSettings,
    pub(super) table: Table,
    /// Weight of each feature in the hardness, and the offset that centres it.
    weights: Vec<f64>,
    centre: f64,
    /// Offset and slope of each model.
    curves: Vec<(f64, f64)>,
}

impl World {
    /// The world of a seed.
    pub(super) fn new(settings: &WorldSettings, seed: u64) -> Result<Self, LearnError> {
        let refuse = |what: &str| Err(LearnError::Router(format!("a world with {what}")));
        let in_range = |model: &WorldModel| model.right > 0.0 && model.right < 1.0 && model.follows.is_finite();
        if !settings.models.iter().all(in_range) {
            return refuse("a model that is right in no request or in all");
        }
        if !(0.5..=0.99).contains(&settings.auc) {
            return refuse("an AUC outside 0.5 to 0.99");
        }
        let share = |share: f64| (0.0..=1.0).contains(&share);
        if settings.escalation.is_some_and(|noticing| !share(noticing.failures) || !share(noticing.false_alarms)) {
            return refuse("a share of noticed failures outside 0 to 1");
        }
        let mut table = Table::new(settings.models.iter().map(|model| (model.name.clone(), model.price)))?;
        if let (Some(_), Some((last, others))) = (settings.escalation, settings.models.split_last()) {
            for model in others {
                table = table.with_escalation(&model.name, &last.name)?;
            }
        }
        let mut random = Random(seed);
        let mut samples = Vec::with_capacity(CALIBRATION);
        for _ in 0..CALIBRATION {
            samples.push(request(&mut random)?.0);
        }
        let (weights, centre, scores) = hardness(&samples, &mut random);
        let first = settings.models.first().map_or(0.5, |model| model.right);
        let slope = |slope: f64| (offset(&scores, slope, first), slope);
        let steepest = if settings.auc > 0.5 {
            root(0.0, LARGEST, |steepness| auc(&scores, slope(steepness)) < settings.auc)
        } else {
            0.0
        };
        let curve = |model: &WorldModel| {
            let slope = steepest * model.follows;
            (offset(&scores, slope, model.right), slope)
        };
        let curves = settings.models.iter().map(curve).collect();
        Ok(Self { settings: settings.clone(), table, weights, centre, curves })
    }

    /// Draws a request.
    pub(super) fn draw(&self, random: &mut Random) -> Result<Case, LearnError> {
        let (features, class) = request(random)?;
        let score = score(&self.weights, &features) - self.centre;
        let right = self.curves.iter().map(|(offset, slope)| logistic(offset + slope * score)).collect();
        Ok(Case { features, class, right })
    }

    /// Probability that a model is right.
    pub(super) fn right(&self, case: &Case, model: &str) -> f64 {
        let at = self.settings.models.iter().position(|known| known.name == model);
        at.and_then(|at| case.right.get(at)).copied().unwrap_or_default()
    }

    /// Expected reward and cost of an action.
    pub(super) fn truth(&self, case: &Case, action: &Action) -> Truth {
        let first = self.right(case, &action.model);
        let price = |model: &str| self.table.price(model).unwrap_or_default();
        let own = price(&action.model);
        let (Some(then), Some(noticing)) = (&action.then, self.settings.escalation) else {
            return Truth { reward: first, cost: own };
        };
        let escalated = (1.0 - first) * noticing.failures + first * noticing.false_alarms;
        let kept = first * (1.0 - noticing.false_alarms);
        Truth { reward: kept + escalated * self.right(case, then), cost: own + escalated * price(then) }
    }

    /// Draws the outcome of an action.
    pub(super) fn outcome(&self, case: &Case, action: &Action, random: &mut Random) -> Outcome {
        let one = |right: bool| if right { 1.0 } else { 0.0 };
        let first = random.uniform() < self.right(case, &action.model);
        let (Some(then), Some(noticing)) = (&action.then, self.settings.escalation) else {
            return Outcome { reward: one(first), units: [1.0, 0.0] };
        };
        let alarm = if first { noticing.false_alarms } else { noticing.failures };
        if random.uniform() >= alarm {
            return Outcome { reward: one(first), units: [1.0, 0.0] };
        }
        Outcome { reward: one(random.uniform() < self.right(case, then)), units: [1.0, 1.0] }
    }
}

/// Draws a request: its features and the index of its class.
fn request(random: &mut Random) -> Result<(Features, usize), LearnError> {
    let class = random.below(CLASSES.len());
    let exponential = |random: &mut Random, mean: f64| (-mean * (1.0 - random.uniform()).ln()) as u32;
    let foreign = random.uniform() < 0.2;
    let summary = RequestSummary {
        characters: (7.0 + 1.2 * random.normal()).exp() as u64,
        turns: exponential(random, 3.0),
        tools: exponential(random, 2.0),
        has_code: random.uniform() < 0.35,
        non_ascii_share: if foreign { random.uniform() } else { 0.02 * random.uniform() },
        reasoning_markers: u32::from(random.uniform() < 0.3),
        technical_terms: exponential(random, 2.0),
        class: CLASSES.get(class).map(|class| (*class).to_owned()),
        failures: u32::from(random.uniform() < 0.15),
        likeness: 0.3 * (random.uniform() - 0.5),
    };
    Ok((Features::of(&summary)?, class))
}

/// Draws the weights of the features, scaled so that the weighted sum has deviation 1. Returns them with the sum's mean and the
/// centred sums of the samples in ascending order.
fn hardness(samples: &[Features], random: &mut Random) -> (Vec<f64>, f64, Vec<f64>) {
    let count = samples.len() as f64;
    let deviation = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / count;
        (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
    };
    let columns = samples.first().map_or(0, |features| features.values().count());
    let mut weights = Vec::with_capacity(columns);
    for column in 0..columns {
        let values: Vec<f64> = samples.iter().filter_map(|features| features.values().nth(column)).collect();
        let (_, spread) = deviation(&values);
        let weight = random.normal();
        weights.push(if spread > 0.0 { weight / spread } else { 0.0 });
    }
    let mut scores: Vec<f64> = samples.iter().map(|features| score(&weights, features)).collect();
    let (mean, spread) = deviation(&scores);
    weights.iter_mut().for_each(|weight| *weight /= spread);
    scores.iter_mut().for_each(|score| *score = (*score - mean) / spread);
    scores.sort_by(f64::total_cmp);
    (weights, mean / spread, scores)
}

fn score(weights: &[f64], features: &Features) -> f64 {
    weights.iter().zip(features.values()).map(|(weight, value)| weight * value).sum()
}

/// Where `is_low` turns from true to false.
fn root(mut low: f64, mut high: f64, is_low: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if is_low(middle) { low = middle } else { high = middle }
    }
    low
}

/// The offset with which a model of this slope is right in this share of the requests.
fn offset(scores: &[f64], slope: f64, right: f64) -> f64 {
    let share =
        |offset: f64| scores.iter().map(|score| logistic(offset + slope * score)).sum::<f64>() / scores.len() as f64;
    root(-LARGEST, LARGEST, |offset| share(offset) < right)
}

/// The expected AUC of ascending scores for success: the probability that a success has a higher score than a failure.
fn auc(scores: &[f64], (offset, slope): (f64, f64)) -> f64 {
    let (mut failures, mut successes, mut ordered) = (0.0, 0.0, 0.0);
    for score in scores {
        let right = logistic(offset + slope * score);
        ordered += right * failures;
        successes += right;
        failures += 1.0 - right;
    }
    ordered / (successes * failures)
}
