//! The data pool over HTTP: agents submit trajectories or are captured, trainers fetch, acknowledge and publish.

use crate::client::{Answer, post, request, user};
use crate::stub::{Stub, says};
use crate::{ADMIN, Bench, served};
use clawhost_core::Digest;
use clawhost_gateway::{ClientKey, ClientKeys};
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::time::Duration;

fn saying() -> Stub {
    Stub::start(|number, request| says(request, &format!("answer {number}"), &[]))
}

async fn bench(stub: &Stub) -> Bench {
    Bench::new(Dialect::OpenAi, &stub.base_url()).await
}

const AS_ADMIN: (&str, &str) = ("authorization", "Bearer ch-admin-test");

async fn sends(bench: &Bench, method: &'static str, path: &str, as_admin: bool, body: Option<&Value>) -> Answer {
    let (address, path) = (bench.address.clone(), path.to_owned());
    let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
    let headers: Vec<(&str, &str)> = if as_admin { vec![AS_ADMIN] } else { Vec::new() };
    let asked = move || request(method, &address, &path, &headers, &body).answer();
    tokio::task::spawn_blocking(asked).await.unwrap()
}

/// A request that succeeds.
async fn ok(bench: &Bench, method: &'static str, path: &str, as_admin: bool, body: Value) -> Value {
    let answer = sends(bench, method, path, as_admin, Some(&body)).await;
    assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
    answer.json()
}

async fn agent(bench: &Bench, path: &str, body: Value) -> Value {
    ok(bench, "POST", path, false, body).await
}

async fn trainer(bench: &Bench, path: &str, body: Value) -> Value {
    ok(bench, "POST", path, true, body).await
}

async fn read(bench: &Bench, path: &str) -> Value {
    let answer = sends(bench, "GET", path, true, None).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

/// Registers a trajectory, submits a step with these tokens, and ends it.
async fn submitted(bench: &Bench, id: &str, group: &str, reward: f64) {
    agent(bench, "/v1/trajectories", json!({"id": id, "group": group})).await;
    let step = json!({"prompt_ids": [1, 2], "response_ids": [3], "log_probs": [-0.5]});
    agent(bench, &format!("/v1/trajectories/{id}/steps"), json!({"steps": [step]})).await;
    agent(bench, &format!("/v1/trajectories/{id}/complete"), json!({"reward": reward})).await;
}

/// The groups of a fetch with the ids of their members.
fn groups(fetched: &Value) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let members =
        |group: &Value| group["trajectories"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect();
    fetched["groups"].as_array().unwrap().iter().map(|group| (text(&group["group"]), members(group))).collect()
}

fn named(groups: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let own = |text: &&str| (*text).to_owned();
    groups.iter().map(|(group, members)| (own(group), members.iter().map(own).collect())).collect()
}

async fn chats(bench: &Bench, path: &str, messages: &[Value]) -> String {
    let body = json!({"model": "m", "messages": messages});
    let answer = post(&bench.address, &format!("{path}/chat/completions"), &[], &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn submitted_trajectories_are_fetched_in_ready_groups_acknowledged_once_and_survive_restarts() {
    let stub = saying();
    let mut bench = bench(&stub).await;
    agent(&bench, "/v1/trajectories", json!({"id": "slow", "group": "a"})).await;
    submitted(&bench, "a1", "a", 1.0).await;
    submitted(&bench, "b1", "b", 0.0).await;
    submitted(&bench, "b2", "b", 1.0).await;
    bench.stop().await;
    bench.start(vec![served(Dialect::OpenAi, &stub.base_url())], Default::default(), |_| {}).await;

    let wanted = json!({"groups": 1, "members": 2});
    let preview = trainer(&bench, "/v1/pool/preview", wanted.clone()).await;
    assert_eq!((groups(&preview), &preview["batch"]), (named(&[("b", &["b1", "b2"])]), &Value::Null));
    let fetched = trainer(&bench, "/v1/pool/fetch", wanted.clone()).await;
    assert_eq!(groups(&fetched), named(&[("b", &["b1", "b2"])]), "the group behind an open one");
    let member = &fetched["groups"][0]["trajectories"][1];
    assert_eq!((&member["reward"], &member["state"]), (&json!(1.0), &json!("leased")), "{member}");
    let step =
        json!({"position": 0, "trainable": true, "prompt_ids": [1, 2], "response_ids": [3], "log_probs": [-0.5]});
    assert_eq!(member["steps"], json!([step]));

    assert_eq!(groups(&trainer(&bench, "/v1/pool/fetch", wanted.clone()).await), [], "it is held");
    let batch = format!("/v1/pool/batches/{}", fetched["batch"]);
    for _ in 0..2 {
        let acknowledged = trainer(&bench, &format!("{batch}/ack"), json!({})).await;
        assert_eq!(
            (&acknowledged["state"], &acknowledged["trajectories"]),
            (&json!("acknowledged"), &json!(["b1", "b2"]))
        );
    }
    let again = sends(&bench, "POST", &format!("{batch}/release"), true, Some(&json!({}))).await;
    assert_eq!(again.status, 409, "{again:?}");
    bench.clock.advance(Duration::from_secs(7200));
    let short = trainer(&bench, "/v1/pool/fetch", json!({"members": 2, "least_members": 1})).await;
    assert_eq!(
        (groups(&short), &short["groups"][0]["short"]),
        (named(&[("a", &["a1"])]), &json!(true)),
        "`slow` is dead"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_time_is_over_or_that_is_released_is_free_again() {
    let stub = saying();
    let bench = bench(&stub).await;
    submitted(&bench, "t1", "g", 1.0).await;
    let fetch = || trainer(&bench, "/v1/pool/fetch", json!({"lease_seconds": 60}));
    let first = fetch().await;
    bench.clock.advance(Duration::from_secs(30));
    let extend = format!("/v1/pool/batches/{}/extend", first["batch"]);
    assert_eq!(trainer(&bench, &extend, json!({"lease_seconds": 60})).await["state"], "leased");
    bench.clock.advance(Duration::from_secs(45));
    assert_eq!(groups(&fetch().await), [], "it was extended");
    bench.clock.advance(Duration::from_secs(20));
    let second = fetch().await;
    assert_eq!(groups(&second), named(&[("g", &["t1"])]));
    let late = sends(&bench, "POST", &format!("/v1/pool/batches/{}/ack", first["batch"]), true, None).await;
    assert_eq!((late.status, late.body.contains("expired")), (409, true), "{late:?}");
    trainer(&bench, &format!("/v1/pool/batches/{}/release", second["batch"]), json!({})).await;
    assert_eq!(groups(&fetch().await), named(&[("g", &["t1"])]));
    let listed = read(&bench, "/v1/pool/batches").await;
    let states: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["leased", "released", "expired"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_waits_for_a_group_and_takes_fewer_only_if_it_may() {
    let stub = saying();
    let bench = bench(&stub).await;
    submitted(&bench, "t1", "g1", 1.0).await;
    let two = json!({"groups": 2, "wait_ms": 20_000});
    let (fetched, ()) = tokio::join!(trainer(&bench, "/v1/pool/fetch", two), submitted(&bench, "t2", "g2", 0.0));
    assert_eq!(groups(&fetched), named(&[("g1", &["t1"]), ("g2", &["t2"])]));
    submitted(&bench, "t3", "g3", 0.0).await;
    let too_few = trainer(&bench, "/v1/pool/fetch", json!({"groups": 2})).await;
    assert_eq!((groups(&too_few), &too_few["batch"], &too_few["ready"]), (vec![], &json!(null), &json!(1)));
    let partial = trainer(&bench, "/v1/pool/fetch", json!({"groups": 2, "partial": true})).await;
    assert_eq!(groups(&partial), named(&[("g3", &["t3"])]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_url_of_another_program_makes_no_trajectory() {
    let stub = saying();
    let bench = bench(&stub).await;
    let body = json!({"model": "m", "messages": [user("hi")]});
    for path in ["/api/openai/v1", "/openai/group/v1", "/V1/g/v1", "/s/g/v1/v1"] {
        let answer = post(&bench.address, &format!("{path}/chat/completions"), &[], &body).await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
    let answer = post(&bench.address, "/api/openai/v1/chat/completions", &[], &body).await;
    assert!(answer.body.contains("an OPENAI_BASE_URL is http://HOST:PORT/v1"), "{answer:?}");
    for id in ["s", "v1", "api"] {
        let body = json!({"id": id, "group": "g"});
        assert_eq!(sends(&bench, "POST", "/v1/trajectories", false, Some(&body)).await.status, 400, "{id}");
        let path = format!("/{id}/g/v1/register_trajectory");
        let registered = sends(&bench, "POST", &path, false, Some(&json!({}))).await.status;
        assert!([400, 404].contains(&registered), "{path}: {registered}");
    }
    assert_eq!(read(&bench, "/v1/trajectories").await["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_curated_out_or_too_old_is_not_fetched() {
    let stub = saying();
    let bench = bench(&stub).await;
    for id in ["bad", "steps", "old", "new"] {
        agent(&bench, "/v1/trajectories", json!({"id": id})).await;
        let version = if id == "old" { 3 } else { 9 };
        let steps = json!([{"response_ids": [1]}, {"response_ids": [2, 3], "policy_versions": [version, 9]}]);
        agent(&bench, &format!("/v1/trajectories/{id}/steps"), json!({"steps": steps, "policy_version": 9})).await;
        agent(&bench, &format!("/v1/trajectories/{id}/complete"), json!({})).await;
    }
    let curate = |id: &'static str, body: Value| {
        let (bench, path) = (&bench, format!("/v1/trajectories/{id}"));
        async move { ok(bench, "PATCH", &path, true, body).await }
    };
    let bad = curate("bad", json!({"trainable": false, "quality": "low", "tags": ["x"], "note": "copied"})).await;
    assert_eq!((&bad["trainable"], &bad["quality"], &bad["tags"]), (&json!(false), &json!("low"), &json!(["x"])));
    curate("steps", json!({"steps": [{"position": 0, "trainable": false}]})).await;
    trainer(&bench, "/v1/pool/policy", json!({"version": 10})).await;

    let wanted = json!({"groups": 9, "partial": true, "max_staleness": 2});
    let fetched = trainer(&bench, "/v1/pool/fetch", wanted).await;
    assert_eq!(groups(&fetched), named(&[("steps", &["steps"]), ("new", &["new"])]));
    assert_eq!((&fetched["stale"], &fetched["policy_version"]), (&json!(1), &json!(10)));
    let left = &fetched["groups"][0]["trajectories"][0];
    assert_eq!((left["steps"].as_array().unwrap().len(), &left["steps_left_out"]), (1, &json!(1)));
    assert_eq!(left["steps"][0]["position"], 1);
    let old = trainer(&bench, "/v1/pool/fetch", json!({"groups": 9, "partial": true})).await;
    assert_eq!(groups(&old), named(&[("old", &["old"])]));
    let stats = read(&bench, "/v1/pool/stats").await;
    assert_eq!(stats["channels"][0]["untrainable"], 1, "{stats}");
    assert_eq!(read(&bench, "/v1/trajectories?quality=low").await["data"][0]["note"], "copied");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_captured_conversation_becomes_a_trajectory_with_its_steps_and_versions() {
    let stub = saying();
    let mut bench = bench(&stub).await;
    let init = agent(&bench, "/init_trajectory", json!({})).await;
    let other = agent(&bench, "/init_trajectory", json!({})).await;
    let id = init["trajectory_uid"].as_str().unwrap().to_owned();
    assert_ne!(init["prompt_uid"], other["prompt_uid"], "two sessions are no group");
    assert_eq!(init["base_url"], format!("http://{}/{id}/{id}/v1", bench.address));
    let base = format!("/{id}/task-7/v1");
    let registered = json!({"channel": "val", "metadata": {"task": 7}});
    agent(&bench, &format!("{base}/register_trajectory"), registered).await;
    let first = chats(&bench, &base, &[user("one")]).await;
    trainer(&bench, "/v1/pool/policy", json!({"version": 4})).await;
    let history = [user("one"), json!({"role": "assistant", "content": first}), user("two")];
    assert_eq!(chats(&bench, &base, &history).await, "answer 1");
    let ended = agent(&bench, &format!("{base}/complete_trajectory"), json!({"reward": 0.5, "channel": "train"})).await;
    assert_eq!(ended, json!({"status": "ok", "step_count": 2}));

    assert_eq!(groups(&trainer(&bench, "/v1/pool/fetch", json!({})).await), [], "it was registered for `val`");
    let fetched = trainer(&bench, "/v1/pool/fetch", json!({"channel": "val"})).await;
    assert_eq!(groups(&fetched), [("task-7".to_owned(), vec![id.clone()])]);
    let found = &fetched["groups"][0]["trajectories"][0];
    assert_eq!((&found["reward"], &found["metadata"]), (&json!(0.5), &json!({"task": 7})));
    let said: Vec<String> = found["steps"].as_array().unwrap().iter().map(|step| step.to_string()).collect();
    assert!(said[0].contains("one") && said[0].contains("answer 0") && !said[0].contains("policy_version"), "{said:?}");
    assert!(said[1].contains("two") && !said[1].contains("one") && said[1].contains("answer 1"), "{said:?}");
    assert_eq!(found["steps"][1]["policy_version"], 4);
    assert_eq!(found["policy_version"], 4);
    let episodes = bench.episodes().await;
    assert_eq!((episodes.len(), episodes[0].turns.len()), (1, 2), "one episode as well");
}

#[tokio::test(flavor = "multi_thread")]
async fn submitted_steps_are_not_mixed_with_captured_ones() {
    let stub = saying();
    let bench = bench(&stub).await;
    chats(&bench, "/t/g/v1", &[user("hi")]).await;
    read(&bench, "/v1/trajectories").await;
    let refused =
        post(&bench.address, "/v1/trajectories/t/steps", &[], &json!({"steps": [{"response_ids": [1]}]})).await;
    assert_eq!(
        (refused.status, refused.body.contains("are captured from its conversation")),
        (409, true),
        "{refused:?}"
    );
    submitted(&bench, "u", "g", 1.0).await;
    chats(&bench, "/u/g/v1", &[user("hi")]).await;
    let found = read(&bench, "/v1/trajectories/u").await;
    assert_eq!((&found["step_count"], &found["episode"]), (&json!(1), &Value::Null), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_of_claw_r1_are_taken_all_or_none() {
    let stub = saying();
    let bench = bench(&stub).await;
    let step = |trajectory: &str, is_last: bool| {
        json!({
            "prompt_ids": [1], "response_ids": [2], "rollout_log_probs": [-1.0], "reward": 1.0, "policy_version": 2,
            "trajectory_uid": trajectory, "prompt_uid": "p", "is_last": is_last, "metadata": {"a": 1},
        })
    };
    let steps = json!({"steps": [step("x", false), step("x", true), step("y", true)]});
    assert_eq!(agent(&bench, "/submit_steps?channel=val", steps).await, json!({"accepted": 3}));
    let fetched = trainer(&bench, "/v1/pool/fetch", json!({"channel": "val", "members": 2})).await;
    assert_eq!(groups(&fetched), named(&[("p", &["x", "y"])]));
    assert_eq!(fetched["groups"][0]["trajectories"][0]["step_count"], 2);
    let wrong =
        json!({"steps": [step("z", false), {"response_ids": [1, 2], "log_probs": [0.0], "trajectory_uid": "z"}]});
    let refused = post(&bench.address, "/submit_steps", &[], &wrong).await;
    assert_eq!((refused.status, refused.body.contains("steps[1].log_probs: 1 values for 2 tokens")), (422, true));
    let ended = json!({"steps": [step("w", false), step("x", false)]});
    let refused = post(&bench.address, "/submit_steps", &[], &ended).await;
    assert_eq!((refused.status, refused.body.contains("`x` has ended")), (409, true), "{refused:?}");
    assert_eq!(read(&bench, "/v1/trajectories?state=open").await["data"], json!([]), "nothing of it was stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unknown_impossible_or_contradictory_is_refused() {
    let stub = saying();
    let bench = bench(&stub).await;
    submitted(&bench, "t", "g", 1.0).await;
    let check = |method: &'static str, path: &'static str, body: &'static str, status: u16, says: &'static str| {
        let address = bench.address.clone();
        async move {
            let asked = move || request(method, &address, path, &[AS_ADMIN], body.as_bytes()).answer();
            let answer = tokio::task::spawn_blocking(asked).await.unwrap();
            assert_eq!(
                (answer.status, answer.body.contains(says)),
                (status, true),
                "{method} {path} {body}: {answer:?}"
            );
        }
    };
    check("POST", "/v1/trajectories/none/steps", r#"{"steps":[]}"#, 404, "there is no trajectory `none`").await;
    check("POST", "/none/g/v1/complete_trajectory", "", 404, "there is no trajectory `none`").await;
    check("GET", "/v1/trajectories/none", "", 404, "there is no trajectory `none`").await;
    check("POST", "/v1/trajectories/t/complete", r#"{"reward": NaN}"#, 422, "finite").await;
    check("POST", "/v1/trajectories/t/complete", r#"{"reward": 0.5}"#, 409, "another reward").await;
    check("POST", "/v1/trajectories/t/complete", r#"{"reward": 1.0}"#, 200, "complete").await;
    check("POST", "/v1/trajectories/t/complete", "{", 400, "EOF").await;
    check("POST", "/v1/trajectories/t/steps", r#"{"steps":[{"response_ids":[9]}]}"#, 409, "`t` has ended").await;
    check("POST", "/v1/trajectories", r#"{"id":"t","group":"h"}"#, 409, "belongs to the group `g`").await;
    check("POST", "/v1/trajectories", r#"{"id":"a\nb"}"#, 400, "id: must be one short line").await;
    check("POST", "/v1/trajectories", r#"{"id":"u","channel":"test"}"#, 422, "expected `train` or `val`").await;
    check("POST", "/v1/trajectories", r#"{"id":"u"}"#, 200, "open").await;
    check("POST", "/v1/trajectories/u/steps", r#"{"steps":[{"response_ids":[9],"position":1}]}"#, 409, "cannot follow")
        .await;
    check("POST", "/v1/trajectories/u/steps", r#"{"steps":[{"response_ids":[9],"position":0}]}"#, 200, "1").await;
    check("POST", "/v1/trajectories/u/steps", r#"{"steps":[{"response_ids":[9],"position":0}]}"#, 200, "1").await;
    check("POST", "/v1/trajectories/u/steps", r#"{"steps":[{"response_ids":[8],"position":0}]}"#, 409, "another step")
        .await;
    check("PATCH", "/v1/trajectories/u", r#"{"steps":[{"position":5,"trainable":true}]}"#, 404, "no step 5").await;
    check("POST", "/v1/pool/fetch", r#"{"groups":0}"#, 422, "groups: must be from 1").await;
    check("POST", "/v1/pool/batches/9/ack", "", 404, "no batch 9").await;
    check("POST", "/v1/pool/batches/x/ack", "", 404, "no such batch").await;
    check("POST", "/v1/pool/policy", r#"{"version":3}"#, 200, "3").await;
    check("POST", "/v1/pool/policy", r#"{"version":3}"#, 409, "does not follow 3").await;
    check("GET", "/v1/trajectories?limit=0", "", 400, "limit").await;
    check("GET", "/v1/trajectories?state=odd", "", 400, "state").await;
    check("GET", "/v1/pool/export?format=csv", "", 400, "jsonl or parquet").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trainers_need_a_key_and_see_their_own_trajectories() {
    let stub = saying();
    let key = |name: &str| ClientKey::new(name, Digest::of(format!("ch-{name}").as_bytes()), 0);
    let keys = ClientKeys::new(vec![key("a"), key("b")]);
    let bench = Bench::keyed(vec![served(Dialect::OpenAi, &stub.base_url())], keys, "127.0.0.1:0").await;
    let asks = |key: &'static str, method: &'static str, path: &'static str, body: &'static str| {
        let address = bench.address.clone();
        async move {
            let headers: Vec<(&str, &str)> = if key.is_empty() { vec![] } else { vec![("x-api-key", key)] };
            let asked = move || request(method, &address, path, &headers, body.as_bytes()).answer();
            tokio::task::spawn_blocking(asked).await.unwrap()
        }
    };
    for (key, id) in [("ch-a", r#"{"id":"t"}"#), ("ch-b", r#"{"id":"t"}"#), ("", r#"{"id":"t"}"#)] {
        assert_eq!(asks(key, "POST", "/v1/trajectories", id).await.status, 200, "{key}");
    }
    assert_eq!(asks("ch-a", "POST", "/v1/trajectories/t/complete", r#"{"reward":1}"#).await.status, 200);
    let ids = |answer: Answer| answer.json()["data"].as_array().map_or(0, Vec::len);
    for path in ["/v1/trajectories", "/v1/trajectories/t", "/v1/pool/export", "/v1/pool/stats", "/v1/pool/batches"] {
        assert_eq!(asks("", "GET", path, "").await.status, 401, "{path}");
        assert_eq!(asks("ch-wrong", "GET", path, "").await.status, 401, "{path}");
    }
    assert_eq!(ids(asks("ch-a", "GET", "/v1/trajectories", "").await), 1);
    assert_eq!(ids(asks("ch-a", "GET", "/v1/trajectories?owner=b", "").await), 1, "its own");
    assert_eq!(ids(asks(ADMIN, "GET", "/v1/trajectories", "").await), 3);
    assert_eq!(ids(asks(ADMIN, "GET", "/v1/trajectories?owner=b", "").await), 1);
    assert_eq!(asks("ch-b", "GET", "/v1/trajectories/t", "").await.json()["state"], "open");
    assert_eq!(asks(ADMIN, "GET", "/v1/trajectories/t?owner=a", "").await.json()["state"], "complete");
    assert_eq!(groups(&asks("ch-b", "POST", "/v1/pool/fetch", "{}").await.json()), []);
    let batch = asks("ch-a", "POST", "/v1/pool/fetch", "{}").await.json();
    assert_eq!(groups(&batch), named(&[("t", &["t"])]));
    assert_eq!(asks("ch-b", "POST", "/v1/pool/batches/1/ack", "").await.status, 404, "{batch}");
    assert_eq!(asks("ch-a", "POST", "/v1/pool/policy", r#"{"version":1}"#).await.status, 401, "the admin publishes");
    assert_eq!(asks("ch-a", "POST", "/v1/pool/batches/1/ack", r#"{"policy_version":1}"#).await.status, 401);
    assert_eq!(asks("ch-a", "POST", "/v1/pool/batches/1/ack", "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_exports_go_page_by_page() {
    let stub = saying();
    let bench = bench(&stub).await;
    for number in 0..5 {
        submitted(&bench, &format!("t{number}"), "g", f64::from(number)).await;
    }
    let (mut after, mut seen, mut lines) = (0, Vec::new(), Vec::new());
    loop {
        let page = read(&bench, &format!("/v1/trajectories?limit=2&after={after}")).await;
        let export = sends(&bench, "GET", &format!("/v1/pool/export?limit=2&after={after}"), true, None).await;
        seen.extend(page["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        lines.extend(export.body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        assert_eq!(
            export.header("x-clawhost-next"),
            page["next"].as_u64().map(|next| next.to_string()).unwrap_or_default()
        );
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, ["t0", "t1", "t2", "t3", "t4"]);
    let ids: Vec<&str> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, seen);
    assert_eq!(lines[3]["steps"][0]["response_ids"], json!([3]));
}
