//! Layers that learn one after the other, in turns.

use crate::layers::Both;
use crate::world::*;
use clawhost_core::Episode;
use clawhost_learning::{LearnPlan, Schedule, Turn};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Two iterations of the harness with groups of one, then one of the weights with groups of four.
fn schedule() -> Schedule {
    let harness = Turn { layer: "harness", iterations: 2, episodes: 8, group: 1 };
    Schedule::Turns(vec![harness, Turn { layer: "weights", iterations: 1, episodes: 16, group: 4 }])
}

fn plan(both: &Both) -> LearnPlan {
    LearnPlan { iterations: 5, schedule: schedule(), ..both.world.run() }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_its_turn_a_layer_learns_and_the_others_do_not_change() {
    let both = Both { luck: 9, ..Both::small() };
    let (world, dial) = (World::usual(), Arc::new(Mutex::new(Dial::default())));
    let report = world.begin(plan(&both), both.ports(&world, &dial)).await.unwrap();
    let layers: Vec<Vec<&str>> =
        report.iterations.iter().map(|one| one.layers.iter().map(|layer| layer.layer.as_str()).collect()).collect();
    assert_eq!(layers, [["harness"], ["harness"], ["weights"], ["harness"], ["harness"]]);
    let played: Vec<u64> = report.iterations.iter().map(|one| one.episodes).collect();
    assert_eq!(played, [8, 8, 16, 8, 8]);
    assert_eq!(dial.lock().unwrap().taught.len(), 1, "the weights got one batch");

    let phase = |number: u64| world.store.of_phases(&format!("i{number:05}-train"));
    let seeds = |number: u64| -> BTreeSet<u64> { phase(number).iter().map(Episode::seed).collect() };
    assert_eq!([1, 2, 3, 4, 5].map(|number| seeds(number).len()), [8, 8, 4, 8, 8], "groups");
    let all: BTreeSet<u64> = (1..=5).flat_map(seeds).collect();
    assert_eq!(all.len(), 36, "no turn plays tasks of another one again");
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_learn_from_a_group_whose_members_read_the_same_playbook() {
    let both = Both { luck: 9, ..Both::small() };
    let (world, dial) = (World::usual(), Arc::new(Mutex::new(Dial::default())));
    world.begin(plan(&both), both.ports(&world, &dial)).await.unwrap();
    let episodes = world.store.of_phases("i00003-train");
    assert_eq!(episodes.len(), 16);
    for episode in &episodes {
        let playbook = episode.policy.playbook.as_ref();
        assert!(playbook.is_none_or(|playbook| playbook.drawn.is_empty()), "nothing is on trial in this turn");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_turns_killed_at_any_store_call_and_resumed_gives_the_same_result() {
    let both = Both { luck: 9, ..Both::small() };
    let plan = LearnPlan { iterations: 4, test_pairs: 4, ..plan(&both) };
    let whole = World { store: Arc::default(), ..World::usual() };
    let expected = whole.begin(plan.clone(), both.ports(&whole, &Arc::default())).await.unwrap();
    let (calls, mut killed) = (whole.store.calls(), 0);
    for at in (0..calls).step_by(3) {
        let store = Shelf::dying(at);
        let first = World { store: store.clone(), ..World::usual() };
        let result = first.begin(plan.clone(), both.ports(&first, &Arc::default())).await;
        store.revive(None);
        if result.is_ok() {
            continue;
        }
        killed += 1;
        let later = World { store, ..World::usual() };
        let resumed = later.resume(plan.clone(), both.ports(&later, &Arc::default())).await.unwrap();
        assert_eq!(resumed, expected, "killed at call {at}");
    }
    assert!(killed > 5, "{killed} of {calls} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_schedule_is_another_run() {
    let both = Both::small();
    let digest = |schedule: Schedule| {
        let (world, dial) = (World::usual(), Arc::new(Mutex::new(Dial::default())));
        let plan = LearnPlan { schedule, ..both.world.run() };
        clawhost_learning::learn_digest(&plan, &both.ports(&world, &dial)).unwrap()
    };
    assert_ne!(digest(Schedule::Joint), digest(schedule()));
}
