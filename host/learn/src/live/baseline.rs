//! The reward that is expected of a session before it is played: a regression on other users' earlier sessions.

use super::session::{Observed, Scale};
use crate::random::Random;
use crate::symmetric::Symmetric;
use serde::{Deserialize, Serialize};

/// Parts that users are divided into. The prediction for a user comes from the sessions of the other parts: three of four are nearly all.
const FOLDS: u64 = 4;
/// Penalty on squared weights, in sessions: a weight is believed after more than this many.
const PENALTY: f64 = 1.0;
/// Sessions of an arm without knowledge that its deviation from the regression begins with, at 0.
const ARM_PRIOR: f64 = 5.0;
/// Most classes with a weight of their own, the first ones that are seen. Later ones share the intercept. A prediction costs the cube of the
/// number of weights.
pub const MOST_CLASSES: usize = 16;

/// The part of a user: the same one in every process.
pub(super) fn fold_of(user: u64) -> u64 {
    Random(user).next() % FOLDS
}

/// Sums over the sessions of one part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Fold {
    gram: Symmetric,
    moments: Vec<f64>,
}

/// What is known of a session before its draws, as a row of the regression, with the prediction.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) fold: u64,
    row: Vec<f64>,
    weights: Vec<f64>,
    scale: Scale,
}

fn product(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

/// Adds to a vector that may be shorter; the missing numbers are 0.
fn add(to: &mut Vec<f64>, values: &[f64], factor: f64) {
    to.resize(to.len().max(values.len()), 0.0);
    to.iter_mut().zip(values).for_each(|(to, value)| *to += factor * value);
}

/// Ridge regression of rewards on an intercept, the features and the class, over all sessions with feedback, whatever they were shown. All
/// entries share it; each adds the deviation of its arms ([`Arm`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Baseline {
    scale: Scale,
    features: usize,
    /// Those with a weight, in the order in which they were first seen.
    classes: Vec<String>,
    folds: Vec<Fold>,
}

impl Baseline {
    pub(super) fn new(scale: Scale, features: usize) -> Self {
        Self { scale, features, classes: Vec::new(), folds: (0..FOLDS).map(|_| Fold::default()).collect() }
    }

    pub(super) fn scale(&self) -> Scale {
        self.scale
    }

    pub(super) fn features(&self) -> usize {
        self.features
    }

    /// The row of a session, and the weights for its user.
    pub(super) fn context(&mut self, session: &Observed<'_>) -> Context {
        let class = self.class(session.class);
        let classes = (0..self.classes.len()).map(|place| f64::from(u8::from(class == Some(place))));
        let row: Vec<f64> = std::iter::once(1.0).chain(session.features.iter().copied()).chain(classes).collect();
        let fold = fold_of(session.user);
        let weights = self.weights(fold);
        Context { fold, row, weights, scale: self.scale }
    }

    /// Adds a session with feedback. Call it after the session's own prediction was used.
    pub(super) fn observe(&mut self, (context, reward): (&Context, f64)) {
        let Some(fold) = self.folds.get_mut(context.fold as usize) else { return };
        (fold.gram.order()..context.row.len()).for_each(|at| fold.gram.insert(at));
        fold.gram.add_square(&context.row, 1.0);
        add(&mut fold.moments, &context.row, reward - self.scale.middle());
    }

    /// The place of a class among those with a weight.
    fn class(&mut self, class: &str) -> Option<usize> {
        let known = self.classes.iter().position(|known| known == class);
        known.or_else(|| {
            let place = self.classes.len();
            (place < MOST_CLASSES).then(|| {
                self.classes.push(class.to_owned());
                place
            })
        })
    }

    /// The weights from all parts but this one.
    fn weights(&self, fold: u64) -> Vec<f64> {
        let (mut gram, mut moments) = (Symmetric::default(), Vec::new());
        for (_, other) in (0..).zip(&self.folds).filter(|(number, _)| *number != fold) {
            (gram.order()..other.gram.order()).for_each(|at| gram.insert(at));
            gram.add_all(&other.gram);
            add(&mut moments, &other.moments, 1.0);
        }
        gram.solve(PENALTY, &moments)
    }
}

/// Sums over the sessions of one part and one arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct ArmFold {
    sessions: f64,
    reward: f64,
    row: Vec<f64>,
}

/// How much the sessions of one arm (shown an entry, or not) differ from the regression over all sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Arm(Vec<ArmFold>);

impl Default for Arm {
    fn default() -> Self {
        Self((0..FOLDS).map(|_| ArmFold::default()).collect())
    }
}

impl Arm {
    /// The reward that is expected of a session in this arm, on the scale.
    pub(super) fn predict(&self, context: &Context) -> f64 {
        let middle = context.scale.middle();
        let (mut sessions, mut surplus) = (0.0, 0.0);
        for (_, other) in (0..).zip(&self.0).filter(|(number, _)| *number != context.fold) {
            sessions += other.sessions;
            surplus += other.reward - middle * other.sessions - product(&other.row, &context.weights);
        }
        let expected = middle + product(&context.row, &context.weights) + surplus / (sessions + ARM_PRIOR);
        expected.clamp(context.scale.low(), 1.0)
    }

    /// Adds a session with feedback.
    pub(super) fn observe(&mut self, context: &Context, reward: f64) {
        let Some(fold) = self.0.get_mut(context.fold as usize) else { return };
        fold.sessions += 1.0;
        fold.reward += reward;
        add(&mut fold.row, &context.row, 1.0);
    }
}
