//! Passes the text of an answer on while it is drawn.

use crate::tokens::CALL;
use clawhost_core::{DeltaSink, ModelDelta, ModelResponse};
use std::ops::ControlFlow;

/// The streamed text of an answer.
#[derive(Debug)]
pub(crate) struct Speech {
    /// Whether tools may be called: then a part of the text may become a call.
    calls: bool,
    /// The text so far.
    drawn: String,
    /// Bytes of it that were passed on.
    passed: usize,
}

impl Speech {
    /// For a new answer.
    pub(crate) fn new(calls: bool) -> Self {
        Self { calls, drawn: String::new(), passed: 0 }
    }

    /// Adds text, and passes on the part that cannot belong to a call.
    pub(crate) fn push(&mut self, more: &str, sink: &mut dyn DeltaSink) -> ControlFlow<()> {
        self.drawn.push_str(more);
        let waiting = self.drawn.get(self.passed..).unwrap_or_default();
        let safe = if self.calls { safe(waiting) } else { waiting.len() };
        let text = waiting.get(..safe).unwrap_or_default().to_owned();
        self.passed += text.len();
        pass(text, sink)
    }

    /// Ends the answer: passes on the rest of its text, its calls and its usage.
    pub(crate) fn end(&self, response: &ModelResponse, sink: &mut dyn DeltaSink) -> ControlFlow<()> {
        let text = response.message.plain_text();
        let passed = self.drawn.get(..self.passed).unwrap_or_default();
        // White space around the text of an answer with calls is not in the message.
        let rest = text.strip_prefix(passed).or_else(|| text.strip_prefix(passed.trim_start())).unwrap_or_default();
        pass(rest.to_owned(), sink)?;
        let mut silent = response.clone();
        silent.message.parts.clear();
        silent.pass_on(sink)
    }
}

fn pass(text: String, sink: &mut dyn DeltaSink) -> ControlFlow<()> {
    if text.is_empty() { ControlFlow::Continue(()) } else { sink.delta(ModelDelta::Text(text)) }
}

/// Bytes of a text before a call, before the possible beginning of one, and before white space, which is dropped if a
/// call follows it.
fn safe(text: &str) -> usize {
    let begins = |(at, _): &(usize, char)| {
        let tail = text.get(*at..).unwrap_or_default();
        tail.starts_with(CALL) || CALL.starts_with(tail)
    };
    let end = text.char_indices().find(begins).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default().trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Message, Origin, Role, ToolCall, Usage};

    #[test]
    fn text_that_may_become_a_call_is_held_back() {
        let check = |calls: bool, drawn: &[&str], message: &str, expected: &[&str]| {
            let mut heard = Vec::new();
            let mut sink = |delta| {
                if let ModelDelta::Text(text) = delta {
                    heard.push(text);
                }
                ControlFlow::Continue(())
            };
            let mut speech = Speech::new(calls);
            let response =
                ModelResponse::new(Message::text(Role::Assistant, Origin::Policy, message), Usage::default(), "stop");
            for text in drawn {
                assert!(speech.push(text, &mut sink).is_continue());
            }
            assert!(speech.end(&response, &mut sink).is_continue());
            assert_eq!(heard, expected, "{drawn:?}");
        };
        check(false, &["a ", "<tool_", "b"], "a <tool_b", &["a ", "<tool_", "b"]);
        check(true, &["a ", "b", "\n"], "a b\n", &["a", " b", "\n"]);
        check(true, &["a <", "b"], "a <b", &["a", " <b"]);
        check(true, &["I look.\n", "<tool", "_call>{}", "</tool_call> "], "I look.", &["I look."]);
        check(true, &["a<tool_call>", "nonsense"], "a<tool_call>nonsense", &["a", "<tool_call>nonsense"]);
        check(true, &["\n a", "<tool_call>{}</tool_call>b"], "ab", &["\n a", "b"]);
        check(true, &["a"], "a", &["a"]);
    }

    #[test]
    fn calls_are_passed_on_at_the_end() {
        let call = ToolCall { id: "call-1".into(), name: "f".into(), arguments: "{}".into(), extra: vec![] };
        let message = Message { tool_calls: vec![call], ..Message::text(Role::Assistant, Origin::Policy, "") };
        let mut heard = Vec::new();
        let mut sink = |delta| {
            heard.push(delta);
            ControlFlow::Continue(())
        };
        let response = ModelResponse::new(message, Usage::default(), "tool_calls");
        assert!(Speech::new(true).end(&response, &mut sink).is_continue());
        let (id, name) = (Some("call-1".to_owned()), Some("f".to_owned()));
        let call = ModelDelta::ToolCall { index: 0, id, name, arguments: "{}".into() };
        assert_eq!(heard, [call, ModelDelta::Usage(Usage::default())]);
    }
}
