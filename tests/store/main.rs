//! The store on real files: what was appended is there, all or nothing, and trouble has a name.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

use clawhost_core::{
    Checkpoint, Digest, Episode, EpisodeId, EpisodeStore as _, Judged, LearningStore as _, Recorded, RewardRecord,
    RunId, RunRecord, StateId, StoreError, Usage, Verdict,
};
use clawhost_store::{FILE, Filter, Reader, SCHEMA, Store, StoreOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn golden(name: &str) -> Episode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

fn episode(run: &str, index: u64) -> Episode {
    let base = golden(if index.is_multiple_of(2) { "episode-2.json" } else { "episode-2-failed.json" });
    Episode { run: RunId(run.into()), id: EpisodeId(format!("ep-{index:04}")), index, ..base }
}

fn recorded(run: &str, index: u64) -> Recorded {
    Recorded { episode: Arc::new(episode(run, index)), notes: BTreeMap::new(), again: false }
}

/// An episode that wrote or deleted a note.
fn noting(run: &str, index: u64, key: &str, value: Option<&str>) -> Recorded {
    let value = value.map(|text| text.as_bytes().to_vec());
    Recorded { notes: BTreeMap::from([(key.to_owned(), value)]), ..recorded(run, index) }
}

fn run(id: &str) -> RunRecord {
    let state_id: StateId = golden("episode-2.json").state_id;
    let digest = Digest::of(b"configuration");
    RunRecord {
        id: RunId(id.into()),
        parent: None,
        state_id,
        config: serde_json::json!({"seed": 7}),
        digest,
        created_at: 1,
    }
}

fn cost() -> Usage {
    Usage { prompt_tokens: 7, ..Usage::default() }
}

/// Puts episodes of one run into a store; its models have cost 7 tokens.
async fn put(store: &Store, recorded: Vec<Recorded>) -> Result<(), StoreError> {
    let run = recorded.first().map_or(RunId("run-a".into()), |first| first.episode.run.clone());
    store.append(&run, recorded, cost()).await
}

async fn filled(folder: &Path, run_id: &str, count: u64) -> Store {
    let store = Store::open(folder, StoreOptions::default()).unwrap();
    store.begin_run(&run(run_id)).await.unwrap();
    put(&store, (0..count).map(|index| recorded(run_id, index)).collect()).await.unwrap();
    store
}

#[tokio::test]
async fn what_was_appended_reads_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 4).await;
    store.finish_run(&RunId("run-a".into()), &serde_json::json!({"reward_mean": 1.0}), cost()).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    for index in 0..4 {
        let read = reader.episode(&format!("run-a/ep-{index:04}")).unwrap().unwrap();
        assert_eq!(read, episode("run-a", index), "verdicts, failures, journal and all");
    }
    assert_eq!(reader.episode("ep-9999").unwrap(), None);
    let rows = reader.episodes(&Filter::default()).unwrap();
    assert_eq!(rows.iter().map(|row| row.reward).collect::<Vec<_>>(), [Some(1.0), None, Some(1.0), None]);
    assert_eq!(rows[1].ending, "failed: limit(fuel)");
    let runs = reader.runs(None).unwrap();
    assert_eq!(runs[0].summary.as_ref().unwrap()["reward_mean"], 1.0);
}

#[tokio::test]
async fn notes_are_merged_in_the_order_of_the_plan_whoever_ran_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 0).await;
    let later = vec![noting("run-a", 3, "kept", Some("third")), noting("run-a", 4, "gone", None)];
    put(&store, later).await.unwrap();
    let earlier = vec![noting("run-a", 1, "kept", Some("first")), noting("run-a", 2, "gone", Some("second"))];
    put(&store, earlier).await.unwrap();
    let finish = async || store.finish_run(&RunId("run-a".into()), &serde_json::json!({}), cost()).await.unwrap();
    finish().await;
    let notes = || Reader::open(folder.path()).unwrap().notes("run-a").unwrap();
    assert_eq!(notes(), [("kept".to_owned(), b"third".to_vec())]);
    // Taken up again, with others in the places of its last writers, it merges anew.
    store.resume_run(&RunId("run-a".into())).await.unwrap();
    let again = |index| Recorded { again: true, ..recorded("run-a", index) };
    put(&store, vec![again(3), again(4)]).await.unwrap();
    finish().await;
    assert_eq!(notes(), [("gone".to_owned(), b"second".to_vec()), ("kept".to_owned(), b"first".to_vec())]);
}

#[tokio::test]
async fn a_run_that_did_not_end_is_found_by_its_digest_and_taken_up_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 4).await;
    store.begin_run(&run("run-b")).await.unwrap();
    let unfinished = |digest: &[u8]| {
        let found = Reader::open(folder.path()).unwrap().unfinished(&Digest::of(digest)).unwrap();
        found.into_iter().map(|(run, spent)| (run, spent.prompt_tokens)).collect::<Vec<_>>()
    };
    let [a, b] = [("run-a".to_owned(), 7), ("run-b".to_owned(), 0)];
    assert_eq!(unfinished(b"configuration"), [b, a.clone()], "newest first, with what they cost");
    let b = ("run-b".to_owned(), 7);
    assert!(unfinished(b"another").is_empty());
    let finish = async |id: &str, summary| store.finish_run(&RunId(id.into()), &summary, cost()).await.unwrap();
    finish("run-a", serde_json::json!({"stopped": null})).await;
    finish("run-b", serde_json::json!({"stopped": "cancelled"})).await;
    assert_eq!(unfinished(b"configuration"), std::slice::from_ref(&b), "one that was stopped did not end");
    store.resume_run(&RunId("run-a".into())).await.unwrap();
    assert_eq!(unfinished(b"configuration"), [b, a]);
    // What was cut short stands until another takes its place, verdicts and all, in one transaction.
    let names = || Reader::open(folder.path()).unwrap().episodes(&Filter::default()).unwrap().len();
    assert_eq!(names(), 4);
    let clash = vec![Recorded { again: true, ..recorded("run-a", 2) }, recorded("run-a", 1)];
    put(&store, clash).await.unwrap_err();
    assert_eq!(names(), 4, "nothing was taken out for a batch that was not recorded");
    put(&store, vec![Recorded { again: true, ..recorded("run-a", 2) }]).await.unwrap();
    let again = Reader::open(folder.path()).unwrap().episode("run-a/ep-0002").unwrap().unwrap();
    assert_eq!((again, names()), (episode("run-a", 2), 4), "none twice");
}

/// A database as the first version made it.
fn made_by_version_1(folder: &Path) {
    drop(Store::open(folder, StoreOptions::default()).unwrap());
    let old = rusqlite::Connection::open(folder.join(FILE)).unwrap();
    let back = "DROP TABLE weights; DROP TABLE checkpoints; DROP TABLE iterations; DROP TABLE playbooks; DROP TABLE ledgers;
        DROP INDEX runs_by_parent; ALTER TABLE runs DROP COLUMN parent; DROP TABLE episode_notes; ALTER TABLE runs DROP COLUMN digest; ALTER TABLE runs DROP COLUMN spent;
        INSERT INTO runs (id, state_id, config, created_at) VALUES ('run-old', 'x', '{}', 1); PRAGMA user_version = 1;";
    old.execute_batch(back).unwrap();
}

#[tokio::test]
async fn weights_of_any_size_are_kept_and_those_of_before_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    let run = RunId("run-a".into());
    assert_eq!(store.weights(&run).await.unwrap(), None);
    // More than two parts of 16 MiB, a whole number of them, and fewer than before.
    for size in [(33 << 20) + 7, 32 << 20, 5] {
        let weights: Vec<u8> = (0..size as u32).map(|place| (place % 251) as u8).collect();
        let checkpoint = Checkpoint {
            run: run.clone(),
            iteration: 1,
            state: serde_json::Value::Null,
            report: serde_json::Value::Null,
            versions: Vec::new(),
            ledger: None,
            weights: Some(weights.clone()),
            spent: Usage::default(),
        };
        store.checkpoint(checkpoint).await.unwrap();
        assert!(store.weights(&run).await.unwrap().unwrap() == weights, "{size}");
    }
    assert_eq!(store.weights(&RunId("run-b".into())).await.unwrap(), None);
    drop(store);
    // As version 4 had them: in one piece.
    let old = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    let back =
        "DROP TABLE weights; CREATE TABLE weights (run TEXT PRIMARY KEY NOT NULL, bytes BLOB NOT NULL) WITHOUT ROWID;
        INSERT INTO weights VALUES ('run-a', x'0102'); PRAGMA user_version = 4;";
    old.execute_batch(back).unwrap();
    drop(old);
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    assert_eq!(store.weights(&run).await.unwrap(), Some(vec![1, 2]));
}

#[tokio::test]
async fn a_database_of_version_1_is_read_and_led_on() {
    let folder = tempfile::tempdir().unwrap();
    made_by_version_1(folder.path());
    assert_eq!(Reader::open(folder.path()).unwrap().runs(None).unwrap().len(), 1, "led on, and read");
    let store = filled(folder.path(), "run-a", 2).await;
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.runs(None).unwrap().len(), 2);
    let unfinished = reader.unfinished(&Digest::of(b"configuration")).unwrap();
    assert_eq!(unfinished.len(), 1, "what has no digest cannot be taken up");
    drop(store);
}

#[tokio::test]
async fn equal_ids_of_two_runs_are_told_apart_and_the_newest_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), "run-a", 2).await);
    drop(filled(folder.path(), "run-b", 2).await);
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.episode("ep-0000").unwrap().unwrap().run.0, "run-b");
    assert_eq!(reader.episode("run-a/ep-0000").unwrap().unwrap().run.0, "run-a");
    let of_a = Filter { run: Some("run-a".into()), limit: Some(1) };
    assert_eq!(reader.episodes(&of_a).unwrap().len(), 1);
    let mut exported = Vec::new();
    let count = reader.export(&Filter::default(), |episode| -> Result<(), ()> {
        exported.push(episode.run.0);
        Ok(())
    });
    assert_eq!(count.unwrap(), Ok(4));
    assert_eq!(exported, ["run-b", "run-b", "run-a", "run-a"]);
}

#[tokio::test]
async fn a_batch_is_recorded_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 2).await;
    // The second of these is there already.
    let batch = vec![recorded("run-a", 7), recorded("run-a", 1), recorded("run-a", 8)];
    put(&store, batch).await.unwrap_err();
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.episodes(&Filter::default()).unwrap().len(), 2);
    put(&store, vec![recorded("run-a", 7)]).await.unwrap();
    assert_eq!(reader.episodes(&Filter::default()).unwrap().len(), 3, "the store goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_write_does_not_take_its_neighbours_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(filled(folder.path(), "run-a", 1).await);
    let writes: Vec<_> = (0..200)
        .map(|index| {
            let store = store.clone();
            tokio::spawn(async move { put(&store, vec![recorded("run-a", index % 100)]).await.is_ok() })
        })
        .collect();
    let mut done = 0;
    for write in writes {
        done += u32::from(write.await.unwrap());
    }
    assert_eq!(done, 99, "each new id once, the one that was there never again");
    assert_eq!(Reader::open(folder.path()).unwrap().episodes(&Filter::default()).unwrap().len(), 100);
}

#[tokio::test]
async fn a_full_disk_is_named_and_what_was_recorded_stays() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { max_bytes: Some(256 * 1024) };
    let store = Store::open(folder.path(), options).unwrap();
    store.begin_run(&run("run-a")).await.unwrap();
    let mut count = 0;
    let error = loop {
        match put(&store, vec![recorded("run-a", count)]).await {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert!(error.to_string().contains("make room and go on"), "{error}");
    drop(store);
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.episodes(&Filter::default()).unwrap().len() as u64, count);
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    put(&store, vec![recorded("run-a", count)]).await.unwrap();
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = "this is no database, but somebody's notes\n".repeat(100);
    std::fs::write(folder.path().join(FILE), &text).unwrap();
    for error in [
        Store::open(folder.path(), StoreOptions::default()).map(|_| ()).unwrap_err(),
        Reader::open(folder.path()).map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Corrupt(..)), "{error}");
        assert!(error.to_string().contains("move the file away"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).unwrap(), text);
}

#[tokio::test]
async fn a_locked_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    let other = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = put(&store, vec![recorded("run-a", 5)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Locked(_)), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    put(&store, vec![recorded("run-a", 5)]).await.unwrap();
}

#[tokio::test]
async fn two_writers_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let one = filled(folder.path(), "run-a", 1).await;
    let two = filled(folder.path(), "run-b", 1).await;
    for index in 1..20 {
        put(&one, vec![recorded("run-a", index)]).await.unwrap();
        put(&two, vec![recorded("run-b", index)]).await.unwrap();
    }
    assert_eq!(Reader::open(folder.path()).unwrap().episodes(&Filter::default()).unwrap().len(), 40);
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), "run-a", 1).await);
    let connection = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    connection.pragma_update(None, "user_version", SCHEMA + 1).unwrap();
    for error in [
        Store::open(folder.path(), StoreOptions::default()).map(|_| ()).unwrap_err(),
        Reader::open(folder.path()).map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Newer(..)), "{error}");
    }
}

#[tokio::test]
async fn plugins_are_kept_by_digest_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let digest = Digest::of(b"component");
    for _ in 0..2 {
        store.keep_plugin(digest, "guess", "1", "environment", b"component".to_vec()).await.unwrap();
    }
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.plugin(&digest).unwrap().unwrap().bytes, b"component");
    assert_eq!(reader.plugin(&Digest::of(b"other")).unwrap(), None);
}

#[test]
fn an_empty_folder_says_how_to_begin() {
    let folder = tempfile::tempdir().unwrap();
    let error = Reader::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no episodes here yet; play some with `clawhost run`"), "{error}");
}

fn verdict_of(name: &str, verdict: Verdict) -> RewardRecord {
    let mut record = golden("episode-2.json").verdicts.remove(0);
    record.reward.digest = Digest::of(name.as_bytes());
    record.verdict = verdict;
    record
}

fn failed() -> Verdict {
    Verdict::Failed(clawhost_core::Failure::new(clawhost_core::FailureKind::Llm, "unavailable", "down"))
}

fn scored(value: f64) -> Verdict {
    let (parts, rationale, per_turn, extra) = (vec![], String::new(), vec![], vec![]);
    Verdict::Scored(clawhost_core::ScoreCard { value, confidence: 1.0, parts, rationale, per_turn, extra })
}

#[tokio::test]
async fn later_verdicts_are_taken_in_by_what_stands_there_then() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    store.begin_run(&run("run-a")).await.unwrap();
    let mut bare = episode("run-a", 0);
    bare.verdicts = vec![verdict_of("first", failed()), verdict_of("second", scored(1.0))];
    bare.reward = None;
    let id = bare.id.clone();
    put(&store, vec![Recorded { episode: Arc::new(bare), notes: BTreeMap::new(), again: false }]).await.unwrap();
    let judge = async |record: RewardRecord| {
        let judged = Judged { run: RunId("run-a".into()), episode: id.clone(), record };
        store.judge(vec![judged]).await.unwrap();
    };
    let now = || Reader::open(folder.path()).unwrap().episode(&format!("run-a/{id}")).unwrap().unwrap();

    // Two processes judge at once: the one that began earlier and comes later must not undo the other.
    judge(verdict_of("first", scored(0.5))).await;
    assert_eq!(now().reward, Some(0.75), "made good, and the reward with it");
    judge(verdict_of("third", scored(-1.0))).await;
    let episode = now();
    assert_eq!(episode.reward, Some(0.75), "a new verdict changes no reward");
    let afterwards: Vec<bool> = episode.verdicts.iter().map(|record| record.afterwards).collect();
    assert_eq!(afterwards, [false, false, true], "in order, the later one last");
    judge(verdict_of("first", scored(0.0))).await;
    judge(verdict_of("second", failed())).await;
    assert_eq!(now(), episode, "what was given stays");
    let runs = Reader::open(folder.path()).unwrap().runs(None).unwrap();
    assert_eq!((runs[0].reward_mean, runs[0].scored), (Some(0.75), 1));
}
