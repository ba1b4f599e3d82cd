//! Decisions of routers about live sessions: recorded with the exchanges, due when something can be done about them.

use crate::records::{episode, opened, put, recorded_as, run};
use clawhost_core::{
    Episode, EpisodeId, EpisodeOrigin, EpisodeStore as _, ExchangeBatch, ExchangeOutcome, ExchangeRow, Feedback,
    Judged, LiveSession, LiveStore as _, OpenEpisode, Removal, Retention as _, RoutedExchange, RoutedMarks,
    RoutedOutcome, RoutingReader as _, RoutingStore as _, RunId, RunKind, RunRecord,
};
use clawhost_store::{Reader, Store};
use std::path::Path;

const RUN: &str = "run-live";

fn session() -> LiveSession {
    LiveSession::new("s", "a", "m")
}

/// An exchange of the session with this index. `decision`: it brings one.
fn exchange(index: u64, position: u32, decision: Option<&str>, tokens: [u64; 2]) -> ExchangeRow {
    let id = EpisodeId(format!("ep-{index:04}"));
    let decision = decision.map(str::to_owned);
    ExchangeRow {
        episode: OpenEpisode { run: RunId(RUN.into()), id, index, session: session(), opened_at: 7 },
        position,
        at: 10 + u64::from(position),
        outcome: ExchangeOutcome::Complete,
        document: "{}".into(),
        pooled: None,
        routed: Some(RoutedExchange { router: "main".into(), decision, has_failed: false, tokens }),
        drawn: None,
        owner: String::new(),
        answer_id: None,
        is_main: true,
    }
}

async fn record(store: &Store, exchanges: Vec<ExchangeRow>) {
    store.record_exchanges(ExchangeBatch { exchanges, ..ExchangeBatch::default() }).await.unwrap();
}

async fn end(store: &Store, index: u64) {
    let origin = EpisodeOrigin::live(session());
    let ended = Episode { origin, verdicts: Vec::new(), reward: None, ..episode(RUN, index) };
    put(store, vec![recorded_as(ended)]).await.unwrap();
}

/// What is due: the number of the episode, tokens, whether the cost was counted, the outcome.
fn due(folder: &Path, expires: u64) -> Vec<(String, [u64; 2], bool, RoutedOutcome)> {
    let all = Reader::open(folder).unwrap().due_routed("main", 100, expires, 10).unwrap();
    all.into_iter().map(|one| (one.episode.0, one.tokens, one.is_spent, one.outcome)).collect()
}

fn numbers(folder: &Path) -> Vec<u64> {
    let all = Reader::open(folder).unwrap().due_routed("main", 100, u64::MAX >> 1, 10).unwrap();
    all.into_iter().map(|one| one.number).collect()
}

#[tokio::test]
async fn a_decision_is_due_when_its_session_ends_is_rewarded_or_is_too_old() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.begin_run(&RunRecord { kind: RunKind::Live, ..run(RUN) }).await.unwrap();
    let first = exchange(0, 0, Some("{\"one\":1}"), [5, 0]);
    record(&store, vec![first.clone(), exchange(0, 1, Some("{\"two\":2}"), [0, 7]), exchange(2, 0, None, [9, 9])])
        .await;
    // After a crash the same exchange may come again.
    record(&store, vec![first]).await;
    assert_eq!(due(folder.path(), 0), [], "the session is open");
    let one = |is_spent, outcome| [("ep-0000".to_owned(), [5, 7], is_spent, outcome)];
    assert_eq!(due(folder.path(), 11), one(false, RoutedOutcome::Unknown), "it was made before");
    let reader = || Reader::open(folder.path()).unwrap();
    assert_eq!(reader().due_routed("main", 100, 11, 10).unwrap()[0].decision, "{\"one\":1}", "the first one");
    assert_eq!((reader().waiting_routed("main").unwrap(), reader().waiting_routed("other").unwrap()), (1, 0));

    end(&store, 0).await;
    assert_eq!(due(folder.path(), 0), one(false, RoutedOutcome::Unknown), "its cost can be counted");
    let number = numbers(folder.path())[0];
    store.mark_routed(RoutedMarks { spent: vec![number, 99], settled: vec![98] }).await.unwrap();
    assert_eq!(due(folder.path(), 0), []);
    let id = EpisodeId("ep-0000".into());
    let record_of = Feedback::new(0.5, "").unwrap().record();
    let judged = Judged { run: RunId(RUN.into()), episode: id, record: record_of, at: 20, key: None };
    store.judge(vec![judged]).await.unwrap();
    assert_eq!(due(folder.path(), 0), one(true, RoutedOutcome::Rewarded(0.5)));
    store.mark_routed(RoutedMarks { settled: vec![number], ..RoutedMarks::default() }).await.unwrap();
    assert_eq!((due(folder.path(), u64::MAX >> 1), reader().waiting_routed("main").unwrap()), (vec![], 0));

    record(&store, vec![exchange(3, 0, Some("{}"), [1, 0])]).await;
    assert!(numbers(folder.path())[0] > number, "a number is never used again");
    let removal = Removal { runs: [RunId(RUN.into())].into(), ..Removal::default() };
    store.remove(removal).await.unwrap();
    assert_eq!(reader().waiting_routed("main").unwrap(), 0, "it goes with its run");
}
