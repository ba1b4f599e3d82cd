//! Clients and upstreams that would use the gateway up: each one is bounded, and the others are served.

use crate::client::{Answer, chat, post, raw, send, user};
use crate::stub::{Reply, Stub, events, says, stream};
use crate::{Bench, served};
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

fn asks(text: &str, streams: bool) -> Value {
    json!({"model": "m", "stream": streams, "max_tokens": 9, "messages": [user(text)]})
}

/// A stub that says `ok`, streamed if that is wanted.
fn ok() -> Stub {
    Stub::start(|_, request| match request.body["stream"] == true {
        true => stream(events(request, "ok", &[])),
        false => says(request, "ok", &[]),
    })
}

/// The only exchange of the only session.
async fn exchange(bench: &mut Bench) -> Value {
    bench.stop().await;
    let open = bench.open();
    assert_eq!(open.len(), 1);
    let mut documents = bench.reader().exchanges(&open[0].episode.run, &open[0].episode.id).unwrap();
    assert_eq!(documents.len(), 1);
    serde_json::from_str(&documents.remove(0)).unwrap()
}

/// Why the only exchange is incomplete.
async fn incomplete(bench: &mut Bench) -> String {
    let record = exchange(bench).await;
    let why = record.pointer("/answer/incomplete/why").or_else(|| record.pointer("/answer/failed/why"));
    why.and_then(Value::as_str).unwrap_or_else(|| panic!("{record}")).to_owned()
}

/// The message of the last event of a stream, or of an answer.
fn error(answer: &Answer) -> String {
    let text = answer.events().pop().unwrap_or_else(|| answer.body.clone());
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    let message = value.pointer("/error/message").or_else(|| value.pointer("/response/error/message"));
    message.and_then(Value::as_str).unwrap_or_else(|| panic!("no error: {answer:?}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_is_refused_unread() {
    let stub = ok();
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    // A gigabyte of zeros has such a beginning.
    let packed = [b"\x1f\x8b\x08\x00".as_slice(), &[0; 1000]].concat();
    for path in [CHAT, MESSAGES, RESPONSES] {
        for body in [packed.clone(), asks("hi", false).to_string().into_bytes()] {
            let answer = raw(&bench.address, path, &[("content-encoding", "gzip")], body).await;
            assert_eq!(answer.status, 400, "{answer:?}");
            assert!(error(&answer).contains("compressed bodies are not read"), "{answer:?}");
        }
    }
    let plain = raw(&bench.address, CHAT, &[("content-encoding", "identity")], asks("hi", false).to_string().into());
    assert_eq!(plain.await.status, 200);
    assert_eq!(stub.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_never_followed() {
    let other = ok();
    let other_url = other.base_url();
    for (dialect, status) in
        [(Dialect::OpenAi, 301), (Dialect::OpenAi, 307), (Dialect::Anthropic, 302), (Dialect::Anthropic, 308)]
    {
        let to = format!("{other_url}/chat/completions");
        let stub = Stub::start(move |_, _| Reply::Http(status, vec![("location", to.clone())], String::new()));
        let model =
            crate::served_with(dialect, &stub.base_url(), Some("sk-a-key-of-the-upstream"), &Default::default());
        let bench = Bench::with(vec![model], |_| {}).await;
        for path in [CHAT, MESSAGES] {
            let answer = post(&bench.address, path, &[], &asks("hi", false)).await;
            assert_eq!(answer.status, 502, "{dialect:?} {status} {path}: {answer:?}");
        }
        assert_eq!(stub.requests().len(), 2);
    }
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tool_calls_are_taken_whole_and_end_a_stream() {
    let ids: Vec<String> = (0..10_000).map(|at| format!("c{at}")).collect();
    let asked = ids.clone();
    let stub = Stub::start(move |_, request| {
        let calls: Vec<(&str, &str, &str)> = asked.iter().map(|id| (id.as_str(), "f", "{}")).collect();
        match request.body["stream"] == true {
            true => stream(events(request, "", &calls)),
            false => says(request, "", &calls),
        }
    });
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let whole = post(&bench.address, CHAT, &[], &asks("hi", false)).await;
    assert_eq!(whole.json()["choices"][0]["message"]["tool_calls"].as_array().map(Vec::len), Some(10_000));
    let record = exchange(&mut bench).await;
    let calls = record.pointer("/answer/complete/message/tool_calls").and_then(Value::as_array);
    assert_eq!(calls.map(Vec::len), Some(10_000));
    for (path, upstream) in [(CHAT, Dialect::OpenAi), (MESSAGES, Dialect::OpenAi), (CHAT, Dialect::Anthropic)] {
        let mut bench = Bench::new(upstream, &stub.base_url()).await;
        let streamed = post(&bench.address, path, &[], &asks("hi", true)).await;
        assert!(error(&streamed).contains("calls more than 1024 tools"), "{path} {upstream:?}: {}", error(&streamed));
        assert!(incomplete(&mut bench).await.contains("calls more than 1024 tools"));
    }
    let stub = ok();
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let call = |id: &String| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let mut history =
        vec![user("hi"), json!({"role": "assistant", "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})];
    history.extend(ids.iter().map(|id| json!({"role": "tool", "tool_call_id": id, "content": "done"})));
    assert_eq!(post(&bench.address, CHAT, &[], &chat(&history)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_utf8_reaches_the_client_and_the_record_can_be_read() {
    let text = "{\"id\":\"a\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\u{0}b\"},\"finish_reason\":\"stop\"}]}";
    let broken: Vec<u8> =
        text.replace('\u{0}', "?").bytes().map(|byte| if byte == b'?' { 0xff } else { byte }).collect();
    let stub = Stub::start(move |_, request| match request.body["stream"] == true {
        false => Reply::Bytes(broken.clone()),
        true => {
            let mut all: Vec<Vec<u8>> = events(request, "a?", &[]).into_iter().map(String::into_bytes).collect();
            all.iter_mut().flatten().filter(|byte| **byte == b'?').for_each(|byte| *byte = 0xff);
            Reply::Stream { fragments: Box::new(all.into_iter()), ends: true }
        }
    });
    for streams in [false, true] {
        let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
        let (address, body) = (bench.address.clone(), asks("hi", streams).to_string());
        let read = move || send(&address, CHAT, &[], body.as_bytes()).bytes();
        let bytes = tokio::task::spawn_blocking(read).await.unwrap();
        assert!(bytes.contains(&0xff), "the bytes are those of the upstream");
        let record = exchange(&mut bench).await;
        let said = record.pointer("/answer/complete/message/parts/0/text").and_then(Value::as_str);
        assert!(said.is_some_and(|said| said.starts_with('a') && said.contains('\u{fffd}')), "{record}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_nested_deeply_is_passed_on_and_recorded_as_unreadable() {
    let body = format!("{{\"choices\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let deep = body.clone();
    let stub = Stub::start(move |_, request| match request.body["stream"] == true {
        false => Reply::Http(200, vec![], deep.clone()),
        true => stream([format!("data: {deep}\n\n")]),
    });
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    assert_eq!(post(&bench.address, CHAT, &[], &asks("hi", false)).await.body, body);
    let why = incomplete(&mut bench).await;
    assert!(why.contains("the answer cannot be read"), "{why}");
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    assert!(post(&bench.address, CHAT, &[], &asks("hi", true)).await.body.contains(&body));
    let why = incomplete(&mut bench).await;
    assert!(why.contains("it begins with"), "{why}");
}

/// The pieces of an answer that never ends, each as soon as the one before it was taken. The sender is dropped with them.
fn endless(begun: Vec<String>, piece: Vec<u8>, over: Sender<()>) -> Reply {
    let kept = Arc::new(Mutex::new(over));
    let rest = std::iter::repeat_with(move || {
        let _ = &kept;
        piece.clone()
    });
    let fragments = begun.into_iter().map(String::into_bytes).chain(rest);
    Reply::Stream { fragments: Box::new(fragments), ends: true }
}

/// A stub whose answers never end, and a channel that gets a message when the gateway closes one.
fn never_ending(piece: &'static [u8]) -> (Stub, Receiver<()>) {
    let (over, ended) = channel();
    let over = Mutex::new(over);
    let stub = Stub::start(move |_, request| {
        let begun = events(request, "Hello", &[]).into_iter().take(3).collect();
        endless(begun, piece.to_vec(), over.lock().unwrap().clone())
    });
    (stub, ended)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_never_ends_is_cut_off() {
    for (path, upstream) in [
        (CHAT, Dialect::OpenAi),
        (MESSAGES, Dialect::OpenAi),
        (CHAT, Dialect::Anthropic),
        (RESPONSES, Dialect::Anthropic),
    ] {
        let (stub, _ended) = never_ending(b": ping\n\n");
        let mut bench = Bench::with(vec![served(upstream, &stub.base_url())], |config| {
            config.limits.answer_time = Duration::from_secs(1);
        })
        .await;
        let mut body = asks("hi", true);
        if path == RESPONSES {
            body = json!({"model": "m", "stream": true, "input": "hi"});
        }
        let answer = post(&bench.address, path, &[], &body).await;
        let case = format!("{path} {upstream:?}");
        assert!(error(&answer).contains("the answer took longer than 1 s"), "{case}: {}", error(&answer));
        assert!(incomplete(&mut bench).await.contains("longer than 1 s"), "{case}");
    }
}

/// An endpoint whose answers are JSON, byte by byte and for ever. Its pauses keep a core free; no test waits for one.
fn dripping() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let drip = |mut stream: TcpStream| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut sent = stream.read(&mut [0; 1000]).and_then(|_| stream.write_all(head));
        while sent.is_ok() {
            std::thread::sleep(Duration::from_millis(5));
            sent = stream.write_all(b"1\r\n \r\n");
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drip(stream));
        }
    });
    base_url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_answer_that_never_ends_is_cut_off() {
    for (path, upstream) in [(CHAT, Dialect::OpenAi), (CHAT, Dialect::Anthropic), (RESPONSES, Dialect::OpenAi)] {
        let mut bench = Bench::with(vec![served(upstream, &dripping())], |config| {
            config.limits.answer_time = Duration::from_secs(1);
        })
        .await;
        let body = if path == RESPONSES { json!({"model": "m", "input": "hi"}) } else { asks("hi", false) };
        let answer = post(&bench.address, path, &[], &body).await;
        let case = format!("{path} {upstream:?}: {answer:?}");
        assert_eq!(answer.status, 502, "{case}");
        assert!(error(&answer).contains("the answer took longer than 1 s"), "{case}");
        assert!(incomplete(&mut bench).await.contains("longer than 1 s"), "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_no_more_is_given_up() {
    const EVENT: &[u8] = &[b':'; 1 << 16];
    let (stub, ended) = never_ending(EVENT);
    let bench = Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], |config| {
        config.limits.unread_time = Duration::from_millis(200);
    })
    .await;
    let address = bench.address.clone();
    let unread = tokio::task::spawn_blocking(move || {
        // The connection stays open and is not read.
        let sent = send(&address, CHAT, &[], asks("hi", true).to_string().as_bytes());
        // Dropped by the stub when the gateway has left it.
        while ended.try_recv() == Err(TryRecvError::Empty) {
            std::thread::yield_now();
        }
        drop(sent);
    });
    // It answers no other request, so that the last sender goes with this answer.
    drop(stub);
    unread.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_closed_and_make_room() {
    let stub = ok();
    let bench = Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], |config| {
        (config.limits.connections, config.limits.head_time) = (3, Duration::from_millis(200));
    })
    .await;
    let address = bench.address.clone();
    let idle = tokio::task::spawn_blocking(move || {
        let mut idle: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(&address).unwrap()).collect();
        // One of them was used and is kept alive.
        let head = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n");
        idle[0].write_all(head.as_bytes()).unwrap();
        let served = send(&address, CHAT, &[], asks("hi", false).to_string().as_bytes()).answer();
        assert_eq!(served.status, 200);
        for mut stream in idle {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut rest = Vec::new();
            assert!(stream.read_to_end(&mut rest).is_ok(), "it was closed");
        }
    });
    idle.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_under_way_count_among_the_requests_at_once() {
    let (stub, _ended) = never_ending(b": ping\n\n");
    let bench = Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], |config| config.limits.requests = 1).await;
    let address = bench.address.clone();
    let (begun, go) = (tokio::sync::oneshot::channel(), channel::<()>());
    let first = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        let body = asks("one", true).to_string();
        let length = body.len();
        let head = format!(
            "POST {CHAT} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        begun.0.send(()).unwrap();
        go.1.recv().unwrap();
    });
    begun.1.await.unwrap();
    let second = post(&bench.address, CHAT, &[], &asks("two", false)).await;
    assert_eq!((second.status, second.header("retry-after")), (429, "1"), "{second:?}");
    go.0.send(()).unwrap();
    first.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_twice_at_once_is_answered_and_recorded_twice() {
    let both = Arc::new(std::sync::Barrier::new(2));
    let stub = Stub::start(move |_, request| {
        both.wait();
        says(request, "ok", &[])
    });
    for headers in [[].as_slice(), &[("x-clawhost-session", "job-1")]] {
        let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
        let body = asks("hi", false);
        let ask = || post(&bench.address, CHAT, headers, &body);
        let (one, two) = tokio::join!(ask(), ask());
        assert_eq!((one.status, two.status), (200, 200));
        assert_ne!(one.header("x-clawhost-episode"), two.header("x-clawhost-episode"), "{headers:?}");
        let counts = bench.stop().await;
        assert_eq!((counts.recorded, counts.missed), (2, 0));
        let turns: Vec<usize> = bench.episodes().await.iter().map(|episode| episode.turns.len()).collect();
        assert_eq!(turns, [1, 1], "{headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_neither_ends_a_session_nor_loses_a_turn() {
    let stub = ok();
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let mut history = Vec::new();
    let day = 24 * 60 * 60 * 1000;
    for (number, jump) in [0, 400 * day, -800 * day, 400 * day].into_iter().enumerate() {
        bench.clock.set_wall_ahead(jump);
        history.push(user(&format!("turn {number}")));
        let answer = post(&bench.address, CHAT, &[], &chat(&history)).await;
        assert_eq!((answer.status, answer.header("x-clawhost-record")), (200, ""), "{answer:?}");
        history.push(crate::client::assistant("ok"));
    }
    let episodes = bench.episodes().await;
    assert_eq!((episodes.len(), episodes[0].turns.len()), (1, 4));
}
