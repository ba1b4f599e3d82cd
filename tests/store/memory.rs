//! What is remembered, and feedback that waits.

use crate::records::{episode, opened, put, recorded_as, run};
use clawhost_core::{
    AnswerPlace, Episode, EpisodeId, EpisodeOrigin, EpisodeReader as _, EpisodeStore as _, ExchangeBatch,
    ExchangeOutcome, ExchangeRow, Feedback, FeedbackKept, FeedbackReader as _, FeedbackStore as _, Judged, LiveSession,
    LiveStore as _, MemoryReader as _, MemoryRow, MemoryStore as _, OpenEpisode, Removal, Retention as _, RewardRecord,
    RunId, RunKind, RunRecord, Verdict, WaitingFeedback,
};
use clawhost_store::{Reader, Store};
use std::collections::BTreeSet;

const RUN: &str = "run-live";

fn memory(scope: &str, id: &str) -> MemoryRow {
    MemoryRow {
        scope: scope.into(),
        id: id.into(),
        at: 1,
        expires_at: None,
        superseded_by: None,
        document: format!("{{\"of\":\"{id}\"}}"),
    }
}

#[tokio::test]
async fn memory_belongs_to_its_scope_and_what_replaced_it_gives_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let reader = Reader::open(folder.path()).unwrap();
    store.remember(memory("user:/a", "m-1"), None).await.unwrap();
    store.remember(memory("user:/b", "m-1"), None).await.unwrap();
    store.remember(memory("user:/a", "m-2"), Some("m-1".into())).await.unwrap();
    let shown = || {
        let rows = reader.memories("user:/a").unwrap();
        rows.into_iter().map(|row| (row.id, row.superseded_by)).collect::<Vec<_>>()
    };
    assert_eq!(shown(), [("m-1".to_owned(), Some("m-2".to_owned())), ("m-2".to_owned(), None)]);
    assert_eq!(reader.memories("user:/b").unwrap()[0].superseded_by, None, "another scope");
    let has =
        |scopes: &[&str]| reader.has_memories(&scopes.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    assert!(has(&["user:/c", "user:/b"]) && has(&["user:/a"]) && !has(&["user:/c", "project:/a"]) && !has(&[]));
    assert_eq!(reader.memory_scopes().unwrap(), [("user:/a".to_owned(), 2), ("user:/b".to_owned(), 1)]);
    assert!(store.forget_memory("user:/a".into(), "m-2".into()).await.unwrap());
    assert!(!store.forget_memory("user:/a".into(), "m-2".into()).await.unwrap());
    assert_eq!(shown(), [("m-1".to_owned(), None)]);
    // Of three that replace each other the middle one goes: the first stays replaced.
    store.remember(memory("user:/a", "m-3"), Some("m-1".into())).await.unwrap();
    store.remember(memory("user:/a", "m-4"), Some("m-3".into())).await.unwrap();
    store.forget_memory("user:/a".into(), "m-3".into()).await.unwrap();
    assert_eq!(shown(), [("m-1".to_owned(), Some("m-4".to_owned())), ("m-4".to_owned(), None)]);
}

#[tokio::test]
async fn what_was_written_behind_a_number_is_found_over_all_scopes() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.newest_memory().unwrap(), 0);
    for (scope, id) in [("user:/a", "m-1"), ("user:/b", "m-2"), ("user:/a", "m-3")] {
        store.remember(memory(scope, id), None).await.unwrap();
    }
    let newest = reader.newest_memory().unwrap();
    let behind = |number: u64| {
        let rows = reader.memories_behind(number, 2).unwrap();
        rows.into_iter().map(|(_, row)| row.id).collect::<Vec<_>>()
    };
    assert_eq!(behind(0), ["m-1", "m-2"]);
    assert_eq!(behind(newest - 1), ["m-3"]);
    assert_eq!(behind(newest), Vec::<String>::new());
}

fn exchange(index: u64, position: u32, id: &str, owner: &str, is_main: bool) -> ExchangeRow {
    let episode = EpisodeId(format!("ep-{index:04}"));
    ExchangeRow {
        episode: OpenEpisode {
            run: RunId(RUN.into()),
            id: episode,
            index,
            session: LiveSession::new("s", "a", "m"),
            opened_at: 7,
        },
        position,
        at: 10,
        outcome: if id.is_empty() { ExchangeOutcome::Failed } else { ExchangeOutcome::Complete },
        document: "{}".into(),
        pooled: None,
        routed: None,
        drawn: None,
        owner: owner.into(),
        answer_id: Some(id.to_owned()).filter(|id| !id.is_empty()),
        is_main,
    }
}

async fn begun(store: &Store, exchanges: Vec<ExchangeRow>) {
    store.begin_run(&RunRecord { kind: RunKind::Live, ..run(RUN) }).await.unwrap();
    store.record_exchanges(ExchangeBatch { exchanges, ..ExchangeBatch::default() }).await.unwrap();
}

fn place(index: u64, turn: Option<u32>, owner: &str) -> AnswerPlace {
    AnswerPlace {
        owner: owner.into(),
        user: None,
        run: RunId(RUN.into()),
        episode: EpisodeId(format!("ep-{index:04}")),
        turn,
    }
}

#[tokio::test]
async fn answers_are_found_by_their_turn_and_sessions_by_their_newest_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let exchanges = vec![
        exchange(0, 0, "one", "k", true),
        exchange(0, 1, "", "k", true),
        exchange(0, 2, "two", "k", true),
        exchange(1, 0, "side", "k", false),
        exchange(2, 0, "one", "other", true),
        exchange(3, 0, "again", "k", true),
        exchange(4, 0, "one", "k", true),
    ];
    begun(&store, exchanges).await;
    let reader = Reader::open(folder.path()).unwrap();
    let check = |id: &str, expect: &[AnswerPlace]| assert_eq!(reader.answer_places(id).unwrap(), expect, "{id}");
    check("two", &[place(0, Some(1), "k")]);
    check("side", &[place(1, Some(0), "k")]);
    check("one", &[place(4, Some(0), "k"), place(2, Some(0), "other")]);
    check("none", &[]);
    assert_eq!(reader.session_places("s").unwrap(), [place(4, None, "k"), place(2, None, "other")]);
    // They go with their run.
    let removal = Removal { runs: BTreeSet::from([RunId(RUN.into())]), ..Removal::default() };
    store.remove(removal).await.unwrap();
    check("two", &[]);
    assert_eq!(reader.session_places("s").unwrap(), []);
}

fn waiting(score: f64, key: Option<&str>) -> WaitingFeedback {
    WaitingFeedback {
        number: 0,
        run: RunId(RUN.into()),
        episode: EpisodeId("ep-0000".into()),
        record: Feedback::new(score, "").unwrap().record(),
        at: 20,
        key: key.map(str::to_owned),
    }
}

fn of_episode(index: u64, score: f64, key: Option<&str>) -> WaitingFeedback {
    WaitingFeedback { episode: EpisodeId(format!("ep-{index:04}")), ..waiting(score, key) }
}

/// An episode of live traffic: every second one has failed.
fn live(index: u64) -> Episode {
    Episode { origin: EpisodeOrigin::live(LiveSession::new("s", "a", "m")), ..episode(RUN, index) }
}

/// The scores of an episode's verdicts, in order, and its reward.
fn judged(reader: &Reader, index: u64) -> (Vec<f64>, Option<f64>) {
    let episode = reader.episode(&format!("{RUN}/ep-{index:04}")).unwrap().unwrap();
    let score = |record: &RewardRecord| match &record.verdict {
        Verdict::Scored(card) => record.later.as_ref().map(|_| card.value),
        Verdict::NotApplicable(_) | Verdict::Failed(_) => None,
    };
    (episode.verdicts.iter().filter_map(score).collect(), episode.reward)
}

#[tokio::test]
async fn feedback_waits_until_its_episode_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    begun(&store, vec![exchange(0, 0, "one", "k", true)]).await;
    let reader = Reader::open(folder.path()).unwrap();
    let keep = async |score: f64, key: Option<&str>| store.keep_feedback(waiting(score, key)).await.unwrap();
    assert_eq!(keep(1.0, Some("a")).await, FeedbackKept::Waits);
    assert_eq!(keep(1.0, Some("a")).await, FeedbackKept::Repeated);
    assert_eq!(keep(0.5, Some("a")).await, FeedbackKept::KeyReused);
    for _ in 1..1_000 {
        assert_eq!(keep(0.5, None).await, FeedbackKept::Waits);
    }
    assert_eq!(keep(0.5, None).await, FeedbackKept::TooMuch);
    assert_eq!(reader.due_feedback(10).unwrap(), []);
    put(&store, vec![recorded_as(live(0))]).await.unwrap();
    assert_eq!(keep(0.5, None).await, FeedbackKept::Ended);
    assert_eq!(reader.due_feedback(10).unwrap(), []);
    let (run, episode) = (RunId(RUN.into()), EpisodeId("ep-0000".into()));
    assert_eq!(reader.waiting_feedback(&run, &episode).unwrap(), []);
    assert_eq!(judged(&reader, 0), (vec![1.0, 0.5], Some(0.5)), "what repeats the verdict before is none");
}

#[tokio::test]
async fn feedback_that_its_episode_refuses_is_due_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    begun(&store, vec![exchange(1, 0, "one", "k", true)]).await;
    let reader = Reader::open(folder.path()).unwrap();
    for key in ["a", "b", "c"] {
        store.keep_feedback(of_episode(1, 0.5, Some(key))).await.unwrap();
    }
    put(&store, vec![recorded_as(live(1))]).await.unwrap();
    assert_eq!(judged(&reader, 1), (vec![], None), "the episode failed");
    let due = reader.due_feedback(2).unwrap();
    assert_eq!(due.iter().map(|one| one.key.as_deref()).collect::<Vec<_>>(), [Some("a"), Some("b")]);
    store.drop_feedback(due.iter().map(|one| one.number).collect()).await.unwrap();
    assert_eq!(reader.due_feedback(2).unwrap().len(), 1);
}

/// Some of the feedback waits for the end of the session, and the rest comes behind it; a gateway adds what is due whenever it comes to it.
#[tokio::test]
async fn the_last_feedback_counts_however_much_of_it_came_before_the_end() {
    let scores = [1.0, -1.0, 0.5, -0.25];
    let (times, last) = (scores.len() as u64, scores[scores.len() - 1]);
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let numbers: Vec<u64> = (0..=times).map(|waiting| waiting * 2).collect();
    begun(&store, numbers.iter().map(|number| exchange(*number, 0, "", "k", true)).collect()).await;
    let reader = Reader::open(folder.path()).unwrap();
    for (before, number) in numbers.into_iter().enumerate() {
        let judge = async |WaitingFeedback { run, episode, record, at, key, .. }| {
            store.judge(vec![Judged { run, episode, record, at, key }]).await.unwrap();
        };
        for (at, score) in scores.into_iter().enumerate() {
            if at == before {
                put(&store, vec![recorded_as(live(number))]).await.unwrap();
            }
            let given = WaitingFeedback { at: 20 + at as u64, ..of_episode(number, score, None) };
            match store.keep_feedback(given.clone()).await.unwrap() {
                FeedbackKept::Waits => assert!(at < before),
                kept => {
                    assert_eq!(kept, FeedbackKept::Ended);
                    judge(given).await;
                }
            }
        }
        if before == scores.len() {
            put(&store, vec![recorded_as(live(number))]).await.unwrap();
        }
        for due in reader.due_feedback(10).unwrap() {
            judge(due).await;
        }
        assert_eq!(judged(&reader, number), (scores.to_vec(), Some(last)), "{before} before the end");
    }
}
