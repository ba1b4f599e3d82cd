//! The content root of a run: one digest over the content of its episodes.
//!
//! It depends neither on the order of commits nor on what differs between equal runs: the id of the run, times, durations,
//! and reports of traps, which belong to the machine. So an interrupted run has the root of an uninterrupted one. Verdicts that
//! were added later are not part of it: it is the content as it was recorded.

use crate::{Digest, Ending, Episode, Failure, Verdict};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Begins what is hashed, so that no other digest of this program has the same input.
const OF_EPISODES: &[u8] = b"clawhost content root of episodes 1\n";
const OF_PHASES: &[u8] = b"clawhost content root of phases 1\n";

/// The digest of an episode's content, as it was recorded.
pub fn content_digest(episode: &Episode) -> Digest {
    let mut content = Episode { artefacts: Vec::new(), ..episode.as_recorded() };
    for expected in &mut content.expects {
        expected.until = expected.until.saturating_sub(episode.created_at);
    }
    for turn in &mut content.turns {
        turn.timing = crate::TurnTiming::default();
    }
    if let Ending::Failed(failure) = &mut content.ending {
        without_report(failure);
    }
    for record in &mut content.verdicts {
        // It names the run. Which episodes were judged together follows from their groups.
        record.group_digest = record.group_digest.map(|_| Digest::of(b"group"));
        if let Verdict::Failed(failure) = &mut record.verdict {
            without_report(failure);
        }
    }
    // A value that cannot be written as JSON cannot be recorded either.
    let mut document = serde_json::to_value(&content).unwrap_or(Value::Null);
    if let Some(fields) = document.as_object_mut() {
        without_identity(fields);
        let artefacts = episode.artefacts.iter().map(|artefact| {
            let (name, media_type, extra) = (&artefact.name, &artefact.media_type, &artefact.extra);
            serde_json::json!([name, media_type, extra, Digest::of(&artefact.bytes)])
        });
        fields.insert("artefacts".to_owned(), artefacts.collect());
    }
    Digest::of_json(&document)
}

fn without_report(failure: &mut Failure) {
    failure.report = None;
}

fn without_identity(fields: &mut Map<String, Value>) {
    for name in ["run", "created_at"] {
        fields.remove(name);
    }
}

/// The content root of a run, from the group, the index and the content of each episode, in any order.
pub fn content_root(episodes: impl IntoIterator<Item = (u64, u64, Digest)>) -> Digest {
    let mut episodes: Vec<(u64, u64, Digest)> = episodes.into_iter().collect();
    episodes.sort_unstable();
    let mut all = OF_EPISODES.to_vec();
    for (group, index, digest) in episodes {
        all.extend_from_slice(&group.to_be_bytes());
        all.extend_from_slice(&index.to_be_bytes());
        all.extend_from_slice(digest.as_bytes());
    }
    Digest::of(&all)
}

/// The content root in the summary of a run.
pub fn recorded_root(summary: &Value) -> Option<Digest> {
    summary.get("content_root")?.as_str()?.parse().ok()
}

/// The content root of a run that consists of phases, from the root of each phase by its name.
pub fn content_root_of_phases(phases: &BTreeMap<String, Digest>) -> Digest {
    let mut all = OF_PHASES.to_vec();
    for (name, digest) in phases {
        all.extend_from_slice(&(name.len() as u64).to_be_bytes());
        all.extend_from_slice(name.as_bytes());
        all.extend_from_slice(digest.as_bytes());
    }
    Digest::of(&all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        EpisodeId, ExpectedVerdict, FailureKind, Feedback, RewardRule, RewardSource, RunId, TrapReport, admit,
    };

    fn golden() -> Episode {
        serde_json::from_str(include_str!("../../../tests/golden/episode-2.json")).unwrap()
    }

    fn of(change: impl FnOnce(&mut Episode)) -> Digest {
        let mut episode = golden();
        change(&mut episode);
        content_digest(&episode)
    }

    #[test]
    fn what_differs_between_equal_runs_is_no_content() {
        let same = of(|_| {});
        assert_eq!(of(|e| e.run = RunId("run-other".into())), same, "the run");
        assert_eq!(of(|e| e.created_at += 1), same, "the time");
        let judged_with = |group: Option<&[u8]>| of(|e| e.verdicts[0].group_digest = group.map(Digest::of));
        assert_eq!(judged_with(Some(b"run-a")), judged_with(Some(b"run-b")), "the run in the digest of a group");
        assert_ne!(judged_with(Some(b"run-a")), judged_with(None), "whether a group was judged");
        assert_eq!(of(|e| e.turns[0].timing.policy_us += 17), same, "the durations");
        let waits = |at: u64| {
            of(|e| {
                e.created_at = at;
                e.expects = vec![ExpectedVerdict { source: RewardSource::User, until: at + 50 }];
            })
        };
        assert_eq!(waits(10), waits(1_000), "the deadline of a verdict");
        let failed = |report: Option<Box<TrapReport>>| {
            let failure = Failure { report, ..Failure::new(FailureKind::Trap, crate::code::TRAP, "x") };
            of(|e| e.ending = Ending::Failed(failure))
        };
        let failed_golden = include_str!("../../../tests/golden/episode-2-failed.json");
        let episode: Episode = serde_json::from_str(failed_golden).unwrap();
        let Ending::Failed(Failure { report, .. }) = episode.ending else { panic!("it has failed") };
        assert!(report.is_some());
        assert_eq!(failed(report), failed(None), "the report of a trap");
    }

    #[test]
    fn a_later_verdict_is_no_content() {
        let later = of(|e| {
            let rule = RewardRule { is_live: false, expects: &[] };
            admit(Feedback::new(-1.0, "no").unwrap().record(), (9, None), rule, &mut e.verdicts);
            e.reward = Some(-1.0);
        });
        assert_eq!(later, of(|_| {}));
    }

    #[test]
    fn every_other_part_is_content() {
        let same = of(|_| {});
        let all = [
            of(|e| e.id = EpisodeId("ep-other".into())),
            of(|e| e.index += 1),
            of(|e| e.task.input = "another".into()),
            of(|e| e.turns[0].fuel = Some(1)),
            of(|e| e.ending = Ending::Truncated("x".into())),
            of(|e| e.verdicts.clear()),
            of(|e| e.log.push("line".into())),
            of(|e| {
                let (name, media_type) = ("a".to_owned(), "b".to_owned());
                e.artefacts.push(crate::Artefact { name, media_type, bytes: vec![1], extra: Vec::new() });
            }),
        ];
        all.iter().for_each(|other| assert_ne!(*other, same));
        let unlike: std::collections::BTreeSet<&Digest> = all.iter().collect();
        assert_eq!(unlike.len(), all.len());
    }

    #[test]
    fn the_root_does_not_depend_on_the_order_of_commits() {
        let [a, b, c] = [b"a", b"b", b"c"].map(|bytes| Digest::of(bytes));
        let root = content_root([(0, 0, a), (0, 1, b), (1, 2, c)]);
        assert_eq!(content_root([(1, 2, c), (0, 1, b), (0, 0, a)]), root);
        assert_ne!(content_root([(0, 0, a), (0, 1, b)]), root, "an episode less");
        assert_ne!(content_root([(0, 0, b), (0, 1, a), (1, 2, c)]), root, "two are exchanged");
        assert_ne!(content_root([(0, 0, a), (1, 1, b), (1, 2, c)]), root, "another group");
        let phases =
            |names: [&str; 2]| content_root_of_phases(&names.map(str::to_owned).into_iter().zip([a, b]).collect());
        assert_ne!(phases(["x", "y"]), phases(["y", "x"]));
    }
}
