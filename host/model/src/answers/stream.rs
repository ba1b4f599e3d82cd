//! Passes an answer on while it is drawn: its reasoning, then its text. What may become a call, or a mark, is held back.

use super::AnswerFormat;
use clawhost_core::{DeltaSink, ModelDelta, ModelResponse, REASONING};
use std::ops::ControlFlow;

/// The part of an answer that is being drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Nothing but white space yet: reasoning may open.
    Beginning,
    /// Within reasoning that the prompt opened: the answer may open it once more.
    Opened,
    /// Within reasoning. `true`: some of it was passed on.
    Reasoning(bool),
    /// Behind reasoning: line ends are dropped.
    Between,
    /// Text and calls.
    Text,
}

/// The streamed parts of an answer.
#[derive(Debug)]
pub(crate) struct Speech {
    format: AnswerFormat,
    /// Whether tools may be called: then a part of the text may become a call.
    calls: bool,
    part: Part,
    /// What was drawn and belongs to no part yet.
    waiting: String,
    /// What was passed on.
    reasoning: String,
    text: String,
}

impl Speech {
    /// For a new answer. `reasons`: the prompt has opened its reasoning.
    pub(crate) fn new(format: AnswerFormat, reasons: bool, calls: bool) -> Self {
        let part = match format.reasoning {
            Some(_) if reasons => Part::Opened,
            Some(_) => Part::Beginning,
            None => Part::Text,
        };
        Self { format, calls, part, waiting: String::new(), reasoning: String::new(), text: String::new() }
    }

    /// Adds text, and passes on what is decided.
    pub(crate) fn push(&mut self, more: &str, sink: &mut dyn DeltaSink) -> ControlFlow<()> {
        self.waiting.push_str(more);
        loop {
            let before = (self.part, self.waiting.len());
            self.step(sink)?;
            if (self.part, self.waiting.len()) == before {
                return ControlFlow::Continue(());
            }
        }
    }

    fn step(&mut self, sink: &mut dyn DeltaSink) -> ControlFlow<()> {
        match self.part {
            Part::Beginning | Part::Opened => {
                let open = self.format.reasoning.map_or("", |marks| marks.open);
                let begun = self.waiting.trim_start();
                if let Some(inside) = begun.strip_prefix(open) {
                    (self.waiting, self.part) = (inside.to_owned(), Part::Reasoning(false));
                } else if !open.starts_with(begun) {
                    self.part = if self.part == Part::Opened { Part::Reasoning(false) } else { Part::Text };
                }
                ControlFlow::Continue(())
            }
            Part::Reasoning(begun) => {
                let close = self.format.reasoning.map_or("", |marks| marks.close);
                if !begun {
                    self.waiting = self.waiting.trim_start().to_owned();
                }
                let (thought, ended) = match self.waiting.find(close) {
                    Some(end) => {
                        (self.waiting.get(..end).unwrap_or_default().trim_end().len(), Some(end + close.len()))
                    }
                    None => (before(&self.waiting, close), None),
                };
                let thought = self.waiting.get(..thought).unwrap_or_default().to_owned();
                match ended {
                    Some(end) => {
                        self.waiting.drain(..end);
                        self.part = Part::Between;
                    }
                    None => {
                        self.waiting.drain(..thought.len());
                        self.part = Part::Reasoning(begun || !thought.is_empty());
                    }
                }
                self.reasoning.push_str(&thought);
                pass(thought, ModelDelta::Reasoning, sink)
            }
            Part::Between => {
                self.waiting = self.waiting.trim_start_matches('\n').to_owned();
                if !self.waiting.is_empty() {
                    self.part = Part::Text;
                }
                ControlFlow::Continue(())
            }
            Part::Text => {
                let text = self.waiting.get(..self.speakable()).unwrap_or_default().to_owned();
                self.waiting.drain(..text.len());
                self.text.push_str(&text);
                pass(text, ModelDelta::Text, sink)
            }
        }
    }

    /// Bytes of the waiting text that cannot belong to a call.
    fn speakable(&self) -> usize {
        match self.format.call_mark() {
            _ if !self.calls => self.waiting.len(),
            Some(mark) => before(&self.waiting, mark),
            // Only a whole answer is a call, and no other begins like one.
            None => {
                let begun = self.text.is_empty().then(|| self.waiting.trim_start());
                let may_call = |begun: &str| begun.is_empty() || begun.starts_with(['{', '<']);
                if begun.is_some_and(may_call) { 0 } else { self.waiting.trim_end().len() }
            }
        }
    }

    /// Ends the answer: passes on the rest of its reasoning and of its text, its calls and its usage.
    pub(crate) fn end(&self, response: &ModelResponse, sink: &mut dyn DeltaSink) -> ControlFlow<()> {
        let extra = response.message.extra.iter().find(|(name, _)| name == REASONING);
        let reasoning = extra.map_or("", |(_, text)| text.as_str());
        pass(rest(reasoning, &self.reasoning), ModelDelta::Reasoning, sink)?;
        pass(rest(&response.message.plain_text(), &self.text), ModelDelta::Text, sink)?;
        let mut silent = response.clone();
        silent.message.parts.clear();
        silent.message.extra.clear();
        silent.pass_on(sink)
    }
}

/// What is left of a whole text. White space around the text of an answer with calls is not in the message. What was passed on cannot be taken back: if it is no
/// beginning of the whole, what follows their common beginning is left.
fn rest(whole: &str, passed: &str) -> String {
    let common = || {
        let pairs = whole.char_indices().zip(passed.chars());
        let end = pairs.take_while(|((_, one), other)| one == other).last();
        whole.get(end.map_or(0, |((at, one), _)| at + one.len_utf8())..)
    };
    let left = whole.strip_prefix(passed).or_else(|| whole.strip_prefix(passed.trim_start()));
    left.or_else(common).unwrap_or_default().to_owned()
}

fn pass(text: String, delta: impl Fn(String) -> ModelDelta, sink: &mut dyn DeltaSink) -> ControlFlow<()> {
    if text.is_empty() { ControlFlow::Continue(()) } else { sink.delta(delta(text)) }
}

/// Bytes of a text before a mark, before the possible beginning of one, and before white space, which is dropped if a
/// mark follows it.
fn before(text: &str, mark: &str) -> usize {
    let begins = |(at, _): &(usize, char)| {
        let tail = text.get(*at..).unwrap_or_default();
        tail.starts_with(mark) || mark.starts_with(tail)
    };
    let end = text.char_indices().find(begins).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default().trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Message, Origin, Role, ToolCall, ToolSpec, Usage};

    fn heard(mut speech: Speech, drawn: &[&str], response: &ModelResponse) -> Vec<ModelDelta> {
        let mut heard = Vec::new();
        let mut sink = |delta| {
            heard.push(delta);
            ControlFlow::Continue(())
        };
        for text in drawn {
            assert!(speech.push(text, &mut sink).is_continue());
        }
        assert!(speech.end(response, &mut sink).is_continue());
        heard
    }

    #[test]
    fn text_that_may_become_a_call_is_held_back() {
        let check = |template: &str, calls: bool, drawn: &[&str], message: &str, expected: &[&str]| {
            let format = AnswerFormat::of_template(template);
            let message = Message::text(Role::Assistant, Origin::Policy, message);
            let response = ModelResponse::new(message, Usage::default(), "stop");
            let heard = heard(Speech::new(format, false, calls), drawn, &response);
            let texts: Vec<&str> = heard
                .iter()
                .filter_map(|delta| if let ModelDelta::Text(text) = delta { Some(text.as_str()) } else { None })
                .collect();
            assert_eq!(texts, expected, "{drawn:?}");
        };
        let hermes = "<tool_call>";
        check(hermes, false, &["a ", "<tool_", "b"], "a <tool_b", &["a ", "<tool_", "b"]);
        check(hermes, true, &["a ", "b", "\n"], "a b\n", &["a", " b", "\n"]);
        check(hermes, true, &["a <", "b"], "a <b", &["a", " <b"]);
        check(hermes, true, &["I look.\n", "<tool", "_call>{}", "</tool_call> "], "I look.", &["I look."]);
        check(hermes, true, &["a<tool_call>", "nonsense"], "a<tool_call>nonsense", &["a", "<tool_call>nonsense"]);
        check(hermes, true, &["\n a", "<tool_call>{}</tool_call>b"], "ab", &["\n a", "b"]);
        check(hermes, true, &["a"], "a", &["a"]);
        let llama = "<|python_tag|>";
        check(llama, true, &[" ", "a ", "{b"], " a {b", &[" a", " {b"]);
        check(llama, true, &["{\"na", "me\": 1}"], "{\"name\": 1}", &["{\"name\": 1}"]);
        check(llama, false, &["{\"na", "me\": 1}"], "{\"name\": 1}", &["{\"na", "me\": 1}"]);
        check(
            "[TOOL_CALLS]",
            true,
            &["I ", "look [TOO", "L_CALLS] ["],
            "I look [TOOL_CALLS] [",
            &["I", " look", " [TOOL_CALLS] ["],
        );
    }

    #[test]
    fn reasoning_is_streamed_apart_from_the_text() {
        let format = AnswerFormat::of_template("<tool_call><think></think>");
        let tool = ToolSpec { name: "f".into(), description: String::new(), input_schema: "{}".into(), extra: vec![] };
        // However the answer is cut, the deltas add up to the message.
        let check = |answer: &str, reasons: bool, reasoning: &str, text: &str| {
            for size in 1..answer.len() {
                let read = format.read(answer, reasons, std::slice::from_ref(&tool));
                let mut message = Message::text(Role::Assistant, Origin::Policy, read.text);
                message.extra.extend(read.reasoning.map(|reasoning| (REASONING.to_owned(), reasoning)));
                let response = ModelResponse::new(message, Usage::default(), "stop");
                let pieces: Vec<&str> =
                    answer.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
                let (mut thoughts, mut said) = (String::new(), String::new());
                for delta in heard(Speech::new(format.clone(), reasons, true), &pieces, &response) {
                    match delta {
                        ModelDelta::Reasoning(piece) => {
                            assert!(said.is_empty(), "reasoning comes first");
                            thoughts.push_str(&piece);
                        }
                        ModelDelta::Text(piece) => said.push_str(&piece),
                        _ => {}
                    }
                }
                assert_eq!((thoughts.as_str(), said.as_str()), (reasoning, text), "{answer} in pieces of {size}");
            }
        };
        check("<think>\nHm < hm.\n</think>\n\nFour.", false, "Hm < hm.", "Four.");
        check("\nHm.\n</think>\n\nFour, or </think>?", true, "Hm.", "Four, or </think>?");
        check("<think>\nHm.\n</think>\n\nFour.", true, "Hm.", "Four.");
        check("Four <think>.", false, "", "Four <think>.");
        check("Hm, and no end </thin", true, "Hm, and no end </thin", "");
        check("<think>Hm</think><tool_call>{\"name\": \"f\"}</tool_call>", false, "Hm", "");
        check("<thin", false, "", "<thin");
    }

    #[test]
    fn calls_are_passed_on_at_the_end() {
        let call = ToolCall { id: "call-1".into(), name: "f".into(), arguments: "{}".into(), extra: vec![] };
        let message = Message { tool_calls: vec![call], ..Message::text(Role::Assistant, Origin::Policy, "") };
        let response = ModelResponse::new(message, Usage::default(), "tool_calls");
        let heard = heard(Speech::new(AnswerFormat::of_template(""), false, true), &[], &response);
        let (id, name) = (Some("call-1".to_owned()), Some("f".to_owned()));
        let call = ModelDelta::ToolCall { index: 0, id, name, arguments: "{}".into() };
        assert_eq!(heard, [call, ModelDelta::Usage(Usage::default())]);
    }
}
