//! What is refused, and how: each dialect has its own form of errors.

use crate::Bench;
use crate::client::{chat, post, raw, send, user};
use crate::stub::{Stub, says};
use clawhost_providers::Dialect;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused_in_their_dialect_and_reach_no_model() {
    let stub = Stub::start(|_, request| says(request, "ok", &[]));
    let mut bench =
        Bench::with(vec![crate::served(Dialect::OpenAi, &stub.base_url())], |config| config.limits.body_bytes = 1000)
            .await;
    let deep = format!("{{\"model\":\"m\",\"messages\":{}1{}}}", "[".repeat(400), "]".repeat(400));
    let cases: [(&[u8], u16, &str); 9] = [
        (b"", 400, "EOF"),
        (b"[1]", 400, "expected an object"),
        (b"{\"model\":\"m\"", 400, "EOF"),
        (b"\xff\xfe{}", 400, "not UTF-8"),
        (b"{\"messages\":[]}", 400, "model"),
        (b"{\"model\":7,\"messages\":[]}", 400, "model"),
        (b"{\"model\":\"m\",\"model\":\"n\",\"messages\":[]}", 400, "named twice"),
        (b"{\"model\":\"other\",\"messages\":[]}", 404, "no model `other` here; there is m"),
        (deep.as_bytes(), 400, "recursion limit"),
    ];
    for (body, status, says) in cases {
        for path in [CHAT, MESSAGES] {
            let answer = raw(&bench.address, path, &[], body.to_vec()).await;
            let shown = String::from_utf8_lossy(body);
            assert_eq!(answer.status, status, "{path} {shown}: {answer:?}");
            let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
            assert!(message.contains(says), "{path} {shown}: {message}");
            assert_eq!(answer.json()["type"] == "error", path == MESSAGES, "{path} {shown}");
        }
    }
    let large = raw(&bench.address, CHAT, &[], vec![b' '; 1001]).await;
    assert_eq!(
        (large.status, large.json()["error"]["message"].as_str()),
        (413, Some("the body is longer than 1000 bytes"))
    );
    assert_eq!(stub.requests().len(), 0);
    let counts = bench.stop().await;
    assert_eq!((counts.recorded, counts.missed), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_and_other_names_are_not_answered() {
    let stub = Stub::start(|_, request| says(request, "ok", &[]));
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let check = async |headers: &[(&'static str, &'static str)], status: u16| {
        let answer = post(&bench.address, CHAT, headers, &chat(&[user("hi")])).await;
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), "");
    };
    check(&[], 200).await;
    check(&[("host", "evil.example")], 403).await;
    check(&[("origin", "https://evil.example")], 403).await;
    check(&[("content-type", "text/plain")], 400).await;
    check(&[("origin", "http://localhost:3000")], 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_are_named() {
    let bench = Bench::new(Dialect::OpenAi, "http://127.0.0.1:1/v1").await;
    let answer = post(&bench.address, "/v1/nothing", &[], &json!({})).await;
    assert_eq!(
        (answer.status, answer.json()["error"]["message"].as_str()),
        (404, Some("there is no POST /v1/nothing here"))
    );
    let answer = post(&bench.address, "/v1/models", &[], &json!({})).await;
    assert_eq!(answer.status, 404);
    let long = format!("/s/{}/v1/chat/completions", "x".repeat(201));
    assert_eq!(post(&bench.address, &long, &[], &chat(&[user("hi")])).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_ends_its_request_is_closed() {
    let bench = Bench::with(vec![crate::served(Dialect::OpenAi, "http://127.0.0.1:1/v1")], |config| {
        config.limits.head_time = Duration::from_millis(200);
        config.limits.body_time = Duration::from_millis(200);
    })
    .await;
    let address = bench.address.clone();
    let closed = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: ").unwrap();
        let mut rest = Vec::new();
        let head = stream.read_to_end(&mut rest).is_ok();
        let slow = send(&address, CHAT, &[("x-length", "1")], b"{").answer();
        (head, slow.status)
    });
    let (head, whole) = closed.await.unwrap();
    assert!(head, "the connection is closed");
    assert_eq!(whole, 400, "a body that is no JSON");
    let address = bench.address.clone();
    let body = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = format!(
            "POST {CHAT} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = [0; 12];
        stream.read_exact(&mut text).unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    });
    assert_eq!(body.await.unwrap(), "HTTP/1.1 400");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_not_opened_to_other_machines_without_a_key() {
    use clawhost_gateway::{Gateway, GatewayConfig, GatewayParts};
    let folder = tempfile::tempdir().unwrap();
    let start = async |listen: &str, models: Vec<clawhost_gateway::ServedModel>| {
        let parts = GatewayParts {
            store: crate::store(folder.path()),
            clock: crate::TestClock::new(),
            secrets: clawhost_core::KnownSecrets::default(),
            capture_key: [0; 32],
            models,
            keys: clawhost_gateway::ClientKeys::default(),
            admin: None,
            guide: None,
            memory: None,
            learned: None,
            guidance: Box::new(|| Ok(clawhost_gateway::Guidance::default())),
            judge: None,
            new_run: Box::new(|_| clawhost_core::RunId("run-1".into())),
        };
        Gateway::start(GatewayConfig::new(listen, folder.path().join("spool")), parts)
            .await
            .map(drop)
            .map_err(|e| e.code())
    };
    let model = || crate::served(Dialect::OpenAi, "http://127.0.0.1:1/v1");
    assert_eq!(start("0.0.0.0:0", vec![model()]).await, Err("gateway-without-key"));
    assert_eq!(start("nowhere", vec![model()]).await, Err("gateway-listen"));
    assert_eq!(start("127.0.0.1:0", vec![]).await, Err("gateway-without-model"));
    assert_eq!(start("127.0.0.1:0", vec![model(), model()]).await, Err("gateway-alias-twice"));
    assert_eq!(start("127.0.0.1:0", vec![model()]).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_base_url_is_named() {
    let stub = Stub::start(|_, request| says(request, "ok", &[]));
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    for (path, says) in [
        ("/chat/completions", "OPENAI_BASE_URL ends with /v1"),
        ("/v1/v1/messages", "ANTHROPIC_BASE_URL ends without /v1"),
        ("/nowhere", "there is no POST /nowhere here"),
    ] {
        let answer = post(&bench.address, path, &[], &json!({})).await;
        assert_eq!(answer.status, 404);
        assert!(answer.body.contains(says), "{answer:?}");
        assert!(answer.json()["error"]["code"].is_null(), "no model was asked for: {answer:?}");
    }
    let answer = post(&bench.address, "/v1/chat/completions", &[], &json!({"model": "none", "messages": []})).await;
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (404, Some("model_not_found")), "{answer:?}");
}
