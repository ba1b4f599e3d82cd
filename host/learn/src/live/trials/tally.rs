//! What the sessions so far say about lessons on trial, served lessons and versions.

use super::{LiveTrials, TrialSettings};
use crate::live::{
    Concurrent, ConcurrentSession, DrawnSession, EffectFinding, EntryDraw, LiveCredit, LiveEstimate, LiveSettings,
    OddsRatio, Scale, Share,
};
use crate::{EntryId, LearnError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Features of a session: see [`SessionDraws::features`].
pub const SESSION_FEATURES: usize = 2;

/// The version that a session got, where the newest one is compared with the one before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VersionDraw {
    /// The newest version.
    pub version: u64,
    /// Whether the session got the one before.
    pub previous: bool,
    /// The share of sessions that get the one before.
    pub share: Share,
}

/// What was drawn for a session when it began, and what was known of it before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionDraws {
    /// The user, as a number.
    pub user: u64,
    /// Its task class: the name of its agent.
    pub class: String,
    /// The size of the first message (a logarithm, 0 to about 1), and whether tools are offered (0 or 1).
    pub features: Vec<f64>,
    /// The version that it got; 0 is the empty playbook.
    pub served: u64,
    /// Lessons that were drawn.
    pub draws: Vec<EntryDraw>,
    /// The version, if it was drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionDraw>,
}

/// Sums over the sessions that have entered, in the order in which they did. It is made anew from them when a program starts.
#[derive(Debug, Clone)]
pub struct Tally {
    credit: LiveCredit,
    /// Lessons whose trial has ended. Their draws are ignored in sessions that enter after the end.
    ended: BTreeSet<EntryId>,
    /// The newest version, beside the one before.
    versions: Option<(u64, Concurrent)>,
    sessions: u64,
    by_version: BTreeMap<u64, VersionRewards>,
}

/// The rewards of the sessions that got a version, on a scale of 0 to 1. They are for people: versions of different times are not compared by them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct VersionRewards {
    /// Sessions.
    pub sessions: u64,
    /// Those with feedback in time.
    pub rewarded: u64,
    total: f64,
    squares: f64,
}

impl VersionRewards {
    fn observe(&mut self, reward: Option<f64>) {
        self.sessions += 1;
        if let Some(reward) = reward {
            self.rewarded += 1;
            self.total += reward;
            self.squares += reward * reward;
        }
    }

    /// The mean, and how far a 95 % interval goes to either side if all sessions are independent. What one session can change counts, too: few rewards
    /// may be equal by chance. `None`: with fewer than two rewards.
    pub fn mean(&self) -> Option<(f64, f64)> {
        const NORMAL_95: f64 = 1.96;
        let count = self.rewarded as f64;
        let mean = self.total / count;
        let variance = (self.squares - count * mean * mean).max(0.0) / (count - 1.0);
        (self.rewarded > 1).then(|| (mean, NORMAL_95 * (variance / count + count.powi(-2)).sqrt()))
    }
}

/// A reward of -1 to 1 on the scale of the estimates, 0 to 1.
fn unit(reward: f64) -> f64 {
    reward.midpoint(1.0).clamp(0.0, 1.0)
}

impl Tally {
    /// No session so far, beside the trials that have ended.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn new(settings: &TrialSettings, trials: &LiveTrials) -> Result<Self, LearnError> {
        let live = LiveSettings { scale: Scale::Unit, features: SESSION_FEATURES, odds_ratio: settings.odds_ratio };
        let ended = trials.ended.iter().filter_map(|one| Some((one.entry.id.clone(), one.estimate.clone()?)));
        let credit = LiveCredit::new(live)?.with_ended(ended.collect());
        let watched = trials.watch.as_ref().map(|watch| watch.version);
        let versions = watched.map(|version| Ok::<_, LearnError>((version, fresh()?))).transpose()?;
        let ended = trials.ended.iter().map(|one| one.entry.id.clone()).collect();
        Ok(Self { credit, ended, versions, sessions: 0, by_version: BTreeMap::new() })
    }

    /// Adds a session whose deadline has passed. `reward`: from -1 to 1, `None` without feedback in time.
    ///
    /// # Errors
    /// The session is not as its record should be.
    pub fn observe(&mut self, session: &SessionDraws, reward: Option<f64>) -> Result<(), LearnError> {
        let SessionDraws { user, class, features, served, draws, version } = session.clone();
        let reward = reward.map(unit);
        let draws = draws.into_iter().filter(|draw| !self.ended.contains(&draw.entry)).collect();
        let drawn = DrawnSession { user, class: class.clone(), features: features.clone(), draws, reward };
        self.credit.observe(&drawn)?;
        self.sessions += 1;
        self.by_version.entry(served).or_default().observe(reward);
        if let Some(draw) = version
            && let Some((_, concurrent)) = self.versions.as_mut().filter(|(number, _)| *number == draw.version)
        {
            // The arm that few get is the version before.
            let (new, share) = (draw.previous, draw.share);
            concurrent.observe(&ConcurrentSession { user, class, features, new, share, reward })?;
        }
        Ok(())
    }

    /// Another version is compared with the one before from now on.
    pub(super) fn watch(&mut self, version: Option<u64>) -> Result<(), LearnError> {
        self.versions = version.map(|version| Ok::<_, LearnError>((version, fresh()?))).transpose()?;
        Ok(())
    }

    /// A trial has ended.
    pub(super) fn end(&mut self, entry: &EntryId) -> Option<LiveEstimate> {
        self.ended.insert(entry.clone());
        self.credit.end(entry)
    }

    /// What is known of a lesson, on a scale of 0 to 1.
    pub fn estimate(&self, entry: &EntryId) -> Option<LiveEstimate> {
        self.credit.estimate(entry)
    }

    /// How biased the feedback would have to be to undo what is found about a lesson, when all that were tried share `alpha`. `None`: nothing is found.
    pub fn flip_point(&self, entry: &EntryId, alpha: f64) -> Option<OddsRatio> {
        self.credit.flip_point(entry, alpha)
    }

    /// What is found about each lesson when all that were tried share `alpha`.
    pub(super) fn findings(&self, alpha: f64) -> BTreeMap<EntryId, EffectFinding> {
        self.credit.findings(alpha)
    }

    /// The version before, in comparison with the newest one: an effect above 0 says that the one before is better.
    pub fn previous(&self) -> Option<LiveEstimate> {
        self.versions.as_ref().and_then(|(_, concurrent)| concurrent.estimate())
    }

    pub(super) fn versions(&self) -> Option<&Concurrent> {
        self.versions.as_ref().map(|(_, concurrent)| concurrent)
    }

    /// Sessions so far.
    pub fn sessions(&self) -> u64 {
        self.sessions
    }

    /// Their rewards by the version that they got; 0 is the empty playbook.
    pub fn by_version(&self) -> &BTreeMap<u64, VersionRewards> {
        &self.by_version
    }
}

fn fresh() -> Result<Concurrent, LearnError> {
    Concurrent::new(Scale::Unit, SESSION_FEATURES)
}
