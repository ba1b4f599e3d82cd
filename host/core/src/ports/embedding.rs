//! The port of embedding models: they map texts to vectors that are near for similar meanings.

use super::{LlmIdentity, ModelError};
use async_trait::async_trait;

/// Most numbers of a vector: twice those of the largest models that are in use (4,096).
pub const MOST_DIMENSIONS: usize = 8_192;

/// Why numbers are no vector of a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEmbedding {
    /// There are none.
    #[error("the vector of the text is empty")]
    Empty,
    /// There are too many.
    #[error("the vector of the text has {numbers} numbers, at most {MOST_DIMENSIONS} are read")]
    TooLong {
        /// How many.
        numbers: usize,
    },
    /// One of them is not finite.
    #[error("number {place} of the vector of the text is not finite")]
    NotFinite {
        /// Its place, from 0.
        place: usize,
    },
    /// All of them are 0, so it has no direction.
    #[error("the vector of the text has only zeros")]
    Zero,
    /// Another vector of the same model has another length.
    #[error("the vector of the text has {numbers} numbers, and an earlier one of the same model has {expected}")]
    OtherLength {
        /// How many.
        numbers: usize,
        /// How many the earlier one has.
        expected: usize,
    },
}

/// The vector of a text: finite numbers of length 1 together, at most [`MOST_DIMENSIONS`].
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding(Box<[f32]>);

impl Embedding {
    /// Checks the numbers of a vector, and scales it to length 1.
    ///
    /// # Errors
    /// There are none or too many numbers, one is not finite, or all are 0.
    pub fn new(numbers: &[f32]) -> Result<Self, InvalidEmbedding> {
        if numbers.is_empty() {
            return Err(InvalidEmbedding::Empty);
        }
        if numbers.len() > MOST_DIMENSIONS {
            return Err(InvalidEmbedding::TooLong { numbers: numbers.len() });
        }
        if let Some(place) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(InvalidEmbedding::NotFinite { place });
        }
        // The squares of 32-bit numbers fit into 64 bits, the smallest ones included.
        let length = numbers.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
        if length == 0.0 {
            return Err(InvalidEmbedding::Zero);
        }
        Ok(Self(numbers.iter().map(|number| (f64::from(*number) / length) as f32).collect()))
    }

    /// Its numbers.
    pub fn numbers(&self) -> &[f32] {
        &self.0
    }
}

/// A model that maps texts to vectors.
#[async_trait]
pub trait EmbeddingModel: Send + Sync {
    /// Identity of the model. Vectors of different models cannot be compared.
    fn identity(&self) -> LlmIdentity;
    /// The vectors of texts, in their order, all of one length. One attempt; cancel-safe.
    ///
    /// # Errors
    /// The model does not answer. [`ModelError::Refused`]: it does not take these texts. [`ModelError::InvalidResponse`]: its answer has no valid
    /// vector for each text.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, ModelError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_has_length_1_or_is_refused_by_name() {
        let check = |numbers: &[f32], expect: Result<&[f32], InvalidEmbedding>| {
            let read = Embedding::new(numbers);
            assert_eq!(read.as_ref().map(Embedding::numbers), expect.as_ref().copied(), "{numbers:?}");
        };
        check(&[3.0, 4.0], Ok(&[0.6, 0.8]));
        check(&[-2.0], Ok(&[-1.0]));
        check(&[f32::MAX, 0.0], Ok(&[1.0, 0.0]));
        check(&[0.0, f32::from_bits(1)], Ok(&[0.0, 1.0]));
        check(&[], Err(InvalidEmbedding::Empty));
        check(&[0.0, -0.0], Err(InvalidEmbedding::Zero));
        check(&[1.0, f32::NAN], Err(InvalidEmbedding::NotFinite { place: 1 }));
        check(&[f32::INFINITY], Err(InvalidEmbedding::NotFinite { place: 0 }));
        check(&[1.0; MOST_DIMENSIONS + 1], Err(InvalidEmbedding::TooLong { numbers: MOST_DIMENSIONS + 1 }));
        assert!(Embedding::new(&[1.0; MOST_DIMENSIONS]).is_ok());
    }
}
