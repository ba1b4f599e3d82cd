//! Removals from a data folder with a store.

use super::*;
use crate::RequestError;
use clawhost_core::{
    Checkpoint, Digest, Episode, EpisodeFilter, EpisodeId, EpisodeStore as _, Evidence, LearningStore as _,
    PlaybookLedger, PlaybookVersion, Recorded, RunId, RunKind, RunLabels, RunRecord, SpecDocument, Usage,
};
use clawhost_learn::playbook::Playbook;
use clawhost_learn::{Entry, Lesson};
use std::collections::BTreeMap;
use std::sync::Arc;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const NOW: u64 = 100 * DAY_MS;

fn golden() -> Episode {
    serde_json::from_str(include_str!("../../../../tests/golden/episode-2.json")).unwrap()
}

fn id(run: &str) -> RunId {
    RunId(run.into())
}

/// A run that began this many days ago, with one episode for each id.
async fn played(store: &Store, run: &str, parent: Option<&str>, days: u64, ids: &[&str]) {
    let record = RunRecord {
        id: id(run),
        parent: parent.map(id),
        kind: if parent.is_some() { RunKind::Phase } else { RunKind::Play },
        environment: "guess".into(),
        state_id: golden().state_id,
        config: SpecDocument::none(),
        basis: serde_json::json!(run),
        planned: ids.len() as u64,
        created_at: NOW - days * DAY_MS,
        labels: RunLabels::default(),
    };
    store.begin_run(&record).await.unwrap();
    let recorded = ids.iter().zip(0..).map(|(episode, index)| Recorded {
        episode: Arc::new(Episode { run: id(run), id: EpisodeId((*episode).to_owned()), index, ..golden() }),
        notes: BTreeMap::new(),
        replaces_existing: false,
    });
    store.append(&id(run), recorded.collect(), Usage::default()).await.unwrap();
}

async fn finished(store: &Store, run: &str) {
    store.finish_run(&id(run), &serde_json::json!({}), Usage::default()).await.unwrap();
}

/// Runs, oldest first: a learning run that created a version and whose ledger cites an episode, an interrupted run, a
/// finished run, and a new one.
async fn filled(folder: &Path) {
    let store = Store::open(folder, StoreOptions::default()).unwrap();
    played(&store, "run-learned", None, 40, &[]).await;
    played(&store, "run-learned.1", Some("run-learned"), 40, &["ep-cited", "ep-other"]).await;
    let sources = vec![Evidence { episode: "ep-cited".into(), turns: vec![0] }];
    let cited = Entry { sources, ..Entry::new(Lesson::read("Be kind."), "reflector") };
    let version = PlaybookVersion {
        name: "guess".into(),
        number: 0,
        digest: Digest::of(b"version"),
        document: serde_json::json!(Playbook::default()),
        why: "learned".into(),
        run: Some(id("run-learned")),
        created_at: NOW,
    };
    let ledger = PlaybookLedger { name: "guess".into(), document: serde_json::json!([{ "entry": cited }]) };
    let checkpoint = Checkpoint {
        run: id("run-learned"),
        iteration: 1,
        state: serde_json::json!({}),
        report: serde_json::json!({}),
        versions: vec![version],
        ledger: Some(ledger),
        large: BTreeMap::new(),
        spent: Usage::default(),
    };
    store.checkpoint(checkpoint).await.unwrap();
    finished(&store, "run-learned.1").await;
    finished(&store, "run-learned").await;
    played(&store, "run-interrupted", None, 30, &["ep-1"]).await;
    played(&store, "run-ended", None, 20, &["ep-1", "ep-2"]).await;
    finished(&store, "run-ended").await;
    played(&store, "run-new", None, 1, &["ep-1"]).await;
    finished(&store, "run-new").await;
}

fn episodes(folder: &Path) -> Vec<String> {
    let rows = Workspace::read(folder).unwrap().episodes(&EpisodeFilter::default()).unwrap();
    rows.into_iter().map(|row| format!("{}/{}", row.run, row.id)).collect()
}

async fn pruned(folder: &Path, rule: PruneRule) -> PruneReport {
    prune(folder, &PruneRequest { rule, is_rehearsal: false }, NOW).await.unwrap()
}

fn going(report: &PruneReport) -> Vec<&str> {
    report.runs.iter().map(|run| run.holdings.run.0.as_str()).collect()
}

#[tokio::test]
async fn old_runs_are_removed_except_resumable_ones_and_references_of_playbooks() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    let rule = PruneRule::OlderThan { days: 10 };
    let before = episodes(folder.path());
    let request = PruneRequest { rule: rule.clone(), is_rehearsal: true };
    let rehearsed = prune(folder.path(), &request, NOW).await.unwrap();
    assert_eq!(episodes(folder.path()), before, "a rehearsal removes nothing");
    assert_eq!(rehearsed.bytes_after, None, "unknown before a removal");

    let report = pruned(folder.path(), rule.clone()).await;
    assert_eq!(
        (&report.runs, &report.kept),
        (&rehearsed.runs, &rehearsed.kept),
        "a rehearsal reports what would be removed"
    );
    assert_eq!(going(&report), ["run-learned", "run-ended"]);
    let (removed, would) = (report.removed.unwrap(), rehearsed.removed.unwrap());
    assert_eq!((removed.runs, removed.episodes, report.episodes()), (1, 3, 3));
    assert_eq!((would.runs, would.episodes), (removed.runs, removed.episodes));
    let kept: Vec<(&str, &KeptBecause)> = report.kept.iter().map(|kept| (kept.run.0.as_str(), &kept.because)).collect();
    let expected = [
        ("run-interrupted", KeptBecause::CanBeResumed),
        ("run-learned", KeptBecause::MadeVersions { playbooks: vec!["guess".into()] }),
        ("run-learned", KeptBecause::Cited { episodes: vec!["run-learned.1/ep-cited".into()] }),
    ];
    assert_eq!(kept, expected.each_ref().map(|(run, because)| (*run, because)));
    assert_eq!(episodes(folder.path()), ["run-new/ep-1", "run-interrupted/ep-1", "run-learned.1/ep-cited"]);
    assert!(Workspace::read(folder.path()).unwrap().run(&id("run-learned")).unwrap().is_some());
    // What is kept is not removed again.
    let again = pruned(folder.path(), rule).await;
    assert!(again.runs.is_empty() && again.kept == report.kept, "{again:?}");
}

#[tokio::test]
async fn a_resumable_run_is_removed_by_name() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    let resumable = |report: &DataReport| -> Vec<String> {
        report.runs.iter().filter(|run| run.can_be_resumed).map(|run| run.holdings.run.0.clone()).collect()
    };
    assert_eq!(resumable(&holdings(folder.path()).await.unwrap()), ["run-interrupted"]);
    let report = pruned(folder.path(), PruneRule::Runs([id("run-interrupted")].into())).await;
    assert_eq!((going(&report), report.kept.is_empty()), (vec!["run-interrupted"], true));
    assert!(resumable(&holdings(folder.path()).await.unwrap()).is_empty());
    for unknown in ["run-interrupted", "run-learned.1"] {
        let request = PruneRequest { rule: PruneRule::Runs([id(unknown)].into()), is_rehearsal: false };
        let error = prune(folder.path(), &request, NOW).await.unwrap_err();
        assert!(matches!(error, AppError::Request(RequestError::NoRun { .. })), "{unknown}: {error}");
    }
}

#[tokio::test]
async fn an_unreachable_target_size_removes_everything_that_may_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    let held = holdings(folder.path()).await.unwrap();
    let enough = pruned(folder.path(), PruneRule::KeepSize { bytes: held.record_bytes() }).await;
    assert!(enough.runs.is_empty() && enough.kept.is_empty(), "{enough:?}");
    let report = pruned(folder.path(), PruneRule::KeepSize { bytes: 0 }).await;
    assert_eq!(going(&report), ["run-learned", "run-ended", "run-new"]);
    assert_eq!(report.kept.len(), 3);
    assert_eq!(report.bytes_after.unwrap(), holdings(folder.path()).await.unwrap().record_bytes());
}

#[tokio::test]
async fn nothing_is_removed_while_another_process_uses_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let request = PruneRequest { rule: PruneRule::OlderThan { days: 0 }, is_rehearsal: false };
    let error = prune(folder.path(), &request, NOW).await.unwrap_err();
    assert!(matches!(error, AppError::Store(StoreError::Empty { .. })), "{error}");
    filled(folder.path()).await;
    let held = hold_folder(folder.path(), LeaseMode::Shared).unwrap();
    let error = prune(folder.path(), &request, NOW).await.unwrap_err();
    assert!(matches!(error, AppError::Request(RequestError::FolderBusy { .. })), "{error}");
    let rehearsal = PruneRequest { is_rehearsal: true, ..request.clone() };
    assert!(prune(folder.path(), &rehearsal, NOW).await.is_ok() && holdings(folder.path()).await.is_ok());
    drop(held);
    assert!(prune(folder.path(), &request, NOW).await.is_ok());
}

#[test]
fn the_bytes_of_a_folder_are_those_of_all_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("a/b");
    assert_eq!(folder_bytes(&inside).unwrap(), 0, "there is none");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(inside.join("one"), [0; 3]).unwrap();
    std::fs::write(folder.path().join("two"), [0; 4]).unwrap();
    assert_eq!(folder_bytes(folder.path()).unwrap(), 7);
}
