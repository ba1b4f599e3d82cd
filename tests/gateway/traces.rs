//! Traces: spans with the conventions of OpenTelemetry, sent to a collector in the background.

use crate::client::{chat, post, user};
use crate::stub::{Reply, Stub, events, says};
use crate::{Bench, served};
use clawhost_core::Secret;
use clawhost_gateway::{GatewayConfig, TraceSettings};
use clawhost_providers::Dialect;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn model() -> Stub {
    Stub::start(|_, request| says(request, "an answer", &[]))
}

fn collector(status: u16) -> Stub {
    Stub::start(move |_, _| Reply::Http(status, vec![], "{}".into()))
}

/// Exports to a stub.
fn exports(collector: &Stub) -> impl FnOnce(&mut GatewayConfig) {
    let endpoint = collector.base_url().trim_end_matches("/v1").to_owned();
    move |config| {
        let headers = Secret::new("authorization=Bearer%20sk-of-the-collector");
        config.traces = Some(TraceSettings { endpoint, headers, service: "gateway-of-a-test".into() });
    }
}

/// All spans that a collector got.
fn spans(collector: &Stub) -> Vec<Value> {
    let requests = collector.requests();
    let of = |body: &Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned().unwrap_or_default();
    requests.iter().flat_map(|request| of(&request.body)).collect()
}

/// The attributes of a span as `NAME VALUE`.
fn attributes(span: &Value) -> Vec<String> {
    let value = |of: &Value| of["stringValue"].as_str().or(of["intValue"].as_str()).unwrap_or_default().to_owned();
    let all = span["attributes"].as_array().unwrap().iter();
    all.map(|of| format!("{} {}", of["key"].as_str().unwrap(), value(&of["value"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_is_continued_passed_on_and_exported_without_what_was_said() {
    let (stub, collector) = (model(), collector(200));
    let mut bench = Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], exports(&collector)).await;
    let header = format!("00-{TRACE}-{CALLER}-01");
    let headers = [("traceparent", header.as_str()), ("x-session-id", "job")];
    assert_eq!(post(&bench.address, CHAT, &headers, &chat(&[user("a question")])).await.status, 200);
    bench.stop().await;

    let sent = &collector.requests()[0];
    assert!(sent.path.ends_with("/v1/traces"), "{}", sent.path);
    assert!(sent.headers.iter().any(|(name, value)| name == "authorization" && value == "Bearer sk-of-the-collector"));
    let text = sent.body.to_string();
    assert!(text.contains("gateway-of-a-test"), "{text}");
    assert!(!text.contains("a question") && !text.contains("an answer") && !text.contains("sk-of"), "{text}");
    let spans = spans(&collector);
    let [request, model] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((&request["traceId"], &request["parentSpanId"]), (&json!(TRACE), &json!(CALLER)));
    assert_eq!((&request["name"], &request["kind"]), (&json!("POST chat"), &json!(2)));
    assert_eq!((&model["traceId"], &model["parentSpanId"]), (&json!(TRACE), &request["spanId"]));
    assert_eq!((&model["name"], &model["kind"]), (&json!("chat stub-model"), &json!(3)));
    let (of_request, of_model) = (attributes(request), attributes(model));
    for expect in ["http.request.method POST", "http.response.status_code 200", "clawhost.record recorded"] {
        assert!(of_request.iter().any(|known| known == expect), "{expect}: {of_request:?}");
    }
    for expect in [
        "gen_ai.operation.name chat",
        "gen_ai.provider.name openai",
        "gen_ai.request.model stub-model",
        "gen_ai.response.model stub",
        "gen_ai.conversation.id job",
        "gen_ai.usage.input_tokens 10",
        "gen_ai.usage.output_tokens 2",
    ] {
        assert!(of_model.iter().any(|known| known == expect), "{expect}: {of_model:?}");
    }
    let passed = &stub.requests()[0].headers;
    let parent = passed.iter().find(|(name, _)| name == "traceparent").map(|(_, value)| value.clone());
    assert_eq!(parent, Some(format!("00-{TRACE}-{}-01", model["spanId"].as_str().unwrap())));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_marked_and_a_caller_may_want_no_spans() {
    let (stub, collector) = (Stub::start(|_, _| Reply::Http(500, vec![], "{}".into())), collector(200));
    let mut bench = Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], exports(&collector)).await;
    let header = format!("00-{TRACE}-{CALLER}-00");
    post(&bench.address, CHAT, &[("traceparent", &header)], &chat(&[user("one")])).await;
    assert!(
        stub.requests()[0]
            .headers
            .iter()
            .any(|(_, value)| value.starts_with(&format!("00-{TRACE}-")) && value.ends_with("-00"))
    );
    post(&bench.address, CHAT, &[], &chat(&[user("two")])).await;
    bench.stop().await;
    let spans = spans(&collector);
    assert_eq!(spans.len(), 2, "{spans:?}");
    for span in &spans {
        assert_ne!(span["traceId"], TRACE);
        assert_eq!(span["status"]["code"], 2, "{span}");
        assert!(attributes(span).iter().any(|known| known == "error.type 500"), "{span}");
    }
    assert_eq!(spans[0].get("parentSpanId"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_refuses_holds_no_request_up_and_nothing_is_exported_without_one() {
    let (stub, refusing) = (model(), collector(503));
    let models = || vec![served(Dialect::OpenAi, &stub.base_url())];
    let mut bench = Bench::with(models(), exports(&refusing)).await;
    let answer = post(&bench.address, CHAT, &[], &chat(&[user("one")])).await;
    assert_eq!((answer.status, answer.header("x-clawhost-record")), (200, ""));
    bench.stop().await;
    assert_eq!(refusing.requests().len(), 1, "it is asked once");
    let plain = Bench::with(models(), |_| {}).await;
    let header = format!("00-{TRACE}-{CALLER}-01");
    post(&plain.address, CHAT, &[("traceparent", &header)], &chat(&[user("two")])).await;
    let passed = stub.requests().pop().unwrap().headers;
    assert!(passed.iter().any(|(_, value)| *value == header), "it is passed on as it came: {passed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_is_an_error_and_a_refused_request_is_none_of_the_server() {
    let stub = Stub::start(|_, request| {
        let half = events(request, "Hello there", &[]).into_iter().take(4).map(String::into_bytes);
        Reply::Stream { fragments: Box::new(half.collect::<Vec<_>>().into_iter()), ends: true }
    });
    let collector = collector(200);
    let mut bench = Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], exports(&collector)).await;
    let mut body = chat(&[user("one")]);
    body["stream"] = true.into();
    post(&bench.address, CHAT, &[], &body).await;
    body["model"] = "unknown".into();
    post(&bench.address, CHAT, &[], &body).await;
    post(&bench.address, "/nowhere", &[], &body).await;
    bench.stop().await;
    let mut seen: Vec<_> = spans(&collector)
        .iter()
        .map(|span| {
            let known = attributes(span).into_iter().find(|known| known.starts_with("error.type"));
            (span["kind"].clone(), span["status"]["code"].as_u64(), known.unwrap_or_default())
        })
        .collect();
    seen.sort_by_key(|(kind, code, _)| (kind.as_u64(), *code));
    let expect =
        [(2, None, "error.type 404"), (2, Some(2), "error.type incomplete"), (3, Some(2), "error.type incomplete")];
    assert_eq!(seen, expect.map(|(kind, code, error)| (json!(kind), code, error.to_owned())));
}
