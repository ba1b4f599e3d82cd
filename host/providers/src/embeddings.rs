//! Embeddings of an endpoint: `POST /embeddings` of OpenAI's dialect, as the gateway passes it on for its clients.
//!
//! This is the boundary at which vectors are checked: a vector for each text, all of one length, finite, not zero, not too long.

use crate::{Upstream, UpstreamError};
use async_trait::async_trait;
use bytes::Bytes;
use clawhost_core::{Embedding, EmbeddingModel, InvalidEmbedding, LlmIdentity, MOST_DIMENSIONS, ModelError, escaped};
use clawhost_wire::embeddings::{request, vectors};
use reqwest::header::HeaderMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// The length of its vectors in the last answer that was valid; 0: none was.
    dimensions: AtomicUsize,
}

impl UpstreamEmbeddings {
    /// The model of this name there. The upstream has the dialect of OpenAI.
    pub fn new(upstream: Arc<Upstream>, model: impl Into<String>) -> Self {
        Self { upstream, model: model.into(), dimensions: AtomicUsize::new(0) }
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

    /// The checked vectors of an answer: all have one length, that of the answer before. An endpoint whose vectors have another one is refused once, and from then
    /// on its new length counts.
    fn checked(&self, found: &[Vec<f32>]) -> Result<Vec<Embedding>, ModelError> {
        let known = self.dimensions.load(Ordering::Relaxed);
        let expected = if known > 0 { known } else { found.first().map_or(0, Vec::len) };
        let mut vectors = Vec::with_capacity(found.len());
        for (place, numbers) in found.iter().enumerate() {
            let vector = Embedding::new(numbers).and_then(|vector| match numbers.len() {
                own if own == expected => Ok(vector),
                numbers => Err(InvalidEmbedding::OtherLength { numbers, expected }),
            });
            vectors.push(vector.map_err(|error| {
                self.dimensions.store(0, Ordering::Relaxed);
                ModelError::InvalidResponse(format!("text {place}: {error}"))
            })?);
        }
        self.dimensions.store(expected, Ordering::Relaxed);
        Ok(vectors)
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
        self.checked(&found)
    }
}
