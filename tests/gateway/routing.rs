//! An alias whose model a router chooses: when it is asked, what a session keeps, what takes over, and what is recorded of it.

use crate::client::{Answer, assistant, chat, post, user};
use crate::stub::{Reply, Stub, events, says, stream};
use crate::{Bench, NOON_MS, served};
use async_trait::async_trait;
use clawhost_core::{ModelRequest, Role, RoutedOutcome, RoutedSession};
use clawhost_gateway::{Chooser, Choosing, Chosen, RecordPolicy, Routing, ServedModel};
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";

/// A model, and the one that takes over.
type Choice = (&'static str, Option<&'static str>);

/// A router that chooses by a list, and notes for which sessions.
struct Listed {
    choices: Vec<Choice>,
    asked: Mutex<Vec<Option<String>>>,
}

impl Listed {
    fn new(choices: &[Choice]) -> Arc<Self> {
        Arc::new(Self { choices: choices.to_vec(), asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<Option<String>> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Chooser for Listed {
    fn router(&self) -> &str {
        "main"
    }

    async fn choose(&self, choosing: &Choosing<'_>) -> Result<Chosen, String> {
        let mut asked = self.asked.lock().unwrap();
        let (model, then) = self.choices.get(asked.len()).ok_or("the list has ended")?;
        asked.push(choosing.session.map(str::to_owned));
        let decision = json!({"number": asked.len(), "at": choosing.at_ms}).to_string();
        Ok(Chosen { model: (*model).to_owned(), then: then.map(str::to_owned), decision, failure: None })
    }

    fn failures(&self, request: &ModelRequest) -> u32 {
        request.messages.iter().filter(|message| message.role == Role::Tool).count() as u32
    }
}

/// A stub that says a text.
fn saying(text: &'static str) -> Stub {
    Stub::start(move |_, request| match request.body["stream"].as_bool() {
        Some(true) => stream(events(request, text, &[])),
        _ => says(request, text, &[]),
    })
}

fn failing() -> Stub {
    Stub::start(|_, _| Reply::Http(503, vec![], "{}".into()))
}

/// The alias `m` with models at stubs, by their names in the router's table.
fn routed(router: &Arc<Listed>, models: &[(&str, &Stub)]) -> Vec<ServedModel> {
    routed_in(Dialect::OpenAi, router, models)
}

fn routed_in(dialect: Dialect, router: &Arc<Listed>, models: &[(&str, &Stub)]) -> Vec<ServedModel> {
    let mut candidates = models.iter().map(|(_, stub)| served(dialect, &stub.base_url()).first);
    let names = models.iter().map(|(name, _)| (*name).to_owned()).collect();
    let (first, chooser) = (candidates.next().unwrap(), router.clone());
    let routing = Some(Routing { chooser, names });
    vec![ServedModel { alias: "m".into(), first, then: candidates.collect(), routing }]
}

async fn bench(models: Vec<ServedModel>) -> Bench {
    Bench::with(models, |config| config.limits.retry_pause = Duration::ZERO).await
}

async fn ask(bench: &Bench, messages: &[Value]) -> Answer {
    post(&bench.address, CHAT, &[], &chat(messages)).await
}

/// What answered, and the choice as the client sees it.
fn told(answer: &Answer) -> (String, &str) {
    let text = answer.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
    (text, answer.header("x-clawhost-route"))
}

fn expected(text: &str, route: &'static str) -> (String, &'static str) {
    (text.to_owned(), route)
}

/// The decisions that are stored, of all ages.
fn decisions(bench: &Bench) -> Vec<RoutedSession> {
    bench.reader().due_routed("main", u64::MAX >> 1, u64::MAX >> 1, 100).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_the_model_that_was_chosen_when_it_opened() {
    let (small, large) = (saying("s"), saying("l"));
    let router = Listed::new(&[("small", None), ("large", None)]);
    let mut bench = bench(routed(&router, &[("large", &large), ("small", &small)])).await;
    let mut history = vec![user("one")];
    for turn in 0..3 {
        let answer = ask(&bench, &history).await;
        assert_eq!(told(&answer), expected("s", "main small"), "turn {turn}");
        history.extend([assistant("s"), user(&format!("turn {turn}"))]);
    }
    // A branch behind the first turn.
    let branch = ask(&bench, &[user("one"), assistant("s"), user("another way")]).await;
    assert_eq!(told(&branch), expected("s", "main small"));
    assert_eq!(told(&ask(&bench, &[user("other")]).await), expected("l", "main large"), "another session");
    let episodes = bench.episodes().await;
    let names: Vec<_> = [&episodes[0], &episodes[2]].map(|one| Some(format!("{}/{}", one.run, one.id))).into();
    assert_eq!((episodes.len(), router.asked()), (3, names), "one decision for each conversation");
    let stored = decisions(&bench);
    let seen: Vec<_> = stored.iter().map(|one| (&one.episode, one.tokens, one.has_ended)).collect();
    assert_eq!(seen, [(&episodes[0].id, [36, 0], true), (&episodes[2].id, [12, 0], true)], "a branch has its own cost");
    assert!(stored[0].at >= NOON_MS && stored[0].decision.contains("\"number\":1"), "{stored:?}");
    assert_eq!(bench.reader().waiting_routed("main").unwrap(), 2);
    assert_eq!(bench.reader().waiting_routed("other").unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_forwarded_as_it_came_except_for_the_models_name() {
    for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
        for streams in [false, true] {
            let (small, large) = (saying("s"), saying("l"));
            let router = Listed::new(&[("small", None)]);
            let bench = bench(routed_in(dialect, &router, &[("large", &large), ("small", &small)])).await;
            let path = if dialect == Dialect::OpenAi { CHAT } else { "/v1/messages" };
            let mut body =
                json!({"model": "m", "max_tokens": 9, "messages": [user("hi")], "stream": streams, "odd": 1.50});
            if dialect == Dialect::OpenAi && streams {
                body["stream_options"] = json!({"include_usage": true});
            }
            let answer = post(&bench.address, path, &[], &body).await;
            assert_eq!((answer.status, answer.header("x-clawhost-route")), (200, "main small"), "{answer:?}");
            body["model"] = "stub-model".into();
            assert_eq!((small.requests()[0].body.clone(), large.requests().len()), (body, 0));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_model_takes_over_when_the_first_has_failed_and_stays() {
    let (small, large) = (failing(), saying("l"));
    let router = Listed::new(&[("small", Some("large"))]);
    let mut bench = bench(routed(&router, &[("large", &large), ("small", &small)])).await;
    let first = ask(&bench, &[user("one")]).await;
    assert_eq!(told(&first), expected("l", "main large"));
    assert_eq!(first.header("x-clawhost-attempts"), "2");
    let history = [user("one"), assistant("l"), user("two")];
    assert_eq!(told(&ask(&bench, &history).await), expected("l", "main large"));
    assert_eq!((small.requests().len(), large.requests().len()), (1, 2), "the session stays with it");
    // A start of another process knows it, too.
    bench.kill();
    let later = [&history[..], &[assistant("l"), user("three")]].concat();
    bench.start(routed(&router, &[("large", &large), ("small", &small)]), Default::default(), |_| {}).await;
    assert_eq!(told(&ask(&bench, &later).await), expected("l", "main large"));
    bench.episodes().await;
    assert_eq!((small.requests().len(), router.asked().len()), (1, 1));
    assert_eq!(decisions(&bench).iter().map(|one| one.tokens).collect::<Vec<_>>(), [[0, 36]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_a_tool_lets_the_second_model_take_over() {
    let small = Stub::start(|_, request| says(request, "s", &[("call-1", "look", "{}")]));
    let large = saying("l");
    let router = Listed::new(&[("small", Some("large"))]);
    let bench = bench(routed(&router, &[("large", &large), ("small", &small)])).await;
    assert_eq!(told(&ask(&bench, &[user("look")]).await), expected("s", "main small"));
    let call = json!({"id": "call-1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let called = json!({"role": "assistant", "content": "s", "tool_calls": [call]});
    let failed = json!({"role": "tool", "tool_call_id": "call-1", "content": "error: none"});
    assert_eq!(told(&ask(&bench, &[user("look"), called, failed]).await), expected("l", "main large"));
    assert_eq!((small.requests().len(), router.asked().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_alone_and_fails_is_an_outcome_and_is_not_replaced() {
    let (small, large) = (failing(), saying("l"));
    let router = Listed::new(&[("small", None), ("large", None)]);
    let mut bench = bench(routed(&router, &[("large", &large), ("small", &small)])).await;
    assert_eq!((ask(&bench, &[user("one")]).await.status, large.requests().len()), (503, 0));
    // What a client asks for in vain is no failure of the model.
    let wrong = Stub::start(|_, _| Reply::Http(400, vec![], "{}".into()));
    bench.set_models(routed(&router, &[("large", &wrong), ("small", &small)]));
    assert_eq!(ask(&bench, &[user("two")]).await.status, 400);
    bench.episodes().await;
    let outcomes: Vec<_> = decisions(&bench).iter().map(|one| (one.outcome, one.tokens)).collect();
    assert_eq!(outcomes, [(RoutedOutcome::Failed, [0, 0]), (RoutedOutcome::Unknown, [0, 0])]);
    let due = bench.reader().due_routed("main", NOON_MS, 0, 100).unwrap();
    assert_eq!(due.len(), 2, "the cost of both can be counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_keeps_each_decision_once() {
    let small = saying("s");
    let router = Listed::new(&[("small", None); 8]);
    let models = || routed(&router, &[("small", &small)]);
    let mut bench = bench(models()).await;
    for round in 0..4 {
        assert_eq!(ask(&bench, &[user(&format!("session {round}"))]).await.status, 200);
        bench.kill();
        bench.start(models(), Default::default(), |_| {}).await;
    }
    bench.episodes().await;
    let stored = decisions(&bench);
    let numbers: Vec<u64> = stored
        .iter()
        .map(|one| serde_json::from_str::<Value>(&one.decision).unwrap()["number"].as_u64().unwrap())
        .collect();
    assert_eq!((numbers, router.asked().len()), (vec![1, 2, 3, 4], 4));
    assert!(stored.iter().all(|one| one.tokens == [12, 0]), "{stored:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn traffic_outside_of_the_record_or_of_learning_leaves_no_decision() {
    for (record, session) in [(RecordPolicy::Off, false), (RecordPolicy::NoTrain, true)] {
        let small = saying("s");
        let router = Listed::new(&[("small", None); 2]);
        let mut bench = Bench::with(routed(&router, &[("small", &small)]), |config| config.record = record).await;
        let answer = ask(&bench, &[user("one")]).await;
        assert_eq!(told(&answer), expected("s", "main small"), "{record:?}");
        bench.episodes().await;
        assert_eq!((router.asked()[0].is_some(), decisions(&bench).len()), (session, 0), "{record:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_model_has_left_the_table_gets_another() {
    let (small, large) = (saying("s"), saying("l"));
    let router = Listed::new(&[("small", Some("large")), ("large", None)]);
    let mut bench = bench(routed(&router, &[("large", &large), ("small", &small)])).await;
    assert_eq!(told(&ask(&bench, &[user("one")]).await), expected("s", "main small"));
    bench.set_models(routed(&router, &[("large", &large)]));
    let history = [user("one"), assistant("s"), user("two")];
    assert_eq!(told(&ask(&bench, &history).await), expected("l", "main large"));
    bench.episodes().await;
    let stored = decisions(&bench);
    assert_eq!((stored.len(), router.asked().len()), (1, 2));
    assert!(stored[0].decision.contains("\"number\":1"), "the decision about the session stays the first");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_choice_the_models_are_asked_in_their_order() {
    let (first, second) = (failing(), saying("second"));
    let router = Listed::new(&[]);
    let mut bench = bench(routed(&router, &[("a", &first), ("b", &second)])).await;
    let answer = ask(&bench, &[user("one")]).await;
    assert_eq!(told(&answer), expected("second", ""));
    bench.episodes().await;
    assert!(decisions(&bench).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_and_tokens_of_a_router_are_refused() {
    let small = saying("s");
    let router = Listed::new(&[]);
    let bench = bench(routed(&router, &[("small", &small)])).await;
    let check = async |path: &str, body: Value| {
        let answer = post(&bench.address, path, &[], &body).await;
        assert!(answer.status == 400 && answer.body.contains("has no API for"), "{path}: {answer:?}");
    };
    check("/v1/embeddings", json!({"model": "m", "input": "a"})).await;
    check("/generate", json!({"model": "m", "prompt_ids": [1], "sampling_params": {}})).await;
    let counted = json!({"model": "m", "messages": [user("hi")]});
    assert_eq!(post(&bench.address, "/v1/messages/count_tokens", &[], &counted).await.status, 200);
    assert!(small.requests().is_empty() && router.asked().is_empty());
}
