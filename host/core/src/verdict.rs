//! Verdicts: results of rewards, and the effective reward that learning uses.
//!
//! Several rewards may score an episode. Each has a *source*; the most reliable source with a result decides: user, outcome,
//! execution (with sufficient confidence), judge. Within a source the weighted mean counts.

use crate::{Attributes, Digest, Failure, Grants, JournalEntry, PluginIdentity, RewardSource, Signal};
use serde::{Deserialize, Serialize};

/// A score with details. All numbers are finite, and `value` is within the reward's declared range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreCard {
    /// The reward, -1 to 1.
    pub value: f64,
    /// Confidence, 0 to 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub confidence: f64,
    /// Components of the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Signal>,
    /// Explanation for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rationale: String,
    /// One value per turn, or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_turn: Vec<f64>,
    /// Extension fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

impl ScoreCard {
    /// Bytes of its texts and numbers, as limits count them: a number has up to 24 characters.
    pub fn bytes(&self) -> usize {
        const NUMBER: usize = 24;
        let parts: usize = self.parts.iter().map(|part| part.name.len() + NUMBER).sum();
        let extra: usize = self.extra.iter().map(|(name, value)| name.len() + value.len()).sum();
        parts + extra + self.rationale.len() + self.per_turn.len() * NUMBER
    }

    /// A value without details.
    pub fn plain(value: f64) -> Self {
        Self {
            value,
            confidence: 1.0,
            parts: Vec::new(),
            rationale: String::new(),
            per_turn: Vec::new(),
            extra: Vec::new(),
        }
    }
}

fn one() -> f64 {
    1.0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(value: &f64) -> bool {
    value.to_bits() == 1.0_f64.to_bits()
}

/// The result of a reward for one episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has a value.
    Scored(ScoreCard),
    /// The reward does not apply, for the reason in the text.
    NotApplicable(String),
    /// Scoring failed.
    Failed(Failure),
}

/// A verdict with everything it depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RewardRecord {
    /// The reward plugin.
    pub reward: PluginIdentity,
    /// Options of the reward.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Attributes,
    /// Digest of the options.
    pub options_digest: Digest,
    /// The model that judged, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Grants of the reward.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
    /// Digest of the ordered group, for scope `group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_digest: Option<Digest>,
    /// Seed of the reward's instance.
    #[serde(default)]
    pub seed: u64,
    /// Source of the judgement.
    #[serde(default)]
    pub source: RewardSource,
    /// Weight among verdicts of its source; with 0 it is recorded but does not decide.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: f64,
    /// Whether it was added for analysis, and is not part of the episode's reward.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub post_hoc: bool,
    /// The result.
    pub verdict: Verdict,
    /// When and how it was added; `None` if it was recorded with its episode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub later: Option<LaterVerdict>,
    /// Log lines of the reward. For scope `group` only in the record of the group's first episode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Model answers to the reward, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journal: Vec<JournalEntry>,
}

/// Data of a verdict that was added to a recorded episode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaterVerdict {
    /// Number of the revision that it created, from 1.
    pub revision: u32,
    /// Unix time in milliseconds.
    pub at: u64,
    /// The caller's id of the verdict, for idempotence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The question that a verdict answers. The last verdict on a question is valid; earlier ones are history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Digest of the reward plugin.
    pub reward: Digest,
    /// Digest of its options.
    pub options: Digest,
    /// The model that judges, if there is one.
    pub judge: Option<String>,
    /// Digest of the ordered group, for scope `group`.
    pub group: Option<Digest>,
}

impl RewardRecord {
    /// The question that it answers.
    pub fn question(&self) -> Question {
        let (reward, options) = (self.reward.digest, self.options_digest);
        Question { reward, options, judge: self.judge.clone(), group: self.group_digest }
    }

    /// Whether both answer the same question, so that the later one replaces the other.
    pub fn is_about_the_same_as(&self, other: &Self) -> bool {
        self.question_ref() == other.question_ref()
    }

    fn question_ref(&self) -> (&Digest, &Digest, Option<&str>, Option<&Digest>) {
        (&self.reward.digest, &self.options_digest, self.judge.as_deref(), self.group_digest.as_ref())
    }

    /// Whether it is part of the episode's reward.
    pub fn counts(&self) -> bool {
        self.weight > 0.0 && !self.post_hoc
    }

    /// Whether a person gave it.
    pub fn is_feedback(&self) -> bool {
        self.reward == crate::Feedback::identity()
    }

    /// Whether scoring failed.
    pub fn failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }
}

/// An execution reward with lower confidence does not decide: it only matched words.
pub const EXECUTION_CONFIDENCE: f64 = 0.7;

/// The effective reward that learning uses. The first source with a result decides; within it, the weighted mean of the
/// scores. A failure within that source leaves the episode unscored, because a mean over the rest would be another quantity.
/// `None` is different from 0.
pub fn effective_reward(records: &[RewardRecord]) -> Option<f64> {
    let standing: Vec<&RewardRecord> = standing(records).collect();
    deciding(&standing).and_then(|(_, reward)| reward)
}

/// The source that decides among standing verdicts, with the reward that they give: see [`effective_reward`]. `None`: no source has a
/// result. Without a reward one of the deciding source failed.
pub fn deciding(standing: &[&RewardRecord]) -> Option<(RewardSource, Option<f64>)> {
    RewardSource::ALL.into_iter().find_map(|source| Some((source, of_source(standing, source)?)))
}

/// The verdicts that no later verdict on the same question replaces, in order.
pub fn standing(records: &[RewardRecord]) -> impl Iterator<Item = &RewardRecord> {
    records.iter().enumerate().filter_map(|(place, record)| {
        // Only later verdicts can replace others, so the common case compares nothing.
        let mut later = records.iter().skip(place + 1).filter(|other| other.later.is_some());
        let question = record.question_ref();
        (!later.any(|other| other.question_ref() == question)).then_some(record)
    })
}

/// `None`: the source has no result. `Some(None)`: one of its rewards failed.
fn of_source(records: &[&RewardRecord], source: RewardSource) -> Option<Option<f64>> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for record in records.iter().filter(|record| record.source == source && record.counts()) {
        match &record.verdict {
            Verdict::Scored(card) if source == RewardSource::Execution && card.confidence < EXECUTION_CONFIDENCE => {}
            Verdict::Scored(card) => {
                sum += card.value * record.weight;
                weights += record.weight;
            }
            Verdict::NotApplicable(_) => {}
            Verdict::Failed(_) => return Some(None),
        }
    }
    (weights > 0.0).then(|| Some(sum / weights))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureKind;

    fn card(value: f64, confidence: f64) -> Verdict {
        let (parts, rationale, per_turn, extra) = (vec![], String::new(), vec![], vec![]);
        Verdict::Scored(ScoreCard { value, confidence, parts, rationale, per_turn, extra })
    }

    fn scored(value: f64) -> Verdict {
        card(value, 1.0)
    }

    fn failed() -> Verdict {
        Verdict::Failed(Failure::new(FailureKind::Trap, crate::code::TRAP, "trapped"))
    }

    fn silent() -> Verdict {
        Verdict::NotApplicable("nothing to say".into())
    }

    fn record(source: RewardSource, weight: f64, verdict: Verdict) -> RewardRecord {
        RewardRecord {
            reward: PluginIdentity { name: "r".into(), version: "1".into(), digest: Digest::of(b"r") },
            options: vec![],
            options_digest: Digest::of(b""),
            judge: None,
            grants: Grants::default(),
            group_digest: None,
            seed: 0,
            source,
            weight,
            post_hoc: false,
            verdict,
            later: None,
            log: vec![],
            journal: vec![],
        }
    }

    fn check(records: &[(RewardSource, f64, Verdict)], expected: Option<f64>) {
        let records: Vec<_> =
            records.iter().map(|(source, weight, verdict)| record(*source, *weight, verdict.clone())).collect();
        assert_eq!(effective_reward(&records), expected, "{records:?}");
    }

    use RewardSource::{Execution, Judge, Outcome, User};

    #[test]
    fn without_a_score_there_is_no_reward() {
        check(&[], None);
        check(&[(Outcome, 1.0, silent())], None);
        check(&[(Outcome, 1.0, failed())], None);
        check(&[(Outcome, 1.0, scored(1.0)), (Outcome, 1.0, failed())], None);
        check(&[(Outcome, 1.0, scored(1.0)), (Outcome, 1.0, silent())], Some(1.0));
        check(&[(Outcome, 1.0, scored(1.0)), (Outcome, 1.0, scored(0.0)), (Outcome, 1.0, silent())], Some(0.5));
        check(&[(Outcome, 0.0, scored(1.0))], None);
        check(&[(Execution, 1.0, card(1.0, 0.69))], None);
    }

    #[test]
    fn the_most_reliable_source_with_a_result_decides() {
        check(&[(Judge, 1.0, scored(-1.0)), (Outcome, 1.0, scored(0.5)), (User, 1.0, scored(-0.5))], Some(-0.5));
        check(&[(Judge, 1.0, scored(-1.0)), (Execution, 1.0, scored(1.0)), (Outcome, 1.0, scored(0.5))], Some(0.5));
        check(&[(Judge, 1.0, scored(-1.0)), (Execution, 1.0, card(1.0, 0.7))], Some(1.0));
        check(&[(Judge, 1.0, scored(-1.0)), (Execution, 1.0, card(1.0, 0.6))], Some(-1.0));
        check(&[(Judge, 1.0, scored(0.25)), (Outcome, 1.0, silent())], Some(0.25));
        // A failure in the deciding source is not replaced by a less reliable source; failures below it do not matter.
        check(&[(Judge, 1.0, scored(0.25)), (Outcome, 1.0, failed())], None);
        check(&[(Judge, 1.0, failed()), (Outcome, 1.0, scored(0.5))], Some(0.5));
    }

    #[test]
    fn weights_apply_within_a_source() {
        check(&[(Outcome, 3.0, scored(1.0)), (Outcome, 1.0, scored(0.0))], Some(0.75));
        check(&[(Outcome, 1.0, scored(0.2)), (Outcome, 0.0, scored(1.0))], Some(0.2));
        check(&[(Outcome, 1.0, scored(0.2)), (Outcome, 0.0, failed())], Some(0.2));
        check(&[(Outcome, 1.0, scored(0.2)), (Judge, 100.0, scored(1.0))], Some(0.2));
    }

    #[test]
    fn post_hoc_verdicts_do_not_change_the_reward() {
        let mut later = record(Outcome, 1.0, scored(0.0));
        later.post_hoc = true;
        assert_eq!(effective_reward(&[record(Outcome, 1.0, scored(1.0)), later.clone()]), Some(1.0));
        assert_eq!(effective_reward(&[later]), None);
    }
}
