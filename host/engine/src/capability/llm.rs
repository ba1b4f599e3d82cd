//! `clawhost:llm`: models that the operator granted, by alias. Waiting costs no fuel, but counts towards the deadline of the
//! call.

use crate::convert;
use crate::grants::denied;
use crate::state::{LimitHit, State};
use clawhost_bindings::environment::clawhost::llm::llm;
use clawhost_core::{
    JournalEntry, Llm, ModelCallSource, ModelError, ModelRequest, ModelResponse, Origin, code, estimated_tokens,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Most stop sequences of a request.
const STOPS: usize = 16;

impl State {
    fn llm_request(&self, request: llm::Request) -> Result<(String, ModelRequest), llm::LlmError> {
        let invalid = |what: &str| Err(llm::LlmError::InvalidRequest(what.to_owned()));
        if !self.grants.models.contains_key(&request.alias) {
            let alias = clawhost_core::escaped(&request.alias, 64);
            return Err(llm::LlmError::Denied(denied(&alias)));
        }
        if request.temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
            return invalid("temperature must be between 0 and 2");
        }
        if request.max_tokens == 0 {
            return invalid("max-tokens must be at least 1");
        }
        if request.messages.is_empty() || request.stop.len() > STOPS || request.tools.len() > self.limits.tools {
            return invalid("a request has at least one message, at most 16 stop texts and 128 tools");
        }
        let messages: Vec<_> =
            request.messages.into_iter().map(|message| convert::message_from(message, Origin::Host)).collect();
        if messages.iter().map(clawhost_core::Message::len).sum::<usize>() > self.limits.observation_bytes {
            return invalid("the messages are longer than 1 MiB");
        }
        let tools = request.tools.into_iter().map(convert::tool_from).collect();
        Ok((
            request.alias,
            ModelRequest {
                messages,
                tools,
                max_tokens: request.max_tokens,
                temperature: request.temperature,
                seed: request.seed,
                stop: request.stop,
                ..ModelRequest::default()
            },
        ))
    }

    /// Checks a request: the model and the request, or the error.
    fn admit(&mut self, request: llm::Request) -> Result<Admitted, llm::LlmError> {
        let (alias, request) = self.llm_request(request)?;
        if self.llm_calls >= self.limits.llm_calls {
            let message = format!("more than {} model calls by one instance", self.limits.llm_calls);
            return Err(llm::LlmError::BudgetExhausted(message));
        }
        if self.llm_tokens >= self.limits.llm_tokens {
            let message = format!("{} of {} tokens of models by one instance", self.llm_tokens, self.limits.llm_tokens);
            return Err(llm::LlmError::BudgetExhausted(message));
        }
        let model = self.grants.models.get(&alias).cloned();
        let Some(model) = model else { return Err(llm::LlmError::Denied(alias)) };
        let read = estimated_tokens(request.bytes());
        self.llm_calls += 1;
        self.llm_tokens = self.llm_tokens.saturating_add(read);
        Ok(Admitted { alias, model, request, read })
    }

    /// The recorded answer, if answers come from a journal; `None`: call the model.
    fn recorded(
        &self,
        asked: &Admitted,
        already: usize,
    ) -> wasmtime::Result<Option<Result<ModelResponse, ModelError>>> {
        let ModelCallSource::Recorded { journal, through } = &self.answers else { return Ok(None) };
        if self.turn > *through {
            return Ok(None);
        }
        let next = journal.get(self.journal.len().saturating_add(already));
        let answer = next
            .filter(|entry| entry.turn == self.turn && entry.request == asked.journal_request())
            .map(JournalEntry::answer);
        answer.flatten().map(Some).ok_or_else(|| {
            let message = format!("asks `{}` something that the record holds no answer to", asked.alias);
            LimitHit::new(code::JOURNAL, message).into()
        })
    }

    /// Records an answer in the journal; returns the guest's result and its bytes of text.
    fn answered(
        &mut self,
        asked: &Admitted,
        answer: Result<ModelResponse, ModelError>,
    ) -> (Result<llm::Response, llm::LlmError>, usize) {
        let answer = answer.and_then(|response| match response.message.tool_calls.len() {
            calls if calls > self.limits.tool_calls => Err(ModelError::InvalidResponse(format!(
                "it calls {calls} tools at once; at most {}",
                self.limits.tool_calls
            ))),
            _ => Ok(response),
        });
        let bytes = answer.as_ref().map_or(0, |response| response.message.len());
        let entry = JournalEntry {
            turn: self.turn,
            import: "llm".to_owned(),
            request: asked.journal_request(),
            response: match &answer {
                Ok(response) => serde_json::json!({ "ok": response }),
                Err(error) => serde_json::json!({ "error": error }),
            },
        };
        self.llm_tokens = self.llm_tokens.saturating_sub(asked.read).saturating_add(tokens(&entry));
        self.journal.push(entry);
        let answer = match answer {
            Ok(response) => Ok(llm::Response {
                usage: convert::usage_to(&response.usage),
                message: convert::message_to(&response.message),
                finish: response.finish,
                extra: Vec::new(),
            }),
            Err(ModelError::Unavailable(text) | ModelError::InvalidResponse(text)) => {
                Err(llm::LlmError::Unavailable(text))
            }
            Err(ModelError::Refused(text) | ModelError::TooLong(text)) => Err(llm::LlmError::InvalidRequest(text)),
            // Plugin calls do not stream.
            Err(error @ ModelError::Stopped) => Err(llm::LlmError::Unavailable(error.to_string())),
            Err(ModelError::Budget(text)) => {
                self.budget_spent = Some(text.clone());
                Err(llm::LlmError::BudgetExhausted(text))
            }
        };
        (answer, bytes)
    }
}

/// A checked request.
struct Admitted {
    alias: String,
    model: Arc<dyn Llm>,
    request: ModelRequest,
    /// An estimate of the tokens that the model reads. It counts until the answer says it.
    read: u64,
}

/// Recorded bytes that count as a token, whatever the endpoint says: ordinary text has a tenth of them. So the limit on tokens bounds the journal.
const BYTES_PER_TOKEN: usize = 64;

/// Tokens that an entry of the journal counts: at least one for an answer, whatever its endpoint says, and some for what is recorded. A refused
/// request used none, but is recorded too.
pub(crate) fn tokens(entry: &JournalEntry) -> u64 {
    let used = entry.answer().and_then(Result::ok).map_or(0, |answer| answer.usage.tokens().max(1));
    let recorded = entry.request.to_string().len().saturating_add(entry.response.to_string().len());
    used.max((recorded / BYTES_PER_TOKEN) as u64)
}

impl Admitted {
    /// The request as it is recorded in the journal.
    fn journal_request(&self) -> serde_json::Value {
        serde_json::json!({ "alias": self.alias, "request": self.request })
    }
}

fn detail(request: &llm::Request) -> String {
    format!("{request:?}")
}

impl llm::Host for State {
    async fn complete(&mut self, request: llm::Request) -> wasmtime::Result<Result<llm::Response, llm::LlmError>> {
        self.host_call("llm.complete", &[detail(&request).as_bytes()])?;
        match self.admit(request) {
            Err(error) => Ok(Err(error)),
            Ok(asked) => {
                // Waiting for a model is not computing.
                self.call.turn.leave();
                let answer = match self.recorded(&asked, 0)? {
                    Some(answer) => answer,
                    None => asked.model.complete(&asked.request).await,
                };
                let (answer, bytes) = self.answered(&asked, answer);
                self.charge(bytes)?;
                Ok(answer)
            }
        }
    }

    async fn complete_batch(
        &mut self,
        requests: Vec<llm::Request>,
    ) -> wasmtime::Result<Result<Vec<Result<llm::Response, llm::LlmError>>, llm::LlmError>> {
        let details: Vec<String> = requests.iter().map(detail).collect();
        let details: Vec<&[u8]> = details.iter().map(String::as_bytes).collect();
        self.host_call("llm.complete-batch", &details)?;
        if requests.len() > self.limits.llm_batch {
            let message = format!("a batch has at most {} requests", self.limits.llm_batch);
            return Ok(Err(llm::LlmError::InvalidRequest(message)));
        }
        // All requests at once; the model client limits the concurrency.
        let mut asking = JoinSet::new();
        let mut answers: BTreeMap<usize, Result<llm::Response, llm::LlmError>> = BTreeMap::new();
        let mut arrived = Vec::new();
        for (position, request) in requests.into_iter().enumerate() {
            match self.admit(request) {
                Err(error) => drop(answers.insert(position, Err(error))),
                Ok(asked) => match self.recorded(&asked, arrived.len())? {
                    Some(answer) => arrived.push((position, asked, answer)),
                    None => {
                        asking.spawn(async move {
                            let answer = asked.model.complete(&asked.request).await;
                            (position, asked, answer)
                        });
                    }
                },
            }
        }
        self.call.turn.leave();
        arrived.extend(asking.join_all().await);
        // The journal is in the order of the requests, independent of the order of answers.
        arrived.sort_by_key(|(position, ..)| *position);
        // All answers are recorded before anything is charged, because they were paid for.
        let mut bytes = 0usize;
        for (position, asked, answer) in arrived {
            let answer = self.answered(&asked, answer);
            bytes = bytes.saturating_add(answer.1);
            answers.insert(position, answer.0);
        }
        self.charge(bytes)?;
        Ok(Ok(answers.into_values().collect()))
    }
}
