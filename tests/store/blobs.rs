//! Blobs: artefacts of episodes and components of plugins.

use crate::records::{
    blob_files, blob_names, blob_path, filled, opened, plugin, put, recorded, recorded_as, run, with_artefacts,
};
use clawhost_core::{
    Digest, EpisodeReader as _, EpisodeStore as _, PluginIdentity, PluginReader as _, PluginStore as _, Recorded,
    StoreError, StoredPlugin,
};
use clawhost_store::{ARTEFACT_BLOB_BYTES, FILE, Reader};
use std::path::Path;

/// Size of the stored document of an episode in bytes.
fn stored_bytes(folder: &Path, id: &str) -> usize {
    let connection = rusqlite::Connection::open(folder.join(FILE)).unwrap();
    let sql = "SELECT octet_length(document) FROM episode_rows WHERE id = ?";
    connection.query_row(sql, [id], |row| row.get::<_, i64>(0)).unwrap() as usize
}

/// Incompressible bytes.
fn random(seed: u8, count: usize) -> Vec<u8> {
    let block = |number: usize| Digest::of(&[seed.into(), number].map(usize::to_be_bytes).concat()).hex();
    let digits: String = (0..count.div_ceil(32)).map(block).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.as_bytes().chunks(2).map(byte).take(count).collect()
}

#[tokio::test]
async fn artefacts_round_trip_on_both_sides_of_the_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 0).await;
    let below = random(1, ARTEFACT_BLOB_BYTES - 1);
    let at = random(2, ARTEFACT_BLOB_BYTES);
    let cases: [(&[&[u8]], &[&[u8]]); 4] =
        [(&[&below], &[]), (&[&at], &[&at]), (&[b"", &at, &below, &at, b"sha256:"], &[&at]), (&[], &[])];
    for (index, (artefacts, blobs)) in cases.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let store = filled(folder.path(), "run-a", 0).await;
        let episode = with_artefacts("run-a", index as u64, artefacts);
        put(&store, vec![recorded_as(episode.clone())]).await.unwrap();
        let reader = Reader::open(folder.path()).unwrap();
        assert!(reader.episode(&episode.id.0).unwrap().unwrap() == episode, "case {index}");
        assert_eq!(blob_files(folder.path()), blob_names(blobs), "case {index}");
        let stored = stored_bytes(folder.path(), &episode.id.0);
        let inline: usize = artefacts.iter().filter(|bytes| bytes.len() < at.len()).map(|bytes| bytes.len()).sum();
        let expected = inline..inline * 4 / 3 + 16_384;
        assert!(expected.contains(&stored), "case {index}: {stored} bytes; large ones are not in the document");
    }
    // Two episodes with equal artefacts share one blob.
    let both = [0, 1].map(|index| recorded_as(with_artefacts("run-a", index, &[&at])));
    put(&store, both.to_vec()).await.unwrap();
    assert_eq!(blob_files(folder.path()), blob_names(&[&at]));
}

#[tokio::test]
async fn other_components_with_a_name_and_version_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let keep = async |bytes: &[u8], version: &str, world: &str| {
        let plugin = PluginIdentity { version: version.into(), ..plugin(bytes) };
        store.keep_plugin(&plugin, world, bytes.to_vec()).await.unwrap();
        plugin
    };
    let first = keep(b"one", "1", "environment").await;
    assert_eq!(store.namesakes(&first, "environment").await.unwrap(), [], "there is no other component");
    keep(b"newer", "2", "environment").await;
    keep(b"a reward", "1", "reward").await;
    let second = keep(b"two", "1", "environment").await;
    let third = PluginIdentity { digest: Digest::of(b"not kept yet"), ..first.clone() };
    let mut both = [first.digest, second.digest];
    both.sort_by_key(ToString::to_string);
    assert_eq!(store.namesakes(&first, "environment").await.unwrap(), [second.digest]);
    assert_eq!(store.namesakes(&third, "environment").await.unwrap(), both);
    assert_eq!(store.namesakes(&third, "reflector").await.unwrap(), []);
}

#[tokio::test]
async fn an_episode_without_its_blob_is_reported_and_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    let bytes = vec![9; ARTEFACT_BLOB_BYTES];
    put(&store, vec![recorded_as(with_artefacts("run-a", 5, &[&bytes]))]).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    let path = blob_path(folder.path(), &bytes);
    std::fs::write(&path, vec![8; ARTEFACT_BLOB_BYTES]).unwrap();
    let error = reader.episode("run-a/ep-0005").unwrap_err();
    assert!(matches!(&error, StoreError::BlobDamaged { what, .. } if what == "episode run-a/ep-0005"), "{error}");
    std::fs::remove_file(&path).unwrap();
    let error = reader.episode("run-a/ep-0005").unwrap_err();
    assert!(matches!(&error, StoreError::BlobMissing { what, .. } if what == "episode run-a/ep-0005"), "{error}");
    assert!(reader.episode("run-a/ep-0000").unwrap().is_some());
}

#[tokio::test]
async fn replacing_an_episode_removes_its_blob() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    let [first, second] = [[1_u8; ARTEFACT_BLOB_BYTES], [2; ARTEFACT_BLOB_BYTES]];
    put(&store, vec![recorded_as(with_artefacts("run-a", 5, &[&first, &second]))]).await.unwrap();
    let replacement = with_artefacts("run-a", 5, &[&second]);
    let again = Recorded { replaces_existing: true, ..recorded_as(replacement.clone()) };
    put(&store, vec![again]).await.unwrap();
    assert_eq!(blob_files(folder.path()), blob_names(&[&second]));
    assert!(Reader::open(folder.path()).unwrap().episode("run-a/ep-0005").unwrap().unwrap() == replacement);
}

#[tokio::test]
async fn a_refused_batch_removes_no_blob_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    let bytes = [4; ARTEFACT_BLOB_BYTES];
    let episode = with_artefacts("run-a", 5, &[&bytes]);
    put(&store, vec![recorded_as(episode.clone())]).await.unwrap();
    let again = Recorded { replaces_existing: true, ..recorded("run-a", 5) };
    put(&store, vec![again, recorded("run-a", 0)]).await.unwrap_err();
    assert!(Reader::open(folder.path()).unwrap().episode("run-a/ep-0005").unwrap().unwrap() == episode);
}

#[tokio::test]
async fn plugins_are_stored_once_by_digest() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let identity = plugin(b"component");
    for _ in 0..2 {
        store.keep_plugin(&identity, "environment", b"component".to_vec()).await.unwrap();
    }
    let reader = Reader::open(folder.path()).unwrap();
    let stored = reader.plugin(&identity.digest).unwrap().unwrap();
    let (name, version, world) = ("guess".to_owned(), "1".to_owned(), "environment".to_owned());
    assert_eq!(stored, StoredPlugin { name, version, world, bytes: b"component".to_vec() });
    assert_eq!(reader.plugin(&Digest::of(b"other")).unwrap(), None);
    assert_eq!(blob_files(folder.path()), blob_names(&[b"component"]));
}

#[tokio::test]
async fn a_plugin_with_another_digest_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let error = store.keep_plugin(&plugin(b"component"), "reward", b"another".to_vec()).await.unwrap_err();
    assert!(error.to_string().contains("another digest"), "{error}");
    assert_eq!(Reader::open(folder.path()).unwrap().plugin(&Digest::of(b"component")).unwrap(), None);
    assert!(blob_files(folder.path()).is_empty());
}

#[tokio::test]
async fn a_plugin_is_checked_on_reading_and_repaired_by_storing_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let identity = plugin(b"component");
    let keep = async || store.keep_plugin(&identity, "environment", b"component".to_vec()).await.unwrap();
    let read = || Reader::open(folder.path()).unwrap().plugin(&identity.digest);
    let path = blob_path(folder.path(), b"component");
    keep().await;
    std::fs::write(&path, "componenT").unwrap();
    let error = read().unwrap_err();
    assert!(matches!(&error, StoreError::BlobDamaged { what, .. } if what == "plugin guess"), "{error}");
    keep().await;
    assert!(read().is_err(), "a file of the same size is not written again");
    // Another size is detected without reading, and the blob is written again.
    std::fs::write(&path, "comp").unwrap();
    keep().await;
    assert_eq!(read().unwrap().unwrap().bytes, b"component");
    std::fs::remove_file(&path).unwrap();
    let error = read().unwrap_err();
    assert!(matches!(&error, StoreError::BlobMissing { what, .. } if what == "plugin guess"), "{error}");
    keep().await;
    assert_eq!(read().unwrap().unwrap().bytes, b"component");
}

#[tokio::test]
async fn a_blob_that_cannot_be_written_fails_only_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.begin_run(&run("run-a")).await.unwrap();
    // A file at the path of the folder.
    std::fs::write(folder.path().join("blobs"), "").unwrap();
    let bytes = [4; ARTEFACT_BLOB_BYTES];
    put(&store, vec![recorded_as(with_artefacts("run-a", 5, &[&bytes]))]).await.unwrap_err();
    put(&store, vec![recorded("run-a", 6)]).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.episode("run-a/ep-0005").unwrap(), None);
    assert!(reader.episode("run-a/ep-0006").unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_deleted_before_its_record_is_committed_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(filled(folder.path(), "run-a", 1).await);
    let bytes = vec![9; ARTEFACT_BLOB_BYTES];
    let episode = with_artefacts("run-a", 5, &[&bytes]);
    // Another process holds the write lock: the blob is written, and its record waits.
    let other = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let write = tokio::spawn({
        let (store, episode) = (store.clone(), episode.clone());
        async move { put(&store, vec![recorded_as(episode)]).await }
    });
    let path = blob_path(folder.path(), &bytes);
    while !path.exists() && !write.is_finished() {
        tokio::task::yield_now().await;
    }
    // It deletes the blob with the last record that referred to it.
    std::fs::remove_file(&path).unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    write.await.unwrap().unwrap();
    assert!(Reader::open(folder.path()).unwrap().episode("run-a/ep-0005").unwrap().unwrap() == episode);
}

#[cfg(unix)]
#[tokio::test]
async fn blobs_are_readable_only_by_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.keep_plugin(&plugin(b"component"), "environment", b"component".to_vec()).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let path = blob_path(folder.path(), b"component");
    assert_eq!(mode(&path), 0o600);
    for above in path.ancestors().skip(1).take(3) {
        assert_eq!(mode(above), 0o700, "{}", above.display());
    }
}
