//! The ledger: every change has an entry, and what disagrees with the entries is named.

use crate::records::{checkpoint, cost, episode, phase, recorded, recorded_as, run, written};
use clawhost_core::{
    Episode, EpisodeFilter, EpisodeId, EpisodeReader as _, EpisodeStore as _, Feedback, Judged, LabelChange,
    LearningStore as _, LedgerKey, LedgerReader as _, LedgerReport, Recorded, Removal, Retention as _, RunId, RunKind,
    RunLabelStore as _, RunRecord,
};
use clawhost_store::{FILE, Reader, Store, StoreOptions, ledger_key};
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;

fn id(run: &str) -> RunId {
    RunId(run.into())
}

fn keyed(folder: &Path, host: u8) -> Store {
    Store::open(folder, StoreOptions { ledger_key: ledger_key(&[host; 32]), ..StoreOptions::default() }).unwrap()
}

fn checked(folder: &Path, run: &str, key: &LedgerKey) -> LedgerReport {
    Reader::open(folder).unwrap().check_ledger(Some(&id(run)), key).unwrap()
}

fn report(folder: &Path, run: &str) -> LedgerReport {
    checked(folder, run, &ledger_key(&[7; 32]))
}

/// What the ledger finds about a run, as text.
fn told(folder: &Path, run: &str) -> Vec<String> {
    report(folder, run).findings.iter().map(ToString::to_string).collect()
}

fn change(folder: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(folder.join(FILE)).unwrap();
    connection.execute_batch(&format!("PRAGMA foreign_keys = 0; {sql}")).unwrap();
}

async fn append(store: &Store, run: &str, episodes: Vec<Recorded>) {
    store.append(&id(run), episodes, cost()).await.unwrap();
}

async fn judge(store: &Store, score: f64) {
    let record = Feedback::new(score, "").unwrap().record();
    let judged = Judged { run: id("run-a"), episode: EpisodeId("ep-0000".into()), record, at: 50, key: None };
    store.judge(vec![judged]).await.unwrap();
}

async fn rename(store: &Store, name: &str) {
    store.relabel(&id("run-a"), LabelChange::Name(Some(name.parse().unwrap()))).await.unwrap();
}

/// `run-a` with four episodes, two later verdicts and a name, and the learning run `run-b` with a phase.
async fn filled() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let store = keyed(folder.path(), 7);
    store.begin_run(&run("run-a")).await.unwrap();
    append(&store, "run-a", (0..4).map(|index| recorded("run-a", index)).collect()).await;
    judge(&store, -1.0).await;
    judge(&store, 1.0).await;
    rename(&store, "first").await;
    store.finish_run(&id("run-a"), &serde_json::json!({"scored": 2}), cost()).await.unwrap();
    store.begin_run(&RunRecord { kind: RunKind::Learn, planned: 0, ..run("run-b") }).await.unwrap();
    store.begin_run(&phase("run-b.1", "run-b")).await.unwrap();
    append(&store, "run-b.1", vec![recorded("run-b.1", 0)]).await;
    for iteration in [1, 2] {
        store.checkpoint(checkpoint("run-b", iteration, &[("weights", written(&[iteration as u8]))])).await.unwrap();
    }
    drop(store);
    folder
}

/// A copy of a folder without blobs.
fn copied(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

#[tokio::test]
async fn every_change_has_an_entry_that_agrees_with_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let store = keyed(folder.path(), 7);
    let mut entries = 0;
    let mut check = |what: &str, new: u64| {
        let all = ["run-a", "run-b"].map(|run| report(folder.path(), run));
        assert!(all.iter().all(LedgerReport::is_clean), "{what}: {all:?}");
        assert_eq!(all[0].entries, entries + new, "{what}");
        assert_eq!(all[0].head.as_ref().map(|head| head.entry), Some(entries + new));
        entries += new;
    };
    store.begin_run(&run("run-a")).await.unwrap();
    check("a key and a beginning", 2);
    append(&store, "run-a", vec![recorded("run-a", 0), recorded("run-a", 1)]).await;
    check("two episodes", 2);
    append(&store, "run-a", vec![Recorded { replaces_existing: true, ..recorded_as(episode("run-a", 1)) }]).await;
    check("a replaced episode", 1);
    judge(&store, 1.0).await;
    check("a later verdict", 1);
    judge(&store, 1.0).await;
    check("the same verdict changes nothing", 0);
    rename(&store, "first").await;
    check("a name", 1);
    store.finish_run(&id("run-a"), &serde_json::json!({"stopped": "cancelled"}), cost()).await.unwrap();
    check("an end", 1);
    store.resume_run(&id("run-a")).await.unwrap();
    check("a new beginning", 1);
    store.begin_run(&RunRecord { kind: RunKind::Learn, ..run("run-b") }).await.unwrap();
    store.begin_run(&phase("run-b.1", "run-b")).await.unwrap();
    check("a learning run and a phase", 2);
    store.checkpoint(checkpoint("run-b", 1, &[("weights", written(b"w"))])).await.unwrap();
    check("a checkpoint and a report", 2);
    drop(store);
    // Another process goes on where this one ended.
    let store = keyed(folder.path(), 7);
    append(&store, "run-b.1", vec![recorded("run-b.1", 0)]).await;
    check("an episode of another process", 1);
}

#[tokio::test]
async fn a_removed_inserted_or_changed_record_is_named() {
    let folder = filled().await;
    for run in ["run-a", "run-b"] {
        assert!(report(folder.path(), run).is_clean(), "{:?}", told(folder.path(), run));
    }
    let first = "(SELECT min(number) FROM episodes)";
    for (run, sql, says) in [
        ("run-a", format!("DELETE FROM episodes WHERE number = {first}"), "episode run-a/ep-0000 was removed"),
        ("run-a", "UPDATE episodes SET id = 'ep-x' WHERE id = 'ep-0002'".into(), "episode run-a/ep-x was inserted"),
        ("run-a", format!("UPDATE episodes SET document = '{{}}' WHERE number = {first}"), "episode run-a/ep-0000 was changed"),
        (
            "run-a",
            "INSERT INTO episodes SELECT 99, run, 'ep-new', position, group_number, task, setting, ending, reward, turns,
             created_at, pending_until, revision, dictionary, document FROM episodes WHERE id = 'ep-0002'"
                .into(),
            "episode run-a/ep-new was inserted",
        ),
        (
            "run-a",
            format!("DELETE FROM verdicts WHERE number = (SELECT max(number) FROM verdicts WHERE episode = {first})"),
            "later verdict 2 of episode run-a/ep-0000 was removed",
        ),
        (
            "run-a",
            format!(
                "UPDATE verdicts SET document = (SELECT document FROM verdicts WHERE episode = {first} ORDER BY number DESC)
                 WHERE number = (SELECT max(number) - 1 FROM verdicts WHERE episode = {first})"
            ),
            "later verdict 1 of episode run-a/ep-0000 was changed",
        ),
        ("run-a", format!("DELETE FROM verdicts WHERE number = {first} << 16"), "episode run-a/ep-0000 was changed"),
        ("run-a", "UPDATE runs SET summary = '{}' WHERE id = 'run-a'".into(), "the end of run run-a was changed"),
        ("run-a", "UPDATE runs SET state = 'open' WHERE id = 'run-a'".into(), "the end of run run-a was changed"),
        ("run-a", "UPDATE runs SET created_at = 5 WHERE id = 'run-a'".into(), "run run-a was changed"),
        ("run-a", "UPDATE runs SET config = '{}' WHERE id = 'run-a'".into(), "run run-a was changed"),
        ("run-a", "UPDATE runs SET pruned = 1 WHERE id = 'run-a'".into(), "the mark `pruned` of run run-a was changed"),
        ("run-a", "UPDATE run_names SET name = 'other'".into(), "the labels of run run-a was changed"),
        ("run-a", "INSERT INTO run_tags VALUES ('run-a', 'tag')".into(), "the labels of run run-a was changed"),
        ("run-a", "DELETE FROM runs WHERE id = 'run-a'".into(), "run run-a was removed"),
        ("run-b", "DELETE FROM runs WHERE id = 'run-b.1'".into(), "run run-b.1 was removed"),
        ("run-b", "UPDATE runs SET id = 'run-b.2' WHERE id = 'run-b.1'".into(), "run run-b.2 was inserted"),
        ("run-b", "DELETE FROM checkpoints".into(), "the checkpoint of run run-b was removed"),
        ("run-b", "UPDATE checkpoints SET state = '{}'".into(), "the checkpoint of run run-b was changed"),
        ("run-b", "UPDATE large_states SET size = 9".into(), "the checkpoint of run run-b was changed"),
        ("run-b", "UPDATE iterations SET report = '{}' WHERE number = 1".into(), "the report of iteration 1 of run run-b was changed"),
        ("run-b", "DELETE FROM iterations WHERE number = 1".into(), "the report of iteration 1 of run run-b was removed"),
    ] {
        let copy = copied(folder.path());
        change(copy.path(), &sql);
        let found = told(copy.path(), run);
        assert!(found.iter().any(|text| text.starts_with(says)), "{sql}: {found:?}");
        assert!(!found.iter().any(|text| text.starts_with("entr")), "the ledger is whole: {found:?}");
    }
}

#[tokio::test]
async fn a_removed_changed_moved_or_inserted_entry_is_named() {
    let folder = filled().await;
    let last = report(folder.path(), "run-a").entries;
    let forged = |entry: u64| format!("entry {entry} of the ledger was changed, moved or inserted");
    let exchange =
        "UPDATE ledger SET sequence = -1 WHERE sequence = 4; UPDATE ledger SET sequence = 4 WHERE sequence = 5;
        UPDATE ledger SET sequence = 5 WHERE sequence = -1";
    let close_up = "DELETE FROM ledger WHERE sequence = 4; UPDATE ledger SET sequence = -sequence WHERE sequence > 4;
        UPDATE ledger SET sequence = -sequence - 1 WHERE sequence < 0";
    let insert = format!(
        "INSERT INTO ledger SELECT {last} + 1, kind, run, 'ep-new', digest, code FROM ledger WHERE sequence = 4"
    );
    for (sql, says) in [
        ("DELETE FROM ledger WHERE sequence = 4", "entry 4 of the ledger is missing".to_owned()),
        ("DELETE FROM ledger WHERE sequence < 4", "entries 1 to 3 of the ledger are missing".to_owned()),
        ("UPDATE ledger SET digest = zeroblob(32) WHERE sequence = 4", forged(4)),
        ("UPDATE ledger SET kind = 9 WHERE sequence = 4", forged(4)),
        ("UPDATE ledger SET kind = 99 WHERE sequence = 4", forged(4)),
        ("UPDATE ledger SET run = 7 WHERE sequence = 4", forged(4)),
        ("UPDATE ledger SET subject = 'ep-x' WHERE sequence = 4", forged(4)),
        ("UPDATE ledger SET code = zeroblob(16) WHERE sequence = 4", forged(4)),
        ("UPDATE ledger SET digest = 'text' WHERE sequence = 4", forged(4)),
        (exchange, forged(4)),
        (exchange, forged(5)),
        (close_up, forged(4)),
        (&insert, forged(last + 1)),
    ] {
        let copy = copied(folder.path());
        change(copy.path(), sql);
        let found = told(copy.path(), "run-a");
        assert!(found.iter().any(|text| text.starts_with(&says)), "{sql}: {says}: {found:?}");
    }
    // The end of the ledger has no later entry: what was cut off leaves records without entries.
    let copy = copied(folder.path());
    change(copy.path(), "DELETE FROM ledger WHERE sequence >= 4");
    let found = told(copy.path(), "run-a");
    assert!(found.iter().any(|text| text.starts_with("episode run-a/ep-0003 was inserted")), "{found:?}");
    assert_ne!(report(copy.path(), "run-a").head, report(folder.path(), "run-a").head, "a noted end shows it");
}

#[tokio::test]
async fn an_entry_of_another_history_of_the_folder_is_named() {
    let folder = filled().await;
    let histories = [copied(folder.path()), copied(folder.path())];
    for (history, scores) in histories.iter().zip([[0.1, 0.2], [0.3, 0.4]]) {
        let store = keyed(history.path(), 7);
        judge(&store, scores[0]).await;
        judge(&store, scores[1]).await;
        drop(store);
        assert!(report(history.path(), "run-a").is_clean());
    }
    let [one, other] = histories;
    let last = report(one.path(), "run-a").entries;
    let other = other.path().join(FILE).display().to_string();
    let sql = "ATTACH '{other}' AS other; DELETE FROM ledger WHERE sequence = {last};
        INSERT INTO ledger SELECT * FROM other.ledger WHERE sequence = {last}";
    change(one.path(), &sql.replace("{other}", &other).replace("{last}", &last.to_string()));
    let found = told(one.path(), "run-a");
    let forged = format!("entry {last} of the ledger was changed, moved or inserted");
    assert!(found.iter().any(|text| text.starts_with(&forged)), "{found:?}");
}

#[tokio::test]
async fn a_prune_leaves_a_tombstone_and_the_digests() {
    let folder = filled().await;
    let store = keyed(folder.path(), 7);
    let before = report(folder.path(), "run-a").entries;
    let keep_episodes = BTreeSet::from(["run-a/ep-0001".to_owned()]);
    let part = Removal { runs: BTreeSet::from([id("run-a")]), keep_episodes, ..Removal::default() };
    store.rehearse(part.clone()).await.unwrap();
    assert_eq!(report(folder.path(), "run-a").entries, before, "a rehearsal writes nothing");
    assert_eq!(store.remove(part).await.unwrap().episodes, 3);
    let pruned = report(folder.path(), "run-a");
    assert!(pruned.is_clean() && pruned.entries > before, "{pruned:?}");
    let copy = copied(folder.path());
    change(copy.path(), "DELETE FROM episodes WHERE id = 'ep-0001'");
    let found = told(copy.path(), "run-a");
    assert!(found.iter().any(|text| text.starts_with("episode run-a/ep-0001 was removed")), "{found:?}");
    let runs = BTreeSet::from([id("run-a")]);
    let rest = Removal { keep_records: runs.clone(), runs, ..Removal::default() };
    assert_eq!(store.remove(rest).await.unwrap().episodes, 1);
    let emptied = report(folder.path(), "run-a");
    assert!(emptied.is_clean() && emptied.entries > pruned.entries, "the row of the run stays: {emptied:?}");
    let all = Removal { runs: BTreeSet::from([id("run-a"), id("run-b")]), ..Removal::default() };
    store.remove(all).await.unwrap();
    for run in ["run-a", "run-b"] {
        let removed = report(folder.path(), run);
        assert!(removed.is_clean() && removed.entries > emptied.entries, "{removed:?}");
    }
    drop(store);
    let connection = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    let digests: u32 =
        connection.query_row("SELECT count(*) FROM ledger WHERE kind = 4", [], |row| row.get(0)).unwrap();
    assert_eq!(digests, 5, "of all episodes that ever were");
}

#[tokio::test]
async fn another_key_is_named_and_stops_neither_reading_nor_writing() {
    let folder = filled().await;
    let other = checked(folder.path(), "run-a", &ledger_key(&[8; 32]));
    assert!(!other.is_clean() && other.findings.is_empty(), "{other:?}");
    let why = other.unchecked.unwrap();
    assert!(why.starts_with("the ledger cannot be checked: entries 1 to "), "{why}");
    let store = keyed(folder.path(), 8);
    judge(&store, 0.5).await;
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.episodes(&EpisodeFilter::default()).unwrap().len(), 5);
    let (first, second) = (report(folder.path(), "run-a"), checked(folder.path(), "run-a", &ledger_key(&[8; 32])));
    assert!(first.findings.is_empty() && second.findings.is_empty(), "{first:?} {second:?}");
    assert!(first.unchecked.is_some() && second.unchecked.is_some(), "each key has its own part");
    assert_ne!(first.unchecked, second.unchecked);
    assert_ne!(ledger_key(&[7; 32]).0, [7; 32], "a key of its own");
}

#[tokio::test]
async fn compression_changes_no_digest() {
    let folder = filled().await;
    let reader = Reader::open(folder.path()).unwrap();
    let whole = reader.episode("run-a/ep-0003").unwrap().unwrap();
    drop(reader);
    let connection = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    let kind = |sql: &str| -> String { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(kind("SELECT typeof(document) FROM episodes WHERE id = 'ep-0003'"), "blob", "it was compressed");
    // Verdicts have rows of their own, and a digest that follows from the task is left out.
    let text = serde_json::to_string(&Episode { verdicts: Vec::new(), ..whole.clone() }).unwrap();
    let text = match whole.task_hash == whole.task.digest() {
        true => text.replace(&whole.task_hash.to_string(), &format!("sha256:{}", "0".repeat(64))),
        false => text,
    };
    connection.execute("UPDATE episodes SET document = ?, dictionary = NULL WHERE id = 'ep-0003'", [text]).unwrap();
    assert!(report(folder.path(), "run-a").is_clean(), "{:?}", told(folder.path(), "run-a"));
}

#[tokio::test]
async fn an_entry_takes_few_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = keyed(folder.path(), 7);
    store.begin_run(&run("run-a")).await.unwrap();
    append(
        &store,
        "run-a",
        (0..1000)
            .map(|index| {
                let id = EpisodeId(format!("ep-{index:016x}"));
                recorded_as(Episode { id, ..episode("run-a", index) })
            })
            .collect(),
    )
    .await;
    drop(store);
    let connection = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    let sql =
        "SELECT sum(octet_length(subject) + octet_length(digest) + octet_length(code)) FROM ledger WHERE kind = 4";
    let bytes: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(bytes, 1000 * (8 + 32 + 16));
}

/// What the ledger finds about all runs, as text.
fn told_of_all(folder: &Path) -> Vec<String> {
    let report = Reader::open(folder).unwrap().check_ledger(None, &ledger_key(&[7; 32])).unwrap();
    report.findings.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_run_that_was_removed_hidden_or_inserted_is_named() {
    let folder = filled().await;
    assert_eq!(told_of_all(folder.path()), Vec::<String>::new());
    let check = |sql: &str, expect: &str| {
        let copy = copied(folder.path());
        change(copy.path(), sql);
        let all = told_of_all(copy.path());
        assert!(all.iter().any(|text| text.contains(expect)), "{sql}: {all:?}");
        all
    };
    let removed = "run run-a was removed: entry 2 of the ledger has it";
    check("DELETE FROM runs WHERE id = 'run-a'", removed);
    let everything = "DELETE FROM verdicts WHERE episode IN (SELECT e.number FROM episodes e JOIN runs r ON r.number = e.run WHERE r.id = 'run-a');
        DELETE FROM episodes WHERE run = (SELECT number FROM runs WHERE id = 'run-a'); DELETE FROM runs WHERE id = 'run-a'";
    check(everything, removed);
    check("DELETE FROM episodes; DELETE FROM runs", removed);
    check(
        "UPDATE runs SET number = 99 WHERE id = 'run-a'",
        "a row of the table `episodes`, of a run that is not there,",
    );
    check("UPDATE runs SET parent = 'x' WHERE id = 'run-a'", "run run-a was changed");
    check(
        "INSERT INTO runs SELECT 77, 'run-z', parent, kind, environment, state_id, config, digest, basis, planned, created_at, state,
         summary, spent, pruned FROM runs WHERE id = 'run-a'",
        "run run-z was inserted",
    );
    check(
        "INSERT INTO checkpoints VALUES ('run-z', 1, '{}')",
        "a row of the table `checkpoints`, of a run that is not there,",
    );
    // A check of one run names the others that are gone.
    let copy = copied(folder.path());
    change(copy.path(), "DELETE FROM runs WHERE id = 'run-a'");
    assert!(told(copy.path(), "run-b").contains(&removed.to_owned()), "{:?}", told(copy.path(), "run-b"));
}
