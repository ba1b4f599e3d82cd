//! `/v1/events`: what happens in a gateway, as an event stream.

use crate::client::{Sent, chat, post, request, user};
use crate::stub::{Reply, Stub, says};
use crate::{ADMIN, Bench, served};
use clawhost_core::{Digest, KnownSecrets, Secret};
use clawhost_gateway::{ClientKey, ClientKeys, ServedModel};
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};

const CHAT: &str = "/v1/chat/completions";

fn model() -> Stub {
    Stub::start(|_, request| says(request, "ok", &[]))
}

fn key(name: &str) -> ClientKey {
    ClientKey::new(name, Digest::of(format!("ch-{name}").as_bytes()), 0)
}

/// A reader of events with a key, whose head has come.
fn read(bench: &Bench, key: &str, last: Option<&str>) -> Sent {
    let mut headers = vec![("x-api-key", key)];
    headers.extend(last.map(|last| ("last-event-id", last)));
    let mut reader = request("GET", &bench.address, "/v1/events", &headers, b"");
    let head = reader.read_until(": clawhost events\n\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
    reader
}

/// The status of a reader that is refused.
fn refused(bench: &Bench, headers: &[(&str, &str)]) -> u16 {
    request("GET", &bench.address, "/v1/events", headers, b"").answer().status
}

/// The data and ids of the events of a text.
fn events(text: &str) -> Vec<(String, Value)> {
    let field = |block: &str, name: &str| block.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
    let blocks = text.split("\n\n").filter_map(|block| Some((field(block, "id: ")?, field(block, "data: ")?)));
    blocks.map(|(id, data)| (id, serde_json::from_str(&data).unwrap())).collect()
}

fn kinds(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(_, data)| data["type"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_told_from_its_opening_to_its_episode_and_taken_up_by_the_last_id() {
    let stub = model();
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let mut reader = read(&bench, ADMIN, None);
    post(&bench.address, CHAT, &[("x-session-id", "job")], &chat(&[user("a secret")])).await;
    post(&bench.address, "/s/job/end", &[], &json!({})).await;
    let mut text = reader.read_until("event: episode_made\n");
    text.push_str(&reader.read_until("\n\n"));
    assert!(!text.contains("a secret"), "{text}");
    let seen = events(&text);
    let all = ["session_opened", "exchange_recorded", "session_ended", "episode_made"];
    assert_eq!(kinds(&seen), all);
    let exchange = &seen[1].1;
    assert_eq!(
        (&exchange["session"], &exchange["alias"], &exchange["position"], &exchange["is_complete"]),
        (&json!("job"), &json!("m"), &json!(0), &json!(true))
    );
    assert_eq!((&exchange["input_tokens"], &exchange["output_tokens"]), (&json!(10), &json!(2)));
    for (_, data) in &seen {
        assert_eq!((&data["run"], &data["episode"]), (&exchange["run"], &exchange["episode"]), "{data}");
    }
    let check = |last: &str, expect: &[&str]| {
        let text = read(&bench, ADMIN, Some(last)).read_until("event: episode_made\n");
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
        assert_eq!(names, expect, "{last}");
    };
    check(&seen[1].0, &all[2..]);
    check("0000000000000000-7", &all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_sees_its_own_events_alone_and_ends_with_its_removal() {
    let stub = model();
    let keys = || ClientKeys::new(vec![key("a"), key("b")]);
    let bench = Bench::keyed(vec![served(Dialect::OpenAi, &stub.base_url())], keys(), "127.0.0.1:0").await;
    assert_eq!(refused(&bench, &[]), 401, "without a key there is nothing to see");
    assert_eq!(refused(&bench, &[("x-api-key", "ch-c")]), 401);
    assert_eq!(refused(&bench, &[("x-api-key", ADMIN), ("origin", "https://evil.example")]), 403);
    let mut reader = read(&bench, "ch-b", None);
    for key in ["ch-a", "ch-b"] {
        post(&bench.address, CHAT, &[("x-api-key", key)], &chat(&[user("hi")])).await;
    }
    let mut text = reader.read_until("event: exchange_recorded\n");
    text.push_str(&reader.read_until("\n\n"));
    let seen = events(&text);
    assert_eq!(kinds(&seen), ["session_opened", "exchange_recorded"]);
    assert!(seen.iter().all(|(_, data)| data["agent"] == "b"), "{seen:?}");
    bench.set_keys(ClientKeys::new(vec![key("a")]));
    post(&bench.address, CHAT, &[("x-api-key", "ch-a")], &chat(&[user("more")])).await;
    assert!(events(&reader.rest()).is_empty(), "the stream ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_that_rest_and_refused_keys_are_told_to_the_admin() {
    let down = Stub::start(|number, request| match number {
        0..5 => Reply::Http(503, vec![], "{}".into()),
        _ => says(request, "ok", &[]),
    });
    let models = vec![served(Dialect::OpenAi, &down.base_url())];
    let bench = Bench::keyed(models, ClientKeys::new(vec![key("a")]), "127.0.0.1:0").await;
    let mut reader = read(&bench, ADMIN, None);
    post(&bench.address, CHAT, &[("x-api-key", "ch-wrong")], &chat(&[user("hi")])).await;
    for _ in 0..6 {
        post(&bench.address, CHAT, &[], &chat(&[user("hi")])).await;
    }
    let mut text = reader.read_until("event: model_up\n");
    text.push_str(&reader.read_until("\n\n"));
    let seen = events(&text);
    let of = |kind: &str| seen.iter().find(|(_, data)| data["type"] == kind).unwrap().1.clone();
    assert_eq!(of("key_refused")["path"], CHAT);
    assert_eq!((&of("model_down")["model"], &of("model_up")["model"]), (&json!("stub-model"), &json!("stub-model")));
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_models_and_changed_training_are_told_to_the_admin_alone() {
    let stub = model();
    let models = || vec![served(Dialect::OpenAi, &stub.base_url())];
    let bench = Bench::keyed(models(), ClientKeys::new(vec![key("a")]), "127.0.0.1:0").await;
    let (mut admins, mut clients) = (read(&bench, ADMIN, None), read(&bench, "ch-a", None));
    bench.set_models(models());
    bench.training_changed("m");
    post(&bench.address, CHAT, &[("x-api-key", "ch-a")], &chat(&[user("hi")])).await;
    let seen = |reader: &mut Sent| {
        let text = reader.read_until("event: exchange_recorded\n") + &reader.read_until("\n\n");
        events(&text)
    };
    let of_admin = seen(&mut admins);
    assert_eq!(kinds(&of_admin), ["models_changed", "training_changed", "session_opened", "exchange_recorded"]);
    assert_eq!(of_admin[1].1["alias"], "m");
    assert_eq!(kinds(&seen(&mut clients)), ["session_opened", "exchange_recorded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_falls_behind_learns_what_it_lost_and_is_sent_away() {
    let stub = model();
    let models: Vec<ServedModel> = vec![served(Dialect::OpenAi, &stub.base_url())];
    let bench = Bench::keyed(models, ClientKeys::new(vec![key("a")]), "127.0.0.1:0").await;
    let mut first = read(&bench, ADMIN, None);
    let refused = format!("GET /v1/models HTTP/1.1\r\nhost: {}\r\nx-api-key: ch-wrong\r\n\r\n", bench.address);
    // More than are kept, over one connection.
    let count = 4_100;
    let mut stream = std::net::TcpStream::connect(&bench.address).unwrap();
    let mut writing = stream.try_clone().unwrap();
    let all = refused.repeat(count);
    let writer = std::thread::spawn(move || writing.write_all(all.as_bytes()).unwrap());
    let (mut answers, mut read_so_far) = (0, Vec::new());
    while answers < count {
        let mut bytes = [0; 65536];
        let length = stream.read(&mut bytes).unwrap();
        assert!(length > 0, "{answers} answers");
        read_so_far.extend_from_slice(&bytes[..length]);
        answers = String::from_utf8_lossy(&read_so_far).matches("HTTP/1.1 401").count();
    }
    writer.join().unwrap();
    let id =
        first.read_until("event: key_refused\n").lines().find_map(|line| line.strip_prefix("id: ").map(str::to_owned));
    let start = id.unwrap().rsplit_once('-').unwrap().0.to_owned();
    let text = read(&bench, ADMIN, Some(&format!("{start}-0"))).rest();
    assert!(text.contains("event: lost\ndata: {\"type\":\"lost\",\"events\":3}"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_are_bounded_and_hold_no_stop_up() {
    let stub = model();
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let mut readers: Vec<Sent> = (0..256).map(|_| read(&bench, ADMIN, None)).collect();
    let answer = request("GET", &bench.address, "/v1/events", &[("x-api-key", ADMIN)], b"").answer();
    assert_eq!((answer.status, answer.header("retry-after")), (429, "5"), "{answer:?}");
    post(&bench.address, CHAT, &[], &chat(&[user("hi")])).await;
    readers.iter_mut().for_each(|reader| drop(reader.read_until("event: exchange_recorded\n")));
    bench.stop().await;
    for reader in readers {
        reader.rest();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_this_process_are_in_no_event() {
    let stub = model();
    let secrets = KnownSecrets::default();
    secrets.add(&Secret::new("sk-of-the-upstream").unwrap());
    let bench = Bench::with_secrets(vec![served(Dialect::OpenAi, &stub.base_url())], secrets, |_| {}).await;
    let mut reader = read(&bench, ADMIN, None);
    post(&bench.address, CHAT, &[("x-session-id", "job-sk-of-the-upstream")], &chat(&[user("hi")])).await;
    let text = reader.read_until("event: exchange_recorded\n") + &reader.read_until("\n\n");
    assert!(text.contains("job-") && !text.contains("sk-of-the-upstream"), "{text}");
}
