//! The two sides of a dialect are inverse: what one writes, the other parses to the same value.

use crate::streams::{check_pieces, cut, read};
use clawhost_core::{
    AnsweringModel, Message, ModelDelta, ModelRequest, ModelResponse, Origin, Part, REASONING, ResponseFormat, Role,
    TokenLogprob, ToolCall, ToolChoice, ToolSpec, UnknownFields, Usage,
};
use clawhost_wire::{AnswerHead, ErrorKind, anthropic, openai};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;

/// Text that is not blank: the Anthropic dialect has no blank text.
fn said() -> impl Strategy<Value = String> {
    "[a-z\u{e4}\u{1f600}\"\\\\{}\r\n ]{0,8}x"
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_-]{1,8}"
}

/// A JSON object in compact form, as the Anthropic dialect returns it.
fn object() -> impl Strategy<Value = Value> {
    let value =
        prop_oneof![any::<i32>().prop_map(Value::from), said().prop_map(Value::from), Just(json!({"a": [null, 0.5]}))];
    prop::collection::vec((name(), value), 0..3).prop_map(|fields| fields.into_iter().collect::<Map<_, _>>().into())
}

fn call(arguments: impl Strategy<Value = String>) -> impl Strategy<Value = ToolCall> {
    (name(), name(), arguments).prop_map(|(id, name, arguments)| ToolCall { id, name, arguments, extra: vec![] })
}

fn compact() -> impl Strategy<Value = String> {
    object().prop_map(|object| object.to_string())
}

/// A turn: a question, possibly with an image, an answer, and the results of its calls.
fn turn(dialect: &'static str) -> impl Strategy<Value = Vec<Message>> {
    let answer = (of(said()), prop::collection::vec(call(compact()), 0..3));
    (said(), any::<bool>(), answer, said()).prop_map(move |(question, picture, (text, calls), result)| {
        let mut question = Message::text(Role::User, Origin::User, question);
        if picture {
            let picture = json!({dialect: {"type": "image", "source": {"url": "x"}}});
            question.parts.push(Part::Other(picture.to_string()));
        }
        let text = text.or_else(|| calls.is_empty().then(|| "x".to_owned()));
        let mut answer = Message::text(Role::Assistant, Origin::Policy, "");
        answer.parts = text.into_iter().map(Part::Text).collect();
        let result = |call: &ToolCall| Message {
            tool_call_id: Some(call.id.clone()),
            ..Message::text(Role::Tool, Origin::Tool, result.clone())
        };
        let results: Vec<Message> = calls.iter().map(result).collect();
        answer.tool_calls = calls;
        [vec![question, answer], results].concat()
    })
}

fn tools() -> impl Strategy<Value = Vec<ToolSpec>> {
    let tool = (name(), said(), object()).prop_map(|(name, description, more)| {
        let input_schema = json!({"type": "object", "x": more}).to_string();
        ToolSpec { name, description, input_schema, extra: vec![] }
    });
    prop::collection::vec(tool, 0..3)
}

fn tool_choice() -> impl Strategy<Value = ToolChoice> {
    prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::None),
        Just(ToolChoice::Required),
        name().prop_map(ToolChoice::Tool)
    ]
}

fn format() -> impl Strategy<Value = ResponseFormat> {
    let schema = (name(), object(), any::<bool>());
    let schema = schema.prop_map(|(name, schema, strict)| ResponseFormat::JsonSchema { name, schema, strict });
    prop_oneof![Just(ResponseFormat::JsonObject), schema]
}

/// Requests that a dialect can represent without loss:
/// - texts that are not blank, one text part per message, and other parts of the dialect itself;
/// - one system prompt at the beginning; alternating questions and answers;
/// - arguments and schemas as objects in compact form; valid tool names;
/// - the choice of no tool only if there are tools; a seed of 63 bits.
fn request(dialect: &'static str) -> impl Strategy<Value = ModelRequest> {
    let hottest = if dialect == "openai" { 2.0f32 } else { 1.0 };
    let numbers = (1u32.., of(0.0..=hottest), of(0.0f32..=1.0), of(0..=i64::MAX as u64), of(0u8..=20));
    let words = (of(said()), prop::collection::vec(turn(dialect), 0..3), prop::collection::vec(said(), 0..3));
    let choices = (tools(), tool_choice(), of(format()), prop::collection::vec((name(), object()), 0..3));
    (numbers, words, choices).prop_map(
        move |(numbers, (system, turns, stop), (tools, tool_choice, format, unknown))| {
            let (max_tokens, temperature, top_p, seed, logprobs) = numbers;
            let system = system.map(|text| Message::text(Role::System, Origin::User, text));
            let fields: Map<String, Value> =
                unknown.into_iter().map(|(name, value)| (format!("x_{name}"), value)).collect();
            let tool_choice = match tool_choice {
                ToolChoice::None if tools.is_empty() => ToolChoice::Auto,
                other => other,
            };
            ModelRequest {
                messages: system.into_iter().chain(turns.into_iter().flatten()).collect(),
                tools,
                tool_choice,
                max_tokens,
                temperature,
                top_p,
                seed,
                stop,
                response_format: format,
                logprobs,
                unknown: (!fields.is_empty()).then(|| UnknownFields { dialect: dialect.to_owned(), fields }),
                ..ModelRequest::default()
            }
        },
    )
}

/// An answer. In the chat dialect arguments may be any text; in the other they are compact objects.
fn response(dialect: &'static str) -> impl Strategy<Value = ModelResponse> {
    let arguments = if dialect == "openai" { ".{0,12}".boxed() } else { compact().boxed() };
    let token = (".{0,3}", -50.0f64..=0.0, prop::collection::vec((".{0,3}", -50.0f64..=0.0), 0..3));
    let token = token.prop_map(|(token, logprob, alternatives)| TokenLogprob { token, logprob, alternatives });
    let said = (of(".{1,20}"), prop::collection::vec(call(arguments), 0..4), prop::collection::vec(token, 0..3));
    let usage = (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(read, written, cached)| Usage {
        prompt_tokens: u64::from(read),
        completion_tokens: u64::from(written),
        cached_tokens: u64::from(cached.min(read)),
        ..Usage::default()
    });
    let model = of((name(), of(name())));
    (said, usage, select(vec!["stop", "length", "tool_calls", "refusal"]), model).prop_map(
        move |((text, tool_calls, logprobs), usage, finish, model)| {
            let parts = text.into_iter().map(Part::Text).collect();
            let message = Message { parts, tool_calls, ..Message::text(Role::Assistant, Origin::Policy, "") };
            let is_openai = dialect == "openai";
            ModelResponse {
                answered_by: model
                    .map(|(model, version)| AnsweringModel { model, version: version.filter(|_| is_openai) }),
                logprobs: if is_openai { logprobs } else { Vec::new() },
                ..ModelResponse::new(message, usage, finish)
            }
        },
    )
}

/// A text in fragments.
fn pieces(text: &str, cuts: &[Index]) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(characters.len() + 1)).collect();
    cuts.extend([0, characters.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| characters[pair[0]..pair[1]].iter().collect()).collect()
}

/// An answer as deltas; those of its calls alternate.
fn deltas(response: &ModelResponse, cuts: &[Index]) -> Vec<ModelDelta> {
    let text = pieces(&response.message.plain_text(), cuts);
    let mut deltas: Vec<ModelDelta> = text.into_iter().filter(|text| !text.is_empty()).map(ModelDelta::Text).collect();
    if !response.logprobs.is_empty() {
        deltas.push(ModelDelta::Logprobs(response.logprobs.clone()));
    }
    let calls: Vec<Vec<String>> =
        response.message.tool_calls.iter().map(|call| pieces(&call.arguments, cuts)).collect();
    for round in 0..=cuts.len() {
        for (index, (call, pieces)) in response.message.tool_calls.iter().zip(&calls).enumerate() {
            let head = |text: &String| (round == 0).then(|| text.clone());
            let (id, name, arguments) = (head(&call.id), head(&call.name), pieces[round].clone());
            deltas.push(ModelDelta::ToolCall { index, id, name, arguments });
        }
    }
    deltas.push(ModelDelta::Usage(response.usage));
    deltas
}

fn head(response: &ModelResponse) -> AnswerHead {
    let model = response.answered_by.as_ref();
    AnswerHead {
        id: "answer-1".into(),
        model: model.map(|model| model.model.clone()).unwrap_or_default(),
        version: model.and_then(|model| model.version.clone()),
        created: 7,
    }
}

/// A stream written by the server side.
fn streamed(dialect: &str, response: &ModelResponse, deltas: &[ModelDelta]) -> String {
    let head = head(response);
    if dialect == "openai" {
        let mut writer = openai::StreamWriter::new(head, true);
        let begin = writer.begin();
        let pieces: String = deltas.iter().map(|delta| writer.delta(delta)).collect();
        return begin + &pieces + &writer.end(response);
    }
    let mut writer = anthropic::StreamWriter::new(head);
    let begin = writer.begin();
    let pieces: String = deltas.iter().map(|delta| writer.delta(delta)).collect();
    begin + &pieces + &writer.end(response)
}

fn check_answer(dialect: &str, response: &ModelResponse, cuts: &[Index]) {
    let stream = streamed(dialect, response, &deltas(response, cuts));
    let (pieces, read_back) = read(dialect, cut(stream.as_bytes(), cuts)).unwrap();
    assert_eq!(&read_back, response, "{stream}");
    check_pieces(&pieces, response);
    let whole = match dialect {
        "openai" => openai::response(&openai::body(&head(response), response).to_string()),
        _ => anthropic::response(&anthropic::body(&head(response), response).to_string()),
    };
    assert_eq!(&whole.unwrap(), response);
}

proptest! {
    #[test]
    fn chat_requests_round_trip(asked in request("openai"), stream in any::<bool>()) {
        let mut written = openai::request("m", &asked, openai::TokenLimit::MaxTokens);
        if stream {
            written = written.streamed(true);
        }
        let read = openai::read_request(&serde_json::to_string(&written).unwrap(), 1).unwrap();
        prop_assert_eq!((read.model.as_str(), read.stream, read.include_usage), ("m", stream, stream));
        prop_assert_eq!(read.request, asked);
    }

    #[test]
    fn messages_requests_round_trip(asked in request("anthropic"), stream in any::<bool>()) {
        let mut written = anthropic::request("m", &asked).unwrap();
        if stream {
            written = written.streamed();
        }
        let read = anthropic::read_request(&serde_json::to_string(&written).unwrap()).unwrap();
        prop_assert_eq!((read.model.as_str(), read.stream), ("m", stream));
        // The dialect has no fields for these.
        let expected = ModelRequest { seed: None, response_format: None, logprobs: None, ..asked };
        prop_assert_eq!(read.request, expected);
    }

    #[test]
    fn answers_round_trip_streamed_or_whole(
        openai in response("openai"),
        anthropic in response("anthropic"),
        cuts in prop::collection::vec(any::<Index>(), 0..6),
    ) {
        check_answer("openai", &openai, &cuts);
        check_answer("anthropic", &anthropic, &cuts);
    }

    #[test]
    fn no_client_request_panics(body in ".{0,60}", name in select(vec!["openai-request.json", "anthropic-request.json"]), at in any::<Index>(), value in object()) {
        let mut golden: Value = serde_json::from_str(&crate::read(name)).unwrap();
        let fields = golden.as_object_mut().unwrap();
        let field = fields.keys().nth(at.index(fields.len())).unwrap().clone();
        fields.insert(field, value);
        for body in [body, golden.to_string()] {
            let _ = openai::read_request(&body, 1);
            let _ = anthropic::read_request(&body);
        }
    }
}

#[test]
fn the_server_side_parses_golden_conversations() {
    let openai = openai::read_request(&crate::read("openai-request.json"), 1).unwrap();
    let anthropic = anthropic::read_request(&crate::read("anthropic-request.json")).unwrap();
    for read in [openai, anthropic] {
        assert_eq!((read.model.as_str(), read.stream), ("m", false));
        assert_eq!(read.request.messages[0].plain_text(), "You work at a desk.");
        assert_eq!((read.request.tools.len(), read.request.max_tokens), (2, 256));
    }
}

#[test]
fn errors_in_a_stream_parse() {
    let response = ModelResponse::new(Message::text(Role::Assistant, Origin::Policy, "a"), Usage::default(), "stop");
    for kind in ErrorKind::ALL {
        let mut openai_writer = openai::StreamWriter::new(head(&response), true);
        let openai_stream = openai_writer.begin() + &openai_writer.error(kind, "it went wrong");
        let mut anthropic_writer = anthropic::StreamWriter::new(head(&response));
        let anthropic_stream = anthropic_writer.begin() + &anthropic_writer.error(kind, "it went wrong");
        for (dialect, stream) in [("openai", openai_stream), ("anthropic", anthropic_stream)] {
            let error = read(dialect, [stream.as_bytes()]).unwrap_err();
            assert_eq!(error.to_string(), "the endpoint says: it went wrong", "{kind:?}");
        }
        let bodies = [openai::error_body(kind, "no"), anthropic::error_body(kind, "no")];
        assert!(openai::response(&bodies[0].to_string()).unwrap_err().to_string().ends_with("says: no"));
        assert!(anthropic::response(&bodies[1].to_string()).unwrap_err().to_string().ends_with("says: no"));
    }
}

/// An answer of a local model that reasoned.
#[test]
fn reasoning_has_a_place_of_its_own_in_both_dialects() {
    let call = ToolCall { id: "c1".into(), name: "f".into(), arguments: "{}".into(), extra: vec![] };
    let mut message = Message::text(Role::Assistant, Origin::Policy, "Four.");
    message.extra.push((REASONING.to_owned(), "Two and two.".to_owned()));
    message.tool_calls.push(call);
    let response = ModelResponse::new(message, Usage::default(), "tool_calls");
    let head = || AnswerHead { id: "answer-1".into(), ..AnswerHead::default() };
    let mut deltas = Vec::new();
    let mut sink = |delta| {
        deltas.push(delta);
        ControlFlow::Continue(())
    };
    assert!(response.pass_on(&mut sink).is_continue());

    let body = openai::body(&head(), &response);
    let said = &body["choices"][0]["message"];
    assert_eq!((&said["reasoning_content"], &said["content"]), (&json!("Two and two."), &json!("Four.")));
    let mut writer = openai::StreamWriter::new(head(), false);
    let events: String = deltas.iter().map(|delta| writer.delta(delta)).collect();
    assert!(events.contains(r#""delta":{"reasoning_content":"Two and two."}"#), "{events}");
    assert!(events.contains(r#""delta":{"content":"Four."}"#), "{events}");

    let body = anthropic::body(&head(), &response);
    let kinds = |all: &Value| -> Vec<String> {
        all.as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&body["content"]), ["thinking", "text", "tool_use"]);
    let mut writer = anthropic::StreamWriter::new(head());
    let events: String = deltas.iter().map(|delta| writer.delta(delta)).collect::<String>() + &writer.end(&response);
    let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
    let blocks: Vec<(String, u64)> = data
        .map(|text| serde_json::from_str::<Value>(text).unwrap())
        .filter_map(|event| Some((event["type"].as_str()?.to_owned(), event["index"].as_u64()?)))
        .filter(|(kind, _)| kind != "content_block_delta")
        .collect();
    let expect = [("start", 0), ("stop", 0), ("start", 1), ("stop", 1), ("start", 2), ("stop", 2)];
    assert_eq!(blocks, expect.map(|(kind, index)| (format!("content_block_{kind}"), index)));
}
