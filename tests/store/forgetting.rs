//! Forgetting: nothing of a person is left in any file, everything of others is, and the ledger says that something was forgotten.

use crate::records::{blob_files, blob_names, cost, episode, opened, put, recorded_as, run, with_artefacts};
use clawhost_core::{
    Digest, Episode, EpisodeId, EpisodeOrigin, EpisodeReader as _, EpisodeStore as _, ExchangeBatch, ExchangeOutcome,
    ExchangeRow, Feedback, FeedbackStore as _, Forgetting, ForgettingStore as _, Forgotten, Judged, LedgerKey,
    LedgerReader as _, LiveReader as _, LiveSession, LiveStore as _, MemoryReader as _, MemoryRow, MemoryStore as _,
    OpenEpisode, Pooled, Removal, ResponseChange, ResponseRow, Retention as _, RoutedExchange, RunId, RunKind,
    RunRecord, SessionDraw, SpoolPlace, StoredDraw, TrialsChange, TrialsReader as _, TrialsStore as _, WaitingFeedback,
};
use clawhost_store::{ARTEFACT_BLOB_BYTES, FILE, Reader, Store};
use std::collections::BTreeSet;
use std::path::Path;

const RUN: &str = "run-live";
/// What Ada says in every session. It is no number and no digest, which documents keep apart from their text.
const MARKER: &str = "the password of Ada is swordfish, she said";

fn id(session: u64) -> (RunId, EpisodeId) {
    (RunId(RUN.into()), EpisodeId(format!("ep-{session:04}")))
}

async fn begun(folder: &Path) -> Store {
    let store = opened(folder);
    store.begin_run(&RunRecord { kind: RunKind::Live, planned: 0, ..run(RUN) }).await.unwrap();
    store
}

fn said(of: &str, number: u64) -> String {
    let digest = Digest::of(&number.to_be_bytes());
    format!(
        "{of}: {} in session {number} with {digest}",
        if of == "lovelace" { MARKER } else { "the weather is fine today" }
    )
}

/// An ended session: what was said is in its record and in its verdict.
fn ended(of: &str, session: u64) -> Episode {
    let mut episode = episode(RUN, session * 2);
    episode.index = session;
    episode.id = id(session).1;
    let live = LiveSession { user: Some(of.into()), ..LiveSession::new(format!("s-{session}"), "a", "m") };
    episode.origin = EpisodeOrigin::live(live);
    episode.log = vec![said(of, session); 3];
    for verdict in &mut episode.verdicts {
        verdict.log = vec![said(of, session)];
    }
    episode
}

/// An exchange of a session in progress.
fn exchange(of: &str, session: u64) -> ExchangeRow {
    let (run, id) = id(session);
    let live = LiveSession { user: Some(of.into()), ..LiveSession::new(format!("{of}-{session}"), "a", "m") };
    ExchangeRow {
        episode: OpenEpisode { run, id, index: session, session: live, opened_at: 1 },
        position: 0,
        at: 2,
        outcome: ExchangeOutcome::Complete,
        document: serde_json::json!({"said": said(of, session)}).to_string(),
        pooled: Some(Pooled {
            owner: "key".into(),
            trajectory: format!("{of}-{session}"),
            group: "g".into(),
            policy_version: None,
        }),
        routed: Some(RoutedExchange {
            router: "r".into(),
            decision: Some(format!("{{\"of\":\"{of}\"}}")),
            has_failed: false,
            tokens: [1, 2],
        }),
        drawn: Some(SessionDraw { playbook: "p".into(), document: format!("{{\"user\":\"{of}\"}}") }),
        owner: "key".into(),
        answer_id: Some(format!("answer-{of}-{session}")),
        is_main: true,
    }
}

async fn exchanged(store: &Store, of: &str, session: u64) {
    let response = ResponseRow {
        owner: "key".into(),
        id: format!("answer-{of}-{session}"),
        run: RunId(RUN.into()),
        at: 2,
        document: serde_json::json!({"said": said(of, session)}).to_string(),
    };
    let through = SpoolPlace { segment: 1, offset: session };
    let (exchanges, responses) = (vec![exchange(of, session)], vec![ResponseChange::Stored(response)]);
    store.record_exchanges(ExchangeBatch { exchanges, responses, through }).await.unwrap();
    let (run, episode) = id(session);
    let record = Feedback::new(1.0, said(of, session)).unwrap().record();
    store.keep_feedback(WaitingFeedback { number: 0, run, episode, at: 3, key: None, record }).await.unwrap();
}

async fn remembered(store: &Store, of: &str, name: &str) {
    let document = serde_json::json!({"text": said(of, 0)}).to_string();
    let row = MemoryRow {
        scope: format!("user:key/{of}"),
        id: name.into(),
        at: 1,
        expires_at: Some(2),
        superseded_by: None,
        document,
    };
    store.remember(row, None).await.unwrap();
}

fn sessions(numbers: impl IntoIterator<Item = u64>) -> Forgetting {
    Forgetting { episodes: numbers.into_iter().map(id).collect(), ..Forgetting::default() }
}

/// The files of a folder that have a text, in any of its forms.
fn files_with(folder: &Path, text: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            found.extend(files_with(&entry.path(), text));
        } else if std::fs::read(entry.path()).unwrap().windows(text.len()).any(|part| part == text) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

fn count(folder: &Path, sql: &str) -> i64 {
    rusqlite::Connection::open(folder.join(FILE)).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The number of episodes that were forgotten, by a ledger without findings.
fn ledger(folder: &Path) -> u64 {
    let report = Reader::open(folder).unwrap().check_ledger(None, &LedgerKey::default()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    report.forgotten
}

/// What the ledger's check finds after something was changed by hand.
fn found_after(folder: &Path, sql: &str) -> Vec<String> {
    let connection = rusqlite::Connection::open(folder.join(FILE)).unwrap();
    connection.execute_batch(&format!("BEGIN; {sql}; COMMIT")).unwrap();
    let report = Reader::open(folder).unwrap().check_ledger(None, &LedgerKey::default()).unwrap();
    report.findings.iter().map(ToString::to_string).collect()
}

/// Removes traces in files, and notes it.
async fn finished(store: &Store) -> u64 {
    let blobs = store.clean_forgotten().await.unwrap();
    store.end_forgetting().await.unwrap();
    blobs
}

/// Sessions of two people, until there are dictionaries. Returns their number: those of Ada are even.
async fn with_dictionaries(store: &Store, folder: &Path) -> u64 {
    let mut session = 0;
    let uses = "SELECT (SELECT count(*) FROM episodes WHERE dictionary IS NOT NULL) > 100
                AND (SELECT count(*) FROM verdicts WHERE dictionary IS NOT NULL) > 100";
    while count(folder, uses) == 0 {
        let batch =
            (session..session + 64).map(|at| recorded_as(ended(if at % 2 == 0 { "lovelace" } else { "bob" }, at)));
        put(store, batch.collect()).await.unwrap();
        session += 64;
    }
    session
}

/// The number of dictionaries that have a text.
fn dictionaries_with(folder: &Path, text: &str) -> i64 {
    count(folder, &format!("SELECT count(*) FROM dictionaries WHERE instr(content, CAST('{text}' AS BLOB)) > 0"))
}

#[tokio::test]
async fn nothing_of_a_session_is_left_in_any_file_and_everything_of_others_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path()).await;
    for (of, session) in [("lovelace", 0), ("bob", 1)] {
        exchanged(&store, of, session).await;
        exchanged(&store, of, session + 2).await;
        let large = vec![session as u8; ARTEFACT_BLOB_BYTES];
        let artefacts = with_artefacts(RUN, 0, &[&large]).artefacts;
        put(&store, vec![recorded_as(Episode { artefacts, ..ended(of, session) })]).await.unwrap();
        let record = Feedback::new(-1.0, said(of, session)).unwrap().record();
        let (run, episode) = id(session);
        store.judge(vec![Judged { run, episode, record, at: 9, key: None }]).await.unwrap();
        remembered(&store, of, "m-1").await;
    }
    let memories = BTreeSet::from([("user:key/lovelace".to_owned(), "m-1".to_owned())]);
    let what = Forgetting { memories, ..sessions([0, 2, 77]) };
    assert!(!files_with(folder.path(), MARKER.as_bytes()).is_empty());
    let digest: Vec<u8> = {
        let connection = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
        let sql = "SELECT digest FROM ledger WHERE kind = 6 ORDER BY sequence LIMIT 1";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert!(!files_with(folder.path(), &digest).is_empty(), "the digest of a later verdict is in the ledger");

    let would = store.rehearse_forgetting(what.clone()).await.unwrap();
    assert_eq!(store.unfinished_forgetting().await.unwrap(), None, "a rehearsal removes nothing");
    let gone = store.forget(what).await.unwrap();
    assert_eq!(gone, would);
    let expected = Forgotten {
        episodes: 1,
        in_progress: 1,
        // Of the session that ended, with the feedback that waited for it.
        verdicts: ended("lovelace", 0).verdicts.len() as u64 + 2,
        exchanges: 1,
        feedback: 1,
        responses: 2,
        names: 4,
        memories: 1,
        trajectories: 2,
        decisions: 2,
        draws: 2,
        blobs: 1,
        ..Forgotten::default()
    };
    assert_eq!(gone, expected);
    let unfinished = store.unfinished_forgetting().await.unwrap().unwrap();
    assert_eq!(unfinished, [0, 2, 77].map(|session| format!("{RUN}/ep-{session:04}")));
    assert_eq!(finished(&store).await, 1);
    assert_eq!(store.unfinished_forgetting().await.unwrap(), None);

    for text in [MARKER.as_bytes(), b"lovelace", &digest] {
        assert_eq!(files_with(folder.path(), text), Vec::<String>::new(), "{}", String::from_utf8_lossy(text));
    }
    assert_eq!(ledger(folder.path()), 1);
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.episode("run-live/ep-0000").unwrap(), None);
    let kept = reader.episode("run-live/ep-0001").unwrap().unwrap();
    assert_eq!((&kept.log, kept.verdicts.len() as u64), (&ended("bob", 1).log, expected.verdicts));
    assert_eq!(blob_files(folder.path()), blob_names(&[&[1; ARTEFACT_BLOB_BYTES]]));
    assert_eq!(reader.exchanges(&id(3).0, &id(3).1).unwrap().len(), 1);
    assert!(reader.response("key", "answer-bob-1").unwrap().is_some());
    assert_eq!(reader.memories("user:key/bob").unwrap().len(), 1);
    for (table, rows) in
        [("answers", 2), ("sessions", 2), ("feedback", 1), ("trajectories", 2), ("routed", 2), ("drawn", 2)]
    {
        assert_eq!(count(folder.path(), &format!("SELECT count(*) FROM {table}")), rows, "{table}");
    }
}

#[tokio::test]
async fn dictionaries_are_trained_anew_without_what_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path()).await;
    let session = with_dictionaries(&store, folder.path()).await;
    let holds = |text: &str| dictionaries_with(folder.path(), text);
    assert!(!files_with(folder.path(), b"swordfish").is_empty());
    assert_eq!((holds("swordfish"), holds("weather")), (2, 2), "one of episodes, and one of verdicts");
    let would = store.rehearse_forgetting(sessions((0..session).step_by(2))).await.unwrap();
    let gone = store.forget(sessions((0..session).step_by(2))).await.unwrap();
    assert_eq!(would, gone);
    assert_eq!((gone.episodes, gone.dictionaries), (session / 2, 2));
    assert!(gone.recompressed > 100, "{gone:?}");
    finished(&store).await;
    assert_eq!((holds("swordfish"), holds("weather")), (0, 2));
    for text in [MARKER, "swordfish"] {
        assert_eq!(files_with(folder.path(), text.as_bytes()), Vec::<String>::new());
    }
    let reader = Reader::open(folder.path()).unwrap();
    for at in (1..session).step_by(2) {
        assert_eq!(reader.episode(&format!("{RUN}/ep-{at:04}")).unwrap().unwrap(), ended("bob", at));
    }
    assert_eq!(ledger(folder.path()), session / 2);
    // What this process writes later uses what was trained anew.
    put(&store, vec![recorded_as(ended("bob", session + 1))]).await.unwrap();
    assert_eq!((holds("swordfish"), count(folder.path(), "SELECT count(*) FROM dictionaries")), (0, 2));
}

#[tokio::test]
async fn dictionaries_lose_what_they_learned_from_sessions_that_were_removed_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path()).await;
    let session = with_dictionaries(&store, folder.path()).await;
    let kept = (1..session).step_by(2).map(|at| format!("{RUN}/ep-{at:04}")).collect();
    let removal = Removal { runs: [RunId(RUN.into())].into(), keep_episodes: kept, ..Removal::default() };
    store.remove(removal).await.unwrap();
    assert_eq!(dictionaries_with(folder.path(), "swordfish"), 2, "who is left uses them");
    let all = Forgetting { retrains_all: true, ..Forgetting::default() };
    let would = store.rehearse_forgetting(all.clone()).await.unwrap();
    let gone = store.forget(all).await.unwrap();
    assert_eq!((would, gone.dictionaries, gone.episodes), (gone, 2, 0));
    finished(&store).await;
    assert_eq!(dictionaries_with(folder.path(), "swordfish"), 0);
    assert_eq!(files_with(folder.path(), b"swordfish"), Vec::<String>::new());
    let reader = Reader::open(folder.path()).unwrap();
    for at in (1..session).step_by(2) {
        assert_eq!(reader.episode(&format!("{RUN}/ep-{at:04}")).unwrap().unwrap(), ended("bob", at));
    }
}

#[tokio::test]
async fn a_response_that_comes_after_the_end_of_its_session_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path()).await;
    put(&store, vec![recorded_as(ended("lovelace", 0))]).await.unwrap();
    let response = |of: &str, session: u64| {
        let (owner, id, document) = ("key".into(), format!("answer-{of}-{session}"), "{}".to_owned());
        ResponseChange::Stored(ResponseRow { owner, id, run: RunId(RUN.into()), at: 2, document })
    };
    let exchanges = vec![exchange("lovelace", 0), exchange("bob", 1)];
    let responses = vec![response("lovelace", 0), response("bob", 1)];
    let through = SpoolPlace { segment: 1, offset: 1 };
    store.record_exchanges(ExchangeBatch { exchanges, responses, through }).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.response("key", "answer-lovelace-0").unwrap(), None);
    assert!(reader.response("key", "answer-bob-1").unwrap().is_some());
}

#[tokio::test]
async fn a_dictionary_without_enough_documents_left_goes() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path()).await;
    let mut session = 0;
    while count(folder.path(), "SELECT count(*) FROM dictionaries WHERE kind = 'episode'") == 0 {
        put(&store, (session..session + 64).map(|at| recorded_as(ended("lovelace", at))).collect()).await.unwrap();
        session += 64;
    }
    put(&store, vec![recorded_as(ended("bob", session))]).await.unwrap();
    store.forget(sessions(0..session)).await.unwrap();
    finished(&store).await;
    assert_eq!(count(folder.path(), "SELECT count(*) FROM dictionaries"), 0);
    let kept = Reader::open(folder.path()).unwrap().episode(&format!("{RUN}/ep-{session:04}")).unwrap();
    assert_eq!(kept.unwrap(), ended("bob", session));
}

#[tokio::test]
async fn an_id_is_not_used_again_after_its_episode_was_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path()).await;
    put(&store, vec![recorded_as(ended("bob", 0)), recorded_as(ended("lovelace", 1))]).await.unwrap();
    exchanged(&store, "lovelace", 2).await;
    let next = || Reader::open(folder.path()).unwrap().next_position(&RunId(RUN.into())).unwrap();
    assert_eq!(next(), 3);
    store.forget(sessions([1, 2])).await.unwrap();
    assert_eq!(next(), 3);
    store.forget(sessions([0])).await.unwrap();
    assert_eq!(next(), 3);
    store.append(&RunId(RUN.into()), vec![recorded_as(ended("bob", 5))], cost()).await.unwrap();
    assert_eq!(next(), 6);
}

#[tokio::test]
async fn draws_that_have_entered_stay_as_numbers_and_those_that_wait_go() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path()).await;
    for session in 0..3 {
        exchanged(&store, "lovelace", session).await;
    }
    let reader = || Reader::open(folder.path()).unwrap();
    let drawn = |session: u64| reader().draw_of(&id(session).0, &id(session).1).unwrap();
    let enters = [0, 2].map(|session| (drawn(session).unwrap().number, Some(0.5))).to_vec();
    let state = Some(r#"{"lesson":"of ada"}"#.to_owned());
    store.change_trials(TrialsChange { playbook: "p".into(), enters, state, ..TrialsChange::default() }).await.unwrap();
    let StoredDraw { number, has_entered, document } = drawn(0).unwrap();
    assert_eq!(
        (has_entered, document.as_str(), drawn(1).unwrap().has_entered),
        (true, r#"{"user":"lovelace"}"#, false)
    );
    let what = Forgetting {
        draws: [(number, r#"{"user":"nobody"}"#.to_owned())].into(),
        trials: [("p".to_owned(), "{}".to_owned())].into(),
        ..sessions([0, 1])
    };
    let gone = store.forget(what).await.unwrap();
    assert_eq!((gone.anonymous, gone.draws), (1, 1));
    assert_eq!((drawn(0), drawn(1), drawn(2).is_some()), (None, None, true));
    let entered: Vec<(u64, String)> =
        reader().entered_draws("p", 0, 9).unwrap().into_iter().map(|one| (one.place, one.document)).collect();
    assert_eq!(entered, [(1, r#"{"user":"nobody"}"#.to_owned()), (2, r#"{"user":"lovelace"}"#.to_owned())]);
    assert_eq!(reader().tried_playbooks().unwrap(), ["p"]);
    assert_eq!(reader().trials("p").unwrap().state.as_deref(), Some("{}"));
}

#[tokio::test]
async fn a_digest_that_was_erased_without_a_tombstone_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path()).await;
    put(&store, vec![recorded_as(ended("bob", 0)), recorded_as(ended("lovelace", 1))]).await.unwrap();
    store.forget(sessions([1])).await.unwrap();
    drop(store);
    assert_eq!(ledger(folder.path()), 1);
    let check = |sql: &str, expect: &str| {
        let found = found_after(folder.path(), sql);
        assert!(found.iter().any(|text| text.contains(expect)), "{sql}: {found:?}");
    };
    // The entry of the episode that stays.
    check("UPDATE ledger SET digest = x'' WHERE sequence = 3", "entry 3 of the ledger was changed");
    // The code of the entry that was erased is part of the next one.
    check("UPDATE ledger SET code = zeroblob(16) WHERE sequence = 4", "entry 5 of the ledger was changed");
    check("DELETE FROM ledger WHERE sequence = 5", "entry 4 of the ledger was changed");
}

#[tokio::test]
async fn an_entry_cannot_be_passed_off_as_one_of_a_forgotten_episode() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path()).await;
    put(&store, vec![recorded_as(ended("bob", 0)), recorded_as(ended("lovelace", 1))]).await.unwrap();
    store.forget(sessions([1])).await.unwrap();
    drop(store);
    assert_eq!(ledger(folder.path()), 1);
    let found = found_after(
        folder.path(),
        "PRAGMA defer_foreign_keys = ON; DELETE FROM verdicts; DELETE FROM episodes;
         UPDATE ledger SET digest = x'', subject = (SELECT subject FROM ledger WHERE sequence = 4) WHERE sequence = 3",
    );
    let named = |entry: &str| found.iter().any(|text| text.contains(entry));
    assert!(named("entry 3 of the ledger was changed") && named("entry 4 of the ledger was changed"), "{found:?}");
}

#[tokio::test]
async fn trajectories_that_a_key_submitted_go_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = begun(folder.path()).await;
    exchanged(&store, "lovelace", 0).await;
    let submit = "INSERT INTO trajectories (owner, id, prompt_group, channel, metadata, created_at, touched_at)
        VALUES ('key', 't', 'g', 'train', '{}', 1, 1), ('other', 't', 'g', 'train', '{}', 1, 1)";
    rusqlite::Connection::open(folder.path().join(FILE)).unwrap().execute_batch(submit).unwrap();
    let gone =
        store.forget(Forgetting { submitters: ["key".to_owned()].into(), ..Forgetting::default() }).await.unwrap();
    assert_eq!(gone.trajectories, 1, "captured ones go with their episodes");
    assert_eq!(count(folder.path(), "SELECT count(*) FROM trajectories"), 2);
}
