//! Finding runs and episodes by name, on a real store.

use super::{ListedRun, RunChoice, RunQuery, choose_runs, find_run, list_runs};
use crate::episodes::{EpisodeList, EpisodeQuery, Exported, export_episodes, find_episode, list_episodes, locate};
use crate::{AppError, RequestError};
use clawhost_core::{
    Digest, Episode, EpisodeId, EpisodeStore as _, FailureFilter, PluginIdentity, Recorded, RunFilter, RunId, RunKind,
    RunLabels, RunRecord, SpecDocument, Usage,
};
use clawhost_run_config::{RunSpecPatch, Verb};
use clawhost_store::{Reader, Store, StoreOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn golden(name: &str) -> Episode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

fn id(run: &str) -> RunId {
    RunId(run.into())
}

/// A run with these episodes. Those whose id begins with `ep-f` have failed.
async fn played(store: &Store, run: &str, name: Option<&str>, config: SpecDocument, ids: &[&str]) {
    let parent = run.split_once('.').map(|(parent, _)| id(parent));
    let record = RunRecord {
        id: id(run),
        kind: if parent.is_some() { RunKind::Phase } else { RunKind::Play },
        parent,
        environment: "guess".into(),
        state_id: golden("episode-2.json").state_id,
        config,
        basis: serde_json::json!(run),
        planned: ids.len() as u64,
        created_at: 1,
        labels: RunLabels { name: name.map(|name| name.parse().unwrap()), ..RunLabels::default() },
    };
    store.begin_run(&record).await.unwrap();
    let recorded = ids.iter().zip(0..).map(|(one, index)| {
        let base = golden(if one.starts_with("ep-f") { "episode-2-failed.json" } else { "episode-2.json" });
        let episode = Arc::new(Episode { run: id(run), id: EpisodeId((*one).to_owned()), index, ..base });
        Recorded { episode, notes: BTreeMap::new(), replaces_existing: false }
    });
    store.append(&id(run), recorded.collect(), Usage::default()).await.unwrap();
}

/// Runs, oldest first: one with a phase, and two of one configuration, whose episodes have equal ids.
async fn filled(folder: &Path) -> Reader {
    let store = Store::open(folder, StoreOptions::default()).unwrap();
    let none = SpecDocument::none;
    played(&store, "run-10", Some("lessons"), none(), &[]).await;
    played(&store, "run-10.1", None, none(), &["ep-phase"]).await;
    played(&store, "run-20", Some("first"), none(), &["ep-1", "ep-f"]).await;
    played(&store, "run-21", None, none(), &["ep-1", "ep-f", "ep-new"]).await;
    drop(store);
    Reader::open(folder).unwrap()
}

/// The error of a refused request: the runs that it lists, if there are several.
fn refused<T: std::fmt::Debug>(found: Result<T, AppError>) -> Vec<String> {
    let runs = match found.unwrap_err() {
        AppError::Request(RequestError::AmbiguousRun { runs, .. } | RequestError::AmbiguousEpisode { runs, .. }) => {
            runs
        }
        AppError::Request(RequestError::NoRun { .. } | RequestError::NoRuns | RequestError::NoEpisode { .. }) => {
            Vec::new()
        }
        other => panic!("{other:?}"),
    };
    runs.into_iter().map(|run| run.0).collect()
}

#[tokio::test]
async fn a_run_is_found_by_id_name_or_unique_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let reader = filled(folder.path()).await;
    let check = |text: &str, expect: Result<&str, &[&str]>| match (find_run(&reader, text), expect) {
        (Ok(row), Ok(run)) => assert_eq!(row.id.0, run, "{text}"),
        (found, Err(runs)) => assert_eq!(refused(found), runs, "{text}"),
        (found, expect) => panic!("{text}: {found:?} {expect:?}"),
    };
    for text in ["run-20", "first"] {
        check(text, Ok("run-20"));
    }
    check("run-21", Ok("run-21"));
    check("run-1", Ok("run-10"));
    check("lessons", Ok("run-10"));
    check("run-2", Err(&["run-21", "run-20"]));
    for text in ["run-", "run", "run-3", "firs", "FIRST", "", "run-10.1", "%"] {
        check(text, Err(&[]));
    }
}

#[tokio::test]
async fn the_newest_run_is_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let reader = filled(folder.path()).await;
    let check = |choice: RunChoice, expect: &[&str]| {
        let found = choose_runs(&reader, &choice).unwrap();
        assert_eq!(found.iter().map(|row| row.id.0.as_str()).collect::<Vec<_>>(), expect, "{choice:?}");
    };
    check(RunChoice::default(), &["run-21"]);
    check(RunChoice::One("first".into()), &["run-20"]);
    check(RunChoice::All, &["run-21", "run-20", "run-10"]);
    let empty = tempfile::tempdir().unwrap();
    drop(Store::open(empty.path(), StoreOptions::default()).unwrap());
    let empty = Reader::open(empty.path()).unwrap();
    for choice in [RunChoice::Newest, RunChoice::All, RunChoice::One("run-1".into())] {
        assert!(refused(choose_runs(&empty, &choice)).is_empty(), "{choice:?}");
    }
}

#[tokio::test]
async fn an_ambiguous_episode_id_is_refused_with_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    let reader = filled(folder.path()).await;
    let check = |name: &str, run: &str| {
        assert_eq!(find_episode(&reader, name).unwrap().run, id(run), "{name}");
    };
    check("ep-new", "run-21");
    check("run-20/ep-1", "run-20");
    check("first/ep-1", "run-20");
    check("run-21/ep-1", "run-21");
    // An episode of a learning run belongs to one of its phases.
    for name in ["ep-phase", "run-10.1/ep-phase", "run-10/ep-phase", "lessons/ep-phase", "run-1/ep-phase"] {
        check(name, "run-10.1");
    }
    assert_eq!(refused(find_episode(&reader, "ep-1")), ["run-21", "run-20"]);
    assert_eq!(refused(find_episode(&reader, "run-2/ep-1")), ["run-21", "run-20"]);
    for name in ["ep-none", "run-20/ep-new", "run-20/", "/ep-1", "nowhere/ep-1"] {
        assert!(refused(find_episode(&reader, name)).is_empty(), "{name}");
    }
    assert_eq!(locate(&reader, "run-20/ep-new").unwrap(), None);
}

#[tokio::test]
async fn lists_and_exports_cover_the_selected_runs_and_name_a_single_one() {
    let folder = tempfile::tempdir().unwrap();
    let reader = filled(folder.path()).await;
    let check = |query: EpisodeQuery, run: Option<&str>, expect: &[&str]| {
        let EpisodeList { runs: named, episodes, .. } = list_episodes(&reader, &query, None, 0).unwrap();
        let run = run.map(|run| vec![id(run)]);
        let listed: Vec<String> = episodes.iter().map(|one| format!("{}/{}", one.row.run, one.row.id)).collect();
        assert_eq!((named, listed.iter().map(String::as_str).collect::<Vec<_>>()), (run.clone(), expect.to_vec()));
        let mut taken = Vec::new();
        let exported = export_episodes(&reader, &query, 0, |episode| {
            taken.push(format!("{}/{}", episode.run, episode.id));
            Ok::<_, AppError>(())
        });
        assert_eq!(exported.unwrap(), Exported { runs: run, episodes: taken.len() as u64 });
        assert_eq!(taken, expect);
    };
    let failed = |runs| EpisodeQuery { failure: Some(FailureFilter::Any), ..EpisodeQuery::of(runs) };
    let one = |text: &str| RunChoice::One(text.to_owned());
    check(EpisodeQuery::default(), Some("run-21"), &["run-21/ep-1", "run-21/ep-f", "run-21/ep-new"]);
    check(EpisodeQuery::of(one("first")), Some("run-20"), &["run-20/ep-1", "run-20/ep-f"]);
    check(EpisodeQuery::of(one("lessons")), Some("run-10"), &["run-10.1/ep-phase"]);
    check(EpisodeQuery::of(one("run-10.1")), Some("run-10.1"), &["run-10.1/ep-phase"]);
    check(failed(RunChoice::Newest), Some("run-21"), &["run-21/ep-f"]);
    check(failed(RunChoice::All), None, &["run-21/ep-f", "run-20/ep-f"]);
}

#[tokio::test]
async fn runs_are_filtered_by_the_name_or_digest_of_their_environment() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let digest = Digest::of(b"component");
    let patch = RunSpecPatch::from_toml("version = 1\nplugin = \"guess.wasm\"", "").unwrap();
    let mut spec = patch.resolve(Verb::Play).unwrap();
    spec.environment.plugin = Some(PluginIdentity { name: "guess".into(), version: "1".into(), digest });
    played(&store, "run-1", None, SpecDocument(spec.to_document()), &[]).await;
    played(&store, "run-2", Some("b"), SpecDocument::none(), &[]).await;
    let reader = Reader::open(folder.path()).unwrap();
    let check = |environment: Option<&str>, limit: Option<u64>, expect: &[&str]| {
        let filter = RunFilter { limit, ..RunFilter::default() };
        let query = RunQuery { filter, environment: environment.map(str::to_owned) };
        let found: Vec<String> = list_runs(&reader, &query).unwrap().rows.into_iter().map(|run| run.row.id.0).collect();
        assert_eq!(found, expect, "{environment:?} {limit:?}");
    };
    check(None, None, &["run-2", "run-1"]);
    check(None, Some(1), &["run-2"]);
    check(Some("guess"), None, &["run-2", "run-1"]);
    check(Some(&digest.to_string()), Some(1), &["run-1"]);
    check(Some(&digest.hex()[..6].to_uppercase()), None, &["run-1"]);
    for nothing in ["gues", "", "sha256:", "zz"] {
        check(Some(nothing), None, &[]);
    }
    let listed = list_runs(&reader, &RunQuery::default()).unwrap().rows;
    let [ListedRun { labels, model: None, .. }, ListedRun { model: Some(model), .. }] = &listed[..] else {
        panic!("{listed:?}")
    };
    assert_eq!((labels.name.as_ref().map(ToString::to_string).as_deref(), model.as_str()), (Some("b"), "follower"));
}
