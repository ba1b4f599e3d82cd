//! Weights of a service that answer.

use super::body::extended;
use super::service::{Body, Connection, Refusal, Repeat, TinkerService};
use async_trait::async_trait;
use clawhost_core::{ModelError, TaughtToken, Teacher};
use clawhost_wire::tinker::{STOPPED, SampleResponse, TopkLogprobs, floats, read, tokens};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// Weights at a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TinkerWeights {
    /// A base model, by the service's name of it.
    Base(String),
    /// Weights that were kept for sampling, by their path.
    Path(String),
}

/// A request for one answer.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRequest {
    /// The prompt: at least one token.
    pub prompt: Vec<u32>,
    /// Largest number of tokens, at least 1.
    pub max_tokens: usize,
    /// 0: greedy.
    pub temperature: f32,
    /// Only this number of most likely tokens. `None`: all.
    pub top_k: Option<usize>,
    /// Only the most likely tokens with this share of the probability. 1: all.
    pub top_p: f32,
    /// The seed of the draws.
    pub seed: u64,
    /// Tokens that end the answer.
    pub stop: Vec<u32>,
}

/// A token with its log-prob.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampledToken {
    /// Its id.
    pub token: u32,
    /// Natural logarithm of its probability under the model, at most 0.
    pub logprob: f32,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Its tokens.
    pub tokens: Vec<SampledToken>,
    /// Whether it ended by itself, and not at the largest number of tokens.
    pub is_stopped: bool,
}

/// A session of a service that samples from some weights. It is opened anew if the service has lost it.
#[derive(Debug)]
pub struct TinkerSampler {
    service: Arc<TinkerService>,
    weights: TinkerWeights,
    /// Its name at the service.
    session: Mutex<String>,
    next: AtomicU64,
    /// Ids are below it.
    vocabulary: usize,
}

/// Chosen so that seeds stay exact in every JSON reader.
const SEED_BITS: u32 = 53;

impl TinkerService {
    /// Opens a session that samples from weights. `vocabulary`: ids of tokens are below it.
    ///
    /// # Errors
    /// The service does not have them, or does not answer.
    pub async fn sampler(
        self: &Arc<Self>,
        weights: TinkerWeights,
        vocabulary: usize,
    ) -> Result<TinkerSampler, ModelError> {
        let opening = weights.clone();
        let session = self.run(move |connection| async move { Ok(opened(&connection, &opening).await?) }).await?;
        Ok(TinkerSampler {
            service: self.clone(),
            weights,
            session: Mutex::new(session),
            next: AtomicU64::new(0),
            vocabulary,
        })
    }
}

/// Opens a session that samples. Returns its name.
async fn opened(connection: &Arc<Connection>, weights: &TinkerWeights) -> Result<String, Refusal> {
    let weights = match weights {
        TinkerWeights::Base(name) => json!({ "base_model": name }),
        TinkerWeights::Path(path) => json!({ "model_path": path }),
    };
    let body = extended(
        weights,
        json!({
            "session_id": connection.session().await?, "sampling_session_seq_id": connection.next_sampler(),
            "type": "create_sampling_session",
        }),
    );
    let answer = connection.ask("create_sampling_session", &Body::Json(body), Repeat::Harmless).await?;
    Ok(connection.text(&answer, "sampling_session_id")?)
}

/// Opens one in the place of a lost one: in the session of the connection, or in another one if the service has lost that, too.
async fn opened_anew(connection: Arc<Connection>, weights: TinkerWeights) -> Result<String, ModelError> {
    let of = connection.session().await?;
    match opened(&connection, &weights).await {
        Err(refusal) if refusal.is_lost => {
            connection.lose(&of).await;
            Ok(opened(&connection, &weights).await?)
        }
        other => Ok(other?),
    }
}

/// The most likely tokens at every position, without empty cells.
fn rows(topk: &TopkLogprobs) -> Option<Vec<Vec<(u32, f64)>>> {
    let (ids, logprobs) = (tokens(&topk.token_ids).ok()?, floats(&topk.logprobs).ok()?);
    let (rows, width) = (topk.length as usize, topk.k as usize);
    if ids.len() != rows.checked_mul(width)? || logprobs.len() != ids.len() || width == 0 {
        return None;
    }
    let cells: Vec<(u32, f64)> = ids.into_iter().zip(logprobs.into_iter().map(f64::from)).collect();
    // -99999 marks an empty cell.
    let filled = |row: &[(u32, f64)]| row.iter().copied().filter(|(_, logprob)| *logprob > -99_999.0).collect();
    Some(cells.chunks(width).map(filled).collect())
}

impl TinkerSampler {
    /// The result of a request, which may have so many numbers, within the patience of the connection.
    async fn asked(
        &self,
        body: serde_json::Value,
        prompt: &[u32],
        numbers: usize,
    ) -> Result<SampleResponse, ModelError> {
        let patience = self.service.patience();
        let late = || {
            ModelError::Unavailable(format!(
                "{}: no answer within {} s",
                self.service.address(),
                patience.as_secs_f64()
            ))
        };
        tokio::time::timeout(patience, self.asked_in_any(body, prompt, numbers)).await.unwrap_or_else(|_| Err(late()))
    }

    /// The same in a session that is opened anew if the service has lost it.
    async fn asked_in_any(
        &self,
        body: serde_json::Value,
        prompt: &[u32],
        numbers: usize,
    ) -> Result<SampleResponse, ModelError> {
        let session = self.session.lock().await.clone();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let body = extended(
            body,
            json!({
                "prompt": { "chunks": [{ "type": "encoded_text", "tokens": prompt }] },
                "seq_id": number, "num_samples": 1, "type": "sample",
            }),
        );
        match self.asked_in(&session, body.clone(), numbers).await? {
            Ok(response) => return Ok(response),
            Err(lost) => tracing::warn!("a sampling session of a Tinker service is opened anew: {lost}"),
        }
        let session = self.reopened(session).await?;
        self.asked_in(&session, body, numbers).await?
    }

    /// The result of a request in a session. The inner error: the service does not know the session, or has lost the request.
    async fn asked_in(
        &self,
        session: &str,
        body: serde_json::Value,
        numbers: usize,
    ) -> Result<Result<SampleResponse, ModelError>, ModelError> {
        let body = extended(body, json!({ "sampling_session_id": session }));
        let sampled = self.service.run(move |connection| async move {
            match connection.settled_bytes("asample", Body::Json(body), Repeat::Harmless, numbers).await {
                Ok(bytes) => read::<SampleResponse>(&bytes).map(Ok).map_err(|why| connection.invalid(&why.to_string())),
                Err(refusal) if refusal.is_lost => Ok(Err(refusal.error)),
                Err(refusal) => Err(refusal.error),
            }
        });
        sampled.await
    }

    /// A session in the place of one that is lost. Several requests that lost it open one together.
    async fn reopened(&self, lost: String) -> Result<String, ModelError> {
        let mut session = self.session.lock().await;
        if *session == lost {
            let weights = self.weights.clone();
            *session = self.service.run(move |connection| opened_anew(connection, weights)).await?;
        }
        Ok(session.clone())
    }

    fn invalid(&self, why: &str) -> ModelError {
        ModelError::InvalidResponse(format!("{}: {why}", self.service.address()))
    }

    /// Samples an answer.
    ///
    /// # Errors
    /// The service does not answer, or with something else.
    pub async fn sample(&self, request: SampleRequest) -> Result<Sampled, ModelError> {
        let params = json!({
            "max_tokens": request.max_tokens,
            "seed": request.seed & ((1 << SEED_BITS) - 1),
            "stop": request.stop,
            "temperature": request.temperature,
            "top_k": request.top_k.map_or(-1, |top_k| i64::try_from(top_k).unwrap_or(-1)),
            "top_p": request.top_p,
        });
        let response =
            self.asked(json!({ "sampling_params": params }), &request.prompt, 2 * request.max_tokens).await?;
        let [sequence] = response.sequences.as_slice() else {
            return Err(self.invalid(&format!("{} answers, and one was requested", response.sequences.len())));
        };
        let ids = tokens(&sequence.tokens).map_err(|error| self.invalid(&error.to_string()))?;
        if ids.is_empty() || ids.len() > request.max_tokens {
            let (found, most) = (ids.len(), request.max_tokens);
            return Err(self.invalid(&format!("an answer of {found} tokens; expected 1 to {most}")));
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= self.vocabulary) {
            let why = format!(
                "the token {id}, and the vocabulary has {}; is this folder of the same model?",
                self.vocabulary
            );
            return Err(self.invalid(&why));
        }
        let logprobs = floats(sequence.logprobs.as_deref().unwrap_or_default());
        let logprobs = logprobs.ok().filter(|all| all.len() == ids.len() && all.iter().all(|one| one.is_finite()));
        let logprobs = logprobs.ok_or_else(|| self.invalid("expected a finite log-prob of every token"))?;
        let token = |(token, logprob): (u32, f32)| SampledToken { token, logprob: logprob.min(0.0) };
        let tokens = ids.into_iter().zip(logprobs).map(token).collect();
        Ok(Sampled { tokens, is_stopped: sequence.stop_reason == STOPPED })
    }
}

#[async_trait]
impl Teacher for TinkerSampler {
    async fn teach(&self, given: &[u32], temperature: f32, likely: u8) -> Result<Vec<TaughtToken>, ModelError> {
        if temperature.to_bits() != 1.0_f32.to_bits() {
            let why = format!("a Tinker service scores at temperature 1, and the answers were drawn at {temperature}");
            return Err(ModelError::Refused(why));
        }
        let body = json!({
            "sampling_params": { "max_tokens": 1, "temperature": 1.0 }, "prompt_logprobs": true, "topk_prompt_logprobs": likely,
        });
        let numbers = given.len().saturating_mul(2 * usize::from(likely) + 2);
        let response = self.asked(body, given, numbers).await?;
        let logprobs = floats(response.prompt_logprobs.as_deref().unwrap_or_default()).unwrap_or_default();
        if logprobs.len() != given.len() || logprobs.iter().skip(1).any(|one| !one.is_finite()) {
            return Err(self.invalid("expected a finite log-prob of every given token"));
        }
        let all = response.topk_prompt_logprobs.as_ref().and_then(rows).unwrap_or_default();
        let expected = usize::from(likely).min(self.vocabulary);
        let mut taught = Vec::with_capacity(given.len());
        for (place, logprob) in logprobs.into_iter().enumerate().skip(1) {
            let named = all.get(place).map(Vec::as_slice).unwrap_or_default();
            let named: Vec<(u32, f64)> = named.iter().take(expected).copied().collect();
            let is_known = |(id, logprob): &(u32, f64)| (*id as usize) < self.vocabulary && logprob.is_finite();
            if named.len() < expected || !named.iter().all(is_known) {
                let why = format!(
                    "{} likely tokens of position {place}; expected {expected}, in the vocabulary",
                    named.len()
                );
                return Err(self.invalid(&why));
            }
            let likely = named.into_iter().map(|(id, logprob)| (id, logprob.min(0.0))).collect();
            taught.push(TaughtToken { logprob: f64::from(logprob).min(0.0), likely });
        }
        Ok(taught)
    }
}
