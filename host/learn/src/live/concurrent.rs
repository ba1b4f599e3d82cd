//! A new version beside the served one, at the same time.
//!
//! What happened before a change is never compared with what happened after it: users, tasks and moods drift, and drift would be taken for an
//! effect. Every session that enters was drawn for, and the two arms are from the same time.

use super::baseline::Baseline;
use super::credit::EffectFinding;
use super::estimate::LiveEstimate;
use super::propensity::Share;
use super::sensitivity::{Direction, OddsRatio};
use super::session::{MOST_FEATURES, Observed, Scale};
use super::sums::{Drawn, Factor};
use crate::LearnError;
use serde::{Deserialize, Serialize};

/// A session that could have been served by either version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConcurrentSession {
    /// The user, as in [`super::DrawnSession`].
    pub user: u64,
    /// Class of the task, known before the draw.
    pub class: String,
    /// What was known before the draw, as in [`super::DrawnSession`].
    pub features: Vec<f64>,
    /// Whether the new version served it, drawn at random.
    pub new: bool,
    /// The share of sessions that the new version served at that time.
    pub share: Share,
    /// The reward; `None` if there was no feedback by its deadline.
    pub reward: Option<f64>,
}

/// A comparison of two versions that serve at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Concurrent {
    baseline: Baseline,
    factor: Factor,
}

impl Concurrent {
    /// Without sessions.
    ///
    /// # Errors
    /// More than [`MOST_FEATURES`] features.
    pub fn new(scale: Scale, features: usize) -> Result<Self, LearnError> {
        if features > MOST_FEATURES {
            return Err(LearnError::Live(format!("{features} features; there are at most {MOST_FEATURES}")));
        }
        Ok(Self { baseline: Baseline::new(scale, features), factor: Factor::default() })
    }

    /// Adds a session, in the order of starts.
    ///
    /// # Errors
    /// Features or reward are invalid. Nothing is changed.
    pub fn observe(&mut self, session: &ConcurrentSession) -> Result<(), LearnError> {
        let ConcurrentSession { user, class, features, new, share, reward } = session;
        let observed = Observed { user: *user, class, features, reward: *reward };
        observed.check(self.baseline.features(), self.baseline.scale())?;
        let known = reward.map(|reward| (self.baseline.context(&observed), reward));
        let rewarded = known.as_ref().map(|(context, reward)| (context, *reward));
        self.factor.observe(*user, Drawn { shown: *new, probability: share.value() }, rewarded);
        rewarded.into_iter().for_each(|rewarded| self.baseline.observe(rewarded));
        Ok(())
    }

    /// What the new version adds to the reward; `None` before the first session with feedback.
    pub fn estimate(&self) -> Option<LiveEstimate> {
        LiveEstimate::new(&self.factor, self.baseline.scale())
    }

    /// Evidence that the new version is worse, if the feedback is biased against it by this much: an e-value. By chance alone it reaches
    /// `1/alpha` with a probability of at most `alpha`, however often one looks.
    pub fn worse(&self, odds_ratio: OddsRatio) -> f64 {
        self.evidence(Direction::Harms, odds_ratio)
    }

    /// Evidence that it is better, likewise.
    pub fn better(&self, odds_ratio: OddsRatio) -> f64 {
        self.evidence(Direction::Helps, odds_ratio)
    }

    fn evidence(&self, direction: Direction, odds_ratio: OddsRatio) -> f64 {
        self.estimate().map_or(1.0, |estimate| estimate.evidence(direction, odds_ratio))
    }

    /// Whether the new version helps or harms. Each of the two errors has at most the probability `alpha` (above 0, below 1).
    pub fn finding(&self, alpha: f64, odds_ratio: OddsRatio) -> EffectFinding {
        let threshold = 1.0 / alpha;
        match self.estimate() {
            Some(estimate) if estimate.survives(Direction::Harms, odds_ratio, threshold) => EffectFinding::Harms,
            Some(estimate) if estimate.survives(Direction::Helps, odds_ratio, threshold) => EffectFinding::Helps,
            Some(estimate) if estimate.feedback.blocks() => EffectFinding::Blocked,
            _ => EffectFinding::Undecided,
        }
    }
}
