//! Conversations that somebody else had with a model.

use crate::client::{assistant, chat, post, raw, request, user};
use crate::stub::{Stub, says};
use crate::{Bench, turns};
use clawhost_core::Ending;
use clawhost_providers::Dialect;
use serde_json::{Value, json};

/// A gateway whose model is not asked.
async fn bench() -> Bench {
    Bench::new(Dialect::OpenAi, "http://127.0.0.1:1/v1").await
}

async fn ingest(bench: &Bench, body: Value) -> Value {
    let answer = post(&bench.address, "/ingest", &[], &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_conversation_is_one_episode_with_its_tools_and_tokens() {
    let mut bench = bench().await;
    let call = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let logprobs = json!({"content": [{"token": "four", "logprob": -0.25}]});
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        user("2 + 2?"),
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "assistant", "content": "four", "logprobs": logprobs, "reasoning": "easy"},
    ]);
    let metadata = json!({"model": "gpt-n", "usage": {"prompt_tokens": 7, "completion_tokens": 3}});
    let said = ingest(&bench, json!({"messages": messages, "metadata": metadata})).await;
    assert_eq!((&said["playbook_version"], &said["learning_status"]), (&json!(3), &json!("idle")));
    let episodes = bench.episodes().await;
    let episode = &episodes[0];
    assert_eq!(said["episode_id"], format!("{}/{}", episode.run, episode.id));
    assert_eq!(
        (episodes.len(), &episode.ending, episode.policy.model.model.as_str()),
        (1, &Ending::Terminated, "gpt-n")
    );
    assert_eq!(turns(episode), [(vec!["2 + 2?".into()], String::new()), (vec!["4".into()], "four".into())]);
    assert_eq!((episode.turns[1].usage.prompt_tokens, episode.turns[1].logprobs[0].logprob), (7, -0.25));
    assert_eq!(episode.policy.system_prompt.as_deref(), Some("Be brief."));
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_named_conversation_are_one_episode() {
    let mut bench = bench().await;
    let part = |messages: Value| json!({"messages": messages, "metadata": {"conversation_id": "c"}});
    let first = ingest(&bench, part(json!([user("a"), assistant("b")]))).await;
    let second = ingest(&bench, part(json!([user("a"), assistant("b"), user("c"), assistant("d")]))).await;
    assert_eq!(first["episode_id"], second["episode_id"]);
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len(), 1);
    assert_eq!(turns(&episodes[0]), [(vec!["a".into()], "b".into()), (vec!["c".into()], "d".into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingested_conversation_and_one_through_the_gateway_are_alike() {
    let stub = Stub::start(|_, request| says(request, "answer", &[]));
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    post(&bench.address, "/v1/chat/completions", &[], &chat(&[user("hi")])).await;
    ingest(&bench, json!({"messages": [user("hi"), assistant("answer")]})).await;
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len(), 2);
    assert_eq!(turns(&episodes[0]), turns(&episodes[1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_conversation_is_a_422_that_says_what_is_wrong() {
    let mut bench = bench().await;
    let check = |body: &'static str, status: u16, says: &'static str| {
        let address = bench.address.clone();
        async move {
            let answer = raw(&address, "/ingest", &[], body.as_bytes().to_vec()).await;
            assert_eq!((answer.status, answer.body.contains(says)), (status, true), "{body}: {answer:?}");
            assert!(answer.json()["error"].is_string(), "{answer:?}");
        }
    };
    check("{", 400, "no JSON").await;
    check("[]", 422, "must be an object").await;
    check("{}", 422, "messages: must be a list").await;
    check(r#"{"messages":[]}"#, 422, "from 1 to").await;
    check(r#"{"messages":["hi"]}"#, 422, "messages[0]: must be an object").await;
    check(r#"{"messages":[{"content":"hi"}]}"#, 422, "messages[0].role: must be there").await;
    check(r#"{"messages":[{"role":"robot","content":"hi"}]}"#, 422, "messages[0].role: must be system").await;
    check(r#"{"messages":[{"role":"user"}]}"#, 422, "messages[0].content: must be there").await;
    check(r#"{"messages":[{"role":"user","content":"hi"}]}"#, 422, "no message of the assistant").await;
    check(r#"{"messages":[{"role":"user","content":"hi"}],"metadata":7}"#, 422, "metadata: must be an object").await;
    assert_eq!(bench.episodes().await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_has_a_prompt_and_counts() {
    let bench = bench().await;
    ingest(&bench, json!({"messages": [user("hi"), assistant("answer")]})).await;
    let address = bench.address.clone();
    let state =
        tokio::task::spawn_blocking(move || request("GET", &address, "/state", &[], b"").answer()).await.unwrap();
    let state = state.json();
    assert_eq!((&state["system_prompt"], &state["playbook_version"]), (&json!("Be kind."), &json!(3)));
    assert_eq!((&state["metrics"]["exchanges_recorded"], &state["learning_status"]), (&json!(1), &json!("idle")));
}
