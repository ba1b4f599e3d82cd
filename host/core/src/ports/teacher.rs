//! The port of teachers: models that say how likely given tokens are, and which tokens are the most likely at their positions.

use super::ModelError;
use async_trait::async_trait;

/// Most tokens beside a given one that a teacher is asked for: what vLLM allows unless configured otherwise, and the chat API of OpenAI.
pub const MOST_TAUGHT: u8 = 20;

/// What a teacher says of one given token, after those before it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaughtToken {
    /// Natural logarithm of the probability of the given token; at most 0.
    pub logprob: f64,
    /// The most likely tokens at its position with their log-probs, the most likely first, as many as were requested or as the
    /// vocabulary has. The given token is among them only if it is that likely.
    pub likely: Vec<(u32, f64)>,
}

/// A model that others learn from. Its token ids are those of the model that learns.
#[async_trait]
pub trait Teacher: Send + Sync {
    /// Scores given tokens, from the second one on: nothing predicts the first. Logits are divided by `temperature`; `likely` is the
    /// number of most likely tokens that are named, 0 to [`MOST_TAUGHT`].
    ///
    /// # Errors
    /// The teacher does not answer, knows other tokens, or its context is shorter than the tokens.
    async fn teach(&self, tokens: &[u32], temperature: f32, likely: u8) -> Result<Vec<TaughtToken>, ModelError>;
}
