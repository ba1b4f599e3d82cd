//! Late verdicts: what an episode waits for, when it is decided, and how it is revised.
//!
//! No verdict is overwritten. Adding a verdict to a recorded episode creates a *revision*: the replaced verdict stays in the
//! record, and the reward at every revision can be computed again.

use crate::{
    Attributes, Digest, Episode, PluginIdentity, RewardRecord, RewardSource, ScoreCard, Verdict, effective_reward,
    standing,
};
use serde::{Deserialize, Serialize};

/// A verdict that an episode waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedVerdict {
    /// Its source.
    pub source: RewardSource,
    /// Deadline: Unix time in milliseconds.
    pub until: u64,
}

/// A verdict that episodes wait for after their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// Its source.
    pub source: RewardSource,
    /// Time limit in milliseconds.
    pub within_ms: u64,
}

impl Expectation {
    /// The expected verdict of an episode that ends at this Unix time (milliseconds).
    pub fn from(self, at: u64) -> ExpectedVerdict {
        ExpectedVerdict { source: self.source, until: at.saturating_add(self.within_ms) }
    }
}

/// Whether learning may use an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpisodeState {
    /// In progress: its end is not recorded.
    Open,
    /// It ended and waits for a verdict.
    Pending {
        /// Latest deadline: Unix time in milliseconds.
        until: u64,
    },
    /// All expected verdicts arrived or their deadlines passed. Later verdicts create revisions.
    Decided,
}

impl EpisodeState {
    /// Name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Pending { .. } => "pending",
            Self::Decided => "decided",
        }
    }

    /// The state of a recorded episode at this Unix time (milliseconds). A function of record and time only: deadlines pass
    /// whether or not a program runs.
    pub fn at(expects: &[ExpectedVerdict], records: &[RewardRecord], now: u64) -> Self {
        let is_there = |source: RewardSource| {
            standing(records).any(|record| record.source == source && record.counts() && !record.failed())
        };
        let missing = expects.iter().filter(|expected| now < expected.until && !is_there(expected.source));
        missing.map(|expected| expected.until).max().map_or(Self::Decided, |until| Self::Pending { until })
    }
}

impl Episode {
    /// The state at this Unix time (milliseconds). A failed episode waits for nothing.
    pub fn state(&self, now: u64) -> EpisodeState {
        if self.ending.is_complete() {
            EpisodeState::at(&self.expects, &self.verdicts, now)
        } else {
            EpisodeState::Decided
        }
    }

    /// The episode as it was at this Unix time (milliseconds): with the verdicts of that time, and without a reward while it
    /// was pending. `None` if it is unchanged since.
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

    /// The episode as it was recorded: without later verdicts, with the reward of that time.
    pub fn as_recorded(&self) -> Self {
        let verdicts: Vec<RewardRecord> =
            self.verdicts.iter().filter(|record| record.later.is_none()).cloned().collect();
        Self { reward: effective_reward(&verdicts), verdicts, ..self.clone() }
    }

    /// Number of its latest revision; 0 if there is none.
    pub fn revision(&self) -> u32 {
        revision(&self.verdicts)
    }
}

/// Number of the latest revision of some verdicts; 0 if all were recorded with the episode.
pub fn revision(records: &[RewardRecord]) -> u32 {
    records.iter().filter_map(|record| record.later.as_ref()).map(|later| later.revision).max().unwrap_or(0)
}

/// The verdicts that existed at this Unix time (milliseconds).
pub fn verdicts_at(records: &[RewardRecord], at: u64) -> impl Iterator<Item = &RewardRecord> {
    records.iter().filter(move |record| record.later.as_ref().is_none_or(|later| later.at <= at))
}

/// A revision of an episode, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Revision {
    /// Its number; 0 is the episode as recorded.
    pub revision: u32,
    /// Unix time in milliseconds; `None` for revision 0.
    pub at: Option<u64>,
    /// The effective reward from then on; `None` if not scored.
    pub reward: Option<f64>,
}

/// All revisions in order, starting with the recorded state.
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

/// Most revisions of one episode. People correct themselves a few times; more indicates a program in a loop, at the expense
/// of every reader.
pub const REVISIONS: u32 = 1_000;

/// The result of adding a verdict.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// It was added as this revision.
    Added {
        /// Number of the revision.
        revision: u32,
        /// The effective reward now.
        reward: Option<f64>,
    },
    /// Nothing changed: the verdict exists already, or its question is answered.
    Unchanged {
        /// The revision with the same verdict: that of the key, or the latest.
        revision: u32,
        /// The effective reward now.
        reward: Option<f64>,
    },
    /// It was rejected.
    Refused(NotAdmitted),
}

/// Why a verdict cannot be added to an episode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// The episode does not exist.
    #[error("the episode is not recorded here")]
    NoEpisode,
    /// The episode failed.
    #[error("the episode could not be completed, so it has no reward")]
    NotComplete,
    /// The key already identifies another verdict.
    #[error("the key `{key}` was used for another verdict of this episode (revision {revision})")]
    KeyReused {
        /// The key.
        key: String,
        /// The revision with this key.
        revision: u32,
    },
    /// The episode has too many revisions.
    #[error("the episode was revised {REVISIONS} times, which is as often as an episode can be revised")]
    TooManyRevisions,
}

/// Determines whether a later verdict is part of an episode's reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewardRule<'a> {
    /// Whether the episode is live, so that no run fixed its rewards.
    pub is_live: bool,
    /// Verdicts that it waits or waited for.
    pub expects: &'a [ExpectedVerdict],
}

impl RewardRule<'_> {
    /// A person's verdict and an expected one count. For a live episode every verdict counts. Others are post hoc.
    fn counts(self, source: RewardSource) -> bool {
        self.is_live || source == RewardSource::User || self.expects.iter().any(|expected| expected.source == source)
    }
}

/// Adds a verdict to those of a recorded episode at this Unix time (milliseconds). `key` is the caller's id of the verdict,
/// for idempotence: the same verdict with the same key is added once.
///
/// A verdict on a new question is added. A person's verdict is added even if the question is answered: it is a correction. A
/// plugin's verdict then only replaces a failed one, because asking the plugin again gives the same verdict.
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
        // A new key is recorded even if the verdict is the same, because it must be found when it is used again.
        let says_more = known.verdict != record.verdict || key.is_some();
        let corrects = record.source == RewardSource::User && says_more;
        let mends = known.failed() && !record.failed();
        if !corrects && !mends {
            return unchanged(records);
        }
        // It replaces the other in the reward.
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

/// Most bytes of a person's comment: a page of text.
pub const FEEDBACK_TEXT_BYTES: usize = 16 << 10;

/// Most bytes of a key: longer than a UUID or a digest, short enough for an index.
pub const FEEDBACK_KEY_BYTES: usize = 200;

/// A person's feedback on an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    score: Option<f64>,
    text: String,
    correction: Option<String>,
    turn: Option<u32>,
}

/// The name of a correction in a verdict.
pub const CORRECTION: &str = "correction";

/// Why feedback is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidFeedback {
    /// The score is outside its range.
    #[error("the score {0} is not from -1 to 1")]
    Score(f64),
    /// The text is too long.
    #[error("the text has {0} bytes; at most {FEEDBACK_TEXT_BYTES} are kept")]
    Text(usize),
}

impl Feedback {
    /// A score from -1 to 1, with a comment for people.
    ///
    /// # Errors
    /// The score is outside its range or NaN, or the text is too long.
    pub fn new(score: f64, text: impl Into<String>) -> Result<Self, InvalidFeedback> {
        let text = text.into();
        if !(-1.0..=1.0).contains(&score) {
            return Err(InvalidFeedback::Score(score));
        }
        if text.len() > FEEDBACK_TEXT_BYTES {
            return Err(InvalidFeedback::Text(text.len()));
        }
        // Normalises -0.0 to 0.0.
        Ok(Self { score: Some(score + 0.0), text, correction: None, turn: None })
    }

    /// A correction without a score: it says what the answer should have been, and changes no reward.
    ///
    /// # Errors
    /// The text is too long.
    pub fn correction(text: impl Into<String>) -> Result<Self, InvalidFeedback> {
        let none = Self { score: None, text: String::new(), correction: None, turn: None };
        none.correcting(Some(text.into()))
    }

    /// The same with what the answer should have been.
    ///
    /// # Errors
    /// The text is too long.
    pub fn correcting(self, correction: Option<String>) -> Result<Self, InvalidFeedback> {
        match &correction {
            Some(text) if text.len() > FEEDBACK_TEXT_BYTES => Err(InvalidFeedback::Text(text.len())),
            _ => Ok(Self { correction, ..self }),
        }
    }

    /// The same about one turn, from 0. Feedback about another turn does not replace it: the mean counts.
    #[must_use]
    pub fn at_turn(self, turn: Option<u32>) -> Self {
        Self { turn, ..self }
    }

    /// A verdict of the source `user`.
    pub fn record(self) -> RewardRecord {
        let turn = self.turn.iter().map(|turn| ("turn".to_owned(), turn.to_string()));
        // A correction alone is no answer to the question of a score, and replaces none.
        let alone = self.score.is_none().then(|| ("kind".to_owned(), CORRECTION.to_owned()));
        let options: Attributes = turn.chain(alone).collect();
        let correction = self.correction.unwrap_or_default();
        let verdict = match self.score {
            None => Verdict::NotApplicable(correction),
            Some(score) => {
                let extra = (!correction.is_empty()).then(|| (CORRECTION.to_owned(), correction));
                let extra = extra.into_iter().collect();
                Verdict::Scored(ScoreCard { rationale: self.text, extra, ..ScoreCard::plain(score) })
            }
        };
        RewardRecord {
            reward: Self::identity(),
            options_digest: Digest::of_json(&serde_json::json!(options)),
            options,
            judge: None,
            grants: crate::Grants::default(),
            group_digest: None,
            seed: 0,
            source: RewardSource::User,
            weight: 1.0,
            post_hoc: false,
            verdict,
            later: None,
            log: Vec::new(),
            journal: Vec::new(),
        }
    }

    /// The plugin identity of feedback, which has no plugin.
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
