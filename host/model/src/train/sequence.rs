//! A sequence for training: the exact tokens that were generated, with their sampling temperature.

use super::TokenScores;
use crate::{LocalModelError, TokenMask};
use std::sync::Arc;

/// One sequence. Tokens of the policy are *trained*. Prompts and tool results are context only.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    tokens: Vec<u32>,
    /// Positions of trained tokens, in increasing order. Position 0 is never trained: nothing predicts it.
    trained: Vec<usize>,
    /// Divides the logits, as when the tokens were drawn.
    temperature: f32,
    /// For each trained token, other tokens whose log-probs at its position are wanted, too. Empty: none are.
    beside: Vec<Vec<u32>>,
    /// For each trained token, the tokens that the grammar of its answer allowed at its position. Empty: there was none.
    masks: Vec<Option<Arc<TokenMask>>>,
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
        Ok(Self { tokens, trained, temperature, beside: Vec::new(), masks: Vec::new() })
    }

    /// The same sequence, with other tokens at the position of each trained token. Their log-probs are scores and have gradients like
    /// those of trained tokens.
    ///
    /// # Errors
    /// There is not one list for each trained token.
    pub fn with_beside(self, beside: Vec<Vec<u32>>) -> Result<Self, LocalModelError> {
        if !beside.is_empty() && beside.len() != self.trained.len() {
            let why = format!("{} trained tokens and {} lists of tokens beside them", self.trained.len(), beside.len());
            return Err(LocalModelError::Samples(why));
        }
        Ok(Self { beside, ..self })
    }

    /// The same sequence, with the tokens that a grammar allowed at the position of each trained token. Log-probs are then among these.
    ///
    /// # Errors
    /// There is not one entry for each trained token.
    pub fn with_masks(self, masks: Vec<Option<Arc<TokenMask>>>) -> Result<Self, LocalModelError> {
        if !masks.is_empty() && masks.len() != self.trained.len() {
            let why = format!("{} trained tokens and {} masks", self.trained.len(), masks.len());
            return Err(LocalModelError::Samples(why));
        }
        Ok(Self { masks, ..self })
    }

    /// The mask of each target, in order. None at all: there is no grammar.
    pub fn masks(&self) -> impl Iterator<Item = Option<&Arc<TokenMask>>> + '_ {
        self.masks.iter().enumerate().flat_map(|(number, mask)| {
            let beside = self.beside.get(number).map_or(0, Vec::len);
            std::iter::repeat_n(mask.as_ref(), 1 + beside)
        })
    }

    /// The scored tokens in order, with the position of each: every trained token, followed by the tokens beside it.
    pub fn targets(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.trained.iter().enumerate().flat_map(|(number, place)| {
            let own = self.tokens.get(*place).copied();
            let beside = self.beside.get(number).into_iter().flatten().copied();
            own.into_iter().chain(beside).map(|token| (*place, token))
        })
    }

    /// Number of scored tokens.
    pub fn scored(&self) -> usize {
        self.trained.len() + self.beside.iter().map(Vec::len).sum::<usize>()
    }

    /// Scores from those of all targets, in order: log-probs and entropies.
    pub fn token_scores(&self, targets: impl IntoIterator<Item = (f64, f64)>) -> TokenScores {
        let mut targets = targets.into_iter();
        let mut scores = TokenScores::default();
        for number in 0..self.trained.len() {
            let Some((logprob, entropy)) = targets.next() else { break };
            scores.logprobs.push(logprob);
            scores.entropies.push(entropy);
            if let Some(beside) = self.beside.get(number) {
                scores.beside.push((&mut targets).take(beside.len()).map(|(logprob, _)| logprob).collect());
            }
        }
        scores
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_beside_a_trained_one_follow_it_in_targets_and_scores() {
        let mask = [false, true, false, true];
        let plain = Sequence::new(vec![5, 6, 7, 8], &mask, 1.0).unwrap();
        assert_eq!((plain.targets().collect::<Vec<_>>(), plain.scored()), (vec![(1, 6), (3, 8)], 2));
        let refused = plain.clone().with_beside(vec![vec![1]]).unwrap_err().to_string();
        assert!(refused.contains("2 trained tokens and 1 lists"), "{refused}");
        let both = plain.with_beside(vec![vec![1, 6], vec![]]).unwrap();
        assert_eq!((both.targets().collect::<Vec<_>>(), both.scored()), (vec![(1, 6), (1, 1), (1, 6), (3, 8)], 4));
        let scores = both.token_scores([(-1.0, 0.1), (-2.0, 0.2), (-3.0, 0.3), (-4.0, 0.4)]);
        assert_eq!((scores.logprobs, scores.entropies), (vec![-1.0, -4.0], vec![0.1, 0.4]));
        assert_eq!(scores.beside, [vec![-2.0, -3.0], vec![]]);
    }

    #[test]
    fn every_target_has_the_mask_of_its_position() {
        let mask = [false, true, false, true];
        let allowed = Arc::new(TokenMask::of(9, &[1, 6]));
        let plain = Sequence::new(vec![5, 6, 7, 8], &mask, 1.0).unwrap();
        assert_eq!(plain.masks().count(), 0);
        assert!(plain.clone().with_masks(vec![None]).is_err());
        let both = plain.with_beside(vec![vec![1], vec![]]).unwrap().with_masks(vec![Some(allowed), None]).unwrap();
        let found: Vec<bool> = both.masks().map(|mask| mask.is_some()).collect();
        assert_eq!((found, both.targets().count()), (vec![true, true, false], 3));
    }
}
