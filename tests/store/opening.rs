//! Opening a data folder: errors are named.

use crate::records::{filled, names, opened, put, recorded, run};
use clawhost_core::{EpisodeFilter, EpisodeReader as _, EpisodeStore as _, Hint, StoreError};
use clawhost_store::{FILE, Reader, SCHEMA, Store, StoreOptions};
use std::path::Path;

#[tokio::test]
async fn a_full_disk_is_reported_and_records_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions::bounded(Some(1024 * 1024));
    let store = Store::open(folder.path(), options).unwrap();
    store.begin_run(&run("run-a")).await.unwrap();
    let mut count = 0;
    let error = loop {
        match put(&store, vec![recorded("run-a", count)]).await {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.hints().contains(&Hint::MakeRoom), "{error}");
    assert!(error.to_string().contains("what was recorded before is safe"), "{error}");
    drop(store);
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.episodes(&EpisodeFilter::default()).unwrap().len() as u64, count);
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    put(&store, vec![recorded("run-a", count)]).await.unwrap();
}

#[test]
fn a_file_that_is_not_a_database_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let text = "this is no database, but somebody's notes\n".repeat(100);
    std::fs::write(folder.path().join(FILE), &text).unwrap();
    for error in [
        Store::open(folder.path(), StoreOptions::default()).map(|_| ()).unwrap_err(),
        Reader::open(folder.path()).map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("move the file away"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).unwrap(), text);
}

#[tokio::test]
async fn a_locked_database_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    let other = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = put(&store, vec![recorded("run-a", 5)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    put(&store, vec![recorded("run-a", 5)]).await.unwrap();
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
        assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    }
}

#[test]
fn an_empty_folder_suggests_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let error = Reader::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("no episodes here yet"), "{error}");
    assert!(error.hints().contains(&Hint::command("run", "plays some")), "{error}");
}

/// The errors of a writer and of a reader of the same folder.
fn refusals(folder: &Path) -> [StoreError; 2] {
    [
        Store::open(folder, StoreOptions::default()).map(|_| ()).unwrap_err(),
        Reader::open(folder).map(|_| ()).unwrap_err(),
    ]
}

#[tokio::test]
async fn a_schema_before_the_first_release_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), "run-a", 1).await);
    let path = folder.path().join(FILE);
    for version in 1..SCHEMA {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", version).unwrap();
        drop(connection);
        let before = std::fs::read(&path).unwrap();
        for error in refusals(folder.path()) {
            assert!(matches!(error, StoreError::Older { found, known: SCHEMA, .. } if found == version), "{error}");
            assert!(error.hints().contains(&Hint::OtherDataFolder));
        }
        assert!(std::fs::read(&path).unwrap() == before, "version {version}");
    }
    assert_eq!(SCHEMA, 16);
}

#[tokio::test]
async fn a_schema_version_that_is_no_version_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), "run-a", 1).await);
    let path = folder.path().join(FILE);
    for version in [-1, i32::MIN] {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", version).unwrap();
        drop(connection);
        let before = std::fs::read(&path).unwrap();
        for error in refusals(folder.path()) {
            let told = error.to_string();
            assert!(matches!(error, StoreError::Corrupt { .. }), "{told}");
            assert!(told.contains(&format!("its schema version is {version}")), "{told}");
        }
        assert!(std::fs::read(&path).unwrap() == before, "version {version}");
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    for version in [0, SCHEMA] {
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE IF NOT EXISTS addresses (name TEXT)").unwrap();
        other.pragma_update(None, "user_version", version).unwrap();
        drop(other);
        let before = std::fs::read(&path).unwrap();
        for error in refusals(folder.path()) {
            assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        }
        assert!(std::fs::read(&path).unwrap() == before, "version {version}");
    }
}

#[test]
fn an_empty_file_is_refused_by_a_reader_and_initialised_by_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), "").unwrap();
    let error = Reader::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    drop(opened(folder.path()));
    assert!(names(folder.path()).is_empty());
}

#[test]
fn two_processes_create_one_database() {
    for _ in 0..30 {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| opened(folder.path()));
            }
        });
        assert!(names(folder.path()).is_empty());
    }
}
