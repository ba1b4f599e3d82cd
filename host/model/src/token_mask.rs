//! Which tokens may follow: what a grammar allows at one place of an answer.

/// A set of tokens of a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenMask {
    /// Number of tokens of the vocabulary.
    vocabulary: usize,
    tokens: Tokens,
}

/// The tokens of the set, in the form that takes least memory: trajectories keep one set for each of their tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tokens {
    /// These, sorted.
    Only(Vec<u32>),
    /// All but these, sorted.
    AllBut(Vec<u32>),
    /// Bit `i % 32` of word `i / 32` is token `i`.
    Bits(Vec<u32>),
}

/// The numbers of the bits that are set in these words, after each was combined with `flip` by exclusive or.
fn listed(words: &[u32], flip: u32, vocabulary: usize) -> Vec<u32> {
    let mut tokens = Vec::new();
    for (first, word) in (0u32..).step_by(32).zip(words) {
        let mut left = word ^ flip;
        while left != 0 {
            tokens.push(first + left.trailing_zeros());
            left &= left - 1;
        }
    }
    // The last word may have bits behind the vocabulary.
    tokens.retain(|token| (*token as usize) < vocabulary);
    tokens
}

impl TokenMask {
    /// The set of these tokens.
    pub fn of(vocabulary: usize, tokens: &[u32]) -> Self {
        let mut words = vec![0u32; vocabulary.div_ceil(32)];
        for token in tokens {
            if let Some(word) = words.get_mut(*token as usize / 32) {
                *word |= 1 << (token % 32);
            }
        }
        Self::of_words(vocabulary, words)
    }

    /// The set whose bits these words hold: bit `i % 32` of word `i / 32` is token `i`. Tokens behind the vocabulary, and behind the words, are
    /// not in it.
    pub fn of_words(vocabulary: usize, mut words: Vec<u32>) -> Self {
        words.resize(vocabulary.div_ceil(32), 0);
        if let Some(last) = words.last_mut()
            && !vocabulary.is_multiple_of(32)
        {
            *last &= (1 << (vocabulary % 32)) - 1;
        }
        let count = words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        let tokens = match count {
            count if count < words.len() => Tokens::Only(listed(&words, 0, vocabulary)),
            count if vocabulary - count < words.len() => Tokens::AllBut(listed(&words, u32::MAX, vocabulary)),
            _ => Tokens::Bits(words),
        };
        Self { vocabulary, tokens }
    }

    /// Whether the token is in the set.
    pub fn allows(&self, token: u32) -> bool {
        match &self.tokens {
            Tokens::Only(tokens) => tokens.binary_search(&token).is_ok(),
            Tokens::AllBut(tokens) => (token as usize) < self.vocabulary && tokens.binary_search(&token).is_err(),
            Tokens::Bits(words) => words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1),
        }
    }

    /// Whether the vocabulary has the token.
    pub fn knows(&self, token: u32) -> bool {
        (token as usize) < self.vocabulary
    }

    /// Number of tokens in the set.
    pub fn count(&self) -> usize {
        match &self.tokens {
            Tokens::Only(tokens) => tokens.len(),
            Tokens::AllBut(tokens) => self.vocabulary - tokens.len(),
            Tokens::Bits(words) => words.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }

    /// Sets the logits of tokens outside of the set to `never`, in a row of the whole vocabulary.
    pub fn exclude<T: Copy>(&self, logits: &mut [T], never: T) {
        self.exclude_some(0, logits, never);
    }

    /// The same in a part of a row, which begins with the logit of the token `first`, a multiple of 32.
    pub fn exclude_some<T: Copy>(&self, first: usize, logits: &mut [T], never: T) {
        let listed = |tokens: &[u32]| -> Vec<usize> {
            let from = tokens.partition_point(|token| (*token as usize) < first);
            let tokens = tokens.get(from..).unwrap_or_default().iter().map(|token| *token as usize - first);
            tokens.take_while(|place| *place < logits.len()).collect()
        };
        match &self.tokens {
            Tokens::Only(tokens) => {
                let mut from = 0;
                for place in listed(tokens) {
                    logits.get_mut(from..place).into_iter().for_each(|between| between.fill(never));
                    from = place + 1;
                }
                logits.get_mut(from..).into_iter().for_each(|rest| rest.fill(never));
            }
            Tokens::AllBut(tokens) => {
                for place in listed(tokens) {
                    logits.get_mut(place).into_iter().for_each(|logit| *logit = never);
                }
                let behind = self.vocabulary.saturating_sub(first);
                logits.get_mut(behind..).into_iter().for_each(|rest| rest.fill(never));
            }
            Tokens::Bits(words) => {
                let words = words.get(first / 32..).unwrap_or_default();
                for (word, row) in words.iter().zip(logits.chunks_mut(32)) {
                    for (place, logit) in row.iter_mut().enumerate() {
                        if word >> place & 1 == 0 {
                            *logit = never;
                        }
                    }
                }
                logits.get_mut(words.len() * 32..).into_iter().for_each(|rest| rest.fill(never));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_has_its_tokens_in_whatever_form_it_is_kept(
            vocabulary in 1usize..300,
            share in 0u32..=100,
            draws in proptest::collection::vec(0u32..100, 300),
        ) {
            let tokens: Vec<u32> = (0..vocabulary as u32).filter(|token| draws[*token as usize] < share).collect();
            let mask = TokenMask::of(vocabulary, &tokens);
            let mut logits = vec![1.0f32; vocabulary + 5];
            mask.exclude(&mut logits, f32::NEG_INFINITY);
            prop_assert_eq!(mask.count(), tokens.len());
            for token in 0..vocabulary as u32 + 5 {
                let is_in = tokens.contains(&token);
                prop_assert_eq!((mask.allows(token), logits[token as usize].is_finite()), (is_in, is_in), "{}", token);
            }
            for first in (0..vocabulary).step_by(32) {
                let mut part = vec![1.0f32; 64.min(vocabulary + 5 - first)];
                mask.exclude_some(first, &mut part, f32::NEG_INFINITY);
                prop_assert_eq!(&part[..], &logits[first..first + part.len()], "from {}", first);
            }
        }
    }
}
