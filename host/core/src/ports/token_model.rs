//! The port of models that work on tokens: token ids in, token ids and log-probs out.

use super::{AnsweringModel, ModelError, Partition};
use crate::TokenRecord;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Most alternatives that a model reports beside a token: as many as the chat API of OpenAI. Each costs a text in the answer.
pub const MOST_ALTERNATIVES: u8 = 20;

/// How tokens are sampled. `None`: the model's default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenSampling {
    /// Temperature from 0; 0 is greedy.
    pub temperature: Option<f32>,
    /// Nucleus sampling threshold, 0 to 1.
    pub top_p: Option<f32>,
    /// Only this number of most likely tokens; 0 is all of them.
    pub top_k: Option<u32>,
    /// Only tokens with at least this share of the highest probability, 0 to 1.
    pub min_p: Option<f32>,
}

/// A request for one continuation of a prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenRequest {
    /// The prompt: at least one token.
    pub prompt: Vec<u32>,
    /// Most tokens to generate, at least 1. The context bounds them too.
    pub max_tokens: u32,
    /// How tokens are sampled.
    pub sampling: TokenSampling,
    /// Seed. Equal seeds give equal answers.
    pub seed: u64,
    /// Distinguishes several answers to one prompt.
    pub choice: u64,
    /// Texts that end the answer. They are not part of its text.
    pub stop: Vec<String>,
    /// Tokens that end the answer, beside those of the model. The token is part of the answer, and has no text.
    pub stop_tokens: Vec<u32>,
    /// Alternatives to report beside each token, 0 to [`MOST_ALTERNATIVES`].
    pub alternatives: u8,
    /// With whose requests it shares cached keys and values.
    pub partition: Partition,
}

/// Another token at a position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlternativeToken {
    /// The token.
    pub id: u32,
    /// Its text at this position.
    pub text: String,
    /// Its log-prob under the model; at most 0.
    pub logprob: f64,
}

/// A token with its text and log-probs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoredToken {
    /// The token.
    pub id: u32,
    /// The text that it adds. A token that adds none, such as a control token or a part of a character, has the text of its own.
    pub text: String,
    /// Where its text begins, in characters from the beginning of the prompt or of the answer.
    pub offset: usize,
    /// Natural logarithm of its probability under the model: temperature 1, no restriction. `None`: the first token of a prompt, which
    /// nothing predicts.
    pub logprob: Option<f64>,
    /// The same under the distribution from which it was sampled. `None`: it was not sampled.
    pub logprob_sampled: Option<f64>,
    /// The most likely tokens at this position, the most likely first, as many as were requested.
    pub alternatives: Vec<AlternativeToken>,
}

/// The weights of consecutive tokens of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenVersion {
    /// Counts the weights that the model had so far.
    pub version: u64,
    /// Identifies the weights and the tokenizer.
    pub digest: String,
    /// Number of tokens that these weights sampled.
    pub tokens: usize,
}

/// The scores of given tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoredTokens {
    /// The tokens.
    pub tokens: Vec<ScoredToken>,
    /// The model that scored them.
    pub model: AnsweringModel,
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenFinish {
    /// An end token of the model or of the request.
    StopToken(u32),
    /// A text of the request.
    StopText(String),
    /// The largest number of tokens, or the context.
    Length,
}

impl TokenFinish {
    /// `stop` or `length`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::StopToken(_) | Self::StopText(_) => "stop",
            Self::Length => "length",
        }
    }
}

/// One continuation of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenAnswer {
    /// The tokens as they were sampled, including the one that ended the answer.
    pub tokens: Vec<ScoredToken>,
    /// The text, up to the stop text or the end token.
    pub text: String,
    /// Why it ended.
    pub finish: TokenFinish,
    /// The weights that sampled the tokens, in order: one entry unless they changed during the answer.
    pub versions: Vec<TokenVersion>,
    /// The model that answered.
    pub model: AnsweringModel,
    /// The record for training.
    pub record: TokenRecord,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenDelta {
    /// More text. Text that may become a stop text is held back.
    pub text: String,
    /// The next tokens.
    pub tokens: Vec<ScoredToken>,
}

/// Receives the parts of an answer. `Break` ends it.
pub trait TokenSink: Send {
    /// Receives the next part.
    fn delta(&mut self, delta: TokenDelta) -> ControlFlow<()>;
}

impl<F: FnMut(TokenDelta) -> ControlFlow<()> + Send> TokenSink for F {
    fn delta(&mut self, delta: TokenDelta) -> ControlFlow<()> {
        self(delta)
    }
}

/// A model that works on tokens. Dropping a future abandons its request.
#[async_trait]
pub trait TokenModel: Send + Sync {
    /// Its name and version.
    fn model(&self) -> AnsweringModel;
    /// Largest number of tokens of a prompt and its answer together.
    fn context(&self) -> usize;
    /// Number of tokens that it knows: ids are below.
    fn vocabulary(&self) -> usize;
    /// The tokens of a text. `adds_special`: with those that the tokenizer adds, usually one at the beginning.
    ///
    /// # Errors
    /// The vocabulary does not cover the text.
    async fn tokenize(&self, text: &str, adds_special: bool) -> Result<Vec<u32>, ModelError>;
    /// The text of tokens, control tokens included.
    ///
    /// # Errors
    /// The tokenizer fails.
    async fn detokenize(&self, tokens: &[u32]) -> Result<String, ModelError>;
    /// The tokens of the vocabulary as texts, one by one.
    ///
    /// # Errors
    /// The tokenizer fails.
    async fn token_texts(&self, tokens: &[u32]) -> Result<Vec<String>, ModelError>;
    /// The log-probs of given tokens, each after those before it. Samples nothing, and shares nothing with other requests.
    ///
    /// # Errors
    /// There is no token, one is unknown, or they are longer than the context.
    async fn score(&self, tokens: &[u32], alternatives: u8) -> Result<ScoredTokens, ModelError>;
    /// Continues a prompt. With a sink, parts are passed on while they are sampled.
    ///
    /// # Errors
    /// The prompt is empty, has an unknown token, or leaves no room for an answer. [`ModelError::Stopped`]: the sink stopped reading.
    async fn sample(&self, request: &TokenRequest, sink: Option<&mut dyn TokenSink>)
    -> Result<TokenAnswer, ModelError>;
}
