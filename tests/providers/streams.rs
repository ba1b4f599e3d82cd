//! Streamed answers over real sockets, in both dialects.

use crate::stub::{Received, Reply, Stub, events, says, stream};
use crate::{dialect_client, request};
use clawhost_core::{
    IgnoredRequest, Llm, LlmIdentity, ModelDelta, ModelError, ModelRequest, ModelResponse, ResponseFormat, Secret,
    ToolChoice, Usage,
};
use clawhost_providers::{Account, Budget, Dialect, Metered, Prices, Scripted};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Requests a stream; returns the deltas and the answer.
pub(super) async fn hear(
    model: &dyn Llm,
    request: &ModelRequest,
) -> (Vec<ModelDelta>, Result<ModelResponse, ModelError>) {
    let mut heard = Vec::new();
    let mut sink = |delta| {
        heard.push(delta);
        ControlFlow::Continue(())
    };
    let response = model.stream(request, &mut sink).await;
    (heard, response)
}

pub(super) fn text(deltas: &[ModelDelta]) -> String {
    let text = |delta: &ModelDelta| if let ModelDelta::Text(text) = delta { Some(text.clone()) } else { None };
    deltas.iter().filter_map(text).collect()
}

fn arguments(deltas: &[ModelDelta], of: usize) -> String {
    let piece = |delta: &ModelDelta| match delta {
        ModelDelta::ToolCall { index, arguments, .. } if *index == of => Some(arguments.clone()),
        _ => None,
    };
    deltas.iter().filter_map(piece).collect()
}

/// Without parts that differ between streamed and whole answers.
fn plain() -> ModelRequest {
    ModelRequest { seed: None, ..request() }
}

const CALLS: [(&str, &str, &str); 2] = [("a", "look_up", "{\"order\":\"A17\"}"), ("b", "wait", "{}")];

#[tokio::test]
async fn a_streamed_answer_equals_the_unstreamed_one() {
    for dialect in Dialect::ALL {
        for (said, calls) in [("Der K\u{e4}se \u{1f9c0}", &[][..]), ("", &CALLS[..]), ("I look.", &CALLS[..1])] {
            // Whole events, single bytes, and all at once.
            for size in [0, 1, usize::MAX] {
                let stub = Stub::start(move |_, asked| match asked.body["stream"] == true {
                    false => says(asked, said, calls),
                    true if size == 0 => stream(events(asked, said, calls)),
                    true => {
                        let bytes = events(asked, said, calls).concat().into_bytes();
                        let fragments: Vec<Vec<u8>> = bytes.chunks(size.min(bytes.len())).map(<[u8]>::to_vec).collect();
                        Reply::Stream { fragments: Box::new(fragments.into_iter()), ends: true }
                    }
                });
                let model = dialect_client(dialect, &stub, |_| {});
                let (heard, streamed) = hear(&model, &plain()).await;
                let streamed = streamed.unwrap();
                assert_eq!(streamed, model.complete(&plain()).await.unwrap(), "{said} {dialect:?} {size}");
                assert_eq!(text(&heard), said);
                for (index, (_, _, expected)) in calls.iter().enumerate() {
                    assert_eq!(arguments(&heard, index), *expected);
                }
                assert_eq!(heard.last(), Some(&ModelDelta::Usage(streamed.usage)));
                assert_eq!((streamed.usage.prompt_tokens, streamed.usage.completion_tokens), (10, 2));
            }
        }
    }
}

#[tokio::test]
async fn each_delta_is_passed_on_before_the_next_is_sent() {
    for dialect in Dialect::ALL {
        let (heard, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(Some(wait));
        let stub = Stub::start(move |_, asked| {
            let wait = wait.lock().unwrap().take().unwrap();
            let mut begun = false;
            let fragments = events(asked, "abcdef", &[]).into_iter().map(move |event| {
                // Each text event except the first waits until the previous delta was received.
                let has_text = ["ab", "cd", "ef"].iter().any(|piece| event.contains(piece));
                if has_text && std::mem::replace(&mut begun, true) {
                    wait.recv().unwrap();
                }
                event.into_bytes()
            });
            Reply::Stream { fragments: Box::new(fragments), ends: true }
        });
        let mut sink = |delta| {
            if let ModelDelta::Text(_) = delta {
                heard.send(()).ok();
            }
            ControlFlow::Continue(())
        };
        let answer = dialect_client(dialect, &stub, |_| {}).stream(&plain(), &mut sink).await.unwrap();
        assert_eq!(answer.message.plain_text(), "abcdef");
    }
}

/// All events before the first that contains this text.
fn until(asked: &Received, said: &str, calls: &[(&str, &str, &str)], end: &str) -> Vec<String> {
    events(asked, said, calls).into_iter().take_while(|event| !event.contains(end)).collect()
}

#[tokio::test]
async fn an_interrupted_stream_is_an_error_without_retries() {
    let last = |dialect| if dialect == Dialect::OpenAi { "[DONE]" } else { "message_stop" };
    for dialect in Dialect::ALL {
        let check = async |said: &'static str,
                           calls: &'static [(&str, &str, &str)],
                           end: &'static str,
                           ends,
                           expected: &str| {
            let stub = Stub::start(move |_, asked| {
                let fragments = until(asked, said, calls, end).into_iter().map(String::into_bytes);
                Reply::Stream { fragments: Box::new(fragments), ends }
            });
            let (heard, answer) = hear(&dialect_client(dialect, &stub, |_| {}), &plain()).await;
            let error = answer.unwrap_err();
            assert!(matches!(error, ModelError::Unavailable(_)), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!text(&heard).is_empty() || !arguments(&heard, 0).is_empty(), "{heard:?}");
            assert_eq!(stub.requests().len(), 1, "deltas cannot be taken back");
        };
        check("", &CALLS, "A1", true, "broke off: the stream ended in the middle of a tool call").await;
        check("abcd", &[], "cd", true, "broke off: the stream ended in the middle of a text").await;
        check("abcd", &[], last(dialect), true, "broke off: the stream ended without").await;
        check("abcd", &[], "cd", false, "broke off: 127.0.0.1").await;
    }
}

#[tokio::test]
async fn failures_before_the_first_delta_are_retried() {
    for dialect in Dialect::ALL {
        let stub = Stub::start(|number, asked| match number {
            0 => Reply::Http(503, vec![("retry-after", "0".into())], "busy".into()),
            1 => Reply::Stream { fragments: Box::new(std::iter::empty()), ends: true },
            2 => {
                let fragments = until(asked, "4", &[], "\"4\"").into_iter().map(String::into_bytes);
                Reply::Stream { fragments: Box::new(fragments), ends: false }
            }
            3 => stream(["data: {\"error\": {\"message\": \"overloaded\"}}\n\n".to_owned()]),
            _ => stream(events(asked, "4", &[])),
        });
        let model = dialect_client(dialect, &stub, |config| config.retries = 4);
        let (heard, answer) = hear(&model, &plain()).await;
        assert_eq!((text(&heard).as_str(), answer.unwrap().message.plain_text().as_str()), ("4", "4"));
        assert_eq!(stub.requests().len(), 5);
        let stub = Stub::start(|_, _| Reply::Http(400, vec![], "no".into()));
        let (heard, answer) = hear(&dialect_client(dialect, &stub, |_| {}), &plain()).await;
        assert!(heard.is_empty() && matches!(answer, Err(ModelError::Refused(_))));
        assert_eq!(stub.requests().len(), 1);
    }
}

#[tokio::test]
async fn errors_in_a_stream_are_reported() {
    for dialect in Dialect::ALL {
        let stub = Stub::start(|_, asked| {
            let error = "event: error\ndata: {\"type\": \"error\", \"error\": {\"message\": \"Overloaded\"}}\n\n";
            stream(until(asked, "abcd", &[], "cd").into_iter().chain([error.to_owned()]))
        });
        let (heard, answer) = hear(&dialect_client(dialect, &stub, |_| {}), &plain()).await;
        assert_eq!(text(&heard), "ab");
        assert_eq!(answer.unwrap_err(), ModelError::Unavailable("Overloaded".into()));
        let stub = Stub::start(|_, _| stream(["data: <html>\n\n".to_owned()]));
        let (_, answer) = hear(&dialect_client(dialect, &stub, |_| {}), &plain()).await;
        let error = answer.unwrap_err();
        assert!(
            matches!(&error, ModelError::InvalidResponse(text) if text.contains("begins with `<html>`")),
            "{error}"
        );
        assert_eq!(stub.requests().len(), 1, "an invalid answer is not retried");
    }
}

#[tokio::test]
async fn a_sink_can_end_the_stream() {
    for dialect in Dialect::ALL {
        for streams in [true, false] {
            let stub = Stub::start(move |_, asked| match streams {
                true => stream(events(asked, "abcdef", &[])),
                false => says(asked, "abcdef", &[]),
            });
            let mut heard = 0;
            let mut sink = |delta| match delta {
                ModelDelta::Text(_) => {
                    heard += 1;
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            };
            let answer = dialect_client(dialect, &stub, |_| {}).stream(&plain(), &mut sink).await;
            assert_eq!((answer, heard), (Err(ModelError::Stopped), 1));
            assert_eq!(stub.requests().len(), 1);
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_is_parsed_and_reported() {
    for dialect in Dialect::ALL {
        let stub = Stub::start(|_, asked| says(asked, "I look.", &CALLS));
        let (heard, answer) = hear(&dialect_client(dialect, &stub, |_| {}), &plain()).await;
        let answer = answer.unwrap();
        assert_eq!(answer.ignored, [IgnoredRequest::Stream]);
        assert_eq!((text(&heard).as_str(), arguments(&heard, 0).as_str()), ("I look.", CALLS[0].2));
        assert_eq!(answer.message.tool_calls.len(), 2);
        // An event stream with another content type is recognised.
        let stub = Stub::start(|_, asked| Reply::Http(200, vec![], events(asked, "four", &[]).concat()));
        let (heard, answer) = hear(&dialect_client(dialect, &stub, |_| {}), &plain()).await;
        assert_eq!((text(&heard).as_str(), answer.unwrap().ignored), ("four", vec![]));
    }
}

#[tokio::test]
async fn ignored_parts_of_a_request_are_reported_streamed_or_not() {
    let asked = ModelRequest {
        logprobs: Some(2),
        response_format: Some(ResponseFormat::JsonObject),
        tool_choice: ToolChoice::Required,
        top_p: Some(0.9),
        ..request()
    };
    use IgnoredRequest::{Logprobs, ResponseFormat as Format, Seed, ToolChoice as Choice};
    for (dialect, expected) in
        [(Dialect::OpenAi, vec![Logprobs, Format, Choice]), (Dialect::Anthropic, vec![Logprobs, Format, Choice, Seed])]
    {
        let stub = Stub::start(|_, asked| match asked.body["stream"] == true {
            true => stream(events(asked, "four", &[])),
            false => says(asked, "four", &[]),
        });
        let model = dialect_client(dialect, &stub, |_| {});
        assert_eq!(model.complete(&asked).await.unwrap().ignored, expected);
        assert_eq!(hear(&model, &asked).await.1.unwrap().ignored, expected);
        assert!(stub.requests().iter().all(|asked| asked.body["top_p"] == 0.9));
    }
}

#[tokio::test]
async fn a_key_quoted_in_fragments_is_never_shown() {
    let secret = "sk-very-secret-4711";
    for dialect in Dialect::ALL {
        let quoted = format!("your key is {secret}, sk-very well");
        let call = format!("{{\"key\":\"{secret}\"}}");
        let expected = quoted.replace(secret, "[key]");
        for size in [1, 5, 1 << 20] {
            let (quoted, call) = (quoted.clone(), call.clone());
            let stub = Stub::start(move |_, asked| {
                let bytes = events(asked, &quoted, &[("a", "f", &call)]).concat().into_bytes();
                let fragments: Vec<Vec<u8>> = bytes.chunks(size).map(<[u8]>::to_vec).collect();
                Reply::Stream { fragments: Box::new(fragments.into_iter()), ends: true }
            });
            let model = dialect_client(dialect, &stub, |config| config.key = Secret::new(secret));
            let (heard, answer) = hear(&model, &plain()).await;
            let answer = answer.unwrap();
            assert_eq!((text(&heard), answer.message.plain_text()), (expected.clone(), expected.clone()));
            assert_eq!(arguments(&heard, 0), "{\"key\":\"[key]\"}");
            assert!(!format!("{answer:?}").contains(secret));
        }
        // In an unreadable event, across the end of the excerpt in the error.
        let stub = Stub::start(move |_, _| stream([format!("data: {}{secret}\n\n", "x".repeat(110))]));
        let model = dialect_client(dialect, &stub, |config| config.key = Secret::new(secret));
        let error = hear(&model, &plain()).await.1.unwrap_err().to_string();
        assert!(error.contains("xx[key]") && !error.contains("sk-"), "{error}");
    }
}

#[tokio::test]
async fn tokens_that_spell_a_key_are_not_passed_on() {
    let stub = Stub::start(|_, _| {
        let chunk = |text: &str, finish: Option<&str>| {
            let logprobs = serde_json::json!({"content": [{"token": text, "logprob": -0.5}]});
            let choice = serde_json::json!({"index": 0, "delta": {"content": text}, "logprobs": logprobs, "finish_reason": finish});
            format!("data: {}\n\n", serde_json::json!({"choices": [choice]}))
        };
        let pieces = [chunk("a ", None), chunk("sk-", None), chunk("very-4711", None), chunk(" b", Some("stop"))];
        stream(pieces.into_iter().chain(["data: [DONE]\n\n".to_owned()]))
    });
    let model = dialect_client(Dialect::OpenAi, &stub, |config| config.key = Secret::new("sk-very-4711"));
    let (heard, answer) = hear(&model, &ModelRequest { logprobs: Some(0), ..plain() }).await;
    let answer = answer.unwrap();
    assert_eq!((text(&heard).as_str(), answer.message.plain_text().as_str()), ("a [key] b", "a [key] b"));
    assert_eq!(answer.ignored, [IgnoredRequest::Logprobs, IgnoredRequest::Usage]);
    assert!(!format!("{heard:?} {answer:?}").contains("4711"), "{heard:?} {answer:?}");
}

#[tokio::test]
async fn a_server_that_rejects_the_usage_option_is_called_without_it() {
    let stub = Stub::start(|_, asked| match asked.body.get("stream_options") {
        Some(_) => Reply::Http(400, vec![], "Unrecognized request argument supplied: stream_options".into()),
        None => stream(events(asked, "4", &[])),
    });
    let model = dialect_client(Dialect::OpenAi, &stub, |_| {});
    for requests in [2, 3] {
        let (heard, answer) = hear(&model, &plain()).await;
        let answer = answer.unwrap();
        assert_eq!((text(&heard).as_str(), answer.ignored), ("4", vec![IgnoredRequest::Usage]));
        assert!(answer.usage.prompt_tokens > 0 && answer.usage.completion_tokens == 1, "{:?}", answer.usage);
        assert_eq!(stub.requests().len(), requests);
    }
}

#[tokio::test]
async fn a_silence_ends_a_stream_but_a_slow_answer_does_not() {
    for dialect in Dialect::ALL {
        let (hold, held) = mpsc::channel::<()>();
        let held = Mutex::new(Some(held));
        let stub = Stub::start(move |_, asked| {
            let held = held.lock().unwrap().take().unwrap();
            let fragments = until(asked, "abcd", &[], "cd").into_iter().map(String::into_bytes);
            // Ends when the test ends.
            let silence = std::iter::once_with(move || held.recv().map(|()| Vec::new()).unwrap_or_default());
            Reply::Stream { fragments: Box::new(fragments.chain(silence)), ends: false }
        });
        let model = dialect_client(dialect, &stub, |config| config.timeout = Duration::from_millis(200));
        let (heard, answer) = hear(&model, &plain()).await;
        let error = answer.unwrap_err().to_string();
        assert!(
            text(&heard) == "ab" && error.ends_with("within 0.2 s, the limit of model_timeout"),
            "{heard:?} {error}"
        );
        drop(hold);
    }
}

fn metered(model: impl Llm + 'static) -> (Metered, Arc<Account>) {
    let spent = Arc::new(Account::default());
    let budget = Budget { tokens: Some(20), cost: None };
    let prices = Some(Prices { input: 1.0, output: 10.0 });
    (Metered::new(Arc::new(model), budget, prices, spent.clone()), spent)
}

#[tokio::test]
async fn streams_are_metered_and_limited_by_the_budget() {
    for dialect in Dialect::ALL {
        let stub = Stub::start(|_, asked| stream(events(asked, "4", &[])));
        let (metered, spent) = metered(dialect_client(dialect, &stub, |_| {}));
        for _ in 0..2 {
            hear(&metered, &plain()).await.1.unwrap();
        }
        let (heard, answer) = hear(&metered, &plain()).await;
        assert_eq!((heard, answer), (vec![], Err(ModelError::Budget("24 of 20 tokens".into()))));
        assert_eq!(stub.requests().len(), 2, "nothing is sent beyond the budget");
        let spent = spent.spent();
        assert_eq!((spent.calls, spent.usage.prompt_tokens, spent.usage.completion_tokens), (2, 20, 4));
        assert!((spent.cost - 60e-6).abs() < 1e-12, "{spent:?}");
    }
}

/// Reports usage, then fails.
struct Broken;

#[async_trait::async_trait]
impl Llm for Broken {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "test".into(), model: "test".into(), version: String::new() }
    }

    async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        Err(ModelError::Stopped)
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut dyn clawhost_core::DeltaSink,
    ) -> Result<ModelResponse, ModelError> {
        for written in [1, 5] {
            let usage = Usage { prompt_tokens: 7, completion_tokens: written, ..Usage::default() };
            let _ = sink.delta(ModelDelta::Usage(usage));
        }
        match request.max_tokens {
            0 => std::future::pending().await,
            _ => Err(ModelError::Unavailable("the answer broke off".into())),
        }
    }
}

#[tokio::test]
async fn an_interrupted_or_abandoned_stream_costs_the_reported_usage() {
    let (broken, spent) = metered(Broken);
    assert!(hear(&broken, &plain()).await.1.is_err());
    let reported = |times: u64| Usage { prompt_tokens: 7 * times, completion_tokens: 5 * times, ..Usage::default() };
    let so_far = spent.spent();
    assert_eq!((so_far.usage, so_far.calls), (reported(1), 0));
    let endless = ModelRequest { max_tokens: 0, ..plain() };
    let mut sink = ();
    {
        let mut abandoned = broken.stream(&endless, &mut sink);
        tokio::select! {
            biased;
            _ = &mut abandoned => panic!("it must not end"),
            () = std::future::ready(()) => {}
        }
    }
    assert_eq!(spent.spent().usage, reported(2));
}

#[tokio::test]
async fn a_script_is_streamed_line_by_line() {
    let script = Scripted::new(clawhost_core::read_script("one").unwrap()).unwrap();
    let (heard, answer) = hear(&script, &request()).await;
    assert_eq!((text(&heard).as_str(), answer.unwrap().message.plain_text().as_str()), ("one", "one"));
}
