//! Verdicts that come late: what an episode waits for, when it is decided, and what changes it afterwards.
//!
//! Nothing that was said is overwritten. A verdict that is added to a recorded episode makes a *revision*: the verdict that it
//! replaces stays in the record, and the reward at every revision can be computed again.

use crate::{
    Digest, Episode, PluginIdentity, RewardRecord, RewardSource, ScoreCard, Verdict, effective_reward, standing,
};
use serde::{Deserialize, Serialize};

/// A verdict that an episode waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedVerdict {
    /// Where it comes from.
    pub source: RewardSource,
    /// Until when it is waited for: milliseconds since 1970.
    pub until: u64,
}

/// A verdict that is waited for once an episode has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// Where it comes from.
    pub source: RewardSource,
    /// For so many milliseconds.
    pub within_ms: u64,
}

impl Expectation {
    /// What an episode waits for that ends at a time (milliseconds since 1970).
    pub fn from(self, at: u64) -> ExpectedVerdict {
        ExpectedVerdict { source: self.source, until: at.saturating_add(self.within_ms) }
    }
}

/// Whether learners may take an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpisodeState {
    /// It goes on: its end is not recorded.
    Open,
    /// It ended, and waits for a verdict.
    Pending {
        /// Until when at most: milliseconds since 1970.
        until: u64,
    },
    /// Every verdict that it waited for is there, or its deadline has passed. Later verdicts make revisions.
    Decided,
}

impl EpisodeState {
    /// Its word in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Pending { .. } => "pending",
            Self::Decided => "decided",
        }
    }

    /// The state of a recorded episode at a time (milliseconds since 1970). It follows from the record and the clock alone: a
    /// deadline passes whether or not a program runs.
    pub fn at(expects: &[ExpectedVerdict], records: &[RewardRecord], now: u64) -> Self {
        let is_there = |source: RewardSource| {
            standing(records).any(|record| record.source == source && record.counts() && !record.failed())
        };
        let missing = expects.iter().filter(|expected| now < expected.until && !is_there(expected.source));
        missing.map(|expected| expected.until).max().map_or(Self::Decided, |until| Self::Pending { until })
    }
}

impl Episode {
    /// Whether learners may take it at a time (milliseconds since 1970). What could not be completed waits for nothing.
    pub fn state(&self, now: u64) -> EpisodeState {
        if self.ending.is_complete() {
            EpisodeState::at(&self.expects, &self.verdicts, now)
        } else {
            EpisodeState::Decided
        }
    }

    /// The episode as learners saw it at a time (milliseconds since 1970): with the verdicts of then, and without a reward
    /// while it was pending. None: it looked then as it does now.
    pub fn as_of(&self, at: u64) -> Option<Self> {
        let is_whole = verdicts_at(&self.verdicts, at).count() == self.verdicts.len();
        let is_decided = self.state(at) == EpisodeState::Decided;
        if is_whole && (is_decided || self.reward.is_none()) {
            return None;
        }
        let verdicts: Vec<RewardRecord> = verdicts_at(&self.verdicts, at).cloned().collect();
        let mut then = Self { verdicts, ..self.clone() };
        let is_decided = then.state(at) == EpisodeState::Decided;
        then.reward = if is_decided { effective_reward(&then.verdicts) } else { None };
        Some(then)
    }

    /// How often its verdicts were revised; 0: never.
    pub fn revision(&self) -> u32 {
        revision(&self.verdicts)
    }
}

/// The newest revision of some verdicts; 0: all of them came with the episode.
pub fn revision(records: &[RewardRecord]) -> u32 {
    records.iter().filter_map(|record| record.later.as_ref()).map(|later| later.revision).max().unwrap_or(0)
}

/// The verdicts as they stood at a time (milliseconds since 1970).
pub fn verdicts_at(records: &[RewardRecord], at: u64) -> impl Iterator<Item = &RewardRecord> {
    records.iter().filter(move |record| record.later.as_ref().is_none_or(|later| later.at <= at))
}

/// A revision of an episode, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Revision {
    /// Its number; 0: as the episode was recorded.
    pub revision: u32,
    /// When it was made: milliseconds since 1970. None: with the episode.
    pub at: Option<u64>,
    /// The effective reward from then on; none: not scored.
    pub reward: Option<f64>,
}

/// All revisions in order, the recorded state first.
pub fn history(records: &[RewardRecord]) -> Vec<Revision> {
    let until = |number: u32| -> Vec<RewardRecord> {
        let is_there = |record: &&RewardRecord| record.later.as_ref().is_none_or(|later| later.revision <= number);
        records.iter().filter(is_there).cloned().collect()
    };
    (0..=revision(records))
        .map(|number| {
            let made = records.iter().filter_map(|record| record.later.as_ref());
            Revision {
                revision: number,
                at: made.filter(|later| later.revision == number).map(|later| later.at).next(),
                reward: effective_reward(&until(number)),
            }
        })
        .collect()
}

/// Revisions of one episode. A person changes a mind a few times; more is a program in a loop, and every reader pays for it.
pub const REVISIONS: u32 = 1_000;

/// What came of adding a verdict.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// It was added, and made this revision.
    Added {
        /// The revision.
        revision: u32,
        /// The effective reward now.
        reward: Option<f64>,
    },
    /// Nothing changed: it was there already, or its question is answered.
    Unchanged {
        /// The revision that says the same: that of the key, or the newest.
        revision: u32,
        /// The effective reward.
        reward: Option<f64>,
    },
    /// It cannot be added.
    Refused(NotAdmitted),
}

/// Why a verdict cannot be added to an episode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// There is no such episode.
    #[error("the episode is not recorded here")]
    NoEpisode,
    /// The episode could not be completed.
    #[error("the episode could not be completed, so it has no reward")]
    NotComplete,
    /// The key names another verdict already.
    #[error("the key `{key}` was used for another verdict of this episode (revision {revision})")]
    KeyReused {
        /// The key.
        key: String,
        /// The revision that it made.
        revision: u32,
    },
    /// It was revised too often.
    #[error("the episode was revised {REVISIONS} times, which is as often as an episode can be revised")]
    TooManyRevisions,
}

/// What decides whether a later verdict is part of an episode's reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewardRule<'a> {
    /// Whether the episode is live: no run fixed which rewards it has.
    pub is_live: bool,
    /// What it waits, or waited, for.
    pub expects: &'a [ExpectedVerdict],
}

impl RewardRule<'_> {
    /// What a person says counts, what was expected counts, and everything counts where nothing else was fixed. Anything else
    /// looks at the episode in another way.
    fn counts(self, source: RewardSource) -> bool {
        self.is_live || source == RewardSource::User || self.expects.iter().any(|expected| expected.source == source)
    }
}

/// Adds a verdict to those of a recorded episode, at a time (milliseconds since 1970). `key` names it for its caller: the same
/// verdict under the same key is added once.
///
/// A new question is added. A person's verdict is added also where that question was answered: it is a correction. A plugin's is
/// added there only in the place of a failed one, since asking a plugin again gives the same verdict.
pub fn admit(
    mut record: RewardRecord,
    (at, key): (u64, Option<String>),
    rule: RewardRule<'_>,
    records: &mut Vec<RewardRecord>,
) -> Admission {
    let revision = revision(records);
    let unchanged = |records: &[RewardRecord]| Admission::Unchanged { revision, reward: effective_reward(records) };
    let named = |known: &&RewardRecord| key.is_some() && known.later.as_ref().is_some_and(|later| later.key == key);
    if let Some(known) = records.iter().find(named) {
        let same = known.verdict == record.verdict && known.question() == record.question();
        return match (same, &key, &known.later) {
            (false, Some(key), Some(later)) => {
                Admission::Refused(NotAdmitted::KeyReused { key: key.clone(), revision: later.revision })
            }
            (true, _, Some(later)) => {
                Admission::Unchanged { revision: later.revision, reward: effective_reward(records) }
            }
            _ => unchanged(records),
        };
    }
    let question = record.question();
    if let Some(known) = standing(records).find(|known| known.question() == question) {
        // A new key is a statement of its own, although it says the same: the key must be known when it comes again.
        let says_more = known.verdict != record.verdict || key.is_some();
        let corrects = record.source == RewardSource::User && says_more;
        let mends = known.failed() && !record.failed();
        if !corrects && !mends {
            return unchanged(records);
        }
        // It takes the other's part in the reward.
        (record.post_hoc, record.weight, record.source) = (known.post_hoc, known.weight, known.source);
    } else {
        record.post_hoc = !rule.counts(record.source);
    }
    if revision >= REVISIONS {
        return Admission::Refused(NotAdmitted::TooManyRevisions);
    }
    record.later = Some(crate::LaterVerdict { revision: revision + 1, at, key });
    records.push(record);
    Admission::Added { revision: revision + 1, reward: effective_reward(records) }
}

/// Bytes of what a person says about an episode: a page of text. More belongs into a document that the text names.
pub const FEEDBACK_TEXT_BYTES: usize = 16 << 10;

/// Bytes of a key: longer than a UUID or a digest, short enough for an index.
pub const FEEDBACK_KEY_BYTES: usize = 200;

/// What a person says about an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    score: f64,
    text: String,
}

/// Why something is no feedback.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidFeedback {
    /// The score is out of range.
    #[error("the score {0} is not from -1 to 1")]
    Score(f64),
    /// The text is too long.
    #[error("the text has {0} bytes; at most {FEEDBACK_TEXT_BYTES} are kept")]
    Text(usize),
}

impl Feedback {
    /// A score from -1 to 1, and why, for people.
    ///
    /// # Errors
    /// The score is out of range or no number, or the text is too long.
    pub fn new(score: f64, text: impl Into<String>) -> Result<Self, InvalidFeedback> {
        let text = text.into();
        if !(-1.0..=1.0).contains(&score) {
            return Err(InvalidFeedback::Score(score));
        }
        if text.len() > FEEDBACK_TEXT_BYTES {
            return Err(InvalidFeedback::Text(text.len()));
        }
        // One zero: -0 reads as if it meant something.
        Ok(Self { score: score + 0.0, text })
    }

    /// The verdict of the source `user`.
    pub fn record(self) -> RewardRecord {
        RewardRecord {
            reward: Self::identity(),
            options: Vec::new(),
            options_digest: Digest::of_json(&serde_json::json!([])),
            judge: None,
            grants: crate::Grants::default(),
            group_digest: None,
            seed: 0,
            source: RewardSource::User,
            weight: 1.0,
            post_hoc: false,
            verdict: Verdict::Scored(ScoreCard { rationale: self.text, ..ScoreCard::plain(self.score) }),
            later: None,
            log: Vec::new(),
            journal: Vec::new(),
        }
    }

    /// Stands where a verdict names its plugin: a person is none.
    pub fn identity() -> PluginIdentity {
        PluginIdentity {
            name: "feedback".into(),
            version: "1".into(),
            digest: Digest::of(b"clawhost feedback, version 1"),
        }
    }
}

#[cfg(test)]
mod tests;
