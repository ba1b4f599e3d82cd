//! What a local model notes about an answer, token by token: the ground that weights are trained on.

use serde::{Deserialize, Serialize};

/// Exact tokens of one answer, with their log-probs. Never made from text afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Number of the weights that gave the whole answer.
    pub version: u64,
    /// So many tokens at the prompt's beginning are those of the turn before, prompt and answer together; 0: it stands alone.
    pub shared: usize,
    /// The prompt behind those.
    pub prompt: Vec<u32>,
    /// The answer, the token that ended it too.
    pub tokens: Vec<u32>,
    /// Natural logarithm of each token's probability under the model alone: temperature 1, everything allowed.
    pub logprob_model: Vec<f32>,
    /// And in the distribution that it was drawn from.
    pub logprob_sampled: Vec<f32>,
    /// What the logits were divided by; 0: the most likely token was taken.
    pub temperature: f32,
    /// Whether some tokens could not be drawn (top-k, top-p, min-p): then ratios are known only with `kept`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restricted: bool,
}
