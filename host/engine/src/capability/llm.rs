//! `clawhost:llm`: models the operator granted, by alias. Waiting is not computing: it costs no fuel, but counts to the
//! deadline of the call.

use crate::convert;
use crate::state::State;
use clawhost_bindings::environment::clawhost::llm::llm;
use clawhost_core::{JournalEntry, ModelError, ModelRequest, Origin};

/// Most stop texts of a request.
const STOPS: usize = 16;

impl State {
    fn llm_request(&self, request: llm::Request) -> Result<(String, ModelRequest), llm::LlmError> {
        let invalid = |what: &str| Err(llm::LlmError::InvalidRequest(what.to_owned()));
        if !self.grants.models.contains_key(&request.alias) {
            let alias = super::log::escaped(&request.alias, 64);
            return Err(llm::LlmError::Denied(format!(
                "no model is granted as `{alias}`; the operator can add --grant llm:{alias}=MODEL"
            )));
        }
        if !(0.0..=2.0).contains(&request.temperature) {
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
            },
        ))
    }

    async fn ask(&mut self, request: llm::Request) -> Result<llm::Response, llm::LlmError> {
        let (alias, request) = self.llm_request(request)?;
        if self.llm_calls >= self.limits.llm_calls {
            let message = format!("more than {} model calls by one instance", self.limits.llm_calls);
            return Err(llm::LlmError::BudgetExhausted(message));
        }
        self.llm_calls += 1;
        let model = self.grants.models.get(&alias).cloned();
        let Some(model) = model else { return Err(llm::LlmError::Denied(alias)) };
        let deadline = tokio::time::Instant::from_std(self.call.deadline);
        let answer = tokio::time::timeout_at(deadline, model.complete(&request)).await;
        let answer = answer.unwrap_or_else(|_| Err(ModelError::Unavailable("the call's deadline passed".into())));
        self.journal.push(JournalEntry {
            turn: self.turn,
            import: "llm".to_owned(),
            request: serde_json::json!({ "alias": alias, "request": request }),
            response: match &answer {
                Ok(response) => serde_json::json!({ "ok": response }),
                Err(error) => serde_json::json!({ "error": error }),
            },
        });
        match answer {
            Ok(response) => Ok(llm::Response {
                usage: convert::usage_to(&response.usage),
                message: convert::message_to(&response.message),
                finish: response.finish,
                extra: Vec::new(),
            }),
            Err(ModelError::Unavailable(text) | ModelError::Garbage(text)) => Err(llm::LlmError::Unavailable(text)),
            Err(ModelError::Refused(text)) => Err(llm::LlmError::InvalidRequest(text)),
            Err(ModelError::Budget(text)) => Err(llm::LlmError::BudgetExhausted(text)),
        }
    }
}

fn detail(request: &llm::Request) -> String {
    format!("{request:?}")
}

impl llm::Host for State {
    async fn complete(&mut self, request: llm::Request) -> wasmtime::Result<Result<llm::Response, llm::LlmError>> {
        self.host_call("llm.complete", &[detail(&request).as_bytes()])?;
        let answer = self.ask(request).await;
        if let Ok(response) = &answer {
            self.charge(convert::message_len(&response.message))?;
        }
        Ok(answer)
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
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            let answer = self.ask(request).await;
            if let Ok(response) = &answer {
                self.charge(convert::message_len(&response.message))?;
            }
            answers.push(answer);
        }
        Ok(Ok(answers))
    }
}
