//! Interrupted writes: after any commit, everything before it is complete, and nothing after it exists.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod records;

use clawhost_core::{
    EpisodeReader as _, EpisodeStore as _, Forgetting, ForgettingStore as _, LearningStore as _, PhaseState,
    PluginReader as _, PluginStore as _, Recorded, Removal, Retention as _, RunId, StoreError,
};
use clawhost_store::{ARTEFACT_BLOB_BYTES, Reader, Store, StoreOptions};
use records::{
    blob_files, blob_names, checkpoint, cost, episode, names, opened, plugin, put, recorded, recorded_as, run,
    with_artefacts, written,
};
use std::path::Path;
use std::process::Command;

/// Commits of the history below.
const COMMITS: u64 = 8;

fn id() -> RunId {
    RunId("run-a".into())
}

fn artefact(number: u8) -> Vec<u8> {
    vec![number; ARTEFACT_BLOB_BYTES]
}

/// One write of each kind, each in one commit.
async fn history(store: &Store) -> Result<(), StoreError> {
    store.keep_plugin(&plugin(b"component"), "environment", b"component".to_vec()).await?;
    store.begin_run(&run("run-a")).await?;
    put(store, [0, 1].map(|index| recorded_as(with_artefacts("run-a", index, &[&artefact(1)]))).to_vec()).await?;
    store.checkpoint(checkpoint("run-a", 1, &[("weights", written(b"one"))])).await?;
    store.checkpoint(checkpoint("run-a", 2, &[("weights", written(b"two"))])).await?;
    let replacement = recorded_as(with_artefacts("run-a", 1, &[&artefact(2)]));
    put(store, vec![Recorded { replaces_existing: true, ..replacement }]).await?;
    store.finish_run(&id(), &serde_json::json!({}), cost()).await?;
    let removal = Removal { runs: [id()].into(), unused_plugins: true, ..Removal::default() };
    store.remove(removal).await.map(|_| ())
}

/// Checks that the folder has exactly the writes of the first commits of the history.
async fn check(folder: &Path, commits: u64) {
    let store = opened(folder);
    let reader = Reader::open(folder).unwrap();
    let removed = commits >= COMMITS;
    let at_least = |number| commits >= number && !removed;
    let kept = reader.plugin(&plugin(b"component").digest).unwrap();
    assert_eq!(kept.is_some(), at_least(1), "{commits}");
    let phase = match commits {
        0 | 1 => PhaseState::Absent,
        7 => PhaseState::Finished,
        _ if removed => PhaseState::Absent,
        _ => PhaseState::Open,
    };
    assert_eq!(store.phase(&id()).await.unwrap(), phase, "{commits}");
    let episodes: Vec<u8> =
        names(folder).iter().map(|name| reader.episode(name).unwrap().unwrap().artefacts[0].bytes[0]).collect();
    let expected: &[u8] = if at_least(6) {
        &[1, 2]
    } else if at_least(3) {
        &[1, 1]
    } else {
        &[]
    };
    assert_eq!(episodes, expected, "{commits}");
    let last = store.last_checkpoint(&id()).await.unwrap().map(|(iteration, _)| iteration);
    let state = store.large_state(&id(), "weights").await.unwrap();
    let expected = if at_least(5) { Some((2, &b"two"[..])) } else { at_least(4).then_some((1, &b"one"[..])) };
    assert_eq!(last.zip(state.as_deref()), expected, "{commits}");
    assert_eq!(store.iterations(&id()).await.unwrap().len() as u64, last.unwrap_or(0), "{commits}");
}

/// A later process collects files that no record refers to.
async fn collected(folder: &Path, commits: u64) {
    let store = opened(folder);
    store.remove(Removal::default()).await.unwrap();
    check(folder, commits).await;
    let [one, two] = [artefact(1), artefact(2)];
    let expected: &[&[u8]] = match commits {
        1 | 2 => &[b"component"],
        3 => &[b"component", &one],
        4 => &[b"component", &one, b"one"],
        5 => &[b"component", &one, b"two"],
        6 | 7 => &[b"component", &one, &two, b"two"],
        _ => &[],
    };
    assert_eq!(blob_files(folder), blob_names(expected), "{commits}");
}

/// A store with a failpoint that it never reaches: every write is a commit of its own.
fn counted(folder: &Path) -> Store {
    Store::open(folder, StoreOptions { fail_after_commit: Some(u64::MAX), ..StoreOptions::default() }).unwrap()
}

#[tokio::test]
async fn no_interruption_separates_a_document_from_its_dictionary() {
    for commits in 4..16 {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions { fail_after_commit: Some(commits), ..StoreOptions::default() };
        let store = Store::open(folder.path(), options).unwrap();
        store.begin_run(&run("run-a")).await.unwrap();
        let mut count = 0;
        let batch = |first: u64| (first..first + 64).map(|index| recorded("run-a", index)).collect();
        // A dictionary is trained from 256 documents on a separate thread, while more are written.
        while put(&store, batch(count)).await.is_ok() {
            count += 64;
        }
        drop(store);
        let reader = Reader::open(folder.path()).unwrap();
        let names = names(folder.path());
        // The last commit got no answer.
        assert_eq!(names.len() as u64, count + 64, "{commits}");
        for (index, name) in (0..).zip(names) {
            assert_eq!(reader.episode(&name).unwrap(), Some(episode("run-a", index)), "{commits}");
        }
        put(&opened(folder.path()), batch(count + 64)).await.unwrap();
    }
}

#[tokio::test]
async fn a_forgetting_that_was_interrupted_is_finished_by_the_next_process() {
    let what = || Forgetting { episodes: [(id(), episode("run-a", 1).id)].into(), ..Forgetting::default() };
    // The commits: a run, its episodes, what is forgotten, and that it is finished.
    for commits in 2..=4 {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions { fail_after_commit: Some(commits), ..StoreOptions::default() };
        let store = Store::open(folder.path(), options).unwrap();
        store.begin_run(&run("run-a")).await.unwrap();
        let artefacts = [0, 1].map(|index| recorded_as(with_artefacts("run-a", index, &[&artefact(index as u8)])));
        // What is interrupted got no answer.
        let _ = put(&store, artefacts.to_vec()).await;
        let forgotten = store.forget(what()).await;
        let _ = store.clean_forgotten().await;
        let finished = store.end_forgetting().await;
        assert!(forgotten.is_err() || finished.is_err(), "{commits}");
        drop(store);
        let store = opened(folder.path());
        let unfinished = store.unfinished_forgetting().await.unwrap();
        assert_eq!(unfinished, (commits == 3).then(|| vec!["run-a/ep-0001".to_owned()]), "{commits}");
        let left = if commits == 2 { 2 } else { 1 };
        assert_eq!(
            (names(folder.path()).len(), blob_files(folder.path()).len()),
            (left, if commits == 4 { 1 } else { 2 })
        );
        store.forget(what()).await.unwrap();
        store.clean_forgotten().await.unwrap();
        store.end_forgetting().await.unwrap();
        assert_eq!(store.unfinished_forgetting().await.unwrap(), None);
        assert_eq!(names(folder.path()), ["run-a/ep-0000"], "{commits}");
        assert_eq!(blob_files(folder.path()), blob_names(&[&artefact(0)]), "{commits}");
    }
}

#[tokio::test]
async fn equal_histories_have_equal_numbers_of_commits() {
    for _ in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let store = counted(folder.path());
        assert_eq!(store.commits(), 0);
        history(&store).await.unwrap();
        assert_eq!(store.commits(), COMMITS);
    }
}

#[tokio::test]
async fn a_store_that_ends_after_any_commit_has_exactly_the_committed_writes() {
    for commits in 1..=COMMITS {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions { fail_after_commit: Some(commits), ..StoreOptions::default() };
        let store = Store::open(folder.path(), options).unwrap();
        let error = history(&store).await.unwrap_err();
        assert!(matches!(&error, StoreError::Other(why) if why.ends_with("the store has stopped")), "{error}");
        assert_eq!(store.commits(), commits, "nothing is committed afterwards");
        let later = store.resume_run(&id()).await.unwrap_err();
        assert!(later.to_string().ends_with("the store has stopped"), "{later}");
        check(folder.path(), commits).await;
        drop(store);
        check(folder.path(), commits).await;
        collected(folder.path(), commits).await;
    }
}

#[tokio::test]
async fn a_refused_write_is_not_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.begin_run(&run("run-a")).await.unwrap();
    store.begin_run(&run("run-a")).await.unwrap_err();
    assert_eq!(store.commits(), 1);
}

#[tokio::test]
async fn waiting_writes_are_committed_separately() {
    let folder = tempfile::tempdir().unwrap();
    let store = counted(folder.path());
    store.begin_run(&run("run-a")).await.unwrap();
    let one = |index| put(&store, vec![recorded_as(with_artefacts("run-a", index, &[]))]);
    let (first, second, third) = tokio::join!(one(0), one(1), one(2));
    assert_eq!([first, second, third], [Ok(()), Ok(()), Ok(())]);
    assert_eq!(store.commits(), 4);
}

/// The variable with the data folder of the child process of the test below.
const CHILD: &str = "CLAWHOST_TEST_STORE_FOLDER";

#[tokio::test]
async fn a_process_that_aborts_after_any_commit_leaves_the_committed_writes() {
    if let Some(folder) = std::env::var_os(CHILD) {
        history(&opened(Path::new(&folder))).await.unwrap();
        return;
    }
    for commits in 1..=COMMITS + 1 {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_that_aborts_after_any_commit_leaves_the_committed_writes"])
            .env(CHILD, folder.path())
            .env("CLAWHOST_ABORT_AFTER_COMMIT", commits.to_string())
            .output()
            .unwrap()
            .status;
        assert_eq!(status.success(), commits > COMMITS, "{commits}");
        check(folder.path(), commits).await;
        collected(folder.path(), commits).await;
    }
}
