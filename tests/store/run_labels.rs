//! Names and tags of runs: unique names, filters by tags, and removal with the run.

use crate::records::{cost, filled, opened, phase, put, recorded, run};
use clawhost_core::{
    Digest, EpisodeStore as _, EpisodeTally, LabelChange, PhaseRow, RUN_TAGS, Relabelled, Removal, Retention as _,
    RunFilter, RunId, RunKind, RunLabelStore as _, RunLabels, RunName, RunReader as _, RunRecord, RunState, RunTag,
    StoreError,
};
use clawhost_store::{Reader, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn id(run: &str) -> RunId {
    RunId(run.into())
}

fn name(text: &str) -> RunName {
    text.parse().unwrap()
}

fn tags(texts: &[&str]) -> BTreeSet<RunTag> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn labels(name_text: &str, tag_texts: &[&str]) -> RunLabels {
    RunLabels { name: Some(name(name_text)), tags: tags(tag_texts) }
}

async fn begin(store: &Store, run_id: &str, labels: RunLabels) -> Result<(), StoreError> {
    store.begin_run(&RunRecord { labels, ..run(run_id) }).await
}

fn selected(folder: &Path, filter: &RunFilter) -> Vec<String> {
    let rows = Reader::open(folder).unwrap().select_runs(filter).unwrap();
    rows.rows.into_iter().map(|row| row.id.0).collect()
}

#[tokio::test]
async fn a_run_is_found_by_its_name_and_a_name_belongs_to_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    begin(&store, "run-a", labels("first", &["x", "y"])).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.run_named(&name("first")).unwrap(), Some(id("run-a")));
    assert_eq!(reader.labels(&id("run-a")).unwrap(), labels("first", &["x", "y"]));
    let taken = StoreError::NameTaken { name: name("first"), run: id("run-a") };
    assert_eq!(begin(&store, "run-b", labels("first", &[])).await, Err(taken.clone()));
    assert_eq!(selected(folder.path(), &RunFilter::default()), ["run-a"], "a run that is refused leaves nothing");
    begin(&store, "run-b", RunLabels::default()).await.unwrap();
    assert_eq!(store.relabel(&id("run-b"), LabelChange::Name(Some(name("first")))).await, Err(taken));
    let change = LabelChange::Name(Some(name("other")));
    let now = store.relabel(&id("run-a"), change.clone()).await.unwrap();
    assert_eq!(now, Relabelled::Now(labels("other", &["x", "y"])));
    assert_eq!(store.relabel(&id("run-a"), change).await.unwrap(), now, "a run may keep its own name");
    let freed = store.relabel(&id("run-b"), LabelChange::Name(Some(name("first")))).await.unwrap();
    assert_eq!(freed, Relabelled::Now(labels("first", &[])));
    let none = store.relabel(&id("run-a"), LabelChange::Name(None)).await.unwrap();
    assert_eq!(none, Relabelled::Now(RunLabels { name: None, tags: tags(&["x", "y"]) }));
}

#[tokio::test]
async fn tags_are_added_and_removed_together_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    begin(&store, "run-a", RunLabels::default()).await.unwrap();
    store.begin_run(&phase("run-a.1", "run-a")).await.unwrap();
    let change = |added: &[&str], removed: &[&str]| LabelChange::Tags { added: tags(added), removed: tags(removed) };
    let tagged = |texts: &[&str]| Relabelled::Now(RunLabels { name: None, tags: tags(texts) });
    let run = id("run-a");
    assert_eq!(store.relabel(&run, change(&["a", "b"], &[])).await.unwrap(), tagged(&["a", "b"]));
    assert_eq!(store.relabel(&run, change(&["a", "c"], &["b", "c"])).await.unwrap(), tagged(&["a"]));
    let many: Vec<String> = (0..RUN_TAGS).map(|number| format!("t{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(store.relabel(&run, change(&many, &["b"])).await.unwrap(), Relabelled::TooManyTags);
    assert_eq!(store.relabel(&run, change(&[], &[])).await.unwrap(), tagged(&["a"]), "nothing was added");
    assert_eq!(store.relabel(&run, change(&many, &["a"])).await.unwrap(), tagged(&many), "as many as a run may have");
    for missing in ["run-none", "run-a.1"] {
        assert_eq!(store.relabel(&id(missing), change(&["a"], &[])).await.unwrap(), Relabelled::NoRun, "{missing}");
    }
}

#[tokio::test]
async fn labels_are_removed_with_the_run_and_kept_with_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    begin(&store, "run-a", labels("first", &["x"])).await.unwrap();
    let removal = Removal { runs: [id("run-a")].into(), ..Removal::default() };
    let keeping = Removal { keep_records: removal.runs.clone(), ..removal.clone() };
    store.remove(keeping).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.labels(&id("run-a")).unwrap(), labels("first", &["x"]));
    store.remove(removal).await.unwrap();
    assert_eq!(reader.run_named(&name("first")).unwrap(), None);
    begin(&store, "run-b", labels("first", &["x"])).await.unwrap();
    let tagged = RunFilter { tags: tags(&["x"]), ..RunFilter::default() };
    assert_eq!(selected(folder.path(), &tagged), ["run-b"]);
}

#[tokio::test]
async fn runs_are_selected_by_tags_state_kind_and_time_together() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let kinds = [RunKind::Play, RunKind::Learn, RunKind::Play];
    for (number, (kind, tagged)) in kinds.into_iter().zip([&["x"][..], &["x", "y"], &[]]).enumerate() {
        let labels = RunLabels { name: None, tags: tags(tagged) };
        let created_at = 10 * (number as u64 + 1);
        store.begin_run(&RunRecord { kind, created_at, labels, ..run(&format!("run-{number}")) }).await.unwrap();
    }
    store.begin_run(&phase("run-1.1", "run-1")).await.unwrap();
    store.finish_run(&id("run-2"), &serde_json::json!({}), cost()).await.unwrap();
    let all = RunFilter::default();
    let check = |filter: RunFilter, expect: &[&str]| assert_eq!(selected(folder.path(), &filter), expect, "{filter:?}");
    check(all.clone(), &["run-2", "run-1", "run-0"]);
    check(RunFilter { tags: tags(&["x"]), ..all.clone() }, &["run-1", "run-0"]);
    check(RunFilter { tags: tags(&["x", "y"]), ..all.clone() }, &["run-1"]);
    check(RunFilter { kinds: [RunKind::Play].into(), ..all.clone() }, &["run-2", "run-0"]);
    check(RunFilter { states: [RunState::Open, RunState::Stopped].into(), ..all.clone() }, &["run-1", "run-0"]);
    check(RunFilter { begun_from: Some(20), ..all.clone() }, &["run-2", "run-1"]);
    check(RunFilter { begun_to: Some(20), ..all.clone() }, &["run-1", "run-0"]);
    let narrow = RunFilter { tags: tags(&["x"]), kinds: [RunKind::Play].into(), begun_to: Some(20), ..all };
    check(narrow, &["run-0"]);
}

#[tokio::test]
async fn a_prefix_of_an_id_finds_runs_but_not_phases() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    for run in ["run-20", "run-21", "run-3"] {
        begin(&store, run, RunLabels::default()).await.unwrap();
    }
    store.begin_run(&phase("run-20.1", "run-20")).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    let check = |text: &str, expect: &[&str]| {
        let found = reader.runs_beginning(text, 10).unwrap();
        assert_eq!(found, expect.iter().map(|run| id(run)).collect::<Vec<_>>(), "{text}");
    };
    check("run-2", &["run-21", "run-20"]);
    check("run-20", &["run-20"]);
    check("run-3", &["run-3"]);
    check("run-4", &[]);
    check("%", &[]);
    assert_eq!(reader.runs_beginning("run-", 2).unwrap().len(), 2, "the limit is respected");
}

#[tokio::test]
async fn the_summary_of_a_run_includes_its_phases() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 4).await;
    store.begin_run(&phase("run-a.1", "run-a")).await.unwrap();
    put(&store, vec![recorded("run-a.1", 0)]).await.unwrap();
    store.finish_run(&id("run-a.1"), &serde_json::json!({}), cost()).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    let tally = reader.tally(&id("run-a"), 0).unwrap();
    let failed: BTreeMap<String, u64> =
        tally.endings.iter().filter(|(ending, _)| ending.starts_with("failed")).map(|(e, n)| (e.clone(), *n)).collect();
    assert_eq!((tally.episodes, tally.failed, failed.values().sum()), (5, 2, 2_u64), "{tally:?}");
    assert_eq!(tally.endings.values().sum::<u64>(), tally.episodes);
    let phases = reader.phases(&id("run-a")).unwrap();
    let phases = phases.iter().map(|PhaseRow { id, state, episodes, .. }| (id.0.as_str(), *state, *episodes));
    assert_eq!(phases.collect::<Vec<_>>(), [("run-a.1", RunState::Finished, 1)]);
    assert_eq!(reader.tally(&id("run-none"), 0).unwrap(), EpisodeTally::default());
    let digest = Digest::of_json(&serde_json::json!("configuration"));
    assert_eq!(reader.finished_run(&digest).unwrap(), None, "a phase is not a run");
    store.finish_run(&id("run-a"), &serde_json::json!({}), cost()).await.unwrap();
    assert_eq!(reader.finished_run(&digest).unwrap(), Some(id("run-a")));
}
