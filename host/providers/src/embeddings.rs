//! Embeddings of an endpoint: `POST /embeddings` of OpenAI's dialect, as the gateway passes it on for its clients.
//!
//! This is the boundary at which vectors are checked: a vector for each text, all of one length, finite, not zero, not too long.

use crate::{Upstream, UpstreamError};
use async_trait::async_trait;
use bytes::Bytes;
use clawhost_core::{Embedding, EmbeddingModel, InvalidEmbedding, LlmIdentity, MOST_DIMENSIONS, ModelError, escaped};
use clawhost_wire::embeddings::{request, vectors};
use reqwest::header::HeaderMap;
use std::sync::{Arc, OnceLock};

/// Path of requests, behind the version.
const PATH: &str = "/embeddings";
/// Bytes of a number in an answer: a sign, 20 digits, a separator, and white space.
const NUMBER_BYTES: usize = 32;
/// Bytes of an answer beside its numbers.
const HEAD_BYTES: usize = 64 << 10;
/// Most bytes of the body of an error in a message.
const SHOWN_BYTES: usize = 300;
/// Statuses by which an endpoint refuses the texts of a request. Others are about its state, its address or its key.
const REFUSES: [u16; 3] = [400, 413, 422];

/// An embedding model behind an upstream of a gateway. It makes no second attempt.
#[derive(Debug)]
pub struct UpstreamEmbeddings {
    upstream: Arc<Upstream>,
    model: String,
    /// The length of its vectors, once it is known.
    dimensions: OnceLock<usize>,
}

impl UpstreamEmbeddings {
    /// The model of this name there. The upstream has the dialect of OpenAI.
    pub fn new(upstream: Arc<Upstream>, model: impl Into<String>) -> Self {
        Self { upstream, model: model.into(), dimensions: OnceLock::new() }
    }

    /// Whether it is the model of this name behind this upstream.
    pub fn is(&self, upstream: &Arc<Upstream>, model: &str) -> bool {
        Arc::ptr_eq(&self.upstream, upstream) && self.model == model
    }

    /// The body of an answer, up to a size, without keys of this process.
    async fn asked(&self, body: Bytes, most_bytes: usize) -> Result<(u16, String), UpstreamError> {
        let mut answer = self.upstream.post(PATH, &HeaderMap::new(), false, body).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            if bytes.len().saturating_add(chunk.len()) > most_bytes {
                return Err(UpstreamError::TooLong { host: self.upstream.origin(), bytes: most_bytes });
            }
            bytes.extend_from_slice(&chunk);
        }
        let secrets = self.upstream.known().secrets();
        Ok((answer.status, secrets.scrub(&String::from_utf8_lossy(&bytes)).into_owned()))
    }

    /// The checked vector of these numbers.
    fn checked(&self, numbers: &[f32]) -> Result<Embedding, InvalidEmbedding> {
        let vector = Embedding::new(numbers)?;
        let (numbers, expected) = (numbers.len(), *self.dimensions.get_or_init(|| numbers.len()));
        if numbers == expected { Ok(vector) } else { Err(InvalidEmbedding::OtherLength { numbers, expected }) }
    }
}

#[async_trait]
impl EmbeddingModel for UpstreamEmbeddings {
    fn identity(&self) -> LlmIdentity {
        let (provider, version) = (self.upstream.dialect().name().to_owned(), self.upstream.base_url().to_owned());
        LlmIdentity { provider, model: self.model.clone(), version }
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, ModelError> {
        let body = Bytes::from(request(&self.model, texts).to_string());
        let numbers = texts.len().saturating_mul(MOST_DIMENSIONS);
        let most_bytes = HEAD_BYTES.saturating_add(numbers.saturating_mul(NUMBER_BYTES));
        let (status, text) = self.asked(body, most_bytes).await.map_err(|error| match error {
            UpstreamError::TooLong { .. } => ModelError::InvalidResponse(error.to_string()),
            other => ModelError::Unavailable(other.to_string()),
        })?;
        if !(200..300).contains(&status) {
            let said = format!("HTTP {status}: {}", escaped(&text, SHOWN_BYTES));
            let refuses = REFUSES.contains(&status);
            return Err(if refuses { ModelError::Refused(said) } else { ModelError::Unavailable(said) });
        }
        let found = vectors(&text, texts.len()).map_err(|error| ModelError::InvalidResponse(error.to_string()))?;
        let checked = |(place, numbers): (usize, Vec<f32>)| {
            self.checked(&numbers).map_err(|error| ModelError::InvalidResponse(format!("text {place}: {error}")))
        };
        found.into_iter().enumerate().map(checked).collect()
    }
}
