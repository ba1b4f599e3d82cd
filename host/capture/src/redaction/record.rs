//! Redacts the parts of a record.

use super::{Redaction, Span};
use crate::exchange::{Answer, Exchange};
use crate::marks::{CaptureKey, Mark, Marks};
use clawhost_core::{Attributes, Message, ModelResponse, Part, TokenLogprob, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an exchange lost by redaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redacted {
    /// Whether something of the answer is missing: learning must not imitate it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub answer: bool,
    /// The marks of all messages of the exchange as they were said, if one of them was redacted: clients send them as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Mark>,
}

fn in_place(redaction: &Redaction, text: &mut String) -> bool {
    match redaction.text(text) {
        Some(redacted) => {
            *text = redacted;
            true
        }
        None => false,
    }
}

impl Redaction {
    /// Redacts everything that was said in an exchange, and notes in it that something is missing. Names, ids and digests stay.
    pub fn exchange(&self, exchange: &mut Exchange, key: &CaptureKey) {
        if self.is_empty() {
            return;
        }
        let mut is_redacted = exchange.system.as_mut().is_some_and(|system| in_place(self, system));
        for tool in exchange.tools.iter_mut().flatten() {
            is_redacted |= self.tool(tool);
        }
        let mut marks = Vec::new();
        // Nearly always there is nothing, and nothing is copied.
        if exchange.messages.iter().any(|message| self.is_in(message)) {
            marks = Marks::of(key, &exchange.messages, &[]).messages;
            exchange.messages.iter_mut().for_each(|message| is_redacted |= self.message(message));
        }
        let answer = self.answer(&mut exchange.answer);
        if is_redacted || answer {
            exchange.redacted = Some(Redacted { answer, messages: marks });
        }
    }

    /// Redacts the strings of a document, except for ids.
    pub fn document(&self, value: &mut Value) {
        match value {
            Value::String(text) => drop(in_place(self, text)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.document(item)),
            Value::Object(fields) => {
                let is_id = |name: &str| name == "id" || name.ends_with("_id");
                fields.iter_mut().filter(|(name, _)| !is_id(name)).for_each(|(_, field)| self.document(field));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn tool(&self, tool: &mut ToolSpec) -> bool {
        let mut is_redacted = in_place(self, &mut tool.description);
        is_redacted |= in_place(self, &mut tool.input_schema);
        is_redacted | self.attributes(&mut tool.extra)
    }

    fn attributes(&self, attributes: &mut Attributes) -> bool {
        attributes.iter_mut().fold(false, |is_redacted, (_, text)| in_place(self, text) | is_redacted)
    }

    /// Whether something in a message is to be redacted.
    fn is_in(&self, message: &Message) -> bool {
        let parts = message.parts.iter().filter_map(|part| match part {
            Part::Text(text) | Part::Json(text) | Part::Other(text) => Some(text),
            Part::Blob(_) => None,
        });
        let attributes = message.extra.iter().chain(message.tool_calls.iter().flat_map(|call| &call.extra));
        let arguments = message.tool_calls.iter().map(|call| &call.arguments);
        let mut all = parts.chain(arguments).chain(attributes.map(|(_, text)| text));
        all.any(|text| !self.spans(text).is_empty())
    }

    fn message(&self, message: &mut Message) -> bool {
        let mut is_redacted = self.attributes(&mut message.extra);
        for part in &mut message.parts {
            if let Part::Text(text) | Part::Json(text) | Part::Other(text) = part {
                is_redacted |= in_place(self, text);
            }
        }
        for call in &mut message.tool_calls {
            is_redacted |= in_place(self, &mut call.arguments);
            is_redacted |= self.attributes(&mut call.extra);
        }
        is_redacted
    }

    fn answer(&self, answer: &mut Answer) -> bool {
        match answer {
            Answer::Complete(response) => self.response(response),
            Answer::Incomplete { message, why } => {
                let is_redacted = message.as_mut().is_some_and(|message| self.message(message));
                in_place(self, why) | is_redacted
            }
            Answer::Failed { why, .. } => in_place(self, why),
        }
    }

    /// Redacts an answer. The tokens of what is missing go, too.
    fn response(&self, response: &mut ModelResponse) -> bool {
        let mut is_redacted = self.logprobs(&mut response.logprobs) | self.message(&mut response.message);
        for other in &mut response.others {
            is_redacted |= self.logprobs(&mut other.logprobs) | self.message(&mut other.message);
        }
        // A grammar has the schemas of the request's tools. Without it the tokens could not be learned from.
        let record = response.tokens.as_mut().and_then(|record| record.grammar.as_mut());
        is_redacted |= record.is_some_and(|grammar| in_place(self, &mut grammar.text));
        if is_redacted {
            // Token ids have no text by which those of a part could be found.
            response.tokens = None;
        }
        is_redacted
    }

    /// Removes log-probs of tokens that overlap a match, and alternatives that match themselves.
    fn logprobs(&self, logprobs: &mut Vec<TokenLogprob>) -> bool {
        if logprobs.is_empty() {
            return false;
        }
        let text = |tokens: &[TokenLogprob]| tokens.iter().map(|token| token.token.as_str()).collect::<String>();
        let spans = self.spans(&text(logprobs));
        let mut end = 0;
        logprobs.retain_mut(|token| {
            let start = end;
            end += token.token.len();
            token.alternatives.retain(|(text, _)| !self.any.is_match(text));
            !spans.iter().any(|Span { range, .. }| range.start < end && start < range.end)
        });
        if !self.spans(&text(logprobs)).is_empty() {
            logprobs.clear();
        }
        !spans.is_empty()
    }
}
