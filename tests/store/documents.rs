//! Compressed documents in a database: they read back, their dictionaries are in the database, and damage is reported.

use crate::records::{episode, filled, names, opened, put, recorded, recorded_as, run};
use clawhost_core::{
    Digest, Episode, EpisodeFilter, EpisodeOrigin, EpisodeReader as _, EpisodeStore as _, Judged, Recorded, Removal,
    Retention as _, RunId, StoreError,
};
use clawhost_store::{FILE, Reader, Store};
use std::path::Path;

fn database(folder: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(folder.join(FILE)).unwrap()
}

fn count(folder: &Path, sql: &str) -> i64 {
    database(folder).query_row(sql, [], |row| row.get(0)).unwrap()
}

const DICTIONARIES: &str = "SELECT count(*) FROM dictionaries";

/// An episode of an environment, different from all others.
fn played(environment: &str, run: &str, index: u64) -> Episode {
    let mut episode = episode(run, index * 2);
    episode.index = index;
    if let Some(simulated) = episode.origin.simulated_mut() {
        simulated.environment.name = environment.to_owned();
        simulated.seed = Digest::of(&index.to_be_bytes()).prefix_u64() >> 11;
    }
    for (turn, number) in episode.turns.iter_mut().zip(0_u64..) {
        turn.request = Digest::of(&[index, number].map(u64::to_be_bytes).concat());
        turn.fuel = Some(8_000 + index);
    }
    for verdict in &mut episode.verdicts {
        verdict.reward.name = format!("{environment}-reward");
        verdict.seed = index;
    }
    episode
}

/// Begins a run and plays until an episode and a verdict are compressed with dictionaries. Returns all episodes.
async fn play_until_compressed(store: &Store, folder: &Path, environment: &str, name: &str) -> Vec<Episode> {
    store.begin_run(&run(name)).await.unwrap();
    let mut episodes: Vec<Episode> = Vec::new();
    let sql = format!(
        "SELECT count(*) FROM episode_rows e JOIN verdicts v ON v.episode = e.number
         WHERE run = '{name}' AND e.dictionary IS NOT NULL AND v.dictionary IS NOT NULL"
    );
    while count(folder, &sql) == 0 {
        let first = episodes.len() as u64;
        let batch: Vec<Episode> = (first..first + 64).map(|index| played(environment, name, index)).collect();
        put(store, batch.iter().cloned().map(recorded_as).collect()).await.unwrap();
        episodes.extend(batch);
    }
    episodes
}

fn check(folder: &Path, episodes: &[Episode]) {
    let reader = Reader::open(folder).unwrap();
    for episode in episodes {
        let name = format!("{}/{}", episode.run, episode.id);
        assert_eq!(reader.episode(&name).unwrap().as_ref(), Some(episode), "{name}");
    }
}

#[tokio::test]
async fn episodes_of_two_environments_round_trip_over_a_reopened_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let guess = play_until_compressed(&store, folder.path(), "guess", "run-a").await;
    let shop = play_until_compressed(&store, folder.path(), "shop", "run-b").await;
    assert_eq!(count(folder.path(), DICTIONARIES), 4, "one for each environment, one for each reward");
    check(folder.path(), &guess);
    drop(store);
    check(folder.path(), &guess);
    check(folder.path(), &shop);

    // A process that begins later uses them at once.
    let store = opened(folder.path());
    let next = played("guess", "run-a", 10_000);
    put(&store, vec![recorded_as(next.clone())]).await.unwrap();
    check(folder.path(), &[next]);
    let without = "SELECT count(*) FROM episodes WHERE position = 10000 AND dictionary IS NULL";
    assert_eq!((count(folder.path(), without), count(folder.path(), DICTIONARIES)), (0, 4));
}

#[tokio::test]
async fn documents_with_a_fitting_dictionary_are_smaller_than_a_third() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let episodes = play_until_compressed(&store, folder.path(), "guess", "run-a").await;
    let text = serde_json::to_string(episodes.last().unwrap()).unwrap().len() as i64;
    let stored = "SELECT octet_length(document) FROM episodes WHERE dictionary IS NOT NULL ORDER BY number DESC";
    let stored = count(folder.path(), stored);
    assert!(stored * 3 < text, "{stored} bytes of {text}");
}

#[tokio::test]
async fn a_verdict_is_added_to_compressed_verdicts() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let episodes = play_until_compressed(&store, folder.path(), "guess", "run-a").await;
    let last = episodes.last().unwrap();
    let mut record = last.verdicts[0].clone();
    record.reward.digest = Digest::of(b"another reward");
    let judged = Judged { run: last.run.clone(), episode: last.id.clone(), record: record.clone(), at: 50, key: None };
    store.judge(vec![judged]).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    let found = reader.episode(&format!("run-a/{}", last.id)).unwrap().unwrap();
    assert_eq!(found.verdicts.len(), last.verdicts.len() + 1);
    assert_eq!(found.verdicts[..last.verdicts.len()], last.verdicts);
    assert_eq!(found.verdicts.last().unwrap().reward, record.reward);
}

#[tokio::test]
async fn a_dictionary_is_removed_with_its_last_document() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    play_until_compressed(&store, folder.path(), "guess", "run-a").await;
    let shop = play_until_compressed(&store, folder.path(), "shop", "run-b").await;
    let removal = |run: &str| Removal { runs: [RunId(run.into())].into(), ..Removal::default() };
    store.remove(removal("run-a")).await.unwrap();
    assert_eq!(count(folder.path(), DICTIONARIES), 2);
    check(folder.path(), &shop);

    // The store still has the removed dictionary in memory: the next document writes it again.
    store.begin_run(&run("run-c")).await.unwrap();
    let next = played("guess", "run-c", 0);
    put(&store, vec![recorded_as(next.clone())]).await.unwrap();
    assert_eq!(count(folder.path(), DICTIONARIES), 4);
    check(folder.path(), &[next]);

    for run in ["run-b", "run-c"] {
        store.remove(removal(run)).await.unwrap();
    }
    assert_eq!(count(folder.path(), DICTIONARIES), 0);
    for table in ["settings", "endings", "rewards"] {
        assert_eq!(count(folder.path(), &format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
}

#[tokio::test]
async fn a_document_without_its_dictionary_is_reported_and_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let guess = play_until_compressed(&store, folder.path(), "guess", "run-a").await;
    let (first, last) = (guess.first().unwrap(), guess.last().unwrap());
    drop(store);
    let database = database(folder.path());
    let refused = |why: &str| {
        let error = Reader::open(folder.path()).unwrap().episode(&format!("run-a/{}", last.id)).unwrap_err();
        let name = format!("episode run-a/{}", last.id);
        assert!(matches!(&error, StoreError::Damaged { what, .. } if *what == name), "{error}");
        assert!(error.to_string().contains(why), "{error}");
        check(folder.path(), std::slice::from_ref(first));
    };
    let number: i64 = database
        .query_row("SELECT dictionary FROM episodes ORDER BY number DESC LIMIT 1", [], |row| row.get(0))
        .unwrap();
    let change = |sql: &str| assert_eq!(database.execute(sql, [number]).unwrap(), 1, "{sql}");
    change("UPDATE dictionaries SET content = substr(content, 1, 1000) WHERE number = ?");
    refused(&format!("its dictionary {number} does not have the digest that names it"));
    // Such a database can still be written to.
    let store = opened(folder.path());
    let next = played("guess", "run-a", 10_000);
    put(&store, vec![recorded_as(next.clone())]).await.unwrap();
    check(folder.path(), &[next]);
    drop(store);
    change("UPDATE dictionaries SET content = zeroblob(100000000) WHERE number = ?");
    refused(&format!("its dictionary {number} is missing from the database"));
    change("DELETE FROM dictionaries WHERE number = ?");
    refused(&format!("its dictionary {number} is missing from the database"));
}

#[tokio::test]
async fn a_changed_document_is_reported_and_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 3).await;
    let database = database(folder.path());
    let reader = Reader::open(folder.path()).unwrap();
    // Omitted parts, a length over a gigabyte, only lengths, another text.
    let sum = "substr(document, 1, 5)";
    for (change, why) in [
        ("x''".to_owned(), "its compressed bytes cannot be read"),
        ("x'ff' || substr(document, 2)".to_owned(), "its compressed bytes cannot be read"),
        (
            format!("{sum} || x'ffffffff7f0000'"),
            "it claims more than the 536870912 bytes that a document of kind episode may have",
        ),
        (format!("{sum} || x'000000'"), "its compressed bytes cannot be read"),
        (
            "substr(document, 1, 1) || x'00000000' || substr(document, 6)".to_owned(),
            "its text does not have the recorded checksum",
        ),
    ] {
        let sql = format!("UPDATE episodes SET document = CAST({change} AS BLOB) WHERE position = 1");
        let before: Vec<u8> =
            database.query_row("SELECT document FROM episodes WHERE position = 1", [], |row| row.get(0)).unwrap();
        assert_eq!(database.execute(&sql, []).unwrap(), 1);
        let error = reader.episode("run-a/ep-0001").unwrap_err();
        assert!(matches!(&error, StoreError::Damaged { what, .. } if what == "episode run-a/ep-0001"), "{error}");
        assert!(error.to_string().contains(why), "{change}: {error}");
        assert!(
            reader.episode("run-a/ep-0000").unwrap().is_some() && reader.episode("run-a/ep-0002").unwrap().is_some()
        );
        database.execute("UPDATE episodes SET document = ? WHERE position = 1", [before]).unwrap();
        assert_eq!(reader.episode("run-a/ep-0001").unwrap(), Some(episode("run-a", 1)));
    }
    drop(store);
}

#[tokio::test]
async fn columns_have_the_values_of_filters() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 0).await;
    let EpisodeOrigin::Simulated(simulated) = episode("run-a", 0).origin else { panic!("golden episodes are played") };
    put(&store, (0..4).map(|index| recorded("run-a", index)).collect()).await.unwrap();
    let digest = simulated.environment.digest;
    for (condition, expected) in [
        ("failure_kind = 'limit' AND failure_code = 'fuel'", 2),
        ("failure_kind IS NULL AND ending = 'terminated'", 2),
        ("reward = 1 AND task = 'train-0' AND split = 'train'", 2),
        ("reward IS NULL", 2),
        (&format!("environment_digest = '{digest}' AND environment = 'env-math'"), 4),
        (&format!("group_number = {} AND position = 2", simulated.group), 1),
        ("id = 'ep-0003' AND run = 'run-a' AND NOT live AND expects IS NULL", 1),
    ] {
        let sql = format!("SELECT count(*) FROM episode_rows WHERE {condition}");
        assert_eq!(count(folder.path(), &sql), expected, "{condition}");
    }
}

#[tokio::test]
async fn an_episode_of_an_unknown_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 1).await;
    let error = put(&store, vec![recorded("run-x", 0)]).await.unwrap_err();
    assert_eq!(error.to_string(), "run run-x is unknown: nothing can be added to it");
    assert_eq!(names(folder.path()), ["run-a/ep-0000"]);
    let again: Vec<Recorded> = vec![recorded("run-a", 0)];
    put(&store, again).await.unwrap_err();
    assert_eq!(Reader::open(folder.path()).unwrap().episodes(&EpisodeFilter::default()).unwrap().len(), 1);
}
