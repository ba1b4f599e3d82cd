//! The training thread, and panics in it.

use crate::layers::Both;
use crate::weights::plan as weights_plan;
use crate::world::*;
use clawhost_learning::WarmStart;
use std::collections::BTreeSet;

/// [`Dial`] asserts the name of the thread in every call.
#[tokio::test(flavor = "multi_thread")]
async fn weights_run_on_the_training_thread_only() {
    let warm_start = WarmStart {
        demonstrations: 4,
        options: vec![],
        batch: 2,
        rate: 0.1,
        last_rate: 0.1,
        target: 0.99,
        every: 1,
        episodes: 8,
        steps: 1,
    };
    let mut both = Both { weights: weights_plan(Some(warm_start)).weights, luck: 9, ..Both::small() };
    (both.world.iterations, both.world.test_pairs) = (2, 4);
    (both.weights.evaluate_every, both.weights.evaluate_episodes, both.weights.refills) = (1, 8, 1);
    let (report, dial) = both.learn(&World::usual(), Dial { breaks: Some(1), ..Dial::default() }).await;
    assert_eq!((report.stopped, report.learned), (None, 1), "the second step is rolled back");
    let calls = dial.lock().unwrap().calls.lock().unwrap().clone();
    let expected = [
        "clear_pending",
        "digest",
        "end_supervision",
        "forward_backward",
        "keep",
        "optim_step",
        "publish",
        "restore",
        "snapshot",
        "supervise",
    ];
    assert_eq!(calls, BTreeSet::from(expected), "every method was called on the thread");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_layer_ends_the_run_and_records_nothing_of_the_iteration() {
    let world = World::usual();
    let store = world.store.clone();
    let mut both = Both::small();
    both.world.iterations = 3;
    let run = async move { both.learn(&world, Dial { panics: Some(1), ..Dial::default() }).await.0 };
    let ended = tokio::spawn(run).await;
    let panic = ended.unwrap_err().into_panic();
    let words = panic.downcast_ref::<String>().unwrap();
    assert!(words.contains("a bug in the step"), "{words}");
    let (over, _) = store.state(&World::run()).unwrap();
    assert_eq!((over, store.reports(&World::run()).len()), (1, 1), "the previous iteration is recorded");
    assert_eq!(store.summary(&World::run()), None, "the run is not finished");
}
