//! Records of a run are compared with each other: what follows from its basis and its episodes is computed again.

use crate::{play, play_with};
use clawhost_core::{
    Digest, Discrepancy, Episode, Feedback, RewardRule, RunRow, RunState, Usage, admit, effective_reward,
};
use clawhost_play::{Basis, Cancel, EpisodeSummary, Plan, StopReason, check_episode, check_run};
use clawhost_testkit::{Counting, Judge, Memory, plan};
use std::sync::Arc;

/// The row of a run as a store would give it.
fn row(store: &Memory) -> RunRow {
    let record = store.begun.lock().unwrap().clone().unwrap();
    let summary = store.summary();
    let is_stopped = summary.as_ref().is_some_and(|summary| !summary["stopped"].is_null());
    RunRow {
        digest: record.digest(),
        id: record.id,
        kind: record.kind,
        environment: record.environment,
        state_id: record.state_id.to_string(),
        config: record.config,
        basis: record.basis,
        created_at: record.created_at,
        state: if is_stopped { RunState::Stopped } else { RunState::Finished },
        // Through text, as on disk.
        summary: summary.map(|summary| serde_json::from_str(&summary.to_string()).unwrap()),
        planned: record.planned,
        spent: Usage::default(),
        reward_mean: None,
        scored: 0,
        pruned: false,
    }
}

fn summaries(episodes: &[Arc<Episode>]) -> Vec<EpisodeSummary> {
    episodes.iter().map(|episode| EpisodeSummary::of(&episode.as_recorded())).collect()
}

/// Everything that disagrees.
fn discrepancies(store: &Memory) -> Vec<Discrepancy> {
    let row = row(store);
    let basis: Basis = serde_json::from_value(row.basis.clone()).unwrap();
    let mut found: Vec<Discrepancy> =
        store.episodes().iter().flat_map(|episode| check_episode(&basis, episode)).collect();
    found.extend(check_run(&row, Some(summaries(&store.episodes()))));
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn the_records_of_every_kind_of_end_agree() {
    let judges = || vec![Judge::giving(0.5), Judge::by_seed()];
    let finished = play(Plan { group: 3, ..plan(20) }, Counting::default(), judges()).await;
    assert_eq!(finished.report.unwrap().stopped, None);
    assert_eq!(discrepancies(&finished.store), []);
    let failing = Counting { failing: 9, ..Counting::default() };
    let failed = play(Plan { concurrency: 64, ..plan(1000) }, failing, judges()).await;
    let report = failed.report.unwrap();
    assert!(matches!(report.stopped, Some(StopReason::FailureBudget { .. })));
    // How many are in flight at the stop is a matter of time.
    assert!(failed.store.episodes().len() >= report.episodes.len(), "what is reported was recorded");
    assert_eq!(discrepancies(&failed.store), [], "episodes after the stop are recorded and not reported");
    let cancel = Cancel::default();
    cancel.request();
    let store = Arc::new(Memory::default());
    let cancelled = play_with(plan(20), Counting::default(), judges(), store, &cancel).await;
    if cancelled.report.is_ok() {
        assert_eq!(discrepancies(&cancelled.store), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_summary_and_a_basis_do_not_follow_from_is_named() {
    let played = play(plan(10), Counting::default(), vec![Judge::giving(0.5)]).await;
    let store = played.store;
    let check = |change: &dyn Fn(&mut RunRow), what: &str| {
        let mut row = row(&store);
        change(&mut row);
        let found = check_run(&row, Some(summaries(&store.episodes())));
        assert!(found.iter().any(|one| one.what == what), "{what}: {found:?}");
    };
    let set = |name: &'static str, value: serde_json::Value| {
        move |row: &mut RunRow| row.summary.as_mut().unwrap()[name] = value.clone()
    };
    check(&set("reward_mean", 0.75.into()), "summary.reward_mean");
    check(&set("content_root", "x".into()), "summary.content_root");
    check(&set("more", 1.into()), "summary.more");
    check(&set("stopped", "never".into()), "summary.stopped");
    check(&set("reward_range", "wide".into()), "summary.reward_range");
    check(&|row| row.digest = Digest::of(b"other"), "digest");
    check(&|row| row.basis["episodes"] = 11.into(), "digest");
    check(&|row| row.basis["episodes"] = 11.into(), "planned");
    check(&|row| row.state = RunState::Open, "state");
    check(&|row| row.state_id = "other".into(), "state_id");
    let mut fewer = summaries(&store.episodes());
    fewer.pop();
    let found = check_run(&row(&store), Some(fewer));
    assert!(found.iter().any(|one| one.what == "summary.content_root"), "an episode less: {found:?}");
    assert_eq!(check_run(&row(&store), None), [], "incomplete records say nothing about the summary");
}

#[tokio::test(flavor = "multi_thread")]
async fn expected_verdicts_are_compared_with_those_that_are_there() {
    let played = play(plan(3), Counting::default(), vec![Judge::giving(0.5), Judge::by_seed()]).await;
    let basis: Basis = serde_json::from_value(row(&played.store).basis).unwrap();
    let check = |change: &dyn Fn(&mut Episode), what: &[&str]| {
        let mut episode = Episode::clone(&played.store.episodes()[1]);
        change(&mut episode);
        let found = check_episode(&basis, &episode);
        let names: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(names.len(), what.len(), "{names:?}");
        assert!(names.iter().zip(what).all(|(name, what)| name.starts_with(what)), "{names:?}");
    };
    let revise = |episode: &mut Episode, score: f64| {
        let rule = RewardRule { is_live: false, expects: &[] };
        admit(Feedback::new(score, "").unwrap().record(), (1, None), rule, &mut episode.verdicts);
        episode.reward = effective_reward(&episode.verdicts);
    };
    check(&|_| {}, &[]);
    check(&|e| e.verdicts.truncate(1), &["the verdict of the reward "]);
    check(&|e| e.verdicts.push(e.verdicts[0].clone()), &["a verdict of "]);
    check(&|e| e.verdicts[0].weight = 0.5, &["the weight of the verdict of "]);
    check(&|e| revise(e, 1.0), &[]);
    check(
        &|e| {
            revise(e, 1.0);
            revise(e, -1.0);
            e.verdicts.remove(2);
        },
        &["revision 1"],
    );
    check(&|e| e.id = clawhost_core::EpisodeId("ep-x".into()), &["id"]);
    check(&|e| e.task.split = "another".into(), &["split"]);
}
