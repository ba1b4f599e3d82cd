//! `/compute_reward`: what rewards say about an answer that nobody records.

use crate::client::{assistant, post, user};
use crate::stub::{Stub, says};
use crate::{Bench, served};
use clawhost_core::{
    Episode, Failure, FailureKind, PluginIdentity, RewardRecord, RewardSource, ScoreCard, Verdict, code,
};
use clawhost_gateway::EpisodeJudge;
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::sync::Arc;

/// A reward of 1 where the answer is the reference, that fails at `broken`, and does not apply without a reference.
fn judge() -> EpisodeJudge {
    Arc::new(|episode: Episode| {
        Box::pin(async move {
            let said = episode.turns.last().map(|turn| turn.action.plain_text()).unwrap_or_default();
            let verdict = match &episode.task.reference {
                _ if said == "broken" => {
                    Verdict::Failed(Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, "it broke".to_owned()))
                }
                Some(reference) => Verdict::Scored(ScoreCard::plain(f64::from(u8::from(reference.contains(&said))))),
                None => Verdict::NotApplicable("no reference".to_owned()),
            };
            let record = RewardRecord {
                reward: PluginIdentity::native("match"),
                options: Vec::new(),
                options_digest: clawhost_core::Digest::of(b""),
                judge: None,
                grants: clawhost_core::Grants::default(),
                group_digest: None,
                seed: 0,
                source: RewardSource::Outcome,
                weight: 1.0,
                post_hoc: false,
                verdict,
                later: None,
                log: Vec::new(),
                journal: Vec::new(),
            };
            let reward = clawhost_core::effective_reward(std::slice::from_ref(&record));
            Arc::new(Episode { verdicts: vec![record], reward, ..episode })
        })
    })
}

async fn bench(stub: &Stub) -> Bench {
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    bench.stop().await;
    bench.judge = Some(judge());
    bench.start(vec![served(Dialect::OpenAi, &stub.base_url())], Default::default(), |_| {}).await;
    bench
}

async fn computed(bench: &Bench, body: Value) -> (u16, Value) {
    let answer = post(&bench.address, "/compute_reward", &[], &body).await;
    (answer.status, answer.json())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_judged_and_not_recorded() {
    let stub = Stub::start(|_, request| says(request, "4", &[]));
    let mut bench = bench(&stub).await;
    let ask = |said: &str, fields: Value| json!({"messages": [user("2 + 2?")], "response": assistant(said), "dataset_fields": fields, "num_turns": 2});
    let known = || json!({"reward_model": {"ground_truth": "4"}, "data_source": "sums"});
    let (status, said) = computed(&bench, ask("4", known())).await;
    assert_eq!((status, &said["reward_score"]), (200, &json!(1.0)), "{said}");
    assert_eq!(said["reward_extra_info"]["verdicts"][0]["reward"], "match");
    assert_eq!(computed(&bench, ask("5", known())).await.1["reward_score"], 0.0);
    let (status, said) = computed(&bench, ask("4", json!({}))).await;
    assert_eq!(
        (status, said.to_string().contains("no reward applies to this answer: match: no reference")),
        (422, true),
        "{said}"
    );
    let (status, said) = computed(&bench, ask("broken", known())).await;
    assert_eq!((status, said.to_string().contains("it broke")), (500, true), "a failure is no 0: {said}");
    let (status, said) = computed(&bench, json!({})).await;
    assert_eq!((status, said.to_string().contains("must be there")), (422, true), "{said}");
    assert_eq!(bench.episodes().await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_captured_trajectory_is_judged_when_it_has_ended() {
    let stub = Stub::start(|_, request| says(request, "4", &[]));
    let bench = bench(&stub).await;
    let chat = json!({"model": "m", "messages": [user("2 + 2?")]});
    post(&bench.address, "/t/g/v1/chat/completions", &[], &chat).await;
    let ask = json!({"trajectory_uid": "t", "dataset_fields": {"answer": "4"}});
    assert_eq!(computed(&bench, json!({"trajectory_uid": "none"})).await.0, 404);
    assert_eq!(computed(&bench, ask.clone()).await.0, 409, "it is open");
    post(&bench.address, "/t/g/v1/complete_trajectory", &[], &json!({})).await;
    assert_eq!(computed(&bench, ask).await.1["reward_score"], 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_without_a_reward_says_so() {
    let bench = Bench::new(Dialect::OpenAi, "http://127.0.0.1:1/v1").await;
    let (status, said) = computed(&bench, json!({"response": assistant("4")})).await;
    assert_eq!((status, said.to_string().contains("this gateway has no reward")), (503, true), "{said}");
}
