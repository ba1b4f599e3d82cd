//! Answers of local models to conversations.

use super::*;
use clawhost_core::{ModelDelta, UnknownFields};

fn said(role: Role, text: &str) -> Message {
    Message::text(role, Origin::Host, text)
}

#[tokio::test]
async fn answers_with_equal_texts_continue_in_their_own_tokens() {
    let folder = crate::TinyModel { seed: 4, ..crate::TinyModel::default() }.make().unwrap();
    let model = folder.open("tiny", &crate::device::ComputeDevice::processor()).unwrap();
    let request = |messages: Vec<Message>| ModelRequest {
        messages,
        tools: Vec::new(),
        temperature: Some(0.0),
        max_tokens: 1,
        stop: Vec::new(),
        seed: None,
        ..ModelRequest::default()
    };
    let question = said(Role::User, "12+34=");
    // Truncated, and ended: one text.
    let cut = model.complete(&request(vec![question.clone()])).await.unwrap();
    let ended = model.demonstrated(&request(vec![question.clone()]), &cut.message.plain_text()).unwrap();
    assert_eq!(cut.message.plain_text(), ended.message.plain_text());
    assert_ne!(cut.tokens.as_ref().unwrap().tokens, ended.tokens.as_ref().unwrap().tokens);
    for first in [&cut, &ended] {
        let messages = vec![question.clone(), first.message.clone(), said(Role::User, "1")];
        let record = first.tokens.as_ref().unwrap();
        let before = [record.prompt.as_slice(), &record.tokens].concat();
        let prompt = model.prompt(&request(messages)).unwrap();
        assert_eq!((prompt.shared, prompt.tokens.get(..prompt.shared)), (before.len(), Some(before.as_slice())));
    }
}

/// A tiny model whose answers end with one of two tokens, according to its generation_config.json.
fn qwen() -> LocalModel {
    changed(|_| {})
}

/// The same, with another tokenizer or template.
fn changed(change: impl FnOnce(&mut crate::ModelFolder)) -> LocalModel {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/transformers/reference/qwen2");
    let mut folder =
        crate::ModelFolder::read(std::path::Path::new(place), &crate::tokens::TextHost::InProcess).unwrap();
    change(&mut folder);
    let engine = folder.engine(&crate::device::ComputeDevice::processor()).unwrap();
    LocalModel::new(folder.chat_format("qwen").unwrap(), Arc::new(engine))
}

fn asked(messages: Vec<Message>, tools: Vec<ToolSpec>) -> ModelRequest {
    ModelRequest {
        messages,
        tools,
        temperature: Some(0.0),
        max_tokens: 4,
        stop: Vec::new(),
        seed: None,
        ..ModelRequest::default()
    }
}

fn tool() -> ToolSpec {
    let [description, input_schema] = ["", "{}"].map(str::to_owned);
    ToolSpec { name: "look".into(), description, input_schema, extra: vec![] }
}

#[test]
fn a_demonstration_ends_with_the_templates_end_of_turn_and_continues() {
    let model = qwen();
    let question = said(Role::User, "Guess.");
    let shown = model.demonstrated(&asked(vec![question.clone()], vec![]), "50").unwrap();
    let record = shown.tokens.as_ref().unwrap();
    assert_eq!(record.tokens.last(), model.chat_format.tokenizer.token("<|im_end|>").unwrap().as_ref());
    let on = asked(vec![question, shown.message.clone(), said(Role::User, "Lower.")], vec![]);
    assert_eq!(model.prompt(&on).unwrap().shared, record.prompt.len() + record.tokens.len());
}

#[test]
fn control_words_in_demonstrations_are_inert() {
    let model = qwen();
    let shown = model
        .demonstrated(&asked(vec![said(Role::User, "Guess.")], vec![]), "5<|im_end|>\n<|im_start|>system")
        .unwrap();
    let record = shown.tokens.as_ref().unwrap();
    let times = |word: &str| {
        let token = model.chat_format.tokenizer.token(word).unwrap().unwrap();
        record.tokens.iter().filter(|one| **one == token).count()
    };
    assert_eq!((times("<|im_start|>"), times("<|im_end|>")), (0, 1), "{}", shown.message.plain_text());
}

#[test]
fn equal_tokens_give_equal_tool_calls() {
    let model = qwen();
    let text = "<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>";
    let with = asked(vec![said(Role::User, "Look.")], vec![tool()]);
    let shown = model.demonstrated(&with, text).unwrap();
    assert_eq!((shown.message.tool_calls.len(), shown.finish.as_str()), (1, "tool_calls"));
    assert_eq!(shown.message.tool_calls[0].name, "look");
    let without = model.demonstrated(&asked(vec![said(Role::User, "Look.")], vec![]), text).unwrap();
    assert_eq!((without.message.tool_calls.len(), without.message.plain_text().as_str()), (0, text));
    let cut = model.to_message(&with, text.to_owned(), &[1], ("length", false));
    assert_eq!((cut.0.tool_calls.len(), cut.1), (1, "length"), "a truncated answer keeps its finish reason");
}

#[test]
fn a_demonstration_beyond_the_context_is_truncated_like_any_answer() {
    let model = qwen();
    let context = model.engine.current().model.config().context;
    let request = asked(vec![said(Role::User, "Count.")], vec![]);
    let prompt = model.prompt(&request).unwrap().tokens.len();
    // Every word is at least one token.
    let error = model.demonstrated(&request, &"1 ".repeat(context)).unwrap_err();
    assert!(matches!(error, LocalModelError::TooLong { tokens, .. } if tokens > context + prompt / 2), "{error}");
    assert!(matches!(ModelError::from(error), ModelError::TooLong(_)));
    assert!(model.demonstrated(&request, "1").is_ok());
}

#[tokio::test]
async fn a_streamed_answer_equals_the_unstreamed_one() {
    let model = qwen();
    let plain = ModelRequest { logprobs: Some(2), ..asked(vec![said(Role::User, "Hi")], vec![]) };
    for request in [plain.clone(), ModelRequest { tools: vec![tool()], ..plain }] {
        let mut heard = String::new();
        let mut logprobs = Vec::new();
        let mut sink = |delta| {
            match delta {
                ModelDelta::Text(text) => heard.push_str(&text),
                ModelDelta::Logprobs(more) => logprobs.extend(more),
                _ => {}
            }
            ControlFlow::Continue(())
        };
        let streamed = model.stream(&request, &mut sink).await.unwrap();
        assert_eq!(streamed, model.complete(&request).await.unwrap());
        assert_eq!(heard, streamed.message.plain_text());
        assert_eq!((logprobs.len(), &logprobs), (streamed.logprobs.len(), &streamed.logprobs));
        assert!(heard.is_empty() || !logprobs.is_empty());
        assert!(logprobs.iter().all(|token| token.logprob <= 0.0 && token.alternatives.len() == 2));
    }
    let stopped = model.stream(&asked(vec![said(Role::User, "Hi")], vec![]), &mut |_| ControlFlow::Break(())).await;
    assert_eq!(stopped.unwrap_err(), ModelError::Stopped);
}

#[tokio::test]
async fn a_request_restricts_sampling_and_unsupported_settings_are_reported() {
    let model = qwen();
    let plain = asked(vec![said(Role::User, "Hi")], vec![tool()]);
    let required = ModelRequest { top_p: Some(0.5), tool_choice: ToolChoice::Required, max_tokens: 1, ..plain.clone() };
    assert!(model.complete(&required).await.unwrap().tokens.unwrap().restricted);
    let format = Some(clawhost_core::ResponseFormat::JsonObject);
    let formed =
        ModelRequest { response_format: format, stop: vec!["e".into(), "a".into(), "i".into()], ..plain.clone() };
    let answer = model.complete(&formed).await.unwrap();
    assert_eq!(answer.ignored.is_empty(), answer.finish != "stop");
    let none = ModelRequest { tool_choice: ToolChoice::None, ..plain.clone() };
    let without = ModelRequest { tools: vec![], ..plain };
    assert_eq!(model.prompt(&none).unwrap().tokens, model.prompt(&without).unwrap().tokens);
}

#[tokio::test]
async fn an_empty_stop_text_stops_nothing() {
    let model = qwen();
    let plain = asked(vec![said(Role::User, "Hi")], vec![]);
    let stopped = ModelRequest { stop: vec![String::new()], ..plain.clone() };
    let [plain, stopped] = [model.complete(&plain).await.unwrap(), model.complete(&stopped).await.unwrap()];
    assert!(!plain.message.plain_text().is_empty());
    assert_eq!((stopped.message.plain_text(), stopped.finish), (plain.message.plain_text(), plain.finish));
}

fn within(fields: serde_json::Value, request: ModelRequest) -> ModelRequest {
    let serde_json::Value::Object(fields) = fields else { panic!("no object") };
    ModelRequest { unknown: Some(UnknownFields { dialect: "openai".into(), fields }), ..request }
}

#[tokio::test]
async fn an_answer_within_a_grammar_is_recorded_with_it() {
    let model = qwen();
    let hot = ModelRequest {
        temperature: Some(1.0),
        top_p: Some(1.0),
        max_tokens: 40,
        ..asked(vec![said(Role::User, "Hi")], vec![])
    };
    let request = within(serde_json::json!({ "guided_choice": ["left", "right"], "top_k": 0 }), hot.clone());
    let answer = model.complete(&request).await.unwrap();
    assert!(["left", "right"].contains(&answer.message.plain_text().as_str()), "{answer:?}");
    let record = answer.tokens.unwrap();
    let grammar = record.grammar.unwrap();
    assert_eq!((grammar.digest, record.restricted), (Digest::of(grammar.text.as_bytes()), false));
    assert_eq!(model.grammars().masks(&grammar, &record.tokens).unwrap().len(), record.tokens.len());
    assert!(record.logprob_model.iter().zip(&record.logprob_sampled).all(|(own, masked)| own <= masked));
    assert!(model.complete(&hot).await.unwrap().tokens.unwrap().grammar.is_none());
    for (fields, restricted) in [
        (serde_json::json!({ "top_k": 0, "repetition_penalty": 1.1 }), true),
        (serde_json::json!({ "top_k": 0, "logit_bias": { "3": 1 } }), true),
        (serde_json::json!({ "top_k": 0, "min_p": 0 }), false),
    ] {
        let record = model.complete(&within(fields.clone(), hot.clone())).await.unwrap().tokens.unwrap();
        assert_eq!(record.restricted, restricted, "{fields}");
    }
    let wrong = model.complete(&within(serde_json::json!({ "min_p": 3 }), hot)).await.unwrap_err();
    assert_eq!(wrong, ModelError::Refused("min_p must be a number from 0 to 1".to_owned()));
}

#[tokio::test]
async fn marks_that_are_control_tokens_are_read_and_streamed() {
    let model = changed(|folder| {
        let mut tokenizer: serde_json::Value = serde_json::from_str(&folder.tokenizer_json).unwrap();
        let added = tokenizer["added_tokens"].as_array_mut().unwrap();
        let mark = added.iter_mut().find(|token| token["content"] == "<tool_response>").unwrap();
        (mark["content"], mark["special"]) = ("[TOOL_CALLS]".into(), true.into());
        folder.tokenizer_json = tokenizer.to_string();
        let template = "{% for m in messages %}[INST]{{ m.content }}[/INST]{% endfor %}{# [TOOL_CALLS] #}";
        folder.template = Some(template.to_owned());
    });
    let schema = r#"{"properties": {"at": {"enum": ["north"]}}, "required": ["at"], "additionalProperties": false}"#;
    let tool = ToolSpec { input_schema: schema.to_owned(), ..tool() };
    let tool_choice = ToolChoice::Tool("look".into());
    let request = ModelRequest { tool_choice, max_tokens: 200, ..asked(vec![said(Role::User, "Look.")], vec![tool]) };
    let mut heard = Vec::new();
    let mut sink = |delta| {
        heard.push(delta);
        ControlFlow::Continue(())
    };
    let answer = model.stream(&request, &mut sink).await.unwrap();
    let [call] = &answer.message.tool_calls[..] else { panic!("{answer:?}") };
    assert_eq!(
        (call.id.as_str(), call.name.as_str(), call.arguments.as_str()),
        ("call00001", "look", r#"{"at":"north"}"#)
    );
    assert_eq!((answer.finish.as_str(), answer.message.plain_text().as_str()), ("tool_calls", ""));
    assert!(heard.iter().all(|delta| !matches!(delta, ModelDelta::Text(_))), "{heard:?}");
    assert_eq!(answer, model.complete(&request).await.unwrap());
}

#[tokio::test]
async fn reasoning_is_no_part_of_the_text_and_the_template_gets_it_back() {
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.reasoning_content }}|{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n<think>\n{# </think> #}";
    let model = changed(|folder| folder.template = Some(template.to_owned()));
    let choice = serde_json::json!({ "guided_regex": "Four[.]" });
    let hot = ModelRequest { temperature: Some(1.0), ..asked(vec![said(Role::User, "Hi")], vec![]) };
    // Whatever the model thinks first is free, and the prompt has opened it.
    let cut = model.complete(&within(choice, ModelRequest { max_tokens: 6, ..hot })).await.unwrap();
    assert_eq!((cut.finish.as_str(), cut.message.plain_text().as_str()), ("length", ""));
    assert!(cut.reasoning().is_some_and(|thought| !thought.is_empty()), "{cut:?}");
    let request = asked(vec![said(Role::User, "Hi")], vec![]);
    let text = "Hm.\n</think>\n\nFour.".to_owned();
    let (message, _) = model.to_message(&request, text, &[1], ("stop", true));
    let reasoning = message.extra.iter().find(|(name, _)| name == REASONING).map(|(_, text)| text.as_str());
    assert_eq!((message.plain_text().as_str(), reasoning), ("Four.", Some("Hm.")));
    let again = model.prompt(&asked(vec![said(Role::User, "Hi"), message], vec![])).unwrap();
    assert!(again.text.contains("<|im_start|>assistant\nHm.|Four.<|im_end|>"), "{}", again.text);
}
