//! The answer of `/generate`, and the request that an endpoint gets for it.

use super::answer::version_pairs;
use super::text_request::GenerateRequest;
use crate::openai::DIALECT;
use crate::{WireError, malformed};
use clawhost_core::{
    Message, ModelRequest, ModelResponse, Origin, Part, Role, TokenAnswer, TokenFinish, TokenRecord, TokenVersion,
};
use serde_json::{Map, Value, json};

/// Sampled tokens with their log-probs: exactly one for each.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    tokens: Vec<u32>,
    /// Under the model.
    logprobs: Vec<f64>,
    /// Under the distribution from which they were sampled, if it is known.
    logprobs_sampled: Option<Vec<f64>>,
    /// `stop`, `length`, or the endpoint's own term.
    stop_reason: String,
    /// The token or the text that ended the answer.
    stopped_by: Value,
    model: String,
    /// The weights, if they are known.
    versions: Vec<TokenVersion>,
}

impl GenerateRequest {
    /// The request as it is recorded. `max_tokens`: the limit of a request without one.
    pub fn recorded(&self, max_tokens: u32) -> ModelRequest {
        let part = crate::kept::part(DIALECT, json!({"type": "prompt_tokens", "tokens": self.prompt}));
        ModelRequest {
            messages: vec![Message { parts: vec![part], ..Message::text(Role::User, Origin::User, "") }],
            max_tokens: self.max_tokens.unwrap_or(max_tokens),
            temperature: self.sampling.temperature,
            top_p: self.sampling.top_p,
            seed: self.seed,
            stop: self.stop.clone(),
            logprobs: Some(0),
            ..ModelRequest::default()
        }
    }

    /// The request of `/completions` for an endpoint that returns token ids.
    pub fn forwarded(&self, model: &str, max_tokens: u32) -> Value {
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
        set("model", model.into());
        set("prompt", json!(self.prompt));
        set("max_tokens", self.max_tokens.unwrap_or(max_tokens).into());
        set("logprobs", 1.into());
        set("return_token_ids", true.into());
        let sampling = &self.sampling;
        for (name, number) in
            [("temperature", sampling.temperature), ("top_p", sampling.top_p), ("min_p", sampling.min_p)]
        {
            if let Some(number) = number.and_then(crate::sent_number) {
                set(name, number.into());
            }
        }
        if let Some(count) = sampling.top_k {
            set("top_k", count.into());
        }
        if let Some(seed) = self.seed {
            set("seed", seed.cast_signed().into());
        }
        if !self.stop.is_empty() {
            set("stop", json!(self.stop));
        }
        if !self.stop_tokens.is_empty() {
            set("stop_token_ids", json!(self.stop_tokens));
        }
        Value::Object(body)
    }

    /// Whether tokens are sampled from the distribution of the model itself.
    fn is_unrestricted(&self) -> bool {
        let sampling = &self.sampling;
        sampling.temperature == Some(1.0)
            && sampling.top_p == Some(1.0)
            && sampling.top_k.is_none_or(|count| count == 0)
            && sampling.min_p.is_none_or(|share| share == 0.0)
    }
}

impl Generated {
    /// The answer of a model of this process.
    pub fn of_local(answer: &TokenAnswer) -> Self {
        let numbers = |numbers: &[f32]| numbers.iter().map(|number| f64::from(*number).min(0.0)).collect();
        Self {
            tokens: answer.record.tokens.clone(),
            logprobs: numbers(&answer.record.logprob_model),
            logprobs_sampled: Some(numbers(&answer.record.logprob_sampled)),
            stop_reason: answer.finish.name().to_owned(),
            stopped_by: match &answer.finish {
                TokenFinish::StopToken(token) => json!(token),
                TokenFinish::StopText(text) => json!(text),
                TokenFinish::Length => Value::Null,
            },
            model: answer.model.model.clone(),
            versions: answer.versions.clone(),
        }
    }

    /// Reads the answer of an endpoint to [`GenerateRequest::forwarded`], and gives it as it is recorded, too.
    ///
    /// # Errors
    /// The body is no answer, has no token ids or log-probs, or has not exactly one log-prob for each token.
    pub fn of_endpoint(body: &str, request: &GenerateRequest) -> Result<(Self, ModelResponse), WireError> {
        let mut response = super::response(body)?;
        let object: Map<String, Value> = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
        let choice = object.get("choices").and_then(Value::as_array).and_then(|choices| choices.first());
        let choice = choice.ok_or(WireError::Empty)?;
        let ids = choice.get("token_ids").cloned().and_then(super::token_fields::token_ids);
        let unsupported = |what: &str| WireError::Unsupported(format!("the endpoint's answer has no {what}"));
        let tokens =
            ids.ok_or_else(|| unsupported("token ids (`token_ids`); it needs an endpoint with `return_token_ids`"))?;
        let logprobs = choice.pointer("/logprobs/token_logprobs").and_then(Value::as_array);
        let logprobs: Option<Vec<f64>> = logprobs
            .and_then(|list| list.iter().map(|logprob| logprob.as_f64().map(|number| number.min(0.0))).collect());
        let logprobs = logprobs.ok_or_else(|| unsupported("log-prob of every token"))?;
        if tokens.len() != logprobs.len() {
            let (ids, logprobs) = (tokens.len(), logprobs.len());
            return Err(WireError::Unsupported(format!(
                "the endpoint's answer has {ids} token ids and {logprobs} log-probs"
            )));
        }
        // Only then it is known that the log-probs are those of the sampling distribution.
        let is_exact = request.is_unrestricted();
        if is_exact {
            let numbers: Vec<f32> = logprobs.iter().map(|logprob| *logprob as f32).collect();
            response.tokens = Some(Box::new(TokenRecord {
                version: 0,
                shared: 0,
                prompt: request.prompt.clone(),
                tokens: tokens.clone(),
                logprob_model: numbers.clone(),
                logprob_sampled: numbers,
                temperature: 1.0,
                restricted: false,
                grammar: None,
            }));
        }
        let generated = Self {
            logprobs_sampled: is_exact.then(|| logprobs.clone()),
            tokens,
            logprobs,
            stop_reason: response.finish.clone(),
            stopped_by: choice.get("stop_reason").cloned().unwrap_or_default(),
            model: response.answered_by.as_ref().map(|by| by.model.clone()).unwrap_or_default(),
            versions: Vec::new(),
        };
        response.message.parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok((generated, response))
    }

    /// The body of the answer.
    pub fn body(&self) -> Value {
        json!({
            "token_ids": self.tokens,
            "log_probs": self.logprobs,
            "sampled_log_probs": self.logprobs_sampled,
            "stop_reason": self.stop_reason,
            "stopped_by": self.stopped_by,
            "model": self.model,
            "policy_version": self.versions.last().map(|run| run.version),
            "policy_versions": version_pairs(&self.versions),
            "weights": self.versions.last().map(|run| run.digest.as_str()),
        })
    }
}
