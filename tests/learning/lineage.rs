//! A run of a playbook goes on where the runs before it ended: at other tasks, with the alpha that is left.

use crate::world::*;
use clawhost_core::{LearningStore as _, RunId, SpecDocument};
use clawhost_learn::gate::Decision;
use clawhost_learn::playbook::{Lineage, Playbook};
use clawhost_learning::{
    EvolvePlan, HarnessPlan, HarnessPorts, HarnessStage, LearnReport, LearnStart, Ledger, Reflecting, learn,
};
use clawhost_play::{Plan, StopReason};
use std::collections::BTreeSet;
use std::sync::Arc;

fn lights(tasks: u64) -> Arc<Lights> {
    Arc::new(Lights::new(&[("train", 1_000), ("val", 1_000), ("test", tasks)]))
}

/// Waiting is always right outside of training, so that every candidate is rejected.
fn futile() -> Arc<Lights> {
    let wanted = |split: &str, colour: &str| if split == "train" { right(colour) } else { "wait" };
    Arc::new(Lights { wanted, ..Lights::default() })
}

/// Enough for a lesson to reach the gate.
fn longer() -> WorldPlan {
    WorldPlan { iterations: 8, ..small() }
}

async fn run(world: &World, id: &str, plan: &WorldPlan) -> LearnReport {
    let start = LearnStart::New(SpecDocument::none());
    let ports = world.harness_ports(plan);
    learn(RunId(id.into()), plan.run(), ports, start, &world.cancel, &world.watching).await.unwrap()
}

async fn lineage(world: &World) -> Lineage {
    let stored = world.store.ledger("lights").await.unwrap().unwrap();
    serde_json::from_value::<Ledger>(stored.document).unwrap().lineage
}

/// Tasks of the phases whose names have both parts.
fn tasks(world: &World, run: &str, part: &str) -> BTreeSet<String> {
    let episodes = world.store.of_phases(part).into_iter().filter(|episode| episode.run.0.starts_with(run));
    episodes.map(|episode| episode.task.id.clone()).collect()
}

fn candidates(report: &LearnReport) -> Vec<u32> {
    report.iterations.iter().filter_map(|iteration| Some(iteration.gate()?.candidate)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_plays_tasks_that_the_first_one_did_not() {
    for seed in [7, 8] {
        let world = World { environment: lights(1_000), ..World::new(Proposer::of(&[RED])) };
        let first = run(&world, "first", &longer()).await;
        let plan = WorldPlan { play: Plan { seed, ..small().play }, ..longer() };
        let store = world.store.clone();
        let other = World { environment: lights(1_000), store, ..World::new(Proposer::of(&[GREEN])) };
        let second = run(&other, "second", &plan).await;
        for part in ["-train", "-gate-", ".test"] {
            let (one, other) = (tasks(&world, "first", part), tasks(&world, "second", part));
            assert!(!one.is_empty() && !other.is_empty(), "{part}");
            assert!(one.is_disjoint(&other), "{part}, seed {seed}: {:?}", one.intersection(&other));
        }
        let reused = [first, second].map(|report| report.evaluation.unwrap().reused);
        assert_eq!(reused, [0, 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_without_new_tasks_is_played_again_with_other_seeds() {
    let world = World { environment: lights(40), ..World::usual() };
    let mut items = BTreeSet::new();
    for (id, reused) in [("first", 0), ("second", 24), ("third", 32)] {
        let report = run(&world, id, &small()).await;
        assert_eq!(report.evaluation.unwrap().reused, reused, "{id}");
        let tested = world.store.of_phases(".test").into_iter().filter(|episode| episode.run.0.starts_with(id));
        let tested: BTreeSet<_> = tested.map(|episode| (episode.task.id.clone(), episode.seed())).collect();
        assert_eq!(tested.len(), 32);
        items.extend(tested);
    }
    assert_eq!(items.len(), 96, "no task has the same seed twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_are_numbered_over_all_runs() {
    let world = World { environment: futile(), ..World::new(Proposer::of(&[RED])) };
    let first = run(&world, "first", &longer()).await;
    let tested = candidates(&first).into_iter().max().unwrap();
    assert_eq!(lineage(&world).await.candidates, tested);
    let other = World { environment: futile(), store: world.store.clone(), ..World::new(Proposer::of(&[GREEN])) };
    let second = run(&other, "second", &longer()).await;
    assert_eq!(candidates(&second).into_iter().min(), Some(tested + 1));
    let thresholds = [first, second].map(|report| {
        let gates = report.iterations.iter().filter_map(|iteration| iteration.gate());
        gates
            .map(|gate| gate.evidence.threshold)
            .fold((f64::MAX, 0.0), |(low, high), one| (one.min(low), one.max(high)))
    });
    assert!(thresholds[1].0 > thresholds[0].1, "{thresholds:?}");
    let used = lineage(&other).await;
    assert_eq!((used.runs, used.train, used.test), (2, 2 * 8 * 16, 2 * 32));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_run_counts_the_candidates_of_runs_in_between() {
    let world = World { environment: futile(), ..World::new(Proposer::of(&[RED])) };
    *world.environment.cancel_at.lock().unwrap() = Some((40, world.cancel.clone()));
    assert_eq!(world.learn(&longer()).await.stopped, Some(StopReason::Cancelled));
    let other = World { environment: futile(), store: world.store.clone(), ..World::new(Proposer::of(&[GREEN])) };
    let plan = WorldPlan { iterations: 10, test_pairs: 40, ..longer() };
    let between = candidates(&run(&other, "other", &plan).await).into_iter().max().unwrap();
    let used = lineage(&other).await;
    let later = World { environment: futile(), store: world.store.clone(), ..World::new(Proposer::of(&[RED])) };
    let resumed = later.go_on(&longer()).await.unwrap();
    assert_eq!(candidates(&resumed).into_iter().min(), Some(between + 1));
    assert!(resumed.iterations.iter().filter_map(|one| one.gate()).all(|gate| gate.decision != Decision::Promote));
    let now = lineage(&later).await;
    assert!(now.candidates > used.candidates);
    assert_eq!((now.train, now.test), (used.train, used.test), "what either has used is used");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evolution_uses_tasks_too() {
    let world = World { environment: lights(1_000), ..World::usual() };
    let evolve = |id: &'static str| {
        let harness = HarnessPlan {
            evolve: Some(EvolvePlan { budget: 60, minibatch: 3, pareto: 10, section: "house".into() }),
            ..small().harness()
        };
        let reflecting = Reflecting { reflector: Proposer::of(&[RED]), options: vec![] };
        let ports = HarnessPorts {
            reflectors: vec![reflecting.clone()],
            evolver: Some(reflecting),
            embedder: None,
            playbook: "lights".into(),
            initial: Playbook::default(),
        };
        let (plan, ports) = (small().run(), world.ports(vec![Box::new(HarnessStage::new(harness, ports))]));
        let start = LearnStart::New(SpecDocument::none());
        let (cancel, watching) = (&world.cancel, &world.watching);
        async move { learn(RunId(id.into()), plan, ports, start, cancel, watching).await.unwrap() }
    };
    evolve("first").await;
    evolve("second").await;
    let (one, other) = (tasks(&world, "first", ".evolve-"), tasks(&world, "second", ".evolve-"));
    assert!(!one.is_empty() && !other.is_empty());
    assert!(one.is_disjoint(&other), "{:?}", one.intersection(&other));
}
