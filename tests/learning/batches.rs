//! Batches and reflections: none is lost.

use crate::world::*;
use clawhost_core::{Episode, Failure, FailureKind, RunId, SpecDocument, code};
use clawhost_learning::{LearnReport, LearnStart, MemoryStore, Reflections, learn};
use clawhost_play::{Plan, StopReason};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rewards that differ between iterations.
fn varying() -> Marks {
    Marks::by(|episode| {
        let iteration: u64 = episode.run.0["learn.i".len()..][..5].parse().unwrap_or(0);
        Some(if is_right(episode) { 1.0 } else { (iteration % 3) as f64 / 3.0 })
    })
}

fn twenty() -> WorldPlan {
    let play = Plan { episodes: 16, ..small().play };
    WorldPlan { iterations: 20, play, reflect_every: 5, test_pairs: 0, ..small() }
}

fn reflections(report: &LearnReport) -> &Reflections {
    &report.harness().unwrap().reflections
}

/// Training groups in which a member missed the best reward.
fn missed(world: &World) -> BTreeSet<(RunId, u64)> {
    let episodes = world.store.of_phases("-train");
    let missed = |episode: &&Episode| episode.reward.is_some_and(|reward| reward < 1.0);
    episodes.iter().filter(missed).map(|episode| (episode.run.clone(), episode.group())).collect()
}

fn once(groups: Vec<(RunId, u64)>) -> BTreeSet<(RunId, u64)> {
    let count = groups.len();
    let groups = BTreeSet::from_iter(groups);
    assert_eq!(groups.len(), count, "a group was shown twice");
    groups
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_batches_are_all_learned_and_no_group_is_lost() {
    let world = World { marks: Arc::new(varying()), ..World::new(Proposer::of(&[NEUTRAL])) };
    let report = world.learn(&twenty()).await;
    assert_eq!((report.learned, report.iterations.len()), (20, 20));
    assert!(report.iterations.iter().all(|iteration| iteration.learned.is_ok() && iteration.episodes == 16));
    let (missed, shown) = (missed(&world), once(world.reflectors[0].groups()));
    assert!(shown.is_subset(&missed), "only groups that missed the best reward");
    let waiting: BTreeSet<_> = missed.difference(&shown).cloned().collect();
    let asked = reflections(&report);
    assert_eq!((asked.asked, asked.waiting, asked.given_up), (shown.len() as u64, waiting.len() as u64, 0));
    assert!(!waiting.is_empty(), "the last groups are waiting");
    let asked_after: BTreeSet<RunId> = shown.into_iter().map(|(run, _)| run).collect();
    assert_eq!(asked_after.len(), 16, "the first batch, then every fifth together with those waiting");
    assert!(waiting.iter().all(|(run, _)| !asked_after.contains(run)));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_groups_are_reflected_on_after_an_interruption() {
    let uninterrupted = World { marks: Arc::new(varying()), ..World::new(Proposer::of(&[NEUTRAL])) };
    let expected = uninterrupted.learn(&twenty()).await;
    for at in [1, 40, 130, 200] {
        let world = World { marks: Arc::new(varying()), ..World::new(Proposer::of(&[NEUTRAL])) };
        *world.environment.cancel_at.lock().unwrap() = Some((at, world.cancel.clone()));
        let stopped = world.learn(&twenty()).await;
        assert_eq!(stopped.stopped, Some(StopReason::Cancelled));
        let later =
            World { marks: Arc::new(varying()), store: world.store.clone(), ..World::new(Proposer::of(&[NEUTRAL])) };
        let report = later.go_on(&twenty()).await.unwrap();
        let groups = [world.reflectors[0].groups(), later.reflectors[0].groups()].concat();
        assert_eq!(once(groups), once(uninterrupted.reflectors[0].groups()), "stopped at episode {at}");
        assert_eq!(report, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reflectors_receive_the_recorded_training_groups() {
    let world = World::usual();
    world.learn(&small()).await;
    let stored = world.store.of_phases("-train");
    let shown = world.reflectors[0].shown.lock().unwrap();
    assert!(!shown.is_empty());
    for one in shown.iter() {
        assert_eq!(one.group.len(), 4, "the whole group, including successes");
        for episode in &one.group {
            assert!(stored.contains(episode), "as stored, with the reference, which the adapter hides");
            assert_eq!(episode.task.split, "train", "no validation or test tasks");
        }
        let input = format!("{:?} {:?}", one.context, one.playbook);
        assert!(!input.contains("canary"), "the rest does not contain the reference: {input}");
    }
    let known: Vec<_> = shown.last().unwrap().playbook.entries.iter().map(|entry| entry.text.clone()).collect();
    assert!(known.contains(&RED.to_owned()), "they see open entries");
}

/// Whether it belongs to this iteration.
fn in_phase(shown: &Shown, iteration: u64) -> bool {
    shown.group[0].run.0.ends_with(&format!("i{iteration:05}-train"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_reflector_is_counted_and_does_not_block() {
    let broken = || Failure::new(FailureKind::Trap, code::UNREACHABLE, "fell over");
    // It succeeded once, so later failures may be temporary.
    let world = World::new(Proposer::by(move |one| if in_phase(one, 1) { Ok(vec![]) } else { Err(broken()) }));
    let report = world.learn(&small()).await;
    let (message, count) = reflections(&report).failed.first_key_value().unwrap();
    assert!(message.contains("fell over"), "{message}");
    let failures: Vec<u64> =
        report.iterations.iter().map(|one| one.harness().unwrap().1.reflections.failures()).collect();
    assert_eq!((failures[0], failures.iter().sum::<u64>(), reflections(&report).failed.len()), (0, *count, 1));
    assert!(failures[1..].iter().all(|count| *count > 0), "{failures:?}");
    assert_eq!(
        (report.learned, report.harness().unwrap().entries.len(), report.harness().unwrap().proposals.proposed),
        (4, 0, 0)
    );

    let world = World {
        reflectors: vec![Proposer::by(move |_| Err(broken())), Proposer::of(&[RED, GREEN])],
        ..World::new(Proposer::of(&[]))
    };
    let report = world.learn(&small()).await;
    assert_eq!(world.deployed(), [GREEN, RED], "the other reflector's proposals are used");
    assert_eq!(reflections(&report).failed.values().sum::<u64>(), reflections(&report).asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_stops_if_no_reflector_ever_answers() {
    let broken = Proposer::by(|_| Err(Failure::new(FailureKind::Llm, code::UNAVAILABLE, "no model is granted")));
    let world = World::new(broken);
    let report = world.learn(&small()).await;
    let Some(StopReason::Reflectors { failed, why }) = &report.stopped else { panic!("{:?}", report.stopped) };
    assert!(*failed > 0 && why.contains("no model is granted"), "{failed} {why}");
    assert_eq!((report.learned, report.iterations.len()), (0, 0));
    assert_eq!(*world.watching.phases.lock().unwrap(), ["i00001-train"], "nothing else is played");
    // With the missing grant, it is called for the same groups.
    let mended = World { store: world.store.clone(), ..World::usual() };
    let report = mended.go_on(&small()).await.unwrap();
    assert_eq!((report.stopped, report.learned), (None, 4));
    assert!(mended.reflectors[0].groups().starts_with(&world.reflectors[0].groups()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_proposals_is_bounded_and_counted() {
    let flood = Proposer::by(|shown| {
        let seed = shown.context.seed;
        Ok((0..64).map(|number| lesson(&format!("when number is {seed}-{number}: answer {number}"))).collect())
    });
    let report = World::new(flood).learn(&small()).await;
    let counts = &report.harness().unwrap().proposals;
    let refused: u64 = counts.refused.values().sum();
    assert_eq!(counts.proposed, reflections(&report).asked * 64);
    let kept = report.harness().unwrap().entries.len() as u64;
    assert_eq!(kept + counts.merged + counts.known + counts.dropped + refused, counts.proposed, "{counts:?}");
    assert!(counts.dropped > 0 && kept <= 256 + 16 + 64, "{kept}");
    assert_eq!(report.learned, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_beyond_the_waiting_limit_are_dropped_and_counted() {
    let play = Plan { episodes: 1200, ..small().play };
    let plan = WorldPlan { iterations: 2, reflect_every: 3, play, ..small() };
    let world = World { marks: Arc::new(Marks::by(|_| Some(0.0))), ..World::new(Proposer::of(&[])) };
    let report = world.learn(&plan).await;
    // All groups of the first batch are reflected on at once; those of the second wait up to the limit.
    assert_eq!(
        (reflections(&report).asked, reflections(&report).given_up, reflections(&report).waiting),
        (300, 44, 256)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_missing_in_the_store_are_dropped_and_counted() {
    let store = Arc::new(MemoryStore::default());
    let play = async |world: &World, resumes: bool| {
        let mut ports = world.harness_ports(&twenty());
        (ports.play.store, ports.learning) = (store.clone(), store.clone());
        let start = if resumes { LearnStart::Resumed } else { LearnStart::New(SpecDocument::none()) };
        let report = learn(World::run(), twenty().run(), ports, start, &world.cancel, &world.watching).await;
        report.unwrap()
    };
    let world = World { marks: Arc::new(varying()), ..World::new(Proposer::of(&[NEUTRAL])) };
    // During the fourth batch, the groups of two batches wait.
    *world.environment.cancel_at.lock().unwrap() = Some((55, world.cancel.clone()));
    let stopped = play(&world, false).await;
    assert_eq!((stopped.learned, reflections(&stopped).waiting), (3, 4));
    let later = World { marks: Arc::new(varying()), ..World::new(Proposer::of(&[NEUTRAL])) };
    let report = play(&later, true).await;
    assert_eq!((report.learned, reflections(&report).given_up), (20, 4));
}
