//! Feedback about live sessions: who may give it, about what, when it counts, and what is refused.

use crate::client::{Answer, assistant, post, request, user};
use crate::stub::{Received, Stub, says};
use crate::{ADMIN, Bench, served};
use clawhost_core::{Digest, Episode, Verdict};
use clawhost_gateway::{ClientKey, ClientKeys};
use clawhost_providers::Dialect;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const FEEDBACK: &str = "/v1/feedback";

/// An endpoint whose answers have ids of their own.
fn model() -> Stub {
    Stub::start(|number, request: &Received| {
        let crate::stub::Reply::Http(status, headers, body) = says(request, "ok", &[]) else { panic!("an answer") };
        let mut body: Value = serde_json::from_str(&body).unwrap();
        body["id"] = format!("chatcmpl-{number}").into();
        crate::stub::Reply::Http(status, headers, body.to_string())
    })
}

async fn bench(stub: &Stub, keys: &[&str]) -> Bench {
    let key = |name: &&str| ClientKey::new(*name, Digest::of(format!("ch-{name}").as_bytes()), 0);
    let keys = ClientKeys::new(keys.iter().map(key).collect());
    Bench::keyed(vec![served(Dialect::OpenAi, &stub.base_url())], keys, "127.0.0.1:0").await
}

/// Asks, and returns the id of the answer.
async fn ask(bench: &Bench, headers: &[(&'static str, &'static str)], messages: &[Value]) -> String {
    let body = json!({"model": "m", "max_tokens": 9, "messages": messages});
    let answer = post(&bench.address, CHAT, headers, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["id"].as_str().unwrap().to_owned()
}

async fn give(bench: &Bench, headers: &[(&'static str, &'static str)], body: Value) -> Answer {
    post(&bench.address, FEEDBACK, headers, &body).await
}

async fn end(bench: &Bench, headers: &[(&'static str, &'static str)], session: &str) {
    assert_eq!(post(&bench.address, &format!("/s/{session}/end"), headers, &json!({})).await.status, 200);
}

fn verdicts(episode: &Episode) -> Vec<(Vec<(String, String)>, Option<f64>)> {
    let value = |verdict: &Verdict| match verdict {
        Verdict::Scored(card) => Some(card.value),
        Verdict::NotApplicable(_) | Verdict::Failed(_) => None,
    };
    episode.verdicts.iter().map(|record| (record.options.clone(), value(&record.verdict))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn feedback_on_an_open_session_waits_for_its_episode_and_later_feedback_is_added_at_once() {
    let stub = model();
    let mut bench = bench(&stub, &[]).await;
    let session = [("x-clawhost-session", "s")];
    let first = ask(&bench, &session, &[user("one")]).await;
    let second = ask(&bench, &session, &[user("one"), assistant("ok"), user("two")]).await;
    let given = give(&bench, &[], json!({"response_id": second, "thumb": "down", "text": "wrong"})).await;
    assert_eq!(
        (given.status, given.json()["state"].as_str(), given.json()["turn"].as_u64()),
        (200, Some("waits"), Some(1))
    );
    let given = give(&bench, &[], json!({"response_id": first, "score": 0.5, "key": "k"})).await;
    assert_eq!(given.json()["state"], "waits");
    let given = give(&bench, &[], json!({"response_id": first, "score": 0.5, "key": "k"})).await;
    assert_eq!(given.json()["state"], "unchanged", "a repeated request changes nothing");
    assert_eq!(give(&bench, &[], json!({"response_id": first, "score": 0.6, "key": "k"})).await.status, 409);
    end(&bench, &[], "s").await;
    // By the name of the session, which has ended by now or will have when this is answered.
    let given = give(&bench, &[("idempotency-key", "k2")], json!({"session": "s", "score": 1})).await;
    assert_eq!(given.status, 200, "{given:?}");
    let [episode] = bench.episodes().await.try_into().unwrap();
    let at = |turn: &str| vec![("turn".to_owned(), turn.to_owned())];
    let mut found = verdicts(&episode);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(found, [(vec![], Some(1.0)), (at("0"), Some(0.5)), (at("1"), Some(-1.0))]);
    assert_eq!(episode.reward, Some(0.5 / 3.0), "the mean of what a user said of its parts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_given_before_the_end_of_a_session_counts_after_it() {
    let stub = model();
    let mut bench = bench(&stub, &[]).await;
    let session = [("x-clawhost-session", "s")];
    let id = ask(&bench, &session, &[user("one")]).await;
    let given = give(&bench, &[], json!({"response_id": id, "score": 0.5, "key": "k"})).await;
    assert_eq!(given.json()["state"], "waits");
    let mut events = request("GET", &bench.address, "/v1/events", &[("x-api-key", ADMIN)], b"");
    events.read_until(": clawhost events\n\n");
    end(&bench, &[], "s").await;
    events.read_until("event: episode_made\n");
    let body = json!({"response_id": id, "score": 0.5});
    let again = give(&bench, &[("idempotency-key", "k")], body.clone()).await;
    assert_eq!((again.status, again.json()["state"].as_str()), (200, Some("unchanged")), "{again:?}");
    let other = give(&bench, &[], json!({"response_id": id, "score": 0.6, "key": "k"})).await;
    assert_eq!(other.status, 409, "{other:?}");
    assert!(other.body.contains("key: it belongs to other feedback"), "{other:?}");
    // By the name of the session it is about the whole, and not about the turn.
    assert_eq!(give(&bench, &[], json!({"session": "s", "score": 0.5, "key": "k"})).await.status, 409);
    // A key that is new after the end.
    let state = async |body: Value| {
        let given = give(&bench, &[], body).await;
        (given.status, given.json()["state"].as_str().map(str::to_owned))
    };
    let late = json!({"session": "s", "thumb": "down", "key": "late"});
    assert_eq!(state(late.clone()).await, (200, Some("added".to_owned())));
    assert_eq!(state(late).await, (200, Some("unchanged".to_owned())));
    assert_eq!(state(json!({"session": "s", "thumb": "up", "key": "late"})).await.0, 409);
    let [episode] = bench.episodes().await.try_into().unwrap();
    let mut found = verdicts(&episode);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(found, [(vec![], Some(-1.0)), (vec![("turn".to_owned(), "0".to_owned())], Some(0.5))], "each once");
    assert_eq!(episode.reward, Some(-0.25));
}

#[tokio::test(flavor = "multi_thread")]
async fn feedback_survives_a_process_that_dies() {
    let stub = model();
    let mut bench = bench(&stub, &[]).await;
    let id = ask(&bench, &[], &[user("one")]).await;
    assert_eq!(give(&bench, &[], json!({"response_id": id, "thumb": "up"})).await.status, 200);
    bench.kill();
    let [episode] = bench.episodes().await.try_into().unwrap();
    assert_eq!(episode.reward, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_contradiction_is_a_revision_and_counts_once() {
    let stub = model();
    let mut bench = bench(&stub, &[]).await;
    let id = ask(&bench, &[("x-clawhost-session", "s")], &[user("one")]).await;
    end(&bench, &[], "s").await;
    let reward = async |body: Value| {
        // The episode is recorded when the feedback is answered, or it waits for it.
        let given = give(&bench, &[], body).await;
        assert_eq!(given.status, 200, "{given:?}");
    };
    reward(json!({"response_id": id, "thumb": "up"})).await;
    reward(json!({"response_id": id, "thumb": "down"})).await;
    let [episode] = bench.episodes().await.try_into().unwrap();
    assert_eq!((episode.reward, episode.verdicts.len()), (Some(-1.0), 2), "nothing is overwritten");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_key_that_owns_the_session_and_the_admin_may_judge_it() {
    let stub = model();
    let mut bench = bench(&stub, &["a", "b"]).await;
    let (a, b) = ([("x-api-key", "ch-a")], [("x-api-key", "ch-b")]);
    let named = [("x-api-key", "ch-a"), ("x-clawhost-session", "s")];
    let id = ask(&bench, &named, &[user("one")]).await;
    let status = async |headers: &[(&'static str, &'static str)], body: Value| give(&bench, headers, body).await.status;
    assert_eq!(status(&b, json!({"response_id": id, "score": 1})).await, 403);
    assert_eq!(status(&b, json!({"session": "s", "score": 1})).await, 403);
    assert_eq!(status(&[], json!({"response_id": id, "score": 1})).await, 403);
    assert_eq!(status(&[("x-api-key", "ch-unknown")], json!({"response_id": id, "score": 1})).await, 401);
    assert_eq!(status(&a, json!({"response_id": "chatcmpl-none", "score": 1})).await, 404);
    assert_eq!(status(&a, json!({"session": "none", "score": 1})).await, 404);
    assert_eq!(status(&a, json!({"response_id": id, "score": 0.5})).await, 200);
    assert_eq!(status(&[("x-api-key", ADMIN)], json!({"session": "s", "score": 1})).await, 200);
    let [episode] = bench.episodes().await.try_into().unwrap();
    assert_eq!(episode.reward, Some(0.75));
}

#[tokio::test(flavor = "multi_thread")]
async fn feedback_about_a_session_reaches_its_own_user() {
    let stub = model();
    let mut bench = bench(&stub, &[]).await;
    let (ada, bob) = ([("x-clawhost-user", "ada")], [("x-clawhost-user", "bob")]);
    let in_session = |user: &'static str| [("x-clawhost-user", user), ("x-clawhost-session", "chat")];
    let of_ada = ask(&bench, &in_session("ada"), &[user("one")]).await;
    ask(&bench, &in_session("bob"), &[user("one")]).await;
    let status = async |headers: &[(&'static str, &'static str)], body: Value| give(&bench, headers, body).await.status;
    assert_eq!(status(&[], json!({"session": "chat", "score": 1})).await, 409, "two users have it");
    assert_eq!(status(&bob, json!({"response_id": of_ada, "score": 1})).await, 403, "it is not Bob's answer");
    assert_eq!(status(&ada, json!({"session": "chat", "score": 1})).await, 200);
    assert_eq!(status(&bob, json!({"session": "chat", "score": -1})).await, 200);
    // A client that names no user ends the session of all of them.
    end(&bench, &[], "chat").await;
    let rewards: Vec<Option<f64>> = bench.episodes().await.iter().map(|episode| episode.reward).collect();
    assert_eq!(rewards, [Some(1.0), Some(-1.0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_feedback_is_refused_with_the_reason() {
    let stub = model();
    let bench = bench(&stub, &[]).await;
    let id = ask(&bench, &[], &[user("one")]).await;
    let check = async |body: Value, status: u16, part: &str| {
        let answer = give(&bench, &[], body.clone()).await;
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert!(answer.body.contains(part), "{body}: {answer:?}");
    };
    check(json!({"response_id": id, "score": 2}), 422, "from -1 to 1").await;
    check(json!({"response_id": id}), 422, "a score, a thumb or a correction").await;
    check(json!({"score": 1}), 422, "either response_id or session").await;
    check(json!({"response_id": id, "session": "s", "score": 1}), 422, "either").await;
    check(json!({"response_id": id, "thumb": "up", "score": -1}), 422, "contradict").await;
    check(json!({"response_id": id, "score": 1, "text": "x".repeat(1 << 20)}), 413, "at most").await;
    check(json!({"response_id": id, "score": 1, "key": ""}), 422, "key").await;
    check(json!({"response_id": id, "score": 1, "rating": 1}), 422, "unknown field").await;
    // A gateway without memory records the correction all the same.
    let answer = give(&bench, &[], json!({"response_id": id, "correction": "use metres"})).await;
    assert_eq!((answer.status, answer.json()["memory"]["remembered"].as_bool()), (200, Some(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_correction_is_part_of_the_verdict_and_alone_changes_no_reward() {
    let stub = model();
    let mut bench = bench(&stub, &[]).await;
    let id = ask(&bench, &[], &[user("one")]).await;
    give(&bench, &[], json!({"response_id": id, "thumb": "down", "correction": "use metres"})).await;
    give(&bench, &[], json!({"response_id": id, "correction": "and round"})).await;
    let [episode] = bench.episodes().await.try_into().unwrap();
    assert_eq!(episode.reward, Some(-1.0));
    let said = serde_json::to_string(&episode.verdicts).unwrap();
    assert!(said.contains("use metres") && said.contains("and round"), "{said}");
}
