//! Runs, episodes, notes and verdicts: appends are complete or have no effect.

use crate::records::{cost, cost_of, episode, filled, golden, names, opened, phase, put, recorded, recorded_as, run};
use clawhost_core::{
    Admission, Digest, Episode, EpisodeFilter, EpisodeId, EpisodeOrigin, EpisodeProgress, EpisodeReader as _,
    EpisodeState, EpisodeStore as _, ExchangeBatch, ExchangeOutcome, ExchangeRow, ExpectedVerdict, Feedback, Judged,
    LearningStore as _, LiveReader as _, LiveSession, LiveStore as _, NotAdmitted, OpenEpisode, PhaseState, Recorded,
    ResponseChange, ResponseRow, RewardRecord, RewardSource, RunId, RunKind, RunRecord, RunRow, RunState, SpecDocument,
    SpoolPlace, StoreError, Usage, Verdict,
};
use clawhost_store::{FILE, Reader};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An episode that wrote or deleted a note.
fn noting(run: &str, index: u64, key: &str, value: Option<&str>) -> Recorded {
    let value = value.map(|text| text.as_bytes().to_vec());
    Recorded { notes: BTreeMap::from([(key.to_owned(), value)]), ..recorded(run, index) }
}

#[tokio::test]
async fn appended_records_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 4).await;
    store.finish_run(&RunId("run-a".into()), &serde_json::json!({"reward_mean": 1.0}), cost()).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    for index in 0..4 {
        let read = reader.episode(&format!("run-a/ep-{index:04}")).unwrap().unwrap();
        assert_eq!(read, episode("run-a", index), "verdicts, failures, journal and all");
    }
    assert_eq!(reader.episode("ep-9999").unwrap(), None);
    let rows = reader.episodes(&EpisodeFilter::default()).unwrap();
    assert_eq!(rows.iter().map(|row| row.reward).collect::<Vec<_>>(), [Some(1.0), None, Some(1.0), None]);
    assert_eq!(rows[1].ending, "failed: limit(fuel)");
    let runs = reader.runs(None).unwrap();
    assert_eq!(runs[0].summary.as_ref().unwrap()["reward_mean"], 1.0);
}

#[tokio::test]
async fn notes_are_merged_in_the_order_of_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 0).await;
    let later = vec![noting("run-a", 3, "kept", Some("third")), noting("run-a", 4, "gone", None)];
    put(&store, later).await.unwrap();
    let earlier = vec![noting("run-a", 1, "kept", Some("first")), noting("run-a", 2, "gone", Some("second"))];
    put(&store, earlier).await.unwrap();
    let finish = async || store.finish_run(&RunId("run-a".into()), &serde_json::json!({}), cost()).await.unwrap();
    finish().await;
    let notes = || Reader::open(folder.path()).unwrap().notes(&RunId("run-a".into())).unwrap();
    assert_eq!(notes(), [("kept".to_owned(), b"third".to_vec())]);
    // Resumed, with replaced last writers, it merges again.
    store.resume_run(&RunId("run-a".into())).await.unwrap();
    let again = |index| Recorded { replaces_existing: true, ..recorded("run-a", index) };
    put(&store, vec![again(3), again(4)]).await.unwrap();
    finish().await;
    assert_eq!(notes(), [("gone".to_owned(), b"second".to_vec()), ("kept".to_owned(), b"first".to_vec())]);
}

#[tokio::test]
async fn an_unfinished_run_is_found_by_its_digest_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 4).await;
    store.begin_run(&run("run-b")).await.unwrap();
    let resumable = |digest: &str| {
        let found =
            Reader::open(folder.path()).unwrap().resumable(&Digest::of_json(&serde_json::json!(digest))).unwrap();
        found.into_iter().map(|run| (run.id.0, run.spent.prompt_tokens)).collect::<Vec<_>>()
    };
    let [a, b] = [("run-a".to_owned(), 7), ("run-b".to_owned(), 0)];
    assert_eq!(resumable("configuration"), [b, a.clone()], "newest first, with what they cost");
    let b = ("run-b".to_owned(), 7);
    assert!(resumable("another").is_empty());
    let finish = async |id: &str, summary| store.finish_run(&RunId(id.into()), &summary, cost()).await.unwrap();
    finish("run-a", serde_json::json!({"stopped": null})).await;
    finish("run-b", serde_json::json!({"stopped": "cancelled"})).await;
    assert_eq!(resumable("configuration"), std::slice::from_ref(&b), "a stopped run can be resumed");
    store.resume_run(&RunId("run-a".into())).await.unwrap();
    assert_eq!(resumable("configuration"), [b, a]);
    // A truncated group stays until another one replaces it, with verdicts, in one transaction.
    let names = || names(folder.path()).len();
    assert_eq!(names(), 4);
    let clash = vec![Recorded { replaces_existing: true, ..recorded("run-a", 2) }, recorded("run-a", 1)];
    put(&store, clash).await.unwrap_err();
    assert_eq!(names(), 4, "a batch that was not recorded removed nothing");
    put(&store, vec![Recorded { replaces_existing: true, ..recorded("run-a", 2) }]).await.unwrap();
    let again = Reader::open(folder.path()).unwrap().episode("run-a/ep-0002").unwrap().unwrap();
    assert_eq!((again, names()), (episode("run-a", 2), 4), "none twice");
}

#[tokio::test]
async fn equal_ids_of_two_runs_are_distinguished_and_the_newest_is_the_default() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), "run-a", 2).await);
    drop(filled(folder.path(), "run-b", 2).await);
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.episode("ep-0000").unwrap().unwrap().run.0, "run-b");
    assert_eq!(reader.episode("run-a/ep-0000").unwrap().unwrap().run.0, "run-a");
    let of_a = EpisodeFilter { limit: Some(1), ..EpisodeFilter::of(&RunId("run-a".into())) };
    assert_eq!(reader.episodes(&of_a).unwrap().len(), 1);
    let all = names(folder.path());
    assert_eq!(all, ["run-b/ep-0000", "run-b/ep-0001", "run-a/ep-0000", "run-a/ep-0001"]);
    for name in all {
        let episode = reader.episode(&name).unwrap().unwrap();
        assert_eq!(format!("{}/{}", episode.run, episode.id), name);
    }
}

#[tokio::test]
async fn a_batch_is_recorded_completely_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 2).await;
    // The second of these exists already.
    let batch = vec![recorded("run-a", 7), recorded("run-a", 1), recorded("run-a", 8)];
    put(&store, batch).await.unwrap_err();
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.episodes(&EpisodeFilter::default()).unwrap().len(), 2);
    put(&store, vec![recorded("run-a", 7)]).await.unwrap();
    assert_eq!(reader.episodes(&EpisodeFilter::default()).unwrap().len(), 3, "the store continues to work");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_write_does_not_fail_others_of_its_batch() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(filled(folder.path(), "run-a", 1).await);
    let writes: Vec<_> = (0..200)
        .map(|index| {
            let store = store.clone();
            tokio::spawn(async move { put(&store, vec![recorded("run-a", index % 100)]).await.is_ok() })
        })
        .collect();
    let mut done = 0;
    for write in writes {
        done += u32::from(write.await.unwrap());
    }
    assert_eq!(done, 99, "each new id is recorded once, and the existing one is not repeated");
    assert_eq!(Reader::open(folder.path()).unwrap().episodes(&EpisodeFilter::default()).unwrap().len(), 100);
}

#[tokio::test]
async fn two_writers_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let one = filled(folder.path(), "run-a", 1).await;
    let two = filled(folder.path(), "run-b", 1).await;
    for index in 1..20 {
        put(&one, vec![recorded("run-a", index)]).await.unwrap();
        put(&two, vec![recorded("run-b", index)]).await.unwrap();
    }
    assert_eq!(Reader::open(folder.path()).unwrap().episodes(&EpisodeFilter::default()).unwrap().len(), 40);
}

fn verdict_of(name: &str, verdict: Verdict) -> RewardRecord {
    let mut record = golden("episode-2.json").verdicts.remove(0);
    record.reward.digest = Digest::of(name.as_bytes());
    record.verdict = verdict;
    record
}

fn failed() -> Verdict {
    Verdict::Failed(clawhost_core::Failure::new(clawhost_core::FailureKind::Llm, "unavailable", "down"))
}

fn scored(value: f64) -> Verdict {
    let (parts, rationale, per_turn, extra) = (vec![], String::new(), vec![], vec![]);
    Verdict::Scored(clawhost_core::ScoreCard { value, confidence: 1.0, parts, rationale, per_turn, extra })
}

#[tokio::test]
async fn later_verdicts_are_added_to_the_current_ones() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.begin_run(&run("run-a")).await.unwrap();
    let mut bare = episode("run-a", 0);
    bare.verdicts = vec![verdict_of("first", failed()), verdict_of("second", scored(1.0))];
    bare.reward = None;
    let id = bare.id.clone();
    put(&store, vec![recorded_as(bare)]).await.unwrap();
    let judge = async |record: RewardRecord| {
        let judged = Judged { run: RunId("run-a".into()), episode: id.clone(), record, at: 5, key: None };
        store.judge(vec![judged]).await.unwrap().remove(0)
    };
    let now = || Reader::open(folder.path()).unwrap().episode(&format!("run-a/{id}")).unwrap().unwrap();

    // Two processes judge concurrently: the one that began earlier and writes later must not undo the other.
    let added = |revision| Admission::Added { revision, reward: Some(0.75) };
    assert_eq!(judge(verdict_of("first", scored(0.5))).await, added(1));
    assert_eq!(now().reward, Some(0.75), "the failed verdict is replaced, and the reward changes");
    assert_eq!(judge(verdict_of("third", scored(-1.0))).await, added(2));
    let episode = now();
    assert_eq!(episode.reward, Some(0.75), "a new verdict changes no reward");
    let seen: Vec<(bool, u32)> = episode
        .verdicts
        .iter()
        .map(|record| (record.post_hoc, record.later.as_ref().map_or(0, |later| later.revision)))
        .collect();
    assert_eq!(seen, [(false, 0), (false, 0), (false, 1), (true, 2)], "in order; earlier verdicts stay");
    let unchanged = Admission::Unchanged { revision: 2, reward: Some(0.75) };
    assert_eq!(judge(verdict_of("first", scored(0.0))).await, unchanged);
    assert_eq!(judge(verdict_of("second", failed())).await, unchanged);
    assert_eq!(now(), episode, "repeated verdicts change nothing");
    let runs = Reader::open(folder.path()).unwrap().runs(None).unwrap();
    assert_eq!((runs[0].reward_mean, runs[0].scored), (Some(0.75), 1));
}

#[tokio::test]
async fn a_run_round_trips_with_all_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let config = SpecDocument(serde_json::json!({"format": 1, "tasks": ["a", {"b": 0.5}]}));
    let record = RunRecord {
        kind: RunKind::Evaluate,
        environment: "tic-tac-toe".into(),
        config: config.clone(),
        planned: 12,
        created_at: 99,
        ..run("run-a")
    };
    store.begin_run(&record).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    let id = RunId("run-a".into());
    let row = reader.run(&id).unwrap().unwrap();
    let expected = RunRow {
        id: id.clone(),
        kind: RunKind::Evaluate,
        environment: "tic-tac-toe".into(),
        state_id: record.state_id.to_string(),
        config,
        digest: record.digest(),
        basis: record.basis.clone(),
        created_at: 99,
        state: RunState::Open,
        summary: None,
        planned: 12,
        spent: Usage::default(),
        reward_mean: None,
        scored: 0,
        pruned: false,
    };
    assert_eq!(row, expected);
    assert_eq!(reader.runs(None).unwrap(), [expected]);
    assert_eq!(reader.run(&RunId("run-b".into())).unwrap(), None);
}

#[tokio::test]
async fn the_state_of_a_run_follows_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let id = RunId("run-a".into());
    assert_eq!(store.phase(&id).await.unwrap(), PhaseState::Absent);
    store.begin_run(&run("run-a")).await.unwrap();
    let now = async || {
        let row = Reader::open(folder.path()).unwrap().run(&id).unwrap().unwrap();
        (row.state, row.summary.is_some(), store.phase(&id).await.unwrap())
    };
    let open = (RunState::Open, false, PhaseState::Open);
    assert_eq!(now().await, open);
    store.finish_run(&id, &serde_json::json!({"stopped": "cancelled"}), cost()).await.unwrap();
    assert_eq!(now().await, (RunState::Stopped, true, PhaseState::Open));
    store.resume_run(&id).await.unwrap();
    assert_eq!(now().await, open);
    store.finish_run(&id, &serde_json::json!({"stopped": null}), cost()).await.unwrap();
    assert_eq!(now().await, (RunState::Finished, true, PhaseState::Finished));
}

#[tokio::test]
async fn a_learning_run_counts_the_rewards_and_the_costs_of_its_phases() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.begin_run(&RunRecord { kind: RunKind::Learn, ..run("run-a") }).await.unwrap();
    for (id, tokens) in [("run-a.1", 40), ("run-a.2", 30)] {
        store.begin_run(&phase(id, "run-a")).await.unwrap();
        let episodes = vec![recorded(id, 0), recorded(id, 1)];
        store.append(&RunId(id.into()), episodes, cost_of(tokens)).await.unwrap();
    }
    let reader = Reader::open(folder.path()).unwrap();
    let rows = reader.runs(None).unwrap();
    assert_eq!(rows.len(), 1, "phases are not listed as runs");
    assert_eq!((rows[0].scored, rows[0].reward_mean), (2, Some(1.0)));
    assert_eq!(rows[0].spent.prompt_tokens, 40, "the largest, for each of them counts from the beginning");
    let phase = reader.run(&RunId("run-a.2".into())).unwrap().unwrap();
    assert_eq!((phase.kind, phase.spent.prompt_tokens, phase.scored), (RunKind::Phase, 30, 1));
    let resumable = reader.resumable(&Digest::of_json(&serde_json::json!("configuration"))).unwrap();
    assert_eq!(resumable, rows, "no phase among them");
    let of_run = reader.episodes(&EpisodeFilter::of(&RunId("run-a".into()))).unwrap();
    let names: Vec<String> = of_run.into_iter().map(|row| format!("{}/{}", row.run, row.id)).collect();
    assert_eq!(names, ["run-a.1/ep-0000", "run-a.1/ep-0001", "run-a.2/ep-0000", "run-a.2/ep-0001"]);
    let episodes = store.episodes(&RunId("run-a.1".into())).await.unwrap();
    let indexes: Vec<(&str, u64)> = episodes.iter().map(|one| (one.run.0.as_str(), one.index)).collect();
    assert_eq!(indexes, [("run-a.1", 0), ("run-a.1", 1)]);
}

#[tokio::test]
async fn a_damaged_record_is_reported_and_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path(), "run-a", 2).await;
    let other = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    other.execute_batch("UPDATE episodes SET document = '{' WHERE id = 'ep-0000'").unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    let error = reader.episode("run-a/ep-0000").unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { what, .. } if what == "episode run-a/ep-0000"), "{error}");
    assert_eq!(reader.episode("run-a/ep-0001").unwrap().unwrap(), episode("run-a", 1));
    assert_eq!(reader.check().unwrap(), None, "the database file is intact");
    other.execute_batch("UPDATE runs SET state = 'unknown'").unwrap();
    let error = reader.runs(None).unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { what, .. } if what == "run run-a"), "{error}");
    drop(store);
}

fn feedback(run: &str, episode: &str, score: f64, key: Option<&str>) -> Judged {
    Judged {
        run: RunId(run.into()),
        episode: EpisodeId(episode.into()),
        record: Feedback::new(score, "").unwrap().record(),
        at: 50,
        key: key.map(str::to_owned),
    }
}

#[tokio::test]
async fn feedback_decides_a_pending_episode_and_lists_show_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.begin_run(&run("run-a")).await.unwrap();
    let waits =
        Episode { expects: vec![ExpectedVerdict { source: RewardSource::User, until: 1_000 }], ..episode("run-a", 0) };
    put(&store, vec![recorded_as(waits), recorded("run-a", 1)]).await.unwrap();
    let rows = || Reader::open(folder.path()).unwrap().episodes(&EpisodeFilter::default()).unwrap();
    let pending = EpisodeState::Pending { until: 1_000 };
    assert_eq!((rows()[0].state(999), rows()[0].state(1_000), rows()[0].revision), (pending, EpisodeState::Decided, 0));
    assert_eq!(rows()[1].state(0), EpisodeState::Decided, "failed episodes wait for no verdict");

    let judged = vec![
        feedback("run-a", "ep-0000", -1.0, Some("a")),
        feedback("run-a", "ep-0000", -1.0, Some("a")),
        feedback("run-a", "ep-0000", 1.0, Some("a")),
        feedback("run-a", "ep-0001", 1.0, None),
        feedback("run-a", "ep-0002", 1.0, None),
        feedback("run-b", "ep-0000", 1.0, None),
    ];
    let expected = [
        Admission::Added { revision: 1, reward: Some(-1.0) },
        Admission::Unchanged { revision: 1, reward: Some(-1.0) },
        Admission::Refused(NotAdmitted::KeyReused { key: "a".into(), revision: 1 }),
        Admission::Refused(NotAdmitted::NotComplete),
        Admission::Refused(NotAdmitted::NoEpisode),
        Admission::Refused(NotAdmitted::NoEpisode),
    ];
    assert_eq!(store.judge(judged).await.unwrap(), expected);
    assert_eq!((rows()[0].state(0), rows()[0].revision, rows()[0].reward), (EpisodeState::Decided, 1, Some(-1.0)));
    let stored = Reader::open(folder.path()).unwrap().episode("run-a/ep-0000").unwrap().unwrap();
    assert_eq!((stored.state(0), stored.revision(), stored.reward), (EpisodeState::Decided, 1, Some(-1.0)));
}

#[tokio::test]
async fn open_sessions_that_were_answered_last_are_found_without_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let live = RunRecord { kind: RunKind::Live, environment: "assistant".into(), planned: 0, ..run("run-live") };
    store.begin_run(&live).await.unwrap();
    let exchange = |(index, position, at): (u64, u32, u64)| ExchangeRow {
        episode: OpenEpisode {
            run: RunId("run-live".into()),
            id: EpisodeId(format!("ep-{index}")),
            index,
            session: LiveSession::new("s", "assistant", "fast"),
            opened_at: index,
        },
        position,
        at,
        outcome: ExchangeOutcome::Complete,
        document: "{}".into(),
        pooled: None,
        routed: None,
        drawn: None,
        owner: String::new(),
        answer_id: None,
        is_main: true,
    };
    // The first session goes on after the others.
    let rows = [(0, 0, 10), (1, 0, 20), (2, 0, 30), (0, 1, 25)].map(exchange);
    let through = SpoolPlace { segment: 1, offset: 70 };
    store.record_exchanges(ExchangeBatch { exchanges: rows.into(), responses: vec![], through }).await.unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    let found = |limit| -> Vec<(u64, u64, u64)> {
        let open = reader.newest_open(limit).unwrap();
        open.into_iter().map(|open| (open.episode.index, open.turns, open.last_at)).collect()
    };
    assert_eq!(found(2), [(2, 1, 30), (0, 2, 25)]);
    assert_eq!(found(10), [(2, 1, 30), (0, 2, 25), (1, 1, 20)]);
}

#[tokio::test]
async fn a_live_episode_is_open_until_it_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    let live = RunRecord { kind: RunKind::Live, environment: "assistant".into(), planned: 0, ..run("run-live") };
    store.begin_run(&live).await.unwrap();
    let session = LiveSession::new("s-1", "assistant", "fast");
    let open = OpenEpisode {
        run: RunId("run-live".into()),
        id: EpisodeId("ep-0000".into()),
        index: 0,
        session: session.clone(),
        opened_at: 7,
    };
    let exchange = |position, outcome| ExchangeRow {
        episode: open.clone(),
        position,
        at: 10 + u64::from(position),
        outcome,
        document: format!("{{\"position\":{position}}}"),
        pooled: None,
        routed: None,
        drawn: None,
        owner: String::new(),
        answer_id: None,
        is_main: true,
    };
    let place = SpoolPlace { segment: 1, offset: 70 };
    let first = vec![exchange(0, ExchangeOutcome::Complete), exchange(1, ExchangeOutcome::Incomplete)];
    let batch = |exchanges, through| ExchangeBatch { exchanges, responses: vec![], through };
    store.record_exchanges(batch(first.clone(), place)).await.unwrap();
    let reader = || Reader::open(folder.path()).unwrap();
    let progress = |turns, is_complete, last_at| EpisodeProgress { episode: open.clone(), turns, is_complete, last_at };
    assert_eq!(reader().open_episodes(None).unwrap(), [progress(1, false, 11)]);
    assert_eq!(reader().spool_place().unwrap(), place);
    // After a crash the same exchanges come again, and more.
    let place = SpoolPlace { segment: 2, offset: 5 };
    let again = [first, vec![exchange(2, ExchangeOutcome::Complete)]].concat();
    store.record_exchanges(batch(again, place)).await.unwrap();
    assert_eq!(reader().open_episodes(None).unwrap(), [progress(2, true, 12)]);
    assert_eq!(reader().exchanges(&open.run, &open.id).unwrap().len(), 3);
    assert_eq!((reader().spool_place().unwrap(), reader().next_position(&open.run).unwrap()), (place, 1));
    assert_eq!(reader().open_episodes(Some(&RunId("run-a".into()))).unwrap(), []);
    assert!(reader().episodes(&EpisodeFilter::default()).unwrap().is_empty());

    let recorded = Episode { origin: EpisodeOrigin::live(session), verdicts: Vec::new(), ..episode("run-live", 0) };
    put(&store, vec![recorded_as(recorded.clone())]).await.unwrap();
    assert!(reader().open_episodes(None).unwrap().is_empty(), "its record closes it");
    assert!(reader().exchanges(&open.run, &open.id).unwrap().is_empty(), "they are part of the episode");
    assert_eq!(reader().next_position(&open.run).unwrap(), 1);
    let row = reader().episodes(&EpisodeFilter::default()).unwrap().remove(0);
    assert_eq!((row.live, row.environment.as_str()), (true, "assistant"));
    assert_eq!(reader().episode("ep-0000").unwrap().unwrap().origin, recorded.origin);
    assert_eq!(reader().runs_of_episode("ep-0000").unwrap(), [RunId("run-live".into())]);

    // Nothing fixed its rewards, so later verdicts of plugins count.
    let judged = Judged { record: verdict_of("outcome", scored(0.5)), ..feedback("run-live", "ep-0000", 0.0, None) };
    let admissions = store.judge(vec![judged]).await.unwrap();
    assert_eq!(admissions, [Admission::Added { revision: 1, reward: Some(0.5) }]);
}

#[tokio::test]
async fn a_response_is_read_by_its_owner_until_it_is_deleted_or_its_run_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path());
    store.begin_run(&RunRecord { kind: RunKind::Live, ..run("run-live") }).await.unwrap();
    let row = |owner: &str, id: &str, document: &str| {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        ResponseChange::Stored(ResponseRow {
            owner,
            id,
            run: RunId("run-live".into()),
            at: 5,
            document: document.into(),
        })
    };
    let changed = async |responses: Vec<ResponseChange>| {
        store.record_exchanges(ExchangeBatch { responses, ..Default::default() }).await.unwrap();
    };
    let found = |owner: &str, id: &str| Reader::open(folder.path()).unwrap().response(owner, id).unwrap();
    changed(vec![row("a", "resp_1", "1"), row("a", "resp_2", "2"), row("b", "resp_1", "3")]).await;
    changed(vec![row("a", "resp_1", "again, after a crash")]).await;
    assert_eq!(found("a", "resp_1").as_deref(), Some("1"));
    assert_eq!(found("b", "resp_1").as_deref(), Some("3"));
    assert_eq!(found("c", "resp_1"), None, "another key's");
    let deleted = ResponseChange::Deleted { owner: "a".into(), id: "resp_1".into() };
    changed(vec![deleted, row("a", "resp_3", "3")]).await;
    assert_eq!((found("a", "resp_1"), found("a", "resp_2").as_deref()), (None, Some("2")));
    assert_eq!(found("b", "resp_1").as_deref(), Some("3"));
}
