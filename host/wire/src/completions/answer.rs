//! Answers of `/completions`, whole and streamed.

use super::scores::TokenName;
use crate::{AnswerHead, ErrorKind, openai, sse};
use clawhost_core::{ScoredToken, TokenFinish, TokenVersion, Usage};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// One answer to a prompt, or a part of one.
#[derive(Debug, Clone, Default)]
pub struct TextChoice<'a> {
    /// Its position: answers to the first prompt come first.
    pub index: usize,
    /// The text.
    pub text: Cow<'a, str>,
    /// The tokens of the text whose log-probs are reported, in parts, each with the characters of text before it. `None`: no log-probs.
    pub logprobs: Option<Vec<(&'a [ScoredToken], usize)>>,
    /// Whether alternatives were requested.
    pub alternatives: bool,
    /// Whether tokens are named by their ids, as in `token_id:7`. Several tokens may have one text.
    pub names_ids: bool,
    /// Why it ended. `None`: it goes on.
    pub finish: Option<&'a TokenFinish>,
    /// The token ids, if they are returned.
    pub ids: Option<TokenIds<'a>>,
}

/// The token ids of an answer.
#[derive(Debug, Clone, Default)]
pub struct TokenIds<'a> {
    /// Of the prompt, where it belongs into the answer: at its beginning.
    pub prompt: Option<&'a [u32]>,
    /// Of the answer.
    pub tokens: Vec<u32>,
    /// The weights that sampled them.
    pub versions: &'a [TokenVersion],
}

/// Pairs of a version of the weights and the number of tokens that it sampled.
pub fn version_pairs(versions: &[TokenVersion]) -> Value {
    versions.iter().map(|run| json!([run.version, run.tokens])).collect()
}

/// Log-probs in the form of this shape.
fn logprobs(parts: &[(&[ScoredToken], usize)], alternatives: bool, names_ids: bool) -> Value {
    let tokens = || parts.iter().flat_map(|(tokens, before)| tokens.iter().map(move |token| (token, *before)));
    let name = |id: u32, text: &str| if names_ids { TokenName::of_id(id) } else { text.to_owned() };
    let top = |token: &ScoredToken| -> Value {
        let Some(logprob) = token.logprob else { return Value::Null };
        let mut top: Map<String, Value> = Map::new();
        let is_known = token.alternatives.iter().any(|other| other.id == token.id);
        for other in &token.alternatives {
            let text = if other.id == token.id { &token.text } else { &other.text };
            // Two tokens may have one text: the more likely one is shown.
            top.entry(name(other.id, text)).or_insert_with(|| json!(other.logprob));
        }
        if !is_known {
            top.entry(name(token.id, &token.text)).or_insert_with(|| json!(logprob));
        }
        Value::Object(top)
    };
    json!({
        "tokens": tokens().map(|(token, _)| name(token.id, &token.text)).collect::<Vec<_>>(),
        "token_logprobs": tokens().map(|(token, _)| token.logprob).collect::<Vec<_>>(),
        "top_logprobs": alternatives.then(|| tokens().map(|(token, _)| top(token)).collect::<Vec<_>>()),
        "text_offset": tokens().map(|(token, before)| token.offset + before).collect::<Vec<_>>(),
    })
}

impl TextChoice<'_> {
    fn json(&self) -> Value {
        let mut choice = json!({
            "index": self.index,
            "text": self.text,
            "logprobs": self.logprobs.as_ref().map(|parts| logprobs(parts, self.alternatives, self.names_ids)),
            "finish_reason": self.finish.map(TokenFinish::name),
        });
        let Value::Object(fields) = &mut choice else { return choice };
        match self.finish {
            Some(TokenFinish::StopToken(token)) => drop(fields.insert("stop_reason".to_owned(), json!(token))),
            Some(TokenFinish::StopText(text)) => drop(fields.insert("stop_reason".to_owned(), json!(text))),
            Some(TokenFinish::Length) | None => {}
        }
        if let Some(ids) = &self.ids {
            if let Some(prompt) = ids.prompt {
                fields.insert("prompt_token_ids".to_owned(), json!(prompt));
            }
            fields.insert("token_ids".to_owned(), json!(ids.tokens));
            if !ids.versions.is_empty() {
                fields.insert("policy_versions".to_owned(), version_pairs(ids.versions));
            }
        }
        choice
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.tokens(),
    })
}

fn object(head: &AnswerHead, choices: Value) -> Value {
    json!({
        "id": head.id,
        "object": "text_completion",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": head.version,
        "choices": choices,
    })
}

/// The body of a whole answer.
pub fn body(head: &AnswerHead, choices: &[TextChoice<'_>], used: Usage) -> Value {
    let mut body = object(head, choices.iter().map(TextChoice::json).collect());
    if let Value::Object(fields) = &mut body {
        fields.insert("usage".to_owned(), usage(used));
    }
    body
}

/// An event of a stream: a part of an answer.
pub fn event(head: &AnswerHead, choice: &TextChoice<'_>) -> String {
    sse::write("", &object(head, json!([choice.json()])).to_string())
}

/// The end of a stream, with the usage if it is reported.
pub fn end(head: &AnswerHead, used: Option<Usage>) -> String {
    let report = used.map(|used| {
        let mut report = object(head, json!([]));
        if let Value::Object(fields) = &mut report {
            fields.insert("usage".to_owned(), usage(used));
        }
        sse::write("", &report.to_string())
    });
    report.unwrap_or_default() + &sse::write("", "[DONE]")
}

/// The end of a stream that failed.
pub fn error_event(kind: ErrorKind, message: &str) -> String {
    sse::write("", &openai::error_body(kind, message).to_string())
}
