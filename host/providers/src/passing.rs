//! Passes deltas on, with the key scrubbed, and tracks whether any was passed on, because deltas cannot be taken back.

use clawhost_core::{DeltaSink, ModelDelta, ModelError, ModelResponse, ScrubbedText, Secrets, TokenLogprob};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A sink in front of the caller's sink.
pub(crate) struct Passing<'a> {
    sink: &'a mut dyn DeltaSink,
    secrets: Secrets,
    text: ScrubbedText,
    calls: BTreeMap<usize, ScrubbedText>,
    /// Log-probs of tokens whose text is held back, because their tokens spell it.
    logprobs: Vec<TokenLogprob>,
    /// Whether a delta was passed on: then there are no more retries.
    pub(crate) begun: bool,
}

impl<'a> Passing<'a> {
    pub(crate) fn new(sink: &'a mut dyn DeltaSink, secrets: Secrets) -> Self {
        let (text, calls) = (ScrubbedText::default(), BTreeMap::new());
        Self { sink, secrets, text, calls, logprobs: Vec::new(), begun: false }
    }

    /// Discards the held-back content of a failed attempt.
    pub(crate) fn again(&mut self) {
        self.text = ScrubbedText::default();
        self.calls.clear();
        self.logprobs.clear();
    }

    fn pass(&mut self, delta: ModelDelta) -> ControlFlow<()> {
        self.begun = true;
        self.sink.delta(delta)
    }

    fn pass_logprobs(&mut self) -> ControlFlow<()> {
        let logprobs = std::mem::take(&mut self.logprobs);
        if self.text.has_found() || logprobs.is_empty() {
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
        match delta {
            ModelDelta::Reasoning(text) => self.pass(ModelDelta::Reasoning(self.secrets.scrub(&text).into_owned())),
            ModelDelta::Text(text) => {
                let text = self.text.push(&self.secrets, &text);
                if !text.is_empty() {
                    self.pass(ModelDelta::Text(text))?;
                }
                if self.text.is_settled() { self.pass_logprobs() } else { ControlFlow::Continue(()) }
            }
            ModelDelta::ToolCall { index, id, name, arguments } => {
                let arguments = self.calls.entry(index).or_default().push(&self.secrets, &arguments);
                let [id, name] = [id, name].map(|text| text.map(|text| self.secrets.scrub(&text).into_owned()));
                if name.is_none() && arguments.is_empty() {
                    return ControlFlow::Continue(());
                }
                self.pass(ModelDelta::ToolCall { index, id, name, arguments })
            }
            ModelDelta::Logprobs(logprobs) => {
                self.logprobs.extend(logprobs);
                if self.text.is_settled() { self.pass_logprobs() } else { ControlFlow::Continue(()) }
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

/// The answer without keys in any text: an endpoint may quote the request.
pub(crate) fn scrubbed(secrets: &Secrets, mut response: ModelResponse) -> Result<ModelResponse, ModelError> {
    if secrets.is_empty() {
        return Ok(response);
    }
    // The tokens together may spell a key, and so may an alternative.
    let spelled: String = response.logprobs.iter().map(|token| token.token.as_str()).collect();
    let mut alternatives = response.logprobs.iter().flat_map(|token| &token.alternatives);
    if secrets.are_in(&spelled) || alternatives.any(|(text, _)| secrets.are_in(text)) {
        response.logprobs.clear();
    }
    secrets.scrub_all(response).map_err(|kept| ModelError::InvalidResponse(kept.to_string()))
}
