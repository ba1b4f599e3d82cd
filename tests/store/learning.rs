//! Checkpoints, large state, iterations, playbooks.

use crate::records::{
    blob_files, blob_names, blob_path, checkpoint, cost_of, filled, opened, run, with_artefacts, written,
};
use crate::records::{put, recorded_as};
use clawhost_core::{
    Checkpoint, Digest, EpisodeReader as _, EpisodeStore as _, LargeState, LearningStore as _, PlaybookLedger,
    PlaybookReader as _, PlaybookVersion, RunId, StoreError,
};
use clawhost_store::{ARTEFACT_BLOB_BYTES, Reader, Store};
use std::path::Path;

fn version(name: &str, text: &str) -> PlaybookVersion {
    PlaybookVersion {
        name: name.into(),
        number: 0,
        digest: Digest::of(text.as_bytes()),
        document: serde_json::json!({"text": text}),
        why: "a test".into(),
        run: None,
        created_at: 5,
    }
}

async fn state(store: &Store, name: &str) -> Option<Vec<u8>> {
    store.large_state(&RunId("run-a".into()), name).await.unwrap()
}

#[tokio::test]
async fn large_state_of_any_size_replaces_the_previous_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    assert_eq!(state(&store, "weights").await, None);
    for (iteration, size) in [(33 << 20) + 7, 32 << 20, 5, 0].into_iter().enumerate() {
        let weights: Vec<u8> = (0..size as u32).map(|place| (place % 251) as u8).collect();
        let large = [("weights", written(&weights))];
        store.checkpoint(checkpoint("run-a", iteration as u64, &large)).await.unwrap();
        assert!(state(&store, "weights").await.unwrap() == weights, "{size}");
        assert_eq!(blob_files(folder.path()), blob_names(&[&weights]), "{size}");
    }
    assert_eq!(store.large_state(&RunId("run-b".into()), "weights").await.unwrap(), None);
}

#[tokio::test]
async fn unchanged_state_is_kept_and_unnamed_state_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    let first = [("weights", written(b"one")), ("moments", written(b"two"))];
    store.checkpoint(checkpoint("run-a", 1, &first)).await.unwrap();
    store.checkpoint(checkpoint("run-a", 2, &[("weights", LargeState::Unchanged)])).await.unwrap();
    assert_eq!(state(&store, "weights").await.unwrap(), b"one");
    assert_eq!(state(&store, "moments").await, None);
    assert_eq!(blob_files(folder.path()), blob_names(&[b"one"]));
    // A checkpoint that refers to missing state is not stored at all.
    let wrong = [("weights", written(b"three")), ("moments", LargeState::Unchanged)];
    let error = store.checkpoint(checkpoint("run-a", 3, &wrong)).await.unwrap_err();
    assert!(error.to_string().contains("state moments unchanged"), "{error}");
    assert_eq!(state(&store, "weights").await.unwrap(), b"one");
    let run = RunId("run-a".into());
    assert_eq!(store.last_checkpoint(&run).await.unwrap().unwrap().0, 2);
    assert_eq!(store.iterations(&run).await.unwrap().len(), 2);
    store.checkpoint(checkpoint("run-a", 3, &[])).await.unwrap();
    assert_eq!(state(&store, "weights").await, None);
}

#[tokio::test]
async fn a_blob_with_other_references_outlives_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    store.begin_run(&run("run-b")).await.unwrap();
    let shared = vec![3; ARTEFACT_BLOB_BYTES];
    for id in ["run-a", "run-b"] {
        store.checkpoint(checkpoint(id, 1, &[("weights", written(&shared))])).await.unwrap();
    }
    store.checkpoint(checkpoint("run-a", 2, &[("weights", written(b"next"))])).await.unwrap();
    assert_eq!(store.large_state(&RunId("run-b".into()), "weights").await.unwrap().unwrap(), shared);
    // An episode with the same content is written, then the last checkpoint that refers to the blob is removed.
    put(&store, vec![recorded_as(with_artefacts("run-b", 7, &[&shared]))]).await.unwrap();
    store.checkpoint(checkpoint("run-b", 2, &[])).await.unwrap();
    let read = Reader::open(folder.path()).unwrap().episode("run-b/ep-0007").unwrap().unwrap();
    assert_eq!(read.artefacts[0].bytes, shared);
    assert_eq!(blob_files(folder.path()), blob_names(&[&shared, b"next"]));
}

#[tokio::test]
async fn two_stores_checkpoint_equal_state_alternately() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = [filled(folder.path(), "run-a", 1).await, filled(folder.path(), "run-b", 1).await];
    for iteration in 1..8_u8 {
        for (store, id) in [(&one, "run-a"), (&two, "run-b")] {
            let large = [("weights", written(&[iteration % 3]))];
            store.checkpoint(checkpoint(id, iteration.into(), &large)).await.unwrap();
        }
        for (store, id) in [(&one, "run-a"), (&two, "run-b")] {
            let read = store.large_state(&RunId(id.into()), "weights").await.unwrap();
            assert_eq!(read, Some(vec![iteration % 3]));
        }
    }
}

#[tokio::test]
async fn missing_or_damaged_state_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    store.checkpoint(checkpoint("run-a", 1, &[("weights", written(b"four"))])).await.unwrap();
    let path = blob_path(folder.path(), b"four");
    let read = async || store.large_state(&RunId("run-a".into()), "weights").await;
    for content in [&b"fou"[..], b"fours", b"five"] {
        std::fs::write(&path, content).unwrap();
        let error = read().await.unwrap_err();
        let named = matches!(&error, StoreError::BlobDamaged { what, digest, .. }
            if what == "the state weights of run-a" && *digest == Digest::of(b"four"));
        assert!(named, "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    let error = read().await.unwrap_err();
    assert!(matches!(&error, StoreError::BlobMissing { what, .. } if what == "the state weights of run-a"), "{error}");
}

#[tokio::test]
async fn a_checkpoint_of_an_unknown_run_stores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let mut unknown = checkpoint("run-x", 1, &[("weights", written(b"x"))]);
    unknown.versions = vec![version("chess", "open well")];
    store.checkpoint(unknown).await.unwrap_err();
    assert_eq!(state(&store, "weights").await, None);
    assert_eq!(store.playbook("chess").await.unwrap(), None);
}

#[tokio::test]
async fn a_checkpoint_round_trips_with_its_cost() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    let run = RunId("run-a".into());
    assert_eq!(store.last_checkpoint(&run).await.unwrap(), None);
    for iteration in 1..4 {
        let ledger = PlaybookLedger { name: "chess".into(), document: serde_json::json!({"iteration": iteration}) };
        let one = Checkpoint {
            ledger: Some(ledger.clone()),
            spent: cost_of(100 * iteration),
            ..checkpoint("run-a", iteration, &[])
        };
        store.checkpoint(one).await.unwrap();
        assert_eq!(store.ledger("chess").await.unwrap(), Some(ledger));
    }
    let silent = Checkpoint { report: serde_json::Value::Null, ..checkpoint("run-a", 4, &[]) };
    store.checkpoint(silent).await.unwrap();
    let last = store.last_checkpoint(&run).await.unwrap();
    assert_eq!(last, Some((4, serde_json::json!({"iteration": 4}))));
    let numbers: Vec<_> = store.iterations(&run).await.unwrap();
    assert_eq!(numbers, [1, 2, 3].map(|number| serde_json::json!({"number": number})), "null is not a report");
    let row = Reader::open(folder.path()).unwrap().run(&run).unwrap().unwrap();
    assert_eq!(row.spent.prompt_tokens, 7, "of the last checkpoint");
}

fn read(folder: &Path) -> Reader {
    Reader::open(folder).unwrap()
}

#[tokio::test]
async fn versions_of_a_playbook_are_numbered_and_the_newest_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    assert_eq!(read(folder.path()).newest_version("chess").unwrap(), None);
    for text in ["one", "two", "two", "one"] {
        store.add_version(version("chess", text), None).await.unwrap();
    }
    let ledger = PlaybookLedger { name: "go".into(), document: serde_json::json!({}) };
    store.add_version(version("draughts", "three"), Some(ledger)).await.unwrap();
    let reader = read(folder.path());
    let versions = reader.versions("chess").unwrap();
    let numbers: Vec<u64> = versions.iter().map(|version| version.number).collect();
    assert_eq!(numbers, [3, 2, 1], "newest first; one that repeats the newest is none");
    let newest = reader.newest_version("chess").unwrap();
    assert_eq!(newest.as_ref(), versions.first());
    assert_eq!(store.playbook("chess").await.unwrap(), newest);
    assert_eq!(newest.unwrap(), PlaybookVersion { number: 3, ..version("chess", "one") });
    assert_eq!(reader.playbooks().unwrap(), ["chess", "draughts", "go"]);
}
