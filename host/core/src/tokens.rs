//! Token-level records of local models, the training data of weights.

use crate::Digest;
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
    /// Whether the sampling distribution was changed by anything that training does not compute again: top-k, top-p, min-p, penalties, bias. A
    /// grammar is not among them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restricted: bool,
    /// The grammar that excluded tokens, if there was one. `logprob_sampled` is among the tokens that it allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grammar: Option<GrammarRecord>,
}

/// A grammar that restricted an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GrammarRecord {
    /// The digest of the text.
    pub digest: Digest,
    /// The grammar in the Lark dialect of llguidance. Training computes the mask of each token again from it.
    pub text: String,
}
