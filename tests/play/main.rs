//! Runs with fakes: properties that hold for every policy, reward and store.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot continue has failed"
)]

mod branch;
mod mixture;
mod paid;
mod positions;
mod records;
mod rewards;
mod tools;

use clawhost_core::{FailureKind, RunId, RunKind, Sampling, Verdict};
use clawhost_play::{
    Cancel, ChatPolicy, Environments, EpisodeSummary, Plan, PlayError, PlayedRun, Ports, RunReport, RunRequest,
    ScoringRule, StopReason, play_run,
};
use clawhost_testkit::{Counting, Free, Judge, Memory, Parrot, Silent, Still, plan};
use std::sync::Arc;

/// Plays a new run with these ports.
async fn play_ports(plan: Plan, ports: Ports, cancel: &Cancel) -> Result<RunReport, PlayError> {
    let request = RunRequest::new(RunId("run-test".into()), plan, ports);
    play_run(request, cancel, &Silent).await.map(|played| played.report)
}

/// Ports with a model that repeats its input.
fn ports(environment: Counting, rewards: Vec<Judge>, store: Arc<Memory>) -> Ports {
    Ports {
        environments: Environments::One(Arc::new(environment)),
        rewards: rewards.into_iter().map(|judge| ScoringRule::new(Arc::new(judge), vec![])).collect(),
        policy: ChatPolicy::new(Arc::new(Parrot::default()), None, Sampling::default()),
        store,
        clock: Arc::new(Still),
        meter: Arc::new(Free),
    }
}

struct Played {
    report: Result<RunReport, PlayError>,
    store: Arc<Memory>,
    model: Arc<Parrot>,
}

async fn play(plan: Plan, environment: Counting, rewards: Vec<Judge>) -> Played {
    play_with(plan, environment, rewards, Arc::new(Memory::default()), &Cancel::default()).await
}

async fn play_with(
    plan: Plan,
    environment: Counting,
    rewards: Vec<Judge>,
    store: Arc<Memory>,
    cancel: &Cancel,
) -> Played {
    let model = Arc::new(Parrot::default());
    let policy = ChatPolicy::new(model.clone(), None, Sampling::default());
    let ports = Ports { policy, ..ports(environment, rewards, store.clone()) };
    let report = play_ports(plan, ports, cancel).await;
    Played { report, store, model }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_plays_scores_and_records_every_episode_in_order() {
    let played = play(plan(10), Counting::default(), vec![Judge::giving(1.0)]).await;
    let report = played.report.unwrap();
    assert_eq!(report.episodes.len(), 10);
    assert_eq!(report.reward_mean, Some(1.0));
    assert_eq!(report.endings["terminated"], 10);
    assert_eq!(report.steps, 30, "three turns each");
    let stored = played.store.episodes();
    assert_eq!(stored.len(), 10);
    let by_report: Vec<_> = report.episodes.iter().map(|episode| episode.id.clone()).collect();
    let mut by_index = stored.clone();
    by_index.sort_by_key(|episode| episode.index);
    assert_eq!(by_report, by_index.iter().map(|episode| episode.id.clone()).collect::<Vec<_>>());
    assert!(played.store.summary().is_some(), "the run is finished");
    let begun = played.store.begun.lock().unwrap().clone().unwrap();
    assert_eq!((begun.kind, begun.environment.as_str(), begun.planned), (RunKind::Play, "counting", 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_reaches_only_rewards() {
    let played = play(plan(4), Counting::default(), vec![Judge::giving(1.0)]).await;
    played.report.unwrap();
    for episode in played.store.episodes() {
        assert_eq!(episode.task.reference.as_deref(), Some("\"canary-4711\""), "it is recorded");
    }
    let asked = played.model.asked();
    assert!(!asked.is_empty());
    assert!(!asked.iter().any(|request| request.contains("canary-4711")), "the policy does not see it");
    // `Counting::start` panics if it gets one.
}

#[tokio::test(flavor = "multi_thread")]
async fn results_do_not_depend_on_concurrency() {
    let mut reports = Vec::new();
    for concurrency in [1, 3, 64] {
        let plan = Plan { concurrency, group: 3, ..plan(50) };
        let report = play(plan, Counting::default(), vec![Judge::by_seed()]).await.report.unwrap();
        reports.push(serde_json::to_value(report).unwrap());
    }
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0], reports[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_group_share_task_and_seed_but_not_the_policy_seed() {
    let played = play(Plan { group: 4, ..plan(10) }, Counting::default(), vec![]).await;
    assert_eq!(played.report.unwrap().episodes.len(), 10, "the last group is incomplete");
    let mut episodes = played.store.episodes();
    episodes.sort_by_key(|episode| episode.index);
    for pair in episodes.windows(2) {
        let together = pair[0].group() == pair[1].group();
        assert_eq!(pair[0].seed() == pair[1].seed(), together);
        assert_eq!(pair[0].task.id == pair[1].task.id, together);
        assert_ne!(pair[0].policy.seed, pair[1].policy.seed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_counted_and_never_scored() {
    let budget = Plan { failure_budget: 1.0, ..plan(40) };
    let environment = Counting { failing: 9, ..Counting::default() };
    let played = play(budget, environment, vec![Judge::giving(0.5)]).await;
    let report = played.report.unwrap();
    assert!(report.failed > 20, "{}", report.failed);
    assert_eq!(report.scored + report.failed, 40);
    assert_eq!(report.reward_mean, Some(0.5), "the mean is over scored episodes");
    assert_eq!(report.stopped, None);
    for episode in played.store.episodes() {
        assert_eq!(episode.reward.is_some(), episode.ending.is_complete());
        assert!(episode.ending.is_complete() || episode.verdicts.is_empty(), "failed episodes are not scored");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_failures_stop_the_run() {
    let environment = Counting { failing: 9, ..Counting::default() };
    let played = play(plan(1000), environment, vec![Judge::giving(0.5)]).await;
    let report = played.report.unwrap();
    let Some(StopReason::FailureBudget { failed, allowed: 100 }) = report.stopped else {
        panic!("{:?}", report.stopped)
    };
    assert_eq!((failed, report.failed), (101, 101), "the report ends with the failure that exceeds the budget");
    assert!(report.episodes.len() < 1000, "{}", report.episodes.len());
    assert!(played.store.episodes().len() >= report.episodes.len(), "all played episodes are recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stop_does_not_depend_on_concurrency() {
    let mut reports = Vec::new();
    for concurrency in [1, 5, 64] {
        let environment = Counting { failing: 3, ..Counting::default() };
        let plan = Plan { concurrency, ..plan(200) };
        let report = play(plan, environment, vec![Judge::by_seed()]).await.report.unwrap();
        assert!(matches!(report.stopped, Some(StopReason::FailureBudget { failed: 21, allowed: 20 })));
        reports.push(serde_json::to_value(report).unwrap());
    }
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0], reports[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_before_a_failing_step_is_recorded() {
    let environment = Counting { failing: 10, ..Counting::default() };
    let played = play(plan(1), environment, vec![]).await;
    let report = played.report.unwrap();
    let episode = &played.store.episodes()[0];
    let untaken = episode.untaken.as_ref().unwrap();
    assert!(untaken.action.plain_text().starts_with("seed "), "{untaken:?}");
    assert_eq!(report.usage.prompt_tokens, 3, "its cost is counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reward_that_fails_leaves_episodes_unscored_and_counts_as_failure() {
    let played = play(plan(10), Counting::default(), vec![Judge::giving(1.0), Judge::broken()]).await;
    let report = played.report.unwrap();
    assert_eq!((report.scored, report.reward_mean), (0, None));
    assert!(matches!(report.stopped, Some(StopReason::FailureBudget { .. })), "{:?}", report.stopped);
    for episode in played.store.episodes().iter().filter(|episode| episode.ending.is_complete()) {
        assert_eq!(episode.reward, None);
        assert!(matches!(episode.verdicts[0].verdict, Verdict::Scored(_)), "other verdicts are recorded");
        assert!(matches!(episode.verdicts[1].verdict, Verdict::Failed(_)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_records_the_played_episodes() {
    let cancel = Cancel::default();
    let environment = Counting { cancel_at: Some((5, cancel.clone())), ..Counting::default() };
    let store = Arc::new(Memory::default());
    let played = play_with(plan(1000), environment, vec![], store, &cancel).await;
    let report = played.report.unwrap();
    assert_eq!(report.stopped, Some(StopReason::Cancelled));
    assert!(report.episodes.len() < 1000);
    assert_eq!(report.failed, 0, "a stop does not count as failures");
    let stored = played.store.episodes();
    assert_eq!(stored.len(), report.episodes.len());
    let cancelled = |ending: &clawhost_core::Ending| matches!(ending, clawhost_core::Ending::Failed(failure) if failure.kind == FailureKind::Cancelled);
    assert!(stored.iter().any(|episode| cancelled(&episode.ending)));
    assert!(played.store.summary().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_ends_the_run_with_its_reason() {
    let store = Arc::new(Memory { full_after: Some(5), ..Memory::default() });
    let played = play_with(plan(100), Counting::default(), vec![], store, &Cancel::default()).await;
    let error = played.report.unwrap_err();
    assert!(matches!(error, PlayError::Store(_)), "{error}");
    assert!(error.to_string().contains("no room left"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_environment_is_truncated() {
    let environment = Counting { turns: u32::MAX, ..Counting::default() };
    let report = play(Plan { max_turns: 5, ..plan(2) }, environment, vec![Judge::giving(0.0)]).await.report.unwrap();
    assert_eq!(report.endings["truncated"], 2);
    assert_eq!((report.steps, report.scored), (10, 2), "a truncated episode is complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_episode_beyond_the_size_limit_fails() {
    let environment = Counting { turns: u32::MAX, ..Counting::default() };
    let plan = Plan { episode_bytes: 2000, max_turns: 10_000, failure_budget: 1.0, ..plan(1) };
    let report = play(plan, environment, vec![]).await.report.unwrap();
    assert_eq!(report.endings.keys().collect::<Vec<_>>(), ["failed: limit(length)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_repeat_if_there_are_too_few_and_missing_ones_are_errors() {
    let few = Counting { tasks: 3, ..Counting::default() };
    let played = play(plan(7), few, vec![]).await;
    played.report.unwrap();
    let mut episodes = played.store.episodes();
    episodes.sort_by_key(|episode| episode.index);
    let tasks: Vec<_> = episodes.iter().map(|episode| episode.task.id.as_str()).collect();
    assert_eq!(tasks, ["t0", "t1", "t2", "t0", "t1", "t2", "t0"]);
    assert_ne!(episodes[0].seed(), episodes[3].seed(), "a repeated task has another seed");

    let none = Counting { tasks: 0, ..Counting::default() };
    let error = play(plan(7), none, vec![]).await.report.unwrap_err();
    assert!(error.to_string().contains("gives no tasks in split `train`"), "{error}");
    let unreadable = Counting { unreadable: true, ..Counting::default() };
    let error = play(plan(7), unreadable, vec![]).await.report.unwrap_err();
    assert!(error.to_string().contains("the tasks cannot be read: plugin(error): no list today"), "{error}");
    let split = Plan { split: Some("trial".into()), ..plan(1) };
    let error = play(split, Counting::default(), vec![]).await.report.unwrap_err();
    assert!(error.to_string().contains("no split `trial`; it has train"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_episode_is_recorded_with_the_notes_of_its_own_instance() {
    for concurrency in [1, 16] {
        let played = play(Plan { concurrency, ..plan(20) }, Counting::default(), vec![]).await;
        played.report.unwrap();
        assert_eq!(played.store.recorded.lock().unwrap().len(), 20);
        for recorded in played.store.recorded.lock().unwrap().iter() {
            let index = recorded.episode.index.to_string().into_bytes();
            assert_eq!(recorded.notes.get("last"), Some(&Some(index)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_digest_covers_everything_that_was_sent() {
    let played = play(plan(2), Counting::default(), vec![]).await;
    played.report.unwrap();
    let mut digests: Vec<_> =
        played.store.episodes().iter().flat_map(|episode| episode.turns.iter().map(|turn| turn.request)).collect();
    let all = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), all, "all requests differ");
}

/// A clock that jumps back and forth during a run.
struct Jumping(std::sync::atomic::AtomicU64);

impl clawhost_core::Clock for Jumping {
    fn now_ms(&self) -> u64 {
        let read = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if read.is_multiple_of(2) { 1 } else { u64::MAX - read }
    }

    fn monotonic_us(&self) -> u64 {
        // Simulates broken hardware: even the monotonic clock goes back.
        self.now_ms()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jumping_clock_changes_no_result() {
    let run = async |clock: Arc<dyn clawhost_core::Clock>| {
        let store = Arc::new(Memory::default());
        let ports = Ports { clock, ..ports(Counting::default(), vec![Judge::giving(0.5)], store.clone()) };
        play_ports(plan(20), ports, &Cancel::default()).await.unwrap()
    };
    assert_eq!(run(Arc::new(Still)).await, run(Arc::new(Jumping(Default::default()))).await);
}

/// Plays a part of a plan, then the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_run_plays_only_missing_groups() {
    let whole = play(Plan { group: 4, ..plan(40) }, Counting::default(), vec![Judge::giving(1.0)]).await;
    let expected = whole.report.unwrap();
    let episodes = whole.store.episodes();
    // A complete group, one with a missing member, and one with a cancelled member.
    let mut earlier: Vec<EpisodeSummary> = episodes[..12].iter().map(|episode| EpisodeSummary::of(episode)).collect();
    earlier[9].cancelled = true;
    earlier.remove(5);
    let store = Arc::new(Memory::default());
    let kept = whole.store.recorded.lock().unwrap()[..12].to_vec();
    *store.recorded.lock().unwrap() = kept.into_iter().filter(|recorded| recorded.episode.index != 5).collect();
    let environment = Arc::new(Counting::default());
    let ports = ports(Counting::default(), vec![Judge::giving(1.0)], store.clone());
    let ports = Ports { environments: Environments::One(environment.clone()), ..ports };
    let plan = Plan { group: 4, ..plan(40) };
    let request = RunRequest { recorded: Some(earlier), ..RunRequest::new(RunId("run-test".into()), plan, ports) };
    let PlayedRun { report, episodes } = play_run(request, &Cancel::default(), &Silent).await.unwrap();
    assert!(episodes.is_empty(), "they were not requested");
    assert_eq!(report, expected);
    assert_eq!(environment.begun.load(std::sync::atomic::Ordering::Relaxed), 36, "only the first group was complete");
    assert_eq!(store.episodes().len(), 40, "none twice");
}
