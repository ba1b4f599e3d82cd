//! Live episodes: captured from an external agent, and read like others.

use super::*;
use clawhost_core::{
    Closing, Digest, Ending, EpisodeHeader, EpisodeId, EpisodeOrigin, EpisodeRecorder, EpisodeStore as _,
    ExchangeBatch, ExchangeOutcome, ExchangeRow, ExpectedVerdict, LiveSession, LiveStore as _, LlmIdentity, Message,
    ModelResponse, Observed, OpenEpisode, Origin, PolicyRecord, Recorded, RewardSource, Role, RunId, RunKind,
    RunLabels, RunRecord, Sampling, SpecDocument, StateConfig, StateId, Task, Usage,
};
use clawhost_store::{Store, StoreOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

const RUN: &str = "run-live";

fn session(number: u64) -> LiveSession {
    LiveSession::new(format!("session-{number}"), "helpdesk", "fast")
}

/// An agent that was asked for a sum, and a model that answered it.
fn captured(number: u64, answer: &str, expects: Vec<ExpectedVerdict>) -> clawhost_core::Episode {
    let asked = Message::text(Role::User, Origin::User, "What is 2 + 2?");
    let mut recorder = EpisodeRecorder::open(vec![asked], 1 << 20);
    recorder.request(Digest::of(b"request")).unwrap();
    let said = Message::text(Role::Assistant, Origin::Policy, answer);
    recorder.answer(ModelResponse::new(said, Usage::default(), "stop"), 7).unwrap();
    recorder.observe(Observed::messages(vec![], vec![Message::text(Role::User, Origin::User, "Thanks.")])).unwrap();
    let model = LlmIdentity { provider: "openai".into(), model: "m".into(), version: "http://127.0.0.1:1".into() };
    let config =
        StateConfig { model: model.clone(), system_prompt: None, sampling: Sampling::default(), rendering: Vec::new() };
    let reference = Some("{\"answer\":\"4\"}".to_owned());
    let task = Task { input: "What is 2 + 2?".into(), reference, ..Task::new("live", session(number).session) };
    let header = EpisodeHeader {
        run: RunId(RUN.into()),
        id: EpisodeId(format!("ep-{number}")),
        index: number,
        task_hash: task.digest(),
        task,
        origin: EpisodeOrigin::live(session(number)),
        expects,
        state_id: StateId::of(&config),
        policy: PolicyRecord { model, seed: 0, system_prompt: None, sampling: Sampling::default(), playbook: None },
    };
    recorder.close(header, Ending::Terminated, Closing { at: 1_000, ..Closing::default() })
}

/// Two completed episodes, of which the second waits for a person until far in the future, and an open one.
pub(crate) fn with_live_episodes(bench: &Bench) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open(bench.data.path(), StoreOptions::default()).unwrap();
        let one = captured(0, "4", vec![]);
        let waits = vec![ExpectedVerdict { source: RewardSource::User, until: u64::MAX >> 12 }];
        let two = captured(1, "5", waits);
        let run = RunRecord {
            id: RunId(RUN.into()),
            parent: None,
            kind: RunKind::Live,
            environment: "helpdesk".into(),
            state_id: one.state_id,
            config: SpecDocument::none(),
            basis: serde_json::json!("live"),
            planned: 0,
            created_at: 1,
            labels: RunLabels::default(),
        };
        store.begin_run(&run).await.unwrap();
        let recorded =
            |episode| Recorded { episode: Arc::new(episode), notes: BTreeMap::new(), replaces_existing: false };
        store.append(&run.id, vec![recorded(one), recorded(two)], Usage::default()).await.unwrap();
        let open = OpenEpisode {
            run: run.id.clone(),
            id: EpisodeId("ep-2".into()),
            index: 2,
            session: session(2),
            opened_at: 5,
        };
        let row = ExchangeRow {
            episode: open,
            position: 0,
            at: 5,
            outcome: ExchangeOutcome::Complete,
            document: "{}".into(),
            pooled: None,
            routed: None,
            drawn: None,
            owner: String::new(),
            answer_id: None,
            is_main: true,
        };
        store.record_exchanges(ExchangeBatch { exchanges: vec![row], ..Default::default() }).await.unwrap();
    });
}

#[test]
fn live_episodes_are_listed_shown_and_exported_like_others() {
    let Some(bench) = Bench::new("live_episodes_are_listed") else { return };
    with_live_episodes(&bench);
    let rows = bench.json(&["episodes", "list", "--run", RUN]);
    let seen: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| (row["id"].as_str().unwrap(), &row["state"])).collect();
    assert_eq!((seen[0], seen[2]), (("ep-2", &"open".into()), ("ep-0", &"decided".into())), "{rows}");
    assert!(seen[1].1["pending"].is_object() && rows[1]["live"] == true, "{rows}");
    let text = bench.out(&["episodes", "list"]);
    for part in ["helpdesk", "session-0", "open", "pending", "decided"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let shown = bench.out(&["episodes", "show", "ep-0"]);
    assert!(shown.contains("helpdesk, which asked for the model fast") && shown.contains("What is 2 + 2?"), "{shown}");
    let exported = bench.out(&["episodes", "export", "--run", RUN]);
    let first: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    assert_eq!(first["live"]["session"], "session-0");
    assert!(first.get("environment").is_none() && exported.lines().count() == 2, "{exported}");
    let runs = bench.json(&["runs", "list"]);
    assert_eq!((&runs[0]["id"], &runs[0]["kind"]), (&RUN.into(), &"live".into()), "{runs}");
    bench.out(&["data"]);
}

#[test]
fn live_episodes_are_scored_and_their_verdicts_count() {
    let Some(bench) = Bench::new("live_episodes_are_scored") else { return };
    with_live_episodes(&bench);
    let exact = bench.guest("reward_exact");
    let scored = bench.json(&["score", "--reward", &exact, "--run", RUN]);
    assert_eq!(scored["report"]["rewards"][0]["added"], 2, "{scored}");
    let rows = bench.json(&["episodes", "list", "--run", RUN]);
    let rewards: Vec<_> = (1..3).map(|place| (&rows[place]["reward"], &rows[place]["revision"])).collect();
    assert_eq!(rewards, [(&0.0.into(), &1.into()), (&1.0.into(), &1.into())], "newest first: {rows}");
    assert!(rows[1]["state"]["pending"].is_object(), "the person's verdict is missing");
    let said = bench.json(&["feedback", "ep-1", "--score", "0.75"]);
    assert_eq!((&said["feedback"]["reward"], &said["feedback"]["state"]), (&0.75.into(), &"decided".into()), "{said}");
    bench.refused(&["feedback", "ep-2", "--score", "1"], &["episode ep-2 has not ended"]);
    bench.refused(&["feedback", "run-live/ep-2", "--score", "1"], &["has not ended"]);
}

#[test]
fn a_live_episode_can_be_judged_again_but_not_replayed() {
    let Some(bench) = Bench::new("a_live_episode_is_judged_again") else { return };
    with_live_episodes(&bench);
    bench.json(&["score", "--reward", &bench.guest("reward_exact"), "--run", RUN]);
    let output = bench.run(&["replay", "--run", RUN, "--json"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = &document["report"];
    assert_eq!((&report["verdicts"]["exact"], &report["episodes"]["not_replayed"]), (&2.into(), &2.into()), "{report}");
    let text = stdout(&bench.run(&["replay", "ep-0"]));
    assert!(text.contains("a live episode cannot be played again: its agent, helpdesk, works outside"), "{text}");
}
