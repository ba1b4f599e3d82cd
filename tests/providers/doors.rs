//! What stands between models and everything else: the budget, and the door that no key passes.

use super::streams::{hear, text};
use super::stub::{events, stream};
use super::*;
use clawhost_core::{KnownSecrets, Llm, LlmIdentity, ModelResponse};
use clawhost_providers::{Guarded, Spending};
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test]
async fn an_answer_without_usage_is_charged_by_an_estimate() {
    for usage in [
        "",
        r#","usage":null"#,
        r#","usage":{"prompt_tokens":0}"#,
        r#","usage":{"prompt_tokens":-9,"completion_tokens":-1}"#,
    ] {
        let body = format!(
            r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"{}"}},"finish_reason":"stop"}}]{usage}}}"#,
            "four".repeat(3),
        );
        let stub = Stub::start(move |_, _| Reply::Http(200, vec![], body.clone()));
        let spent = Arc::new(Account::default());
        let budget = Budget { tokens: Some(10), cost: None };
        let metered = Metered::new(Arc::new(client(&stub, |_| {})), budget, None, spent.clone());
        let answer = metered.complete(&request()).await.unwrap();
        // The request has 6 bytes, the answer 12.
        assert_eq!((answer.usage.prompt_tokens, answer.usage.completion_tokens), (2, 3), "{usage}");
        assert_eq!(answer.ignored, [IgnoredRequest::Usage]);
        metered.complete(&request()).await.unwrap();
        let refused = metered.complete(&request()).await;
        assert_eq!(refused, Err(ModelError::Budget("10 of 10 tokens".into())));
        let so_far = spent.spent();
        assert_eq!((stub.requests().len(), so_far.calls, so_far.estimated), (2, 2, 2));
    }
}

#[tokio::test]
async fn requests_in_flight_count_towards_the_budget() {
    struct Silent(Arc<AtomicUsize>);
    #[async_trait::async_trait]
    impl Llm for Silent {
        fn identity(&self) -> LlmIdentity {
            LlmIdentity { provider: "test".into(), model: "silent".into(), version: String::new() }
        }

        async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        }
    }
    let (spent, begun) = (Arc::new(Account::default()), Arc::new(AtomicUsize::new(0)));
    let metered =
        Metered::new(Arc::new(Silent(begun.clone())), Budget { tokens: Some(5), cost: None }, None, spent.clone());
    let asked = request();
    let mut waiting: Vec<_> = (0..4).map(|_| metered.complete(&asked)).collect();
    for request in &mut waiting {
        assert!(ready(request.as_mut()).is_none());
    }
    assert_eq!(
        begun.load(Ordering::Relaxed),
        3,
        "two tokens each are in flight: 2, 4 and 6 of 5; the fourth waits for them"
    );
    drop(waiting.remove(0));
    assert!(ready(waiting[2].as_mut()).is_none());
    assert_eq!(begun.load(Ordering::Relaxed), 4, "one has ended, so there is room");
    drop(waiting);
    assert_eq!(spent.spent(), Spending::default(), "nothing was answered");
}

/// The value of a future that is ready.
fn ready<T>(future: std::pin::Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn no_key_of_any_endpoint_passes_the_door_before_guests() {
    const OTHER: &str = "key-of-another-endpoint";
    let said = format!("it is {OTHER}.");
    let whole = says_escaped(&said);
    let stub = Stub::start(move |_, asked| match asked.body["stream"].as_bool() {
        Some(true) => stream(events(asked, &said, &[])),
        _ => Reply::Http(200, vec![], whole.clone()),
    });
    let known = KnownSecrets::default();
    let guarded = Guarded::new(Arc::new(client(&stub, |_| {})), known.clone());
    let answer = guarded.complete(&request()).await.unwrap();
    assert!(answer.message.plain_text().contains(OTHER), "no endpoint here has this key");
    known.add(&Secret::new(OTHER).unwrap());
    assert_eq!(guarded.complete(&request()).await.unwrap().message.plain_text(), "it is [key].");
    let (heard, answer) = hear(&guarded, &request()).await;
    assert_eq!(
        (text(&heard).as_str(), answer.unwrap().message.plain_text().as_str()),
        ("it is [key].", "it is [key].")
    );
    assert!(!format!("{heard:?}").contains("key-of"), "{heard:?}");
}

#[tokio::test]
async fn an_error_that_quotes_a_key_passes_the_door_without_it() {
    const OTHER: &str = "key-of-another-endpoint";
    let stub = Stub::start(|_, _| Reply::Http(400, vec![], format!("bad key: {OTHER}")));
    let known = KnownSecrets::default();
    known.add(&Secret::new(OTHER).unwrap());
    let guarded = Guarded::new(Arc::new(client(&stub, |_| {})), known);
    for error in [guarded.complete(&request()).await.unwrap_err(), hear(&guarded, &request()).await.1.unwrap_err()] {
        assert!(error.to_string().contains("bad key: [key]") && !error.to_string().contains(OTHER), "{error}");
    }
}

#[tokio::test]
async fn a_key_of_another_endpoint_is_removed_before_an_error_is_cut() {
    const OTHER: &str = "key-of-another-endpoint";
    // Messages show the first 300 bytes: the key lies across that place, and wholly or partly behind it.
    for before in 290 - OTHER.len()..310 {
        let body = format!("{}{OTHER}", "x".repeat(before));
        let stub = Stub::start(move |_, _| Reply::Http(400, vec![], body.clone()));
        let known = KnownSecrets::default();
        known.add(&Secret::new(OTHER).unwrap());
        let endpoint = client(&stub, |config| config.known = known.clone());
        let error = endpoint.complete(&request()).await.unwrap_err().to_string();
        assert!(!error.contains("key-of"), "{before}: {error}");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_charged_for_what_was_read() {
    let replies = [
        Reply::Http(200, vec![], r#"{"choices":[],"usage":{"prompt_tokens":5000,"completion_tokens":100}}"#.into()),
        Reply::Http(200, vec![], "hello".into()),
        Reply::Http(500, vec![], "worked for nothing".into()),
    ];
    for reply in replies {
        let reply = Mutex::new(Some(reply));
        let stub = Stub::start(move |_, _| reply.lock().unwrap().take().unwrap());
        let account = Arc::new(Account::default());
        let endpoint = client(&stub, |config| config.retries = 0);
        let metered = Metered::new(Arc::new(endpoint), Budget::default(), None, account.clone());
        metered.complete(&request()).await.unwrap_err();
        assert_eq!(account.spent().usage.prompt_tokens, 2, "an estimate of what it read");
    }
    let stub = Stub::start(|_, _| Reply::Http(400, vec![], "no such field".into()));
    let account = Arc::new(Account::default());
    let metered = Metered::new(Arc::new(client(&stub, |_| {})), Budget::default(), None, account.clone());
    metered.complete(&request()).await.unwrap_err();
    assert_eq!(account.spent(), Spending::default(), "a refused request costs nothing");
}

/// An answer of the chat dialect whose text is written with the escapes of JSON alone.
fn says_escaped(text: &str) -> String {
    let text: String = text.chars().map(|one| format!("\\u{:04x}", u32::from(one))).collect();
    format!(
        r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}]}}"#
    )
}
