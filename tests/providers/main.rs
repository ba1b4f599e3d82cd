//! The model client against a real HTTP server on loopback: good answers, bad answers, none.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot continue has failed"
)]

mod doors;
mod embeddings;
mod streams;
#[path = "../common/stub.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod stub;
mod teacher;

use clawhost_core::{Hint, IgnoredRequest, Llm as _, Message, ModelError, ModelRequest, Origin, Role, Secret, Secrets};
use clawhost_providers::{
    Account, Budget, Dialect, Endpoint, EndpointConfig, Metered, Prices, ProviderError, Scripted, key_from_file,
};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use stub::{Reply, Stub, chat, says};

fn request() -> ModelRequest {
    ModelRequest {
        messages: vec![Message::text(Role::User, Origin::Environment, "2 + 2?")],
        tools: vec![],
        max_tokens: 16,
        temperature: Some(0.5),
        seed: Some(3),
        stop: vec![],
        ..ModelRequest::default()
    }
}

fn client(stub: &Stub, change: impl FnOnce(&mut EndpointConfig)) -> Endpoint {
    dialect_client(Dialect::OpenAi, stub, change)
}

fn dialect_client(dialect: Dialect, stub: &Stub, change: impl FnOnce(&mut EndpointConfig)) -> Endpoint {
    let mut config = EndpointConfig { retries: 2, ..EndpointConfig::new(dialect, "stub", stub.base_url()) };
    change(&mut config);
    Endpoint::new(config).unwrap()
}

async fn ask(dialect: Dialect, stub: &Stub) -> Result<String, ModelError> {
    dialect_client(dialect, stub, |_| {}).complete(&request()).await.map(|response| response.message.plain_text())
}

#[tokio::test]
async fn a_request_and_its_answer() {
    let stub = Stub::start(|_, _| chat("4"));
    let response = client(&stub, |config| config.key = Secret::new("sk-test-1\n")).complete(&request()).await.unwrap();
    assert_eq!((response.message.plain_text().as_str(), response.usage.prompt_tokens), ("4", 10));
    let seen = &stub.requests()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    assert!(seen.headers.contains(&("authorization".into(), "Bearer sk-test-1".into())), "{:?}", seen.headers);
    assert_eq!(seen.body["model"], "stub");
    assert_eq!(seen.body["messages"][0]["content"], "2 + 2?");
    assert_eq!((seen.body["max_tokens"].as_u64(), seen.body["temperature"].as_f64()), (Some(16), Some(0.5)));
}

#[tokio::test]
async fn the_messages_dialect_works_too() {
    let stub = Stub::start(|_, request| says(request, "4", &[("t1", "add", "{\"a\": 2}")]));
    let client = dialect_client(Dialect::Anthropic, &stub, |config| config.key = Secret::new("sk-test-2"));
    let response = client.complete(&request()).await.unwrap();
    assert_eq!((response.message.plain_text().as_str(), response.finish.as_str()), ("4", "tool_calls"));
    assert_eq!(response.message.tool_calls[0].arguments, "{\"a\":2}");
    assert_eq!((response.usage.prompt_tokens, response.usage.completion_tokens), (10, 2));
    let seen = &stub.requests()[0];
    assert_eq!(seen.path, "/v1/messages");
    for (name, value) in [("x-api-key", "sk-test-2"), ("anthropic-version", "2023-06-01")] {
        assert!(seen.headers.contains(&(name.into(), value.into())), "{:?}", seen.headers);
    }
    assert!(!seen.headers.iter().any(|(name, _)| name == "authorization"), "the key is in one header only");
    assert_eq!((seen.body["max_tokens"].as_u64(), seen.body["temperature"].as_f64()), (Some(16), Some(0.5)));
    let hot = ModelRequest { temperature: Some(1.5), ..request() };
    assert!(matches!(client.complete(&hot).await, Err(ModelError::Refused(text)) if text.contains("takes 0 to 1")));
    assert_eq!(stub.requests().len(), 1, "an inexpressible request is not sent");
}

#[tokio::test]
async fn temporary_failures_are_retried() {
    for dialect in Dialect::ALL {
        // A date instead of seconds is ignored, because clocks differ.
        let date = "Wed, 21 Oct 2099 07:28:00 GMT";
        for (trouble, wait) in [(429, "0"), (500, "0"), (529, "0"), (503, date)] {
            let stub = Stub::start(move |number, request| match number {
                0 => Reply::Http(trouble, vec![("retry-after", wait.into())], "busy".into()),
                1 => Reply::Half,
                _ => says(request, "4", &[]),
            });
            assert_eq!(ask(dialect, &stub).await.unwrap(), "4", "HTTP {trouble}");
            assert_eq!(stub.requests().len(), 3);
        }
    }
}

#[tokio::test]
async fn an_interrupted_or_too_long_answer_is_an_error() {
    for dialect in Dialect::ALL {
        let stub = Stub::start(|_, _| Reply::HalfStream);
        let error = ask(dialect, &stub).await.unwrap_err().to_string();
        assert!(error.contains("broke off") && error.contains("3 tries"), "{error}");
        let long = "x".repeat(10 << 20);
        let stub = Stub::start(move |_, request| says(request, &long, &[]));
        let client = dialect_client(dialect, &stub, |config| config.retries = 0);
        let error = client.complete(&request()).await.unwrap_err().to_string();
        assert!(error.contains("longer than 10485760 bytes"), "{error}");
    }
}

#[tokio::test]
async fn persistent_failures_are_reported_after_the_retries() {
    for dialect in Dialect::ALL {
        let stub = Stub::start(|_, _| Reply::Http(429, vec![("retry-after", "0".into())], "slow down".into()));
        let error = ask(dialect, &stub).await.unwrap_err();
        assert!(matches!(error, ModelError::Unavailable(_)));
        assert!(error.to_string().contains("HTTP 429: slow down (3 tries)"), "{error}");
        assert_eq!(stub.requests().len(), 3);
    }
}

#[tokio::test]
async fn rejections_are_final_and_name_the_remedy() {
    for dialect in Dialect::ALL {
        let wants =
            format!("; the endpoint wants a key, and neither {} nor api_key_file is set", dialect.key_variable());
        for (status, hint) in [(400, "HTTP 400"), (401, &*wants), (404, "model name `stub`")] {
            let stub = Stub::start(move |_, _| Reply::Http(status, vec![], "no".into()));
            let error = ask(dialect, &stub).await.unwrap_err();
            assert!(matches!(error, ModelError::Refused(_)), "{error}");
            assert!(error.to_string().contains(hint), "{error}");
            assert!(!error.to_string().contains("--"), "a front end names its own options: {error}");
            assert_eq!(stub.requests().len(), 1, "HTTP {status} is not retried");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_no_answer_and_is_not_followed() {
    for dialect in Dialect::ALL {
        let other = Stub::start(|_, request| says(request, "hi", &[]));
        let to = other.base_url();
        let stub = Stub::start(move |_, _| Reply::Http(307, vec![("location", to.clone())], String::new()));
        let error = ask(dialect, &stub).await.unwrap_err();
        assert!(matches!(error, ModelError::InvalidResponse(_)), "{error}");
        assert!(error.to_string().contains("redirects elsewhere"), "{error}");
        assert_eq!((stub.requests().len(), other.requests().len()), (1, 0));
    }
}

#[tokio::test]
async fn invalid_answers_are_errors() {
    for body in ["<html>hello</html>", "", "{}", "[1]", "{\"choices\": [{\"message\": {\"role\": \"assistant\""] {
        for dialect in Dialect::ALL {
            let stub = Stub::start(move |_, _| Reply::Http(200, vec![], body.into()));
            let error = ask(dialect, &stub).await.unwrap_err();
            assert!(matches!(error, ModelError::InvalidResponse(_)), "{body}: {error}");
            assert_eq!(stub.requests().len(), 1);
        }
    }
}

#[tokio::test]
async fn an_unreachable_or_slow_endpoint_is_named() {
    let port = Stub::start(|_, _| chat("x")).port;
    let gone = Endpoint::new(EndpointConfig {
        retries: 0,
        ..EndpointConfig::new(Dialect::OpenAi, "m", format!("http://127.0.0.1:{port}/v1"))
    });
    let error = gone.unwrap().complete(&request()).await.unwrap_err().to_string();
    assert!(error.contains(&format!("cannot connect to 127.0.0.1:{port}; is the server running there?")), "{error}");

    let stub = Stub::start(|_, _| Reply::Stall);
    let slow = client(&stub, |config| {
        config.timeout = Duration::from_millis(100);
        config.retries = 0;
    });
    let error = slow.complete(&request()).await.unwrap_err().to_string();
    assert!(error.ends_with("within 0.1 s, the limit of model_timeout"), "{error}");
}

/// Ways in which an endpoint can write a key into a body of JSON.
fn echoes(secret: &str) -> Vec<String> {
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD;
    let each = |write: &dyn Fn(u8) -> String| secret.bytes().map(write).collect::<String>();
    vec![
        each(&|byte| format!("\\u{byte:04x}")),
        each(&|byte| format!("\\\\u{byte:04X}")),
        secret.replace('/', "\\/").replace('s', "\\u0073"),
        secret.to_uppercase(),
        each(&|byte| format!("%{byte:02x}")),
        each(&|byte| format!("&#{byte};")),
        each(&|byte| format!("{byte:02X}")),
        base64.encode(format!("Bearer {secret}")),
        base64.encode(secret),
    ]
}

#[tokio::test]
async fn a_key_that_is_echoed_in_any_encoding_is_never_shown() {
    let secret = "sk-very/secret-4711";
    for dialect in Dialect::ALL {
        for echo in echoes(secret) {
            for status in [200, 401] {
                let said = echo.clone();
                let stub = Stub::start(move |_, asked| match says(asked, "ECHO", &[("t1", "f", "{\"k\":\"ECHO\"}")]) {
                    Reply::Http(_, headers, body) if status == 200 => {
                        Reply::Http(200, headers, body.replace("ECHO", &said))
                    }
                    _ => Reply::Http(status, vec![], format!("{{\"error\":{{\"message\":\"no key {said}\"}}}}")),
                });
                let client = dialect_client(dialect, &stub, |config| config.key = Secret::new(secret));
                let shown = match client.complete(&request()).await {
                    Ok(answer) => vec![answer.message.plain_text(), answer.message.tool_calls[0].arguments.clone()],
                    Err(error) => vec![error.to_string()],
                };
                assert_eq!(shown.len(), if status == 200 { 2 } else { 1 });
                for shown in shown {
                    let secrets = Secrets::of(&Secret::new(secret));
                    assert!(shown.contains("[key]") && !secrets.are_in(&shown), "{echo}: {shown}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_key_is_never_shown() {
    for dialect in Dialect::ALL {
        check_secrecy(dialect).await;
    }
}

async fn check_secrecy(dialect: Dialect) {
    let secret = "sk-very-secret-4711";
    let stub = Stub::start(|_, request| {
        let shown = |(name, _): &&(String, String)| name == "authorization" || name == "x-api-key";
        let sent = request.headers.iter().find(shown).unwrap().1.clone();
        Reply::Http(401, vec![], format!("bad header: {sent}"))
    });
    let client = dialect_client(dialect, &stub, |config| config.key = Secret::new(secret));
    let error = client.complete(&request()).await.unwrap_err();
    for shown in [format!("{error} {error:?}"), format!("{client:?}"), format!("{:?}", client.identity())] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(error.to_string().contains("[key]"), "{error}");
    assert!(
        error.to_string().ends_with("; the endpoint did not accept the key; api_key_file names another"),
        "{error}"
    );
}

#[test]
fn invalid_addresses_are_errors_before_anything_is_sent() {
    let refuse = |address: &str, key: Option<&str>| {
        let config =
            EndpointConfig { key: key.and_then(Secret::new), ..EndpointConfig::new(Dialect::OpenAi, "m", address) };
        Endpoint::new(config).err().unwrap_or_else(|| panic!("{address} was accepted"))
    };
    assert!(matches!(refuse("not an address", None), ProviderError::Address(..)));
    assert!(matches!(refuse("ftp://127.0.0.1/v1", None), ProviderError::Address(..)));
    assert!(matches!(refuse("http://me:pw@127.0.0.1/v1", None), ProviderError::PasswordInAddress));
    assert!(matches!(refuse("http://models.example/v1", Some("k")), ProviderError::KeyInTheClear(..)));
    assert!(matches!(refuse("http://127.0.0.1/v1", Some("k\u{7}y")), ProviderError::KeyCharacters));
    for (error, code, hint) in [
        (refuse("ftp://127.0.0.1/v1", None), "model-address", Hint::ChangeThis),
        (refuse("http://me:pw@127.0.0.1/v1", None), "password-in-address", Hint::change("api_key_file")),
        (refuse("http://models.example/v1", Some("k")), "key-in-the-clear", Hint::ChangeThis),
        (key_from_file(std::path::Path::new("/nowhere/key")).unwrap_err(), "key-file", Hint::change("api_key_file")),
    ] {
        assert_eq!((error.code(), error.hints()), (code, vec![hint]), "{error}");
        assert!(!error.to_string().contains("--"), "a front end names its own options: {error}");
    }
    for (address, path) in [
        ("http://127.0.0.1:1", "/v1/messages"),
        ("http://127.0.0.1:1/", "/v1/messages"),
        ("http://127.0.0.1:1/v1/messages", "/v1/messages"),
        ("http://127.0.0.1:1/proxy/v2", "/proxy/v2/messages"),
    ] {
        let endpoint = Endpoint::new(EndpointConfig::new(Dialect::Anthropic, "m", address)).unwrap();
        assert_eq!(endpoint.url().path(), path, "{address}");
    }
    for fine in ["http://127.0.0.1:8000/v1", "http://localhost/v1/", "http://[::1]:9/v1", "https://models.example/v1"] {
        let config = EndpointConfig { key: Secret::new("k"), ..EndpointConfig::new(Dialect::OpenAi, "m", fine) };
        assert!(Endpoint::new(config).is_ok(), "{fine}");
    }
}

#[tokio::test]
async fn spending_stops_at_the_budget() {
    let stub = Stub::start(|_, _| chat("4"));
    let model = Arc::new(client(&stub, |_| {}));
    let spent = Arc::new(Account::default());
    let budget = Budget { tokens: Some(20), cost: None };
    let prices = Some(Prices { input: 1.0, output: 10.0 });
    let metered = Metered::new(model.clone(), budget, prices, spent.clone());
    metered.complete(&request()).await.unwrap();
    metered.complete(&request()).await.unwrap();
    let error = metered.complete(&request()).await.unwrap_err();
    assert!(matches!(&error, ModelError::Budget(text) if text == "24 of 20 tokens"), "{error}");
    assert_eq!(stub.requests().len(), 2, "nothing is sent beyond the budget");
    let so_far = spent.spent();
    assert_eq!(so_far.calls, 2);
    assert!((so_far.cost - 60e-6).abs() < 1e-12, "{so_far:?}");
    let poor = Metered::new(model, Budget { tokens: None, cost: Some(50e-6) }, prices, spent);
    let error = poor.complete(&request()).await.unwrap_err();
    assert!(matches!(&error, ModelError::Budget(text) if text == "0.0001 of 0.00005 spent"), "{error}");
}

#[tokio::test]
async fn concurrent_requests_are_limited() {
    /// Number of started requests, and of those that may be answered.
    type Gate = (Mutex<(usize, usize)>, Condvar);
    let gate: Arc<Gate> = Arc::default();
    let held = gate.clone();
    let stub = Stub::start(move |_, received| {
        if received.body["model"] == "witness" {
            return chat("seen");
        }
        let (state, changed) = &*held;
        let mut state = state.lock().unwrap();
        state.0 += 1;
        let number = state.0;
        let _state = changed.wait_while(state, |state| state.1 < number).unwrap();
        chat("4")
    });
    let witness = client(&stub, |config| config.model = "witness".into());
    let client = Arc::new(client(&stub, |config| config.concurrency = 3));
    let asked: Vec<_> = (0..12)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.complete(&request()).await.unwrap() })
        })
        .collect();
    for answered in 0..12 {
        let begun = || gate.0.lock().unwrap().0;
        while begun() < (answered + 3).min(12) {
            tokio::task::yield_now().await;
        }
        // If more requests were allowed, another of these would have started by the time that these later requests are
        // answered.
        for _ in 0..3 {
            witness.complete(&request()).await.unwrap();
        }
        assert_eq!(begun(), (answered + 3).min(12), "{answered} were answered");
        gate.0.lock().unwrap().1 += 1;
        gate.1.notify_all();
    }
    for one in asked {
        one.await.unwrap();
    }
}

#[tokio::test]
async fn a_script_answers_by_turn() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "one\ntwo\\nlines\n").unwrap();
    let script = Scripted::from_file(file.path()).unwrap();
    let mut request = request();
    for expected in ["one", "two\nlines", "one"] {
        let answer = script.complete(&request).await.unwrap().message;
        assert_eq!(answer.plain_text(), expected);
        request.messages.push(answer);
    }
    std::fs::write(file.path(), "").unwrap();
    assert!(matches!(Scripted::from_file(file.path()), Err(ProviderError::EmptyScript(_))));
    file.as_file().set_len((16 << 20) + 1).unwrap();
    assert!(matches!(Scripted::from_file(file.path()), Err(ProviderError::ScriptTooLong(..))));
}

#[tokio::test]
async fn a_script_calls_tools_with_ids_of_their_own() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "I look.\\\ncalls look {}\\\ncalls look {\"at\": 1}\ndone\n").unwrap();
    let script = Scripted::from_file(file.path()).unwrap();
    let mut request = ModelRequest { top_p: Some(0.5), ..request() };
    let mut ids = std::collections::BTreeSet::new();
    for (text, calls, finish) in [("I look.", 2, "tool_calls"), ("done", 0, "stop"), ("I look.", 2, "tool_calls")] {
        let answer = script.complete(&request).await.unwrap();
        assert_eq!((answer.message.plain_text().as_str(), answer.finish.as_str()), (text, finish));
        assert_eq!(answer.message.tool_calls.len(), calls);
        assert_eq!(answer.ignored, [IgnoredRequest::TopP]);
        ids.extend(answer.message.tool_calls.iter().map(|call| call.id.clone()));
        request.messages.push(answer.message);
    }
    assert_eq!(ids.len(), 4, "{ids:?}");
    std::fs::write(file.path(), "one\ncalls look\n").unwrap();
    let error = Scripted::from_file(file.path()).unwrap_err().to_string();
    assert!(error.contains(", line 2: a call is a tool's name with a JSON object"), "{error}");
}

#[test]
fn a_provider_of_its_own_needs_a_key_before_anything_is_asked() {
    let endpoint = |dialect: Dialect, address: &str, key: Option<&str>| {
        let key = key.and_then(Secret::new);
        Endpoint::new(EndpointConfig { key, ..EndpointConfig::new(dialect, "m", address) })
    };
    for (dialect, variable) in [(Dialect::OpenAi, "OPENAI_API_KEY"), (Dialect::Anthropic, "ANTHROPIC_API_KEY")] {
        for address in [dialect.home(), dialect.home().trim_end_matches("/v1")] {
            let error = endpoint(dialect, address, None).unwrap_err();
            assert!(error.to_string().ends_with(&format!("set {variable} to your key")), "{error}");
            assert_eq!(error.hints(), [Hint::set("api_key_file", "FILE")]);
            assert!(endpoint(dialect, address, Some("k")).is_ok());
        }
        assert!(endpoint(dialect, "http://127.0.0.1:1/v1", None).is_ok(), "a local server rarely needs a key");
    }
}
