//! Verdicts: what rewards said.

use crate::{Attributes, Digest, Failure, PluginIdentity, Signal};
use serde::{Deserialize, Serialize};

/// A judgement in numbers. All of them finite, `value` inside the range the reward declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreCard {
    /// The reward.
    pub value: f64,
    /// What it is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Signal>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rationale: String,
    /// One value per turn, or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_turn: Vec<f64>,
    /// Room to grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

/// What a reward said about one episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has a value.
    Scored(ScoreCard),
    /// The reward has nothing to say about it.
    NotApplicable(String),
    /// It could not be judged.
    Failed(Failure),
}

/// A verdict with what it depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RewardRecord {
    /// The reward plugin.
    pub reward: PluginIdentity,
    /// Digest of the options it was given.
    pub options_digest: Digest,
    /// The model that judged, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Digest of the ordered group, for rewards of scope `group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_digest: Option<Digest>,
    /// What it said.
    pub verdict: Verdict,
}

/// The one number that learning sees: the mean of the rewards that scored. Rewards with nothing to say are left out; one
/// that failed leaves the episode unscored, since a mean over the rest would be another quantity. `None` is never 0.
pub fn effective_reward(records: &[RewardRecord]) -> Option<f64> {
    let mut sum = 0.0;
    let mut count = 0u32;
    for record in records {
        match &record.verdict {
            Verdict::Scored(card) => {
                sum += card.value;
                count += 1;
            }
            Verdict::NotApplicable(_) => {}
            Verdict::Failed(_) => return None,
        }
    }
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureKind;

    fn scored(value: f64) -> Verdict {
        Verdict::Scored(ScoreCard { value, parts: vec![], rationale: String::new(), per_turn: vec![], extra: vec![] })
    }

    fn check(verdicts: &[Verdict], expected: Option<f64>) {
        let records: Vec<_> = verdicts
            .iter()
            .map(|verdict| RewardRecord {
                reward: PluginIdentity { name: "r".into(), version: "1".into(), digest: Digest::of(b"r") },
                options_digest: Digest::of(b""),
                judge: None,
                group_digest: None,
                verdict: verdict.clone(),
            })
            .collect();
        assert_eq!(effective_reward(&records), expected, "{verdicts:?}");
    }

    #[test]
    fn not_scored_is_never_a_number() {
        let silent = Verdict::NotApplicable("nothing to say".into());
        let failed = Verdict::Failed(Failure::new(FailureKind::Trap, crate::code::TRAP, "trapped"));
        check(&[], None);
        check(std::slice::from_ref(&silent), None);
        check(std::slice::from_ref(&failed), None);
        check(&[scored(1.0), failed], None);
        check(&[scored(1.0), silent.clone()], Some(1.0));
        check(&[scored(1.0), scored(0.0), silent], Some(0.5));
    }
}
