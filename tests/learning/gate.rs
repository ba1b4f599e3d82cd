//! The gate never promotes a candidate that is not better.

use super::lessons::status;
use crate::world::*;
use clawhost_core::{Digest, Episode};
use clawhost_learn::gate::Decision;
use clawhost_learning::{GatePlan, GateReport, LearnReport};
use clawhost_play::{Plan, StopReason};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn gates(report: &LearnReport) -> Vec<&GateReport> {
    report.iterations.iter().filter_map(|iteration| iteration.gate()).collect()
}

fn longer() -> WorldPlan {
    WorldPlan { iterations: 8, ..small() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_helps_in_training_only_is_rejected() {
    // On tasks of other splits, waiting is always right.
    let wanted = |split: &str, colour: &str| if split == "train" { right(colour) } else { "wait" };
    let world = World { environment: Arc::new(Lights { wanted, ..Lights::default() }), ..World::usual() };
    let report = world.learn(&longer()).await;
    let gates = gates(&report);
    assert!(gates.len() > 1 && gates.iter().all(|gate| gate.decision == Decision::Futile), "{gates:#?}");
    let numbers: Vec<u32> = gates.iter().map(|gate| gate.candidate).collect();
    assert_eq!(numbers, (1..=gates.len() as u32).collect::<Vec<_>>(), "candidates are numbered");
    assert!(gates.windows(2).all(|pair| pair[0].evidence.threshold < pair[1].evidence.threshold));
    assert!(gates.iter().all(|gate| gate.alike < gate.evidence.pairs), "{gates:#?}");
    assert!(world.deployed().is_empty());
    assert_ne!(status(&report, RED), "deployed");
    assert_eq!(report.evaluation.unwrap().lift.unwrap().mean, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_fails_instead_of_losing_is_rejected() {
    // The trained action fails on the gate's tasks: those pairs are lost.
    let breaks = |split: &str, action: &str| split == "val" && action == "stop";
    let world =
        World { environment: Arc::new(Lights { breaks, ..Lights::default() }), ..World::new(Proposer::of(&[RED])) };
    // Failures of one arm are left to the gate and do not stop the run.
    let play = Plan { failure_budget: 0.1, ..small().play };
    let report = world.learn(&WorldPlan { play, ..longer() }).await;
    assert_eq!(report.stopped, None);
    let gates = gates(&report);
    assert!(!gates.is_empty() && gates.iter().all(|gate| gate.decision == Decision::Futile), "{gates:#?}");
    let missing = gates[0].missing;
    assert_eq!((missing.before, missing.after, missing.both), (0, gates[0].evidence.losses, 0));
    assert!(missing.after >= 8 && gates[0].evidence.wins == 0, "{gates:#?}");
    assert!(world.deployed().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_at_which_everything_fails_stops_the_run() {
    let breaks = |split: &str, _: &str| split == "val";
    let world = World { environment: Arc::new(Lights { breaks, ..Lights::default() }), ..World::usual() };
    let play = Plan { failure_budget: 0.1, ..small().play };
    let report = world.learn(&WorldPlan { play, ..longer() }).await;
    assert!(matches!(report.stopped, Some(StopReason::FailureBudget { .. })), "{:?}", report.stopped);
}

/// A world in which the gate sees no effect before this many pairs.
fn blind(from: u64) -> Lights {
    let colour = match from {
        0 => |split: &str, position: u64| if split == "val" { "grey" } else { COLOURS[position as usize % 4] },
        _ => |split: &str, position: u64| match (split, position) {
            ("val", ..64) => "grey",
            _ => COLOURS[position as usize % 4],
        },
    };
    Lights { colour, ..Lights::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecided_candidate_is_not_deployed_and_its_evidence_is_continued() {
    let world = World { environment: Arc::new(blind(0)), ..World::new(Proposer::of(&[RED, GREEN])) };
    let report = world.learn(&longer()).await;
    let gates = gates(&report);
    assert!(gates.len() >= 2 && gates.iter().all(|gate| gate.decision == Decision::Undecided), "{gates:#?}");
    let first = &gates[..2];
    assert!(first.iter().all(|gate| gate.candidate == 1 && gate.playbook == gates[0].playbook), "{gates:#?}");
    assert_eq!([first[0].evidence.pairs, first[1].evidence.pairs], [64, 128], "its evidence is continued");
    assert!(world.deployed().is_empty());
    let alike: Vec<u64> = gates[..2].iter().map(|gate| gate.alike).collect();
    assert_eq!(alike, [64, 128], "in all pairs both sides acted alike");
    let uses = &gates[1].uses;
    assert_eq!(uses.iter().map(|one| one.lesson.as_str()).collect::<Vec<_>>(), [RED, GREEN]);
    assert!(uses.iter().all(|one| (one.usage.episodes, one.usage.applied) == (128, Some(0))), "{uses:#?}");
    let why = "no observation states `colour: red`; values seen for colour: grey";
    assert_eq!(uses[0].usage.why_dead().as_deref(), Some(why));
    // After two sessions it is abandoned.
    assert_eq!((status(&report, RED), status(&report, GREEN)), ("expired", "expired"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecided_candidate_is_promoted_once_there_is_an_effect() {
    let world = World { environment: Arc::new(blind(64)), ..World::new(Proposer::of(&[RED, GREEN])) };
    let report = world.learn(&longer()).await;
    let gates = gates(&report);
    assert_eq!(gates.iter().map(|gate| gate.decision).collect::<Vec<_>>(), [Decision::Undecided, Decision::Promote]);
    assert_eq!((gates[1].candidate, gates[1].evidence.pairs, gates[1].evidence.wins), (1, 96, 16));
    assert_eq!(gates[1].alike, 80, "sides that acted alike have equal rewards");
    assert!(gates[1].uses.iter().all(|one| one.usage.applied == Some(8)), "{:#?}", gates[1].uses);
    assert_eq!(world.deployed(), [GREEN, RED]);
}

/// Pairs of a phase, by their task and seed.
fn pairs(episodes: &[Episode]) -> BTreeMap<(String, u64), Vec<&Episode>> {
    let mut pairs: BTreeMap<_, Vec<&Episode>> = BTreeMap::new();
    for episode in episodes {
        pairs.entry((episode.task.id.clone(), episode.seed())).or_default().push(episode);
    }
    pairs
}

fn playbook_digest(episode: &Episode) -> Digest {
    episode.policy.playbook.as_ref().unwrap().digest
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_pair_differ_only_in_the_playbook_and_pairs_are_unique() {
    // Few tasks, so that tasks repeat; seeds do not.
    let environment = Lights::new(&[("train", 40), ("val", 5), ("test", 5)]);
    let world = World { environment: Arc::new(environment), ..World::usual() };
    let report = world.learn(&WorldPlan { iterations: 8, ..small() }).await;
    assert!(report.evaluation.is_some());
    for part in ["-gate-", ".test"] {
        let episodes = world.store.of_phases(part);
        let pairs = pairs(&episodes);
        assert!(pairs.len() >= 32, "{part}: {}", pairs.len());
        let text = |episode: &Episode| episode.policy.playbook.clone().unwrap().text;
        // Nothing is deployed initially: only the proposed playbook has texts.
        let proposed: BTreeSet<Digest> =
            episodes.iter().filter(|one| !text(one).is_empty()).map(playbook_digest).collect();
        let mut begins = BTreeSet::new();
        for ((task, seed), members) in &pairs {
            let [one, other] = members.as_slice() else { panic!("{part}: {task} with seed {seed} comes twice") };
            assert_eq!((one.index % 2, one.index + 1), (0, other.index));
            assert_eq!(one.policy.seed, other.policy.seed);
            let [first, second] = [one, other].map(|member| proposed.contains(&playbook_digest(member)));
            assert_ne!(first, second, "{part}: one of them plays the proposed playbook");
            begins.insert(first);
            assert_ne!(one.state_id, other.state_id);
            if text(one) == text(other) {
                assert_eq!(one.turns[0].action, other.turns[0].action);
            }
        }
        assert_eq!(begins.len(), 2, "{part}: each side begins in some pairs");
    }
    let seeds = |part: &str| -> BTreeSet<u64> { world.store.of_phases(part).iter().map(|one| one.seed()).collect() };
    let (train, val, test) = (seeds("-train"), seeds("-gate-"), seeds(".test"));
    assert!(train.is_disjoint(&val) && val.is_disjoint(&test) && train.is_disjoint(&test));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_reward_value_within_a_session_restarts_the_evidence() {
    let marks = Marks::by(|episode| {
        let odd = episode.run.0.contains("-gate-") && episode.group() > 8;
        Some(if is_right(episode) {
            1.0
        } else if odd {
            0.5
        } else {
            0.0
        })
    });
    let world = World { marks: Arc::new(marks), ..World::usual() };
    let plan = WorldPlan { gate: GatePlan { every: 1, pairs: 300, alpha: 0.05 }, ..small() };
    let report = world.learn(&plan).await;
    let gates = gates(&report);
    // The first looks used another form of bets: the candidate is counted again.
    assert_eq!((gates[0].candidate, gates[0].decision), (2, Decision::Promote), "{:#?}", gates[0]);
    assert!(gates[0].evidence.lift.unwrap() < 0.5 && gates[0].evidence.pairs < 300);
    assert_eq!(world.deployed(), [GREEN, RED]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_reward_value_between_sessions_restarts_the_evidence() {
    // Undecided while rewards are 0 or 1; then training gives a third value, and the gate sees an effect.
    let marks = Marks::by(|episode| {
        let late = episode.run.0.as_str() > "learn.i00004";
        Some(if is_right(episode) {
            1.0
        } else if late {
            0.25
        } else {
            0.0
        })
    });
    let environment = Arc::new(blind(64));
    let world = World { marks: Arc::new(marks), environment, ..World::new(Proposer::of(&[RED, GREEN])) };
    let plan = WorldPlan { gate: GatePlan { every: 1, pairs: 64, alpha: 0.05 }, ..longer() };
    let report = world.learn(&plan).await;
    let gates = gates(&report);
    assert_eq!((gates[0].candidate, gates[0].decision), (1, Decision::Undecided));
    assert_eq!((gates[1].candidate, gates[1].decision), (2, Decision::Promote), "{gates:#?}");
    assert!(gates[1].evidence.pairs <= 64, "the old evidence is void");
    assert_eq!(world.deployed(), [GREEN, RED]);
}

#[tokio::test(flavor = "multi_thread")]
async fn graded_rewards_use_the_size_of_the_difference() {
    let marks = Marks::by(|episode| {
        let step = (episode.seed() % 5) as f64 / 20.0;
        Some(if is_right(episode) { 0.7 + step } else { 0.1 + step })
    });
    let world = World { marks: Arc::new(marks), ..World::usual() };
    let report = world.learn(&longer()).await;
    let gates = gates(&report);
    assert_eq!((gates[0].candidate, gates[0].decision), (1, Decision::Promote), "{gates:#?}");
    let lift = gates[0].evidence.lift.unwrap();
    assert!((0.2..0.4).contains(&lift), "0.6 in half of the pairs: {lift}");
    assert_eq!(world.deployed(), [GREEN, RED]);
}
