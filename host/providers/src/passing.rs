//! Passes deltas on, with the key scrubbed, and tracks whether any was passed on, because deltas cannot be taken back.

use crate::Secret;
use clawhost_core::{DeltaSink, Message, ModelDelta, ModelResponse, Part, TokenLogprob};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Scrubs the key from text that arrives in fragments. A possible beginning of the key is held back until it is decided.
#[derive(Debug, Default)]
struct Scrubbed {
    held: String,
    found: bool,
}

impl Scrubbed {
    fn push(&mut self, key: Option<&Secret>, more: &str) -> String {
        let Some(key) = key.map(Secret::expose) else { return more.to_owned() };
        self.held.push_str(more);
        if self.held.contains(key) {
            self.found = true;
            self.held = self.held.replace(key, Secret::MARK);
        }
        let begins = |(at, _): &(usize, char)| self.held.get(*at..).is_some_and(|tail| key.starts_with(tail));
        let from = self.held.len().saturating_sub(key.len());
        let from = (from..=self.held.len()).find(|at| self.held.is_char_boundary(*at)).unwrap_or(0);
        let tail = self.held.get(from..).unwrap_or_default();
        let safe = tail.char_indices().map(|(at, c)| (from + at, c)).find(begins).map_or(self.held.len(), |(at, _)| at);
        let held = self.held.split_off(safe);
        std::mem::replace(&mut self.held, held)
    }

    fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// A sink in front of the caller's sink.
pub(crate) struct Passing<'a> {
    sink: &'a mut dyn DeltaSink,
    key: Option<Secret>,
    text: Scrubbed,
    calls: BTreeMap<usize, Scrubbed>,
    /// Log-probs of tokens whose text is held back, because their tokens spell it.
    logprobs: Vec<TokenLogprob>,
    /// Whether a delta was passed on: then there are no more retries.
    pub(crate) begun: bool,
}

impl<'a> Passing<'a> {
    pub(crate) fn new(sink: &'a mut dyn DeltaSink, key: Option<Secret>) -> Self {
        let (text, calls) = (Scrubbed::default(), BTreeMap::new());
        Self { sink, key, text, calls, logprobs: Vec::new(), begun: false }
    }

    /// Discards the held-back content of a failed attempt.
    pub(crate) fn again(&mut self) {
        self.text = Scrubbed::default();
        self.calls.clear();
        self.logprobs.clear();
    }

    fn pass(&mut self, delta: ModelDelta) -> ControlFlow<()> {
        self.begun = true;
        self.sink.delta(delta)
    }

    fn pass_logprobs(&mut self) -> ControlFlow<()> {
        let logprobs = std::mem::take(&mut self.logprobs);
        if self.text.found || logprobs.is_empty() {
            ControlFlow::Continue(())
        } else {
            self.pass(ModelDelta::Logprobs(logprobs))
        }
    }

    /// Passes a whole answer on, with the key scrubbed.
    pub(crate) fn whole(&mut self, response: &ModelResponse) -> ControlFlow<()> {
        self.begun = true;
        response.pass_on(self.sink)
    }

    /// Processes a delta.
    pub(crate) fn delta(&mut self, delta: ModelDelta) -> ControlFlow<()> {
        let clean = |key: Option<&Secret>, text: String| key.map_or(text.clone(), |key| key.scrub(&text));
        match delta {
            ModelDelta::Text(text) => {
                let text = self.text.push(self.key.as_ref(), &text);
                if !text.is_empty() {
                    self.pass(ModelDelta::Text(text))?;
                }
                if self.text.held.is_empty() { self.pass_logprobs() } else { ControlFlow::Continue(()) }
            }
            ModelDelta::ToolCall { index, id, name, arguments } => {
                let key = self.key.as_ref();
                let arguments = self.calls.entry(index).or_default().push(key, &arguments);
                let (id, name) = (id.map(|id| clean(key, id)), name.map(|name| clean(key, name)));
                if name.is_none() && arguments.is_empty() {
                    return ControlFlow::Continue(());
                }
                self.pass(ModelDelta::ToolCall { index, id, name, arguments })
            }
            ModelDelta::Logprobs(logprobs) => {
                self.logprobs.extend(logprobs);
                if self.text.held.is_empty() { self.pass_logprobs() } else { ControlFlow::Continue(()) }
            }
            // Usage is not part of the answer's content: a retry may still follow.
            usage @ ModelDelta::Usage(_) => self.sink.delta(usage),
        }
    }

    /// Passes on the held-back text: the answer has ended, so it is not the key.
    pub(crate) fn end(&mut self) -> ControlFlow<()> {
        let text = self.text.rest();
        if !text.is_empty() {
            self.pass(ModelDelta::Text(text))?;
        }
        let calls: Vec<(usize, String)> = self.calls.iter_mut().map(|(index, call)| (*index, call.rest())).collect();
        for (index, arguments) in calls.into_iter().filter(|(_, arguments)| !arguments.is_empty()) {
            self.pass(ModelDelta::ToolCall { index, id: None, name: None, arguments })?;
        }
        self.pass_logprobs()
    }
}

/// The answer with the key scrubbed: an endpoint may quote the request.
pub(crate) fn scrubbed(key: Option<&Secret>, mut response: ModelResponse) -> ModelResponse {
    let Some(key) = key else { return response };
    let clean = |text: &mut String| {
        if text.contains(key.expose()) {
            *text = key.scrub(text);
        }
    };
    let Message { parts, tool_calls, .. } = &mut response.message;
    for part in parts {
        if let Part::Text(text) | Part::Json(text) | Part::Other(text) = part {
            clean(text);
        }
    }
    for call in tool_calls {
        clean(&mut call.id);
        clean(&mut call.name);
        clean(&mut call.arguments);
    }
    clean(&mut response.finish);
    if let Some(model) = &mut response.answered_by {
        clean(&mut model.model);
        model.version.iter_mut().for_each(clean);
    }
    // The tokens together may spell the key.
    let spelled: String = response.logprobs.iter().map(|token| token.token.as_str()).collect();
    if spelled.contains(key.expose()) {
        response.logprobs.clear();
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragmented_key_is_found() {
        let key = Secret::new("sk-sk-1").unwrap();
        let check = |pieces: &[&str], expected: &[&str]| {
            let mut text = Scrubbed::default();
            let mut passed: Vec<String> = pieces.iter().map(|piece| text.push(Some(&key), piece)).collect();
            passed.push(text.rest());
            assert_eq!(passed, expected, "{pieces:?}");
        };
        check(&["no key"], &["no key", ""]);
        check(&["a sk-sk-1 b"], &["a [key] b", ""]);
        check(&["a sk-", "sk-1 b"], &["a ", "[key] b", ""]);
        check(&["a s", "k", "-sk-", "1"], &["a ", "", "", "[key]", ""]);
        check(&["sk-sk-", "sk-1"], &["", "sk-[key]", ""]);
        check(&["sk-", "sk-2"], &["", "sk-sk-2", ""]);
        check(&["a sk-sk"], &["a ", "sk-sk"]);
        check(&["\u{e4}s", "\u{e4}"], &["\u{e4}", "s\u{e4}", ""]);
        let mut open = Scrubbed::default();
        assert_eq!(open.push(None, "sk-sk-1"), "sk-sk-1");
    }
}
