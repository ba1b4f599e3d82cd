//! What is trained on: tokens exactly as they were generated, with what was known when they were.

use crate::LocalModelError;

/// One sequence. Tokens of the policy are *trained*; prompts, tool results and what was forced are only read.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    tokens: Vec<u32>,
    /// Places of trained tokens, rising, none of them 0: what stands first follows from nothing.
    trained: Vec<usize>,
    /// Divides the logits, as when the tokens were drawn.
    temperature: f32,
}

impl Sequence {
    /// Tokens, and which of them are trained.
    ///
    /// # Errors
    /// The mask has another length, its first place is set, or the temperature is no number above 0.
    pub fn new(tokens: Vec<u32>, mask: &[bool], temperature: f32) -> Result<Self, LocalModelError> {
        let refuse = |why: String| Err(LocalModelError::Samples(why));
        if tokens.len() != mask.len() {
            return refuse(format!("{} tokens and a mask of {}", tokens.len(), mask.len()));
        }
        if mask.first() == Some(&true) {
            return refuse("the first token is to be trained, but follows from nothing".into());
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

    /// Places of those that are trained.
    pub fn trained(&self) -> &[usize] {
        &self.trained
    }

    /// As when they were drawn.
    pub fn temperature(&self) -> f32 {
        self.temperature
    }
}
