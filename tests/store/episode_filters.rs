//! Filters of episode lists: each alone, and all together.

use crate::records::{episode, filled, opened, put, recorded_as, run};
use clawhost_core::{
    Ending, Episode, EpisodeFilter, EpisodeOrder, EpisodeOrigin, EpisodeReader as _, EpisodeStore as _,
    ExpectedVerdict, FailureFilter, LiveSession, RewardFilter, RewardSource, RunId, RunKind, RunRecord,
};
use clawhost_store::Reader;
use std::path::Path;

/// Ids of the episodes that match a filter.
fn selected(folder: &Path, filter: &EpisodeFilter) -> Vec<String> {
    let rows = Reader::open(folder).unwrap().episodes(filter).unwrap();
    rows.into_iter().map(|row| format!("{}/{}", row.run, row.id)).collect()
}

#[tokio::test]
async fn episodes_are_selected_by_failure_reward_task_run_and_state_together() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    for name in ["run-a", "run-b"] {
        store.begin_run(&run(name)).await.unwrap();
        let mut all = Vec::new();
        for (index, reward) in [Some(0.0), None, Some(0.5), None].into_iter().enumerate() {
            let mut one = episode(name, index as u64);
            one.reward = reward;
            one.task.id = format!("task-{}", index % 2);
            if index == 2 {
                one.expects = vec![ExpectedVerdict { source: RewardSource::User, until: 1000 }];
            }
            all.push(recorded_as(one));
        }
        put(&store, all).await.unwrap();
    }
    let failed = episode("run-a", 1).ending;
    let Ending::Failed(failure) = &failed else { panic!("{failed:?}") };
    let (kind, code) = (failure.kind.to_string(), failure.code.clone());
    let all = EpisodeFilter::default();
    let of_a = EpisodeFilter::of(&RunId("run-a".into()));
    let check = |filter: EpisodeFilter, expect: &[&str]| {
        assert_eq!(selected(folder.path(), &filter), expect, "{filter:?}");
    };
    let named = |name: &str| Some(FailureFilter::Named(name.to_owned()));
    check(EpisodeFilter { failure: Some(FailureFilter::Any), ..of_a.clone() }, &["run-a/ep-0001", "run-a/ep-0003"]);
    for name in [&kind, &code, &failure.label()] {
        check(EpisodeFilter { failure: named(name), ..of_a.clone() }, &["run-a/ep-0001", "run-a/ep-0003"]);
    }
    for name in ["", "%", "f", "failed", "terminated", "nonsense"] {
        check(EpisodeFilter { failure: named(name), ..all.clone() }, &[]);
    }
    let within = |least, greatest| Some(RewardFilter::Within { least, greatest });
    check(EpisodeFilter { reward: within(0.0, 0.4), ..of_a.clone() }, &["run-a/ep-0000"]);
    check(EpisodeFilter { reward: within(0.5, 0.5), ..all.clone() }, &["run-b/ep-0002", "run-a/ep-0002"]);
    check(EpisodeFilter { reward: Some(RewardFilter::Unscored), ..of_a.clone() }, &["run-a/ep-0001", "run-a/ep-0003"]);
    check(EpisodeFilter { task: Some("task-0".into()), ..of_a.clone() }, &["run-a/ep-0000", "run-a/ep-0002"]);
    check(EpisodeFilter { pending_at: Some(999), ..of_a.clone() }, &["run-a/ep-0002"]);
    check(EpisodeFilter { pending_at: Some(1000), ..all.clone() }, &[]);
    let narrow = EpisodeFilter { task: Some("task-0".into()), reward: within(0.1, 1.0), pending_at: Some(1), ..all };
    check(EpisodeFilter { limit: Some(1), ..narrow }, &["run-b/ep-0002"]);
}

#[tokio::test]
async fn a_limit_applies_after_the_filter() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), "run-a", 6).await);
    let failed = EpisodeFilter { failure: Some(FailureFilter::Any), limit: Some(2), ..EpisodeFilter::default() };
    assert_eq!(selected(folder.path(), &failed), ["run-a/ep-0001", "run-a/ep-0003"]);
}

#[tokio::test]
async fn live_episodes_are_newest_first_on_request_and_counted_whatever_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 3).await;
    let live = RunRecord { kind: RunKind::Live, ..run("run-live") };
    store.begin_run(&live).await.unwrap();
    let session = LiveSession::new("s", "a", "m");
    let all = [(0, 30), (1, 10), (2, 30)].map(|(index, created_at)| {
        let origin = EpisodeOrigin::live(session.clone());
        recorded_as(Episode { origin, verdicts: Vec::new(), created_at, ..episode("run-live", index) })
    });
    put(&store, all.into()).await.unwrap();
    let of_live = EpisodeFilter::of(&RunId("run-live".into()));
    let newest = |filter: &EpisodeFilter| EpisodeFilter { order: EpisodeOrder::LiveNewestFirst, ..filter.clone() };
    let check = |filter: EpisodeFilter, expect: &[&str]| {
        assert_eq!(selected(folder.path(), &filter), expect, "{filter:?}");
    };
    let [first, second, third] = ["run-live/ep-0000", "run-live/ep-0001", "run-live/ep-0002"];
    check(of_live.clone(), &[first, second, third]);
    check(newest(&of_live), &[third, first, second]);
    let all = newest(&EpisodeFilter::default());
    check(all.clone(), &[third, first, second, "run-a/ep-0000", "run-a/ep-0001", "run-a/ep-0002"]);
    let reader = Reader::open(folder.path()).unwrap();
    let counted = |filter: EpisodeFilter| reader.count_episodes(&filter).unwrap();
    assert_eq!(counted(EpisodeFilter { limit: Some(1), ..all.clone() }), 6);
    assert_eq!(counted(EpisodeFilter { failure: Some(FailureFilter::Any), limit: Some(0), ..all }), 2);
}

#[tokio::test]
async fn live_episodes_of_several_runs_are_listed_by_time_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 3).await;
    for (name, times) in [("run-one", [40, 20]), ("run-other", [30, 20])] {
        store.begin_run(&RunRecord { kind: RunKind::Live, ..run(name) }).await.unwrap();
        let session = LiveSession::new("s", "a", "m");
        let rows = (0..).zip(times).map(|(index, created_at)| {
            let origin = EpisodeOrigin::live(session.clone());
            recorded_as(Episode { origin, verdicts: Vec::new(), created_at, ..episode(name, index) })
        });
        put(&store, rows.collect()).await.unwrap();
    }
    let all = EpisodeFilter { is_live: true, order: EpisodeOrder::NewestFirst, ..EpisodeFilter::default() };
    let check = |skip, limit, expect: &[&str]| {
        let filter = EpisodeFilter { skip, limit, ..all.clone() };
        assert_eq!(selected(folder.path(), &filter), expect, "{filter:?}");
    };
    // Of equal times the one that was stored last is first.
    let [a, b, c, d] = ["run-one/ep-0000", "run-other/ep-0000", "run-other/ep-0001", "run-one/ep-0001"];
    check(0, None, &[a, b, c, d]);
    check(0, Some(3), &[a, b, c]);
    check(3, Some(3), &[d]);
    check(4, Some(3), &[]);
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.count_episodes(&EpisodeFilter { skip: 3, limit: Some(1), ..all }).unwrap(), 4);
}
