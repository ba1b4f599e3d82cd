//! Live trials: draws are kept once per session, sessions enter once and in the given order, and a change is whole.

use crate::records::{opened, run};
use clawhost_core::{
    Digest, EpisodeId, EpisodeStore as _, ExchangeBatch, ExchangeOutcome, ExchangeRow, LiveSession, LiveStore as _,
    OpenEpisode, PlaybookReader as _, PlaybookVersion, RunId, RunKind, RunRecord, SessionDraw, StoredTrials,
    TrialsChange, TrialsReader as _, TrialsStore as _,
};
use clawhost_store::{Reader, Store};
use std::path::Path;

const RUN: &str = "run-live";

/// An exchange of a session, with what was drawn for it.
async fn draw(store: &Store, session: u64, position: u32, at: u64, document: &str) {
    let id = EpisodeId(format!("ep-{session:04}"));
    let (run, live) = (RunId(RUN.into()), LiveSession::new(format!("s-{session}"), "a", "m"));
    let row = ExchangeRow {
        episode: OpenEpisode { run, id, index: session, session: live, opened_at: at },
        position,
        at,
        outcome: ExchangeOutcome::Complete,
        document: "{}".into(),
        pooled: None,
        routed: None,
        drawn: Some(SessionDraw { playbook: "p".into(), document: document.into() }),
        owner: String::new(),
        answer_id: None,
        is_main: true,
    };
    store.record_exchanges(ExchangeBatch { exchanges: vec![row], ..ExchangeBatch::default() }).await.unwrap();
}

/// Documents and numbers of sessions that began by then.
fn waiting(folder: &Path, at: u64) -> Vec<(String, u64)> {
    let all = Reader::open(folder).unwrap().waiting_draws("p", at, 10).unwrap();
    all.into_iter().map(|one| (one.document, one.number)).collect()
}

fn entered(folder: &Path) -> Vec<(u64, String, Option<f64>)> {
    let all = Reader::open(folder).unwrap().entered_draws("p", 0, 10).unwrap();
    all.into_iter().map(|one| (one.place, one.document, one.reward)).collect()
}

fn change(enters: Vec<(u64, Option<f64>)>) -> TrialsChange {
    TrialsChange { playbook: "p".into(), enters, ..TrialsChange::default() }
}

fn version(text: &str) -> PlaybookVersion {
    PlaybookVersion {
        name: "p".into(),
        number: 0,
        digest: Digest::of(text.as_bytes()),
        document: serde_json::json!({}),
        why: text.into(),
        run: None,
        created_at: 1,
    }
}

#[tokio::test]
async fn sessions_wait_in_the_order_in_which_they_began_and_enter_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.begin_run(&RunRecord { kind: RunKind::Live, ..run(RUN) }).await.unwrap();
    draw(&store, 1, 0, 30, "late").await;
    draw(&store, 2, 0, 10, "early").await;
    draw(&store, 2, 1, 11, "the same session once more").await;
    draw(&store, 3, 0, 99, "too late").await;
    let found = waiting(folder.path(), 30);
    assert_eq!(found.iter().map(|(document, _)| document.as_str()).collect::<Vec<_>>(), ["early", "late"]);
    let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
    store.change_trials(change(vec![(numbers[0], Some(1.0)), (numbers[1], None)])).await.unwrap();
    store.change_trials(change(vec![(numbers[0], Some(-1.0))])).await.unwrap();
    let expect = vec![(1, "early".to_owned(), Some(1.0)), (2, "late".to_owned(), None)];
    assert_eq!(entered(folder.path()), expect);
    assert_eq!(waiting(folder.path(), 30), []);
    assert_eq!(Reader::open(folder.path()).unwrap().count_waiting_draws("p").unwrap(), 1);
    assert_eq!(Reader::open(folder.path()).unwrap().count_waiting_draws("q").unwrap(), 0, "another playbook");
}

#[tokio::test]
async fn state_progress_and_version_change_together_or_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let known = || Reader::open(folder.path()).unwrap().trials("p").unwrap();
    assert_eq!(known(), StoredTrials::default());
    let first = TrialsChange { state: Some("{\"a\":1}".into()), version: Some(version("one")), ..change(vec![]) };
    store.change_trials(first).await.unwrap();
    let second = TrialsChange { progress: Some("{\"b\":2}".into()), ..change(vec![]) };
    store.change_trials(second).await.unwrap();
    let expect = StoredTrials { state: Some("{\"a\":1}".into()), progress: Some("{\"b\":2}".into()) };
    assert_eq!(known(), expect);
    let newest = Reader::open(folder.path()).unwrap().newest_version("p").unwrap().unwrap();
    assert_eq!((newest.number, newest.why.as_str()), (1, "one"));
}
