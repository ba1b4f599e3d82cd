//! Token-level records of local models, the training data of weights.

use serde::{Deserialize, Serialize};

/// The exact tokens of one answer with their log-probs. Never derived from text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Version of the weights that sampled the answer.
    pub version: u64,
    /// Number of leading prompt tokens that equal the previous turn's prompt and answer; 0: the prompt is independent.
    pub shared: usize,
    /// The rest of the prompt.
    pub prompt: Vec<u32>,
    /// The answer, including its final token.
    pub tokens: Vec<u32>,
    /// Log-prob of each token under the model: temperature 1, no restriction; natural logarithm.
    pub logprob_model: Vec<f32>,
    /// Log-prob of each token under the sampling distribution.
    pub logprob_sampled: Vec<f32>,
    /// Sampling temperature; 0 is greedy decoding.
    pub temperature: f32,
    /// Whether sampling was restricted (top-k, top-p, min-p). Then importance ratios need the kept set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restricted: bool,
}
