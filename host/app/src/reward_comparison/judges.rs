//! The judges of a comparison: rewards, and what is stored with episodes already.

use super::cost::JudgeCost;
use crate::AppError;
use crate::plugins::plugin_spec;
use crate::score::RewardInUse;
use clawhost_core::{Digest, Episode, RewardRecord, RewardSource, Verdict, deciding, standing};
use clawhost_play::Answer;
use clawhost_run_config::PluginSpec;
use serde::Serialize;
use std::collections::BTreeMap;

/// A reward with its options: their digests.
pub(super) type RewardKey = (Digest, Digest);

/// The second judge of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum Against {
    /// Another reward, which is asked where it has no verdict yet.
    Reward(PluginSpec),
    /// The reward of each episode as learning uses it, without the verdicts of the first judge. Nothing is asked.
    Own,
    /// What people said about the episode: the mean of their scores. Nothing is asked.
    Feedback,
}

impl Against {
    /// The word for [`Against::Own`].
    pub const OWN: &'static str = "own";
    /// The word for [`Against::Feedback`].
    pub const FEEDBACK: &'static str = "feedback";

    /// Parses a judge: one of the words, or a plugin as [`plugin_spec`] reads it. A file with the name of a word is written with a folder.
    ///
    /// # Errors
    /// The text is not a plugin.
    pub fn parse(text: &str) -> Result<Self, AppError> {
        Ok(match text {
            Self::OWN => Self::Own,
            Self::FEEDBACK => Self::Feedback,
            text => Self::Reward(plugin_spec(text)?),
        })
    }
}

/// Who judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "judge", rename_all = "snake_case")]
pub enum JudgedBy {
    /// A reward.
    Reward(RewardInUse),
    /// The rewards of the runs.
    Own,
    /// People.
    Feedback,
}

impl JudgedBy {
    /// A judge that is no reward of this call.
    pub(super) fn of_stored(against: &Against) -> Self {
        if matches!(against, Against::Feedback) { Self::Feedback } else { Self::Own }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Reward(reward) => &reward.reward.name,
            Self::Own => Against::OWN,
            Self::Feedback => Against::FEEDBACK,
        }
    }
}

/// A judge with the range of its scores and what it cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedJudge {
    /// Who judged.
    #[serde(flatten)]
    pub judge: JudgedBy,
    /// The least and the greatest score that it declares.
    pub range: (f64, f64),
    /// What it cost.
    pub cost: JudgeCost,
}

/// What stored verdicts say about an episode.
pub(super) struct Stored<'a> {
    pub(super) answer: Answer,
    /// The verdicts behind it.
    pub(super) records: Vec<&'a RewardRecord>,
    pub(super) decided_by: Option<RewardSource>,
}

fn key(record: &RewardRecord) -> RewardKey {
    (record.reward.digest, record.options_digest)
}

/// What stored verdicts say, without those of a reward.
pub(super) fn stored<'a>(against: &Against, episode: &'a Episode, without: Option<&RewardKey>) -> Stored<'a> {
    let is_counted = |record: &&RewardRecord| match against {
        Against::Feedback => record.is_feedback(),
        Against::Own | Against::Reward(_) => record.counts() && without != Some(&key(record)),
    };
    let records: Vec<&RewardRecord> = standing(&episode.verdicts).filter(is_counted).collect();
    match deciding(&records) {
        None => {
            let is_silent = records.iter().any(|record| matches!(record.verdict, Verdict::NotApplicable(_)));
            let answer = if is_silent { Answer::NotApplicable } else { Answer::Missing };
            Stored { answer, records: Vec::new(), decided_by: None }
        }
        Some((source, reward)) => Stored {
            answer: reward.map_or(Answer::Failed, Answer::Scored),
            records: records.into_iter().filter(|record| record.source == source).collect(),
            decided_by: Some(source),
        },
    }
}

/// The rewards that decided episodes, one record for each.
#[derive(Default)]
pub(super) struct OwnRange(BTreeMap<Digest, RewardRecord>);

impl OwnRange {
    pub(super) fn add(&mut self, records: &[&RewardRecord]) {
        for record in records {
            self.0.entry(record.reward.digest).or_insert_with(|| RewardRecord {
                log: Vec::new(),
                journal: Vec::new(),
                ..(*record).clone()
            });
        }
    }

    pub(super) fn into_records(self) -> impl Iterator<Item = RewardRecord> {
        self.0.into_values()
    }
}

/// The rationale of a judge for its score of an episode. Empty: there is none.
pub(super) fn rationale(judge: &JudgedBy, episode: &Episode, score: f64, first: Option<&RewardKey>) -> String {
    let said = |record: &RewardRecord| match &record.verdict {
        Verdict::Scored(card) => Some((card.value, card.rationale.clone())),
        Verdict::NotApplicable(_) | Verdict::Failed(_) => None,
    };
    let against = match judge {
        JudgedBy::Reward(reward) => {
            let options = Digest::of_json(&serde_json::json!(reward.options));
            let wanted = (reward.reward.digest, options);
            // One component may have asked several models: the verdict with this score is meant.
            let mut scores = standing(&episode.verdicts).filter(|record| key(record) == wanted).filter_map(said);
            return scores.find(|(value, _)| value.total_cmp(&score).is_eq()).map(|(_, text)| text).unwrap_or_default();
        }
        JudgedBy::Own => Against::Own,
        JudgedBy::Feedback => Against::Feedback,
    };
    let records = stored(&against, episode, first).records;
    let texts = records.iter().filter_map(|record| {
        let (_, text) = said(record).filter(|(_, text)| !text.is_empty())?;
        Some(if records.len() > 1 { format!("{}: {text}", record.reward.name) } else { text })
    });
    texts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Feedback, PluginIdentity, ScoreCard};

    fn record(name: &str, source: RewardSource, verdict: Verdict) -> RewardRecord {
        let of_person = Feedback::correction("").unwrap().record();
        let reward = PluginIdentity { name: name.into(), version: "1".into(), digest: Digest::of(name.as_bytes()) };
        let (options, options_digest) = (vec![], Digest::of_json(&serde_json::json!([])));
        RewardRecord { reward, options, options_digest, source, verdict, ..of_person }
    }

    fn scored(value: f64, rationale: &str) -> Verdict {
        Verdict::Scored(ScoreCard { rationale: rationale.into(), ..ScoreCard::plain(value) })
    }

    fn episode(verdicts: Vec<RewardRecord>) -> Episode {
        let golden = include_str!("../../../../tests/golden/episode-2.json");
        Episode { verdicts, ..serde_json::from_str(golden).unwrap() }
    }

    use RewardSource::{Judge, Outcome};

    #[test]
    fn a_word_or_a_plugin_is_a_judge() {
        let check = |text: &str, expect: &str| {
            let found = match Against::parse(text).unwrap() {
                Against::Own => "the own reward".to_owned(),
                Against::Feedback => "people".to_owned(),
                Against::Reward(spec) => spec.path,
            };
            assert_eq!(found, expect);
        };
        check("own", "the own reward");
        check("feedback", "people");
        check("./own", "./own");
        check("r.wasm?tolerance=1", "r.wasm");
    }

    #[test]
    fn the_own_reward_is_that_of_the_deciding_source_without_the_compared_reward() {
        let first = record("first", Outcome, scored(1.0, "right"));
        let compared = key(&first);
        let check = |others: Vec<RewardRecord>, expect: Answer, decided_by: Option<RewardSource>, says: &str| {
            let episode = episode([vec![first.clone()], others].concat());
            let found = stored(&Against::Own, &episode, Some(&compared));
            assert_eq!((found.answer, found.decided_by), (expect, decided_by), "{says}");
            assert_eq!(rationale(&JudgedBy::Own, &episode, 0.0, Some(&compared)), says);
        };
        check(vec![], Answer::Missing, None, "");
        check(vec![record("judge", Judge, scored(0.25, "so so"))], Answer::Scored(0.25), Some(Judge), "so so");
        let two = vec![record("x", Outcome, scored(0.0, "no")), record("y", Outcome, scored(1.0, "yes"))];
        check(two, Answer::Scored(0.5), Some(Outcome), "x: no; y: yes");
        let silent = record("judge", Judge, Verdict::NotApplicable("nothing to say".into()));
        check(vec![silent], Answer::NotApplicable, None, "");
        let post_hoc = RewardRecord { post_hoc: true, ..record("later", Outcome, scored(0.0, "no")) };
        check(vec![post_hoc], Answer::Missing, None, "");
        let person = Feedback::new(-1.0, "wrong tone").unwrap().record();
        check(vec![person], Answer::Scored(-1.0), Some(RewardSource::User), "wrong tone");
    }

    #[test]
    fn feedback_is_the_mean_of_what_people_said_and_nothing_else() {
        let person =
            |score: f64, turn: u32| Feedback::new(score, format!("turn {turn}")).unwrap().at_turn(Some(turn)).record();
        let check = |verdicts: Vec<RewardRecord>, expect: Answer| {
            assert_eq!(stored(&Against::Feedback, &episode(verdicts), None).answer, expect);
        };
        check(vec![record("judge", Judge, scored(1.0, ""))], Answer::Missing);
        check(vec![person(1.0, 0), person(-0.5, 1), record("judge", Judge, scored(1.0, ""))], Answer::Scored(0.25));
        check(vec![Feedback::correction("say it so").unwrap().record()], Answer::NotApplicable);
    }
}
