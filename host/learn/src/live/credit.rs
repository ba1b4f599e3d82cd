//! Effects of entries from live sessions.

use super::baseline::Baseline;
use super::estimate::LiveEstimate;
use super::sensitivity::{Direction, OddsRatio};
use super::session::{DrawnSession, MOST_FEATURES, Scale};
use super::sums::{Drawn, Factor};
use crate::credit::{e_bh, e_bh_threshold};
use crate::{EntryId, LearnError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most entries on trial at once: each stores some numbers per user.
pub const MOST_TRIALS: usize = 256;

/// Settings that hold for the life of the estimates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LiveSettings {
    /// The scale of rewards.
    pub scale: Scale,
    /// Number of features of a session, at most [`MOST_FEATURES`].
    pub features: usize,
    /// The bias of the feedback that a decision must survive.
    pub odds_ratio: OddsRatio,
}

/// What is decided about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectFinding {
    /// It helps.
    Helps,
    /// It harms.
    Harms,
    /// There is no finding yet.
    Undecided,
    /// The arms give feedback so differently often that nothing can be decided ([`super::FeedbackDifference::blocks`]).
    Blocked,
}

/// What live sessions so far say about entries. Sessions are observed in the order in which they started, each once its deadline for feedback
/// has passed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveCredit {
    odds_ratio: OddsRatio,
    baseline: Baseline,
    trials: BTreeMap<EntryId, Factor>,
    /// Trials that ended, with what was known then. Their evidence counts in every later decision.
    ended: Vec<(EntryId, LiveEstimate)>,
}

impl LiveCredit {
    /// Without sessions.
    ///
    /// # Errors
    /// More than [`MOST_FEATURES`] features.
    pub fn new(settings: LiveSettings) -> Result<Self, LearnError> {
        if settings.features > MOST_FEATURES {
            return Err(LearnError::Live(format!("{} features; there are at most {MOST_FEATURES}", settings.features)));
        }
        let baseline = Baseline::new(settings.scale, settings.features);
        Ok(Self { odds_ratio: settings.odds_ratio, baseline, trials: BTreeMap::new(), ended: Vec::new() })
    }

    /// The same with the results of trials that have ended before: they still count among all that were tried.
    #[must_use]
    pub fn with_ended(self, ended: Vec<(EntryId, LiveEstimate)>) -> Self {
        Self { ended, ..self }
    }

    /// Adds a session.
    ///
    /// # Errors
    /// Features, draws or reward are invalid, or there are more than [`MOST_TRIALS`] entries on trial. Nothing is changed.
    pub fn observe(&mut self, session: &DrawnSession) -> Result<(), LearnError> {
        let observed = session.observed();
        observed.check(self.baseline.features(), self.baseline.scale())?;
        session.check_draws()?;
        let new = session.draws.iter().filter(|draw| !self.trials.contains_key(&draw.entry)).count();
        if self.trials.len() + new > MOST_TRIALS {
            return Err(LearnError::Live(format!("more than {MOST_TRIALS} entries are on trial at once")));
        }
        let known = session.reward.map(|reward| (self.baseline.context(&observed), reward));
        let rewarded = known.as_ref().map(|(context, reward)| (context, *reward));
        for draw in &session.draws {
            let drawn = Drawn { shown: draw.shown, probability: draw.propensity.value() };
            self.trials.entry(draw.entry.clone()).or_default().observe(session.user, drawn, rewarded);
        }
        rewarded.into_iter().for_each(|rewarded| self.baseline.observe(rewarded));
        Ok(())
    }

    /// The estimate of an entry on trial; `None` before its first session with feedback.
    pub fn estimate(&self, entry: &EntryId) -> Option<LiveEstimate> {
        LiveEstimate::new(self.trials.get(entry)?, self.baseline.scale())
    }

    /// The estimates of all entries on trial that have one.
    pub fn estimates(&self) -> BTreeMap<EntryId, LiveEstimate> {
        self.trials.keys().filter_map(|entry| Some((entry.clone(), self.estimate(entry)?))).collect()
    }

    /// What is decided about every entry on trial, with an expected share of at most `q` (above 0, below 1) of wrong ones among those that are
    /// found to help, and likewise among those found to harm, over all trials so far ([`e_bh`]).
    pub fn findings(&self, q: f64) -> BTreeMap<EntryId, EffectFinding> {
        let open = self.estimates();
        let all: Vec<&LiveEstimate> = open.values().chain(self.ended.iter().map(|(_, estimate)| estimate)).collect();
        let found = |direction| {
            let values: Vec<f64> = all.iter().map(|estimate| estimate.evidence(direction, self.odds_ratio)).collect();
            e_bh(&values, q)
        };
        let (helps, harms) = (found(Direction::Helps), found(Direction::Harms));
        let finding = |((entry, estimate), (helps, harms)): ((&EntryId, &LiveEstimate), (bool, bool))| {
            let finding = match (helps, harms) {
                (true, _) => EffectFinding::Helps,
                (_, true) => EffectFinding::Harms,
                _ if estimate.feedback.blocks() => EffectFinding::Blocked,
                _ => EffectFinding::Undecided,
            };
            (entry.clone(), finding)
        };
        open.iter().zip(helps.into_iter().zip(harms)).map(finding).collect()
    }

    /// How biased the feedback would have to be to undo what is found about an entry now ([`LiveEstimate::flip_point`]), among all trials so far, at a
    /// share `q` of wrong findings. The evidence of the others is that at the bias of the settings. `None`: nothing is found even without bias.
    pub fn flip_point(&self, entry: &EntryId, q: f64) -> Option<OddsRatio> {
        let estimate = self.estimate(entry)?;
        let direction = if estimate.effect < 0.0 { Direction::Harms } else { Direction::Helps };
        let open = self.estimates().into_iter().filter(|(other, _)| other != entry).map(|(_, estimate)| estimate);
        let others = open.chain(self.ended.iter().map(|(_, estimate)| estimate.clone()));
        let others: Vec<f64> = others.map(|other| other.evidence(direction, self.odds_ratio)).collect();
        estimate.flip_point(direction, e_bh_threshold(&others, q))
    }

    /// Ends the trial of an entry, decided or not, and returns what was known. Its evidence counts in later decisions about others; if the
    /// entry is drawn for again, that is a new trial.
    pub fn end(&mut self, entry: &EntryId) -> Option<LiveEstimate> {
        let estimate = self.estimate(entry);
        self.trials.remove(entry);
        self.ended.extend(estimate.iter().map(|estimate| (entry.clone(), estimate.clone())));
        estimate
    }
}
