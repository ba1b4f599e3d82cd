//! Retention: sizes, removals, and records that are never removed.

use crate::records::{
    blob_files, blob_names, checkpoint, cost, episode, filled, names, opened, phase, plugin, put, recorded_as, run,
    with_artefacts, written,
};
use clawhost_core::{
    Digest, EpisodeReader as _, EpisodeStore as _, LargeState, LearningStore as _, PlaybookVersion, PluginReader as _,
    PluginStore as _, Recorded, Removal, Removed, Retention as _, RunId, RunKind, RunRecord, RunState, SpecDocument,
};
use clawhost_store::{ARTEFACT_BLOB_BYTES, FILE, Reader, Store};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn id(run: &str) -> RunId {
    RunId(run.into())
}

fn of(runs: &[&str]) -> Removal {
    Removal { runs: runs.iter().map(|run| id(run)).collect(), ..Removal::default() }
}

/// A learning run with a phase of two episodes, and a checkpoint.
async fn learned(store: &Store, name: &str) {
    store.begin_run(&RunRecord { kind: RunKind::Learn, planned: 0, ..run(name) }).await.unwrap();
    let part = format!("{name}.1");
    store.begin_run(&phase(&part, name)).await.unwrap();
    let noting = Recorded {
        notes: BTreeMap::from([("key".into(), Some(b"value".to_vec()))]),
        ..recorded_as(with_artefacts(&part, 0, &[&[7; ARTEFACT_BLOB_BYTES]]))
    };
    put(store, vec![noting, recorded_as(episode(&part, 1))]).await.unwrap();
    store.finish_run(&id(&part), &serde_json::json!({}), cost()).await.unwrap();
    store.checkpoint(checkpoint(name, 1, &[("weights", written(name.as_bytes()))])).await.unwrap();
}

/// Rows of all tables that belong to a run or a phase of it.
fn rows(folder: &Path, name: &str) -> BTreeMap<&'static str, u32> {
    let connection = rusqlite::Connection::open(folder.join(FILE)).unwrap();
    let own = "IN (?1, ?1 || '.1')";
    let count = |table, condition: &str| {
        let sql = format!("SELECT count(*) FROM {table} WHERE {condition}");
        (table, connection.query_row(&sql, [name], |row| row.get(0)).unwrap())
    };
    let of_runs = ["notes", "checkpoints", "large_states", "iterations", "episode_rows"];
    let of_episodes = ["episode_blobs", "verdicts"];
    let numbers = format!("run IN (SELECT number FROM runs WHERE id {own})");
    of_runs
        .into_iter()
        .map(|table| count(table, &format!("run {own}")))
        .chain(
            of_episodes
                .map(|table| count(table, &format!("episode IN (SELECT number FROM episode_rows WHERE run {own})"))),
        )
        .chain([count("episode_notes", &numbers), count("runs", &format!("id {own}"))])
        .collect()
}

#[tokio::test]
async fn a_removed_run_leaves_nothing_and_other_runs_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    learned(&store, "run-a").await;
    learned(&store, "run-b").await;
    let before = rows(folder.path(), "run-b");
    assert!(before.values().all(|rows| *rows > 0), "{before:?}");
    let removed = store.remove(of(&["run-a", "run-unknown"])).await.unwrap();
    assert_eq!((removed.runs, removed.episodes, removed.plugins, removed.blobs), (1, 2, 0, 1), "{removed:?}");
    assert!(rows(folder.path(), "run-a").values().all(|rows| *rows == 0));
    assert_eq!(rows(folder.path(), "run-b"), before);
    assert_eq!(store.large_state(&id("run-b"), "weights").await.unwrap().unwrap(), b"run-b");
    assert_eq!(blob_files(folder.path()), blob_names(&[b"run-b", &[7; ARTEFACT_BLOB_BYTES]]));
    // Repeating the removal removes nothing.
    let again = store.remove(of(&["run-a"])).await.unwrap();
    assert_eq!(Removed { bytes: 0, ..again }, Removed::default());
}

#[tokio::test]
async fn a_kept_record_has_specification_and_reports_and_is_not_resumable() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    learned(&store, "run-a").await;
    let reader = || Reader::open(folder.path()).unwrap();
    let config = reader().run(&id("run-a")).unwrap().unwrap().config;
    assert_eq!(reader().resumable(&Digest::of_json(&serde_json::json!("configuration"))).unwrap().len(), 1);
    let removal = Removal { keep_records: BTreeSet::from([id("run-a"), id("run-x")]), ..of(&["run-a"]) };
    let removed = store.remove(removal).await.unwrap();
    assert_eq!((removed.runs, removed.episodes, removed.blobs), (0, 2, 2));
    let row = reader().run(&id("run-a")).unwrap().unwrap();
    assert_eq!((row.config, row.state), (config, RunState::Open));
    assert_eq!(store.iterations(&id("run-a")).await.unwrap(), [serde_json::json!({"number": 1})]);
    assert_eq!(store.last_checkpoint(&id("run-a")).await.unwrap(), None);
    assert_eq!(reader().run(&id("run-a.1")).unwrap(), None, "no episode of the phase stays");
    let left = rows(folder.path(), "run-a");
    assert_eq!(left.values().sum::<u32>(), 2, "{left:?}");
    assert!(reader().resumable(&Digest::of_json(&serde_json::json!("configuration"))).unwrap().is_empty());
}

#[tokio::test]
async fn a_kept_episode_keeps_its_verdicts_its_blobs_its_phase_and_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    learned(&store, "run-a").await;
    let reader = || Reader::open(folder.path()).unwrap();
    let whole = reader().episode("run-a.1/ep-0000").unwrap().unwrap();
    assert!(!whole.verdicts.is_empty());
    let keep_episodes = ["run-a.1/ep-0000", "run-a.1/ep-9999", "nonsense"].map(str::to_owned);
    let removal = Removal { keep_episodes: keep_episodes.into(), ..of(&["run-a"]) };
    let removed = store.remove(removal.clone()).await.unwrap();
    assert_eq!((removed.runs, removed.episodes, removed.blobs), (0, 1, 1));
    assert!(reader().episode("run-a.1/ep-0000").unwrap().unwrap() == whole);
    assert_eq!(names(folder.path()), ["run-a.1/ep-0000"]);
    assert!(reader().run(&id("run-a")).unwrap().is_some(), "a phase without its run could not be found");
    assert!(store.iterations(&id("run-a")).await.unwrap().is_empty());
    assert!(reader().resumable(&Digest::of_json(&serde_json::json!("configuration"))).unwrap().is_empty());
    assert_eq!(store.remove(removal).await.unwrap().episodes, 0);
    assert_eq!(store.remove(of(&["run-a"])).await.unwrap().runs, 1, "later the whole run is removed");
    assert!(blob_files(folder.path()).is_empty());
}

#[tokio::test]
async fn a_plugin_is_kept_while_an_episode_a_verdict_or_a_run_refers_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let played = plugin(b"played");
    let [judged, named, unused] = [&b"judged"[..], b"named", b"unused"].map(plugin);
    let mut one = episode("run-a", 0);
    one.origin.simulated_mut().unwrap().environment = played.clone();
    one.verdicts[0].reward = judged.clone();
    let config = SpecDocument(serde_json::json!({"reflector": {"digest": named.digest.to_string()}}));
    store.begin_run(&run("run-a")).await.unwrap();
    store.begin_run(&RunRecord { config, ..run("run-b") }).await.unwrap();
    put(&store, vec![recorded_as(one)]).await.unwrap();
    for (identity, bytes) in [(&played, "played"), (&judged, "judged"), (&named, "named"), (&unused, "unused")] {
        store.keep_plugin(identity, "environment", bytes.into()).await.unwrap();
    }
    let left = || {
        let reader = Reader::open(folder.path()).unwrap();
        [&played, &judged, &named, &unused].map(|identity| reader.plugin(&identity.digest).unwrap().is_some())
    };
    assert_eq!(store.remove(of(&[])).await.unwrap().plugins, 0);
    assert_eq!(left(), [true; 4], "they are kept by default");
    let prune = |runs: &[&str]| Removal { unused_plugins: true, ..of(runs) };
    let removed = store.remove(prune(&[])).await.unwrap();
    assert_eq!((removed.plugins, removed.blobs, left()), (1, 1, [true, true, true, false]));
    assert_eq!(store.remove(prune(&["run-a"])).await.unwrap().plugins, 2);
    assert_eq!(left(), [false, false, true, false]);
    assert_eq!(store.remove(prune(&["run-b"])).await.unwrap().plugins, 1);
    assert!(blob_files(folder.path()).is_empty());
}

#[tokio::test]
async fn unfinished_and_unused_files_are_deleted_and_others_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    learned(&store, "run-a").await;
    let other = tempfile::tempdir().unwrap();
    let lost = opened(other.path());
    lost.keep_plugin(&plugin(b"lost"), "environment", b"lost".to_vec()).await.unwrap();
    // As a process leaves them that dies between its blob and its record.
    let path = crate::records::blob_path(folder.path(), b"lost");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::copy(crate::records::blob_path(other.path(), b"lost"), &path).unwrap();
    std::fs::write(path.with_file_name("tmp-abc"), "half").unwrap();
    std::fs::write(path.with_file_name("notes.txt"), "mine").unwrap();
    let holdings = store.holdings().await.unwrap();
    assert_eq!(holdings.unused_blobs, (1, 4));
    let removed = store.remove(Removal::default()).await.unwrap();
    assert_eq!((removed.blobs, removed.runs), (1, 0));
    let mut expected = blob_names(&[b"run-a", &[7; ARTEFACT_BLOB_BYTES]]);
    expected.push("notes.txt".into());
    assert_eq!(blob_files(folder.path()), expected);
    assert_eq!(store.holdings().await.unwrap().unused_blobs, (0, 0));
}

/// Bytes of all files in a data folder.
fn folder_size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| if entry.path().is_dir() { folder_size(&entry.path()) } else { entry.metadata().unwrap().len() })
        .sum()
}

#[tokio::test]
async fn the_folder_shrinks_by_the_reported_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 400).await;
    learned(&store, "run-b").await;
    let before = folder_size(folder.path());
    let holdings = store.holdings().await.unwrap();
    assert_eq!(holdings.database_bytes + holdings.blobs.1, before);
    let removed = store.remove(of(&["run-a"])).await.unwrap();
    let after = folder_size(folder.path());
    assert_eq!(removed.bytes, before - after);
    let held = holdings.runs.iter().find(|run| run.run == id("run-a")).unwrap().bytes;
    assert!(removed.bytes > held, "{} of {before} bytes, of which documents are {held}", removed.bytes);
    // The store with its open reader continues to work.
    put(&store, vec![recorded_as(episode("run-b.1", 9))]).await.unwrap();
    assert_eq!(store.episodes(&id("run-b.1")).await.unwrap().len(), 3);
}

#[tokio::test]
async fn holdings_count_the_content_of_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 3).await;
    learned(&store, "run-b").await;
    learned(&store, "run-c").await;
    store.keep_plugin(&plugin(b"component"), "environment", b"component".to_vec()).await.unwrap();
    let (digest, document) = (Digest::of(b"chess"), serde_json::json!({}));
    let (name, why) = ("chess".to_owned(), String::new());
    let version = PlaybookVersion { name, number: 0, digest, document, why, run: None, created_at: 0 };
    store.add_version(version, None).await.unwrap();
    store.finish_run(&id("run-a"), &serde_json::json!({}), cost()).await.unwrap();
    let holdings = store.holdings().await.unwrap();
    let lines: Vec<_> = holdings
        .runs
        .iter()
        .map(|one| (one.run.0.as_str(), one.kind, one.state, one.episodes, one.blob_bytes))
        .collect();
    let large = ARTEFACT_BLOB_BYTES as u64 + 5;
    let expected = [
        ("run-c", RunKind::Learn, RunState::Open, 2, large),
        ("run-b", RunKind::Learn, RunState::Open, 2, large),
        ("run-a", RunKind::Play, RunState::Finished, 3, 0),
    ];
    assert_eq!(lines, expected);
    assert_eq!(holdings.blobs, (4, 5 + 5 + 9 + ARTEFACT_BLOB_BYTES as u64), "a shared blob counts once");
    assert_eq!((holdings.plugins, holdings.playbooks), ((1, 9), (1, 1)));
    // The documents of three episodes with their verdicts, compressed.
    let documents: u64 =
        (0..3).map(|index| serde_json::to_string(&episode("run-a", index)).unwrap().len() as u64).sum();
    let bytes = holdings.runs[2].bytes;
    assert!((documents / 8..documents).contains(&bytes), "{bytes} for {documents}");
}

/// One step of a random history.
#[derive(Debug, Clone)]
enum Step {
    /// A run writes state with these contents under the names 0, 1, ... `None`: unchanged, if there is some.
    Checkpoint(u8, Vec<Option<u8>>),
    /// A run records an episode with an artefact of this content.
    Episode(u8, u8),
    /// A plugin with this content is stored.
    Plugin(u8),
    /// Runs are removed; of some of them the record or every second episode is kept.
    Remove { runs: u8, records: u8, episodes: bool, plugins: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let content = 0..4_u8;
    prop_oneof![
        4 => (0..4_u8, prop::collection::vec(prop::option::of(content.clone()), 0..3))
            .prop_map(|(run, large)| Step::Checkpoint(run, large)),
        2 => (0..4_u8, content.clone()).prop_map(|(run, content)| Step::Episode(run, content)),
        1 => content.prop_map(Step::Plugin),
        2 => (0..16_u8, 0..16_u8, any::<bool>(), any::<bool>())
            .prop_map(|(runs, records, episodes, plugins)| Step::Remove { runs, records, episodes, plugins }),
    ]
}

/// Equal contents of checkpoints, artefacts and plugins share a blob.
fn content(number: u8) -> Vec<u8> {
    vec![number; ARTEFACT_BLOB_BYTES]
}

fn chosen(bits: u8) -> BTreeSet<RunId> {
    (0..4_u8).filter(|run| bits >> run & 1 == 1).map(|run| id(&format!("run-{run}"))).collect()
}

/// The expected contents of the store, by run.
#[derive(Default)]
struct Expected {
    states: BTreeMap<RunId, BTreeMap<String, u8>>,
    episodes: BTreeMap<String, u8>,
    next: u64,
}

impl Expected {
    async fn apply(&mut self, store: &Store, folder: &Path, step: &Step) {
        match step {
            Step::Checkpoint(run, large) => {
                let name = format!("run-{run}");
                self.begin(store, folder, &name).await;
                let before = self.states.get(&id(&name)).cloned().unwrap_or_default();
                let mut after = BTreeMap::new();
                let mut parts = Vec::new();
                for (place, number) in ["first", "second"].into_iter().zip(large) {
                    let number = number.or(before.get(place).copied());
                    let Some(number) = number else { continue };
                    let unchanged = before.get(place) == Some(&number);
                    parts.push((place, if unchanged { LargeState::Unchanged } else { written(&content(number)) }));
                    after.insert(place.to_owned(), number);
                }
                store.checkpoint(checkpoint(&name, 1, &parts)).await.unwrap();
                self.states.insert(id(&name), after);
            }
            Step::Episode(run, number) => {
                let name = format!("run-{run}");
                self.begin(store, folder, &name).await;
                let episode = with_artefacts(&name, self.next, &[&content(*number)]);
                self.episodes.insert(format!("{name}/{}", episode.id), *number);
                self.next += 1;
                put(store, vec![recorded_as(episode)]).await.unwrap();
            }
            Step::Plugin(number) => {
                let bytes = content(*number);
                store.keep_plugin(&plugin(&bytes), "environment", bytes).await.unwrap();
            }
            Step::Remove { runs, records, episodes, plugins } => {
                let runs = chosen(*runs);
                let is_removed = |name: &str| runs.contains(&id(name.split('/').next().unwrap()));
                let kept = |name: &&String| *episodes && name.ends_with(['0', '2', '4', '6', '8']);
                let removal = Removal {
                    keep_records: chosen(*records),
                    keep_episodes: self.episodes.keys().filter(kept).cloned().collect(),
                    unused_plugins: *plugins,
                    runs: runs.clone(),
                    records_only: false,
                };
                self.states.retain(|run, _| !runs.contains(run));
                self.episodes.retain(|name, _| !is_removed(name) || removal.keep_episodes.contains(name));
                store.remove(removal).await.unwrap();
            }
        }
    }

    async fn begin(&self, store: &Store, folder: &Path, name: &str) {
        if Reader::open(folder).unwrap().run(&id(name)).unwrap().is_none() {
            store.begin_run(&run(name)).await.unwrap();
        }
    }

    async fn check(&self, store: &Store, folder: &Path) {
        let reader = Reader::open(folder).unwrap();
        let mut referred = BTreeSet::new();
        for (run, states) in &self.states {
            assert!(store.last_checkpoint(run).await.unwrap().is_some(), "{run}");
            for (name, number) in states {
                assert!(store.large_state(run, name).await.unwrap().unwrap() == content(*number), "{run} {name}");
                referred.insert(*number);
            }
        }
        for (name, number) in &self.episodes {
            assert!(reader.episode(name).unwrap().unwrap().artefacts[0].bytes == content(*number), "{name}");
            referred.insert(*number);
        }
        assert_eq!(names(folder).len(), self.episodes.len());
        // Blobs in the folder are those of records, including stored plugins.
        for number in 0..4 {
            let bytes = content(number);
            if reader.plugin(&Digest::of(&bytes)).unwrap().is_some() {
                referred.insert(number);
            }
        }
        let contents: Vec<Vec<u8>> = referred.into_iter().map(content).collect();
        let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        assert_eq!(blob_files(folder), blob_names(&contents));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kept_records_never_lose_their_blobs(steps in prop::collection::vec(step(), 1..16)) {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = opened(folder.path());
            let mut expected = Expected::default();
            for step in &steps {
                expected.apply(&store, folder.path(), step).await;
                expected.check(&store, folder.path()).await;
            }
        });
    }
}

#[tokio::test]
async fn a_folder_in_use_loses_records_and_keeps_its_blobs_for_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    learned(&store, "run-a").await;
    let before = blob_files(folder.path());
    let removed = store.remove(Removal { records_only: true, ..of(&["run-a"]) }).await.unwrap();
    assert_eq!(removed, Removed { runs: 1, episodes: 2, ..Removed::default() });
    assert_eq!(blob_files(folder.path()), before);
    let later = store.remove(of(&[])).await.unwrap();
    assert!(later.blobs > 0 && blob_files(folder.path()).is_empty(), "{later:?}");
}

#[tokio::test]
async fn a_rehearsal_counts_like_a_removal_and_removes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    learned(&store, "run-a").await;
    learned(&store, "run-b").await;
    store.keep_plugin(&plugin(b"unused"), "environment", b"unused".to_vec()).await.unwrap();
    let keep = |removal: Removal| Removal {
        keep_records: [id("run-b")].into(),
        keep_episodes: ["run-a.1/ep-0000".to_owned()].into(),
        unused_plugins: true,
        ..removal
    };
    for removal in
        [of(&[]), of(&["run-none"]), keep(of(&["run-a"])), keep(of(&["run-a", "run-b"])), of(&["run-a", "run-b"])]
    {
        let before = (names(folder.path()), blob_files(folder.path()), store.holdings().await.unwrap());
        let rehearsed = store.rehearse(removal.clone()).await.unwrap();
        let after = (names(folder.path()), blob_files(folder.path()), store.holdings().await.unwrap());
        assert_eq!((before.0, before.1, before.2.runs), (after.0, after.1, after.2.runs), "nothing is removed");
        let removed = store.remove(removal.clone()).await.unwrap();
        assert_eq!(rehearsed, Removed { bytes: 0, ..removed }, "{removal:?}");
    }
}
