//! Episodes in a bundle: one line of canonical JSON each, without what differs between equal runs.

use clawhost_core::{Digest, Ending, Episode, Failure, RunId, TurnTiming, Verdict, canonical_json, content_digest};
use clawhost_play::group_digest;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is left of an episode whose content is private.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DigestOnly {
    /// Its run or phase.
    pub(super) run: RunId,
    /// Its position in the run.
    pub(super) index: u64,
    /// Its group in the run.
    pub(super) group: u64,
    /// The key of its task.
    pub(super) task: String,
    /// Its reward.
    pub(super) reward: Option<f64>,
    /// The digest of its content.
    pub(super) content: Digest,
}

/// A line of a part of the episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    /// The episode with everything.
    Whole(Box<Episode>),
    /// The episode without the reference of its task, which its environment knows.
    WithoutReference(Box<Episode>),
    /// Only its digest and its reward.
    DigestOnly(DigestOnly),
}

impl Line {
    /// As a line of text.
    pub(super) fn text(&self) -> String {
        canonical_json(&serde_json::json!(self))
    }
}

/// How much of an episode is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packed {
    /// Everything.
    Whole,
    /// Everything but references.
    WithoutReferences,
    /// Digests: its prompt is the operator's.
    Digests,
}

impl Packed {
    /// The lines of a group.
    pub(super) fn lines(self, group: Vec<Arc<Episode>>) -> impl Iterator<Item = Line> {
        group.into_iter().map(move |episode| {
            let mut episode = Box::new(Arc::unwrap_or_clone(episode));
            match self {
                Self::Digests => Line::DigestOnly(DigestOnly {
                    run: episode.run.clone(),
                    index: episode.index,
                    group: episode.group(),
                    task: episode.task.key(),
                    reward: episode.reward,
                    content: content_digest(&episode),
                }),
                Self::WithoutReferences if episode.task.reference.is_some() => {
                    episode.task.reference = None;
                    Line::WithoutReference(episode)
                }
                Self::Whole | Self::WithoutReferences => Line::Whole(episode),
            }
        })
    }
}

/// The episodes of a group as they were recorded, under another run's id and without what differs between equal runs.
pub(super) fn canonical(group: Vec<Episode>, run: &RunId) -> Vec<Arc<Episode>> {
    let complete = |group: &[Arc<Episode>]| -> Vec<Arc<Episode>> {
        group.iter().filter(|episode| episode.ending.is_complete()).cloned().collect()
    };
    let before: Vec<Arc<Episode>> = group.iter().map(|episode| Arc::new(episode.as_recorded())).collect();
    let judged = group_digest(&complete(&before));
    let mut renamed: Vec<Arc<Episode>> = before.iter().map(|episode| Arc::new(plain(episode, run))).collect();
    let now = group_digest(&complete(&renamed));
    for episode in &mut renamed {
        let of_group = |digest: &Option<Digest>| *digest == Some(judged);
        if episode.verdicts.iter().any(|record| of_group(&record.group_digest)) {
            let of = Arc::make_mut(episode).verdicts.iter_mut();
            of.filter(|record| of_group(&record.group_digest)).for_each(|record| record.group_digest = Some(now));
        }
    }
    renamed
}

fn plain(episode: &Episode, run: &RunId) -> Episode {
    let mut plain = Episode { run: run.clone(), created_at: 0, ..episode.clone() };
    for expected in &mut plain.expects {
        expected.until = expected.until.saturating_sub(episode.created_at);
    }
    plain.turns.iter_mut().for_each(|turn| turn.timing = TurnTiming::default());
    let without_report = |failure: &mut Failure| failure.report = None;
    if let Ending::Failed(failure) = &mut plain.ending {
        without_report(failure);
    }
    for record in &mut plain.verdicts {
        if let Verdict::Failed(failure) = &mut record.verdict {
            without_report(failure);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> Episode {
        serde_json::from_str(include_str!("../../../../tests/golden/episode-2.json")).unwrap()
    }

    fn run() -> RunId {
        RunId("run-0".into())
    }

    #[test]
    fn a_packed_episode_has_the_content_of_the_recorded_one() {
        let recorded = golden();
        let packed = canonical(vec![recorded.clone()], &run());
        assert_eq!(content_digest(&packed[0]), content_digest(&recorded));
        assert_eq!((packed[0].run.clone(), packed[0].created_at), (run(), 0));
    }

    #[test]
    fn equal_episodes_of_other_runs_and_times_give_equal_lines() {
        let mut later = golden();
        later.run = RunId("run-later".into());
        later.created_at += 5;
        later.turns.iter_mut().for_each(|turn| turn.timing.policy_us += 7);
        let line = |episode: Episode| -> Vec<String> {
            Packed::Whole.lines(canonical(vec![episode], &run())).map(|line| line.text()).collect()
        };
        assert_eq!(line(later), line(golden()));
    }

    #[test]
    fn what_is_private_is_left_out() {
        let mut secret = golden();
        secret.task.reference = Some("a secret answer".into());
        let text = |packed: Packed| -> String {
            packed.lines(canonical(vec![secret.clone()], &run())).map(|line| line.text()).collect()
        };
        assert!(text(Packed::Whole).contains("a secret answer"));
        assert!(!text(Packed::WithoutReferences).contains("a secret answer"));
        assert!(text(Packed::WithoutReferences).starts_with("{\"without_reference\""));
        let digests = text(Packed::Digests);
        assert!(digests.starts_with("{\"digest_only\"") && digests.len() < 400, "{digests}");
    }
}
