//! Guidance of sessions: where it stands, how long it stays, and what is recorded of it.

use crate::client::{Answer, assistant, post, user};
use crate::stub::{Received, Reply, Stub, events, says, stream};
use crate::{Bench, served, turns};
use async_trait::async_trait;
use clawhost_core::{Drawn, KnownSecrets, SessionDraw, TrialsReader as _};
use clawhost_gateway::{ClientKey, ClientKeys, Draws, GuidanceChoice, Guide, Guided, GuidedBy, Guiding, ServedModel};
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const CACHE: Duration = Duration::from_secs(60);

/// Gives each session that asks a text of its own, which names its number and its user.
#[derive(Default)]
struct Numbered(AtomicU64);

#[async_trait]
impl Guide for Numbered {
    fn is_on(&self) -> bool {
        true
    }

    async fn guide(&self, guiding: &Guiding<'_>) -> GuidanceChoice {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let user = guiding.session.user.as_deref().unwrap_or("nobody");
        let by = GuidedBy { playbook: "shop".into(), version: 4 };
        let guided = Guided::new(Some(by), vec![format!("e-{number}")], format!("guidance {number} for {user}"));
        let document = guiding.episode.to_owned();
        let drawn = Some(SessionDraw { playbook: "shop".into(), document });
        let drawn = drawn.filter(|_| guiding.draws == Draws::New);
        if user != "held-out" {
            return GuidanceChoice { guided: Some(guided), drawn };
        }
        // Everything is held out of this user's sessions.
        let entries = vec![Drawn { entry: "e-0".into(), shown: false, propensity: Some(0.1) }];
        let nothing = Guided::new(guided.by, vec![], String::new()).with_drawn(entries);
        GuidanceChoice { guided: Some(nothing), drawn }
    }

    fn cache_ms(&self) -> u64 {
        CACHE.as_millis() as u64
    }
}

fn guide() -> Arc<dyn Guide> {
    Arc::new(Numbered::default())
}

/// An endpoint that answers `ok`; of the shape of responses, too.
fn model() -> Stub {
    Stub::start(|number, request: &Received| {
        if request.path.ends_with("/responses") {
            let part = json!({"type": "output_text", "text": "ok", "annotations": []});
            let item =
                json!({"id": "m", "type": "message", "status": "completed", "role": "assistant", "content": [part]});
            let whole = json!({
                "id": format!("resp_{number}"), "object": "response", "status": "completed", "model": "stub", "output": [item],
                "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
            });
            return Reply::Http(200, vec![], whole.to_string());
        }
        match request.body["stream"] == true {
            true => stream(events(request, "ok", &[])),
            false => says(request, "ok", &[]),
        }
    })
}

fn chat(messages: &[Value]) -> Value {
    json!({"model": "m", "max_tokens": 9, "messages": messages})
}

async fn ask(bench: &Bench, headers: &[(&'static str, &'static str)], messages: &[Value]) -> Answer {
    let answer = post(&bench.address, CHAT, headers, &chat(messages)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// What the model saw first in the last request.
fn seen(stub: &Stub) -> String {
    stub.requests().pop().unwrap().conversation()[0].1.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn guidance_follows_the_clients_system_text_and_the_rest_is_as_it_was_written() {
    let system = json!({"role": "system", "content": "be brief"});
    let block = json!({"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}});
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    let image =
        json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]});
    let text = "guidance 0 for nobody";
    let guided = json!({"type": "text", "text": text});
    let check = async |dialect: Dialect, path: &str, body: Value, field: &str, expect: Value| {
        let stub = model();
        let mut bench = Bench::guided(vec![served(dialect, &stub.base_url())], guide()).await;
        let mut sent = body.clone();
        sent["model"] = "m".into();
        let answer = post(&bench.address, path, &[("x-clawhost-guidance", "show")], &sent).await;
        assert_eq!((answer.status, answer.header("x-clawhost-guidance")), (200, "shop/4 e-0"), "{answer:?}");
        let mut wanted = body;
        wanted["model"] = "stub-model".into();
        wanted[field] = expect;
        assert_eq!(stub.requests()[0].body, wanted, "{path}");
        let [episode] = bench.episodes().await.try_into().unwrap();
        let playbook = episode.policy.playbook.clone().unwrap();
        assert_eq!((playbook.text.as_str(), playbook.shown.as_slice()), (text, ["e-0".to_owned()].as_slice()));
        let recorded =
            serde_json::to_value(&episode.turns).unwrap().to_string() + &format!("{:?}", episode.policy.system_prompt);
        assert!(!recorded.contains("guidance"), "it is no message of the client: {recorded}");
    };
    let both = format!("be brief\n\n{text}");
    let body = json!({"messages": [system, image], "tools": tools, "max_tokens": 9});
    let expect = json!([{"role": "system", "content": both}, image]);
    check(Dialect::OpenAi, CHAT, body, "messages", expect).await;
    let body = json!({"messages": [user("hi")], "max_tokens": 9});
    check(Dialect::OpenAi, CHAT, body, "messages", json!([{"role": "system", "content": text}, user("hi")])).await;
    let body = json!({"system": [block], "messages": [user("hi")], "max_tokens": 9, "thinking": {"type": "disabled"}});
    check(Dialect::Anthropic, MESSAGES, body, "system", json!([block, guided])).await;
    let body = json!({"messages": [user("hi")], "max_tokens": 9});
    check(Dialect::Anthropic, MESSAGES, body, "system", json!(text)).await;
    let body = json!({"input": "hi", "instructions": "be brief"});
    check(Dialect::OpenAi, RESPONSES, body, "instructions", json!(both)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_translated_request_is_guided_too() {
    let stub = model();
    let bench = Bench::guided(vec![served(Dialect::Anthropic, &stub.base_url())], guide()).await;
    ask(&bench, &[], &[json!({"role": "system", "content": "be brief"}), user("hi")]).await;
    let system = stub.requests()[0].body["system"].to_string();
    assert!(system.contains("be brief") && system.contains("guidance 0"), "{system}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guidance_stays_for_the_session_and_its_branches_until_the_cache_has_ended() {
    let stub = model();
    let mut bench = Bench::guided(vec![served(Dialect::OpenAi, &stub.base_url())], guide()).await;
    let mut messages = vec![user("one")];
    let saw = |expect: &str| assert_eq!(seen(&stub), format!("{expect} for nobody"));
    ask(&bench, &[], &messages).await;
    saw("guidance 0");
    messages.extend([assistant("ok"), user("two")]);
    ask(&bench, &[], &messages).await;
    saw("guidance 0");
    // Another turn in the place of the second: a branch.
    ask(&bench, &[], &[user("one"), assistant("ok"), user("other")]).await;
    saw("guidance 0");
    ask(&bench, &[], &[user("a new conversation")]).await;
    saw("guidance 1");
    // A process that dies loses nothing.
    bench.kill();
    bench.start(vec![served(Dialect::OpenAi, &stub.base_url())], KnownSecrets::default(), |_| {}).await;
    messages.extend([assistant("ok"), user("three")]);
    ask(&bench, &[], &messages).await;
    saw("guidance 0");
    bench.clock.advance(CACHE);
    messages.extend([assistant("ok"), user("four")]);
    ask(&bench, &[], &messages).await;
    saw("guidance 2");
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len(), 3);
    let texts: Vec<String> = episodes.iter().map(|one| one.policy.playbook.clone().unwrap().text).collect();
    assert_eq!(texts, ["guidance 0", "guidance 0", "guidance 1"].map(|text| format!("{text} for nobody")));
    assert!(episodes[0].log.contains(&"exchange 3: other guidance from here on: guidance 2 for nobody".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_of_a_chain_gets_the_instructions_again() {
    let stub = model();
    let bench = Bench::guided(vec![served(Dialect::OpenAi, &stub.base_url())], guide()).await;
    let first = post(&bench.address, RESPONSES, &[], &json!({"model": "m", "input": "one"})).await.json();
    let body = json!({"model": "m", "input": "two", "previous_response_id": first["id"]});
    post(&bench.address, RESPONSES, &[], &body).await;
    let sent: Vec<Value> = stub.requests().iter().map(|request| request.body["instructions"].clone()).collect();
    assert_eq!(sent, [json!("guidance 0 for nobody"), json!("guidance 0 for nobody")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_want_none_and_what_is_not_recorded_gets_none() {
    let stub = model();
    let mut bench = Bench::guided(vec![served(Dialect::OpenAi, &stub.base_url())], guide()).await;
    ask(&bench, &[("x-clawhost-guidance", "off")], &[user("hi")]).await;
    assert_eq!(seen(&stub), "hi");
    let digest = clawhost_core::Digest::of(b"ch-a");
    let key = ClientKey { no_record: true, ..ClientKey::new("a", digest, 0) };
    bench.set_keys(ClientKeys::new(vec![key]));
    ask(&bench, &[("authorization", "Bearer ch-a")], &[user("hi")]).await;
    assert_eq!(seen(&stub), "hi");
    let [episode] = bench.episodes().await.try_into().unwrap();
    assert_eq!(episode.policy.playbook, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_room_gets_no_guidance() {
    let stub = model();
    let mut short = served(Dialect::OpenAi, &stub.base_url());
    short.first = short.first.reading(Some(30));
    let mut bench = Bench::guided(vec![short], guide()).await;
    ask(&bench, &[("x-clawhost-session", "a")], &[user("hi")]).await;
    assert!(seen(&stub).starts_with("guidance"));
    let long = "word ".repeat(18);
    let answer = ask(&bench, &[("x-clawhost-session", "b"), ("x-clawhost-guidance", "show")], &[user(&long)]).await;
    assert_eq!((seen(&stub), answer.header("x-clawhost-guidance")), (long, ""));
    let records: Vec<bool> = bench.episodes().await.iter().map(|one| one.policy.playbook.is_some()).collect();
    assert_eq!(records, [true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_with_equal_conversations_have_sessions_and_guidance_of_their_own() {
    let stub = model();
    let mut bench = Bench::guided(vec![served(Dialect::OpenAi, &stub.base_url())], guide()).await;
    let second = [user("hi"), assistant("ok"), user("more")];
    // Bob goes on first: his history fits hers as well.
    for (messages, users) in [(&second[..1], ["ada", "bob"]), (&second[..], ["bob", "ada"])] {
        for name in users {
            let mut body = chat(messages);
            body["user"] = name.into();
            post(&bench.address, CHAT, &[], &body).await;
            let number = u8::from(name == "bob");
            assert_eq!(seen(&stub), format!("guidance {number} for {name}"));
        }
    }
    let episodes = bench.episodes().await;
    let users: Vec<Option<String>> = episodes.iter().map(|one| one.origin.session().unwrap().user.clone()).collect();
    assert_eq!(users, [Some("ada".to_owned()), Some("bob".to_owned())]);
    assert!(episodes.iter().all(|episode| turns(episode).len() == 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_guided_and_say_so() {
    let stub = model();
    let models: Vec<ServedModel> = vec![served(Dialect::OpenAi, &stub.base_url())];
    let bench = Bench::guided(models, guide()).await;
    let mut body = chat(&[user("hi")]);
    body["stream"] = true.into();
    let answer = post(&bench.address, CHAT, &[("x-clawhost-guidance", "show")], &body).await;
    assert_eq!((answer.text().as_str(), answer.header("x-clawhost-guidance")), ("ok", "shop/4 e-0"));
    assert_eq!(seen(&stub), "guidance 0 for nobody");
}

/// What was drawn for the sessions of a gateway.
fn drawn(bench: &Bench) -> Vec<String> {
    let reader = clawhost_store::Reader::open(bench.folder.path()).unwrap();
    let all = reader.waiting_draws("shop", u64::MAX >> 1, 10).unwrap();
    all.into_iter().map(|one| one.document).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_are_kept_once_for_a_session_and_for_no_branch_and_none_that_is_kept_out() {
    let stub = model();
    let mut bench = Bench::guided(vec![served(Dialect::OpenAi, &stub.base_url())], guide()).await;
    let mut messages = vec![user("one")];
    ask(&bench, &[], &messages).await;
    messages.extend([assistant("ok"), user("two")]);
    ask(&bench, &[], &messages).await;
    // Another way from the first answer is a branch.
    messages.truncate(2);
    messages.push(user("three"));
    ask(&bench, &[], &messages).await;
    ask(&bench, &[("x-no-train", "1")], &[user("four")]).await;
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len(), 3);
    assert_eq!(drawn(&bench), [format!("{}/{}", episodes[0].run, episodes[0].id)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn guidance_is_chosen_anew_when_the_client_rewrites_its_history_and_keeps_its_draws() {
    let stub = model();
    let mut bench = Bench::guided(vec![served(Dialect::OpenAi, &stub.base_url())], guide()).await;
    let named = [("x-clawhost-session", "s")];
    let mut messages = vec![user("one")];
    for text in ["two", "three"] {
        ask(&bench, &named, &messages).await;
        messages.extend([assistant("ok"), user(text)]);
    }
    assert_eq!(seen(&stub), "guidance 0 for nobody");
    // A compaction: the beginning is cut off.
    ask(&bench, &named, &messages[2..]).await;
    assert_eq!(seen(&stub), "guidance 1 for nobody");
    let [episode] = bench.episodes().await.try_into().unwrap();
    assert_eq!(episode.turns.len(), 3);
    assert_eq!(drawn(&bench).len(), 1, "the draws of the beginning hold");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_turn_gets_the_guidance_of_its_session_and_no_draw() {
    let stub = model();
    let mut bench = Bench::guided(vec![served(Dialect::OpenAi, &stub.base_url())], guide()).await;
    let named = ("x-clawhost-session", "s");
    ask(&bench, &[named], &[user("one")]).await;
    ask(&bench, &[named, ("x-turn-type", "side")], &[user("a title for: one")]).await;
    assert_eq!(seen(&stub), "guidance 0 for nobody");
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len(), 2);
    assert_eq!(episodes[1].origin.withheld(), Some(clawhost_core::Withheld::SideTurn));
    assert_eq!(drawn(&bench), [format!("{}/{}", episodes[0].run, episodes[0].id)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_everything_is_held_out_nothing_is_added_and_the_draw_is_recorded() {
    let stub = model();
    let mut bench = Bench::guided(vec![served(Dialect::OpenAi, &stub.base_url())], guide()).await;
    let headers = [("x-clawhost-user", "held-out"), ("x-clawhost-guidance", "show")];
    let answer = ask(&bench, &headers, &[user("hi")]).await;
    assert_eq!(answer.header("x-clawhost-guidance"), "shop/4");
    assert_eq!(stub.requests()[0].body["messages"], json!([user("hi")]));
    let [episode] = bench.episodes().await.try_into().unwrap();
    let playbook = episode.policy.playbook.clone().unwrap();
    let held_out = Drawn { entry: "e-0".into(), shown: false, propensity: Some(0.1) };
    assert_eq!((playbook.text.as_str(), playbook.shown.len(), playbook.drawn), ("", 0, vec![held_out]));
    assert_eq!(drawn(&bench).len(), 1);
}
