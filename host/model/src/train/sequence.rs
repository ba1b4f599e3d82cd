//! A sequence for training: the exact tokens that were generated, with their sampling temperature.

use crate::LocalModelError;

/// One sequence. Tokens of the policy are *trained*. Prompts and tool results are context only.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    tokens: Vec<u32>,
    /// Positions of trained tokens, in increasing order. Position 0 is never trained: nothing predicts it.
    trained: Vec<usize>,
    /// Divides the logits, as when the tokens were drawn.
    temperature: f32,
}

impl Sequence {
    /// Creates a sequence from tokens and a mask of those that are trained.
    ///
    /// # Errors
    /// The mask has another length, position 0 is set, or the temperature is not above 0.
    pub fn new(tokens: Vec<u32>, mask: &[bool], temperature: f32) -> Result<Self, LocalModelError> {
        let refuse = |why: String| Err(LocalModelError::Samples(why));
        if tokens.len() != mask.len() {
            return refuse(format!("{} tokens and a mask of {}", tokens.len(), mask.len()));
        }
        if mask.first() == Some(&true) {
            return refuse("the first token cannot be trained: nothing predicts it".into());
        }
        if !(temperature.is_finite() && temperature > 0.0) {
            return refuse(format!("a temperature of {temperature}; ratios need one above 0"));
        }
        let trained = mask.iter().enumerate().filter(|(_, trained)| **trained).map(|(place, _)| place).collect();
        Ok(Self { tokens, trained, temperature })
    }

    /// All tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Positions of the trained tokens.
    pub fn trained(&self) -> &[usize] {
        &self.trained
    }

    /// The temperature at which the tokens were drawn.
    pub fn temperature(&self) -> f32 {
        self.temperature
    }
}
