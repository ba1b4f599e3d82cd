//! Random draws that depend only on a seed and a conversation.

use clawhost_core::{Digest, Message};

/// A sequence of draws. Equal seeds and conversations give equal draws.
#[derive(Debug)]
pub(crate) struct Chance {
    base: Digest,
    drawn: u64,
}

impl Chance {
    /// The draws of one answer. They also depend on the number of messages, because messages with only calls have no text.
    pub(crate) fn new(seed: u64, messages: &[Message]) -> Self {
        let mut base = Digest::of(&seed.to_be_bytes()).extended(&(messages.len() as u64).to_be_bytes());
        for message in messages {
            base = base.extended(message.plain_text().as_bytes());
        }
        Self { base, drawn: 0 }
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.drawn += 1;
        self.base.extended(&self.drawn.to_be_bytes()).prefix_u64()
    }

    /// A position below `count`. 0 if `count` is 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let position = (u128::from(self.bits()) * count as u128) >> 64;
        usize::try_from(position).unwrap_or_default()
    }

    /// An integer of a range, including both ends. The lower end if the range is empty.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = u128::try_from(i128::from(high) - i128::from(low) + 1).unwrap_or(1);
        let step = (u128::from(self.bits()) * span) >> 64;
        i64::try_from(i128::from(low) + i128::try_from(step).unwrap_or_default()).unwrap_or(low)
    }

    /// A fair coin flip.
    pub(crate) fn flip(&mut self) -> bool {
        self.bits() & 1 == 1
    }

    /// One of these items. `None`: there are none.
    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let position = self.below(all.len());
        all.get(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_cover_exactly_their_range() {
        let mut chance = Chance::new(1, &[]);
        let seen: std::collections::BTreeSet<i64> = (0..200).map(|_| chance.between(-2, 2)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-2, -1, 0, 1, 2]);
        assert!((0..200).all(|_| chance.below(3) < 3));
        assert_eq!((chance.below(0), chance.between(5, 4)), (0, 5));
        let whole = chance.between(i64::MIN, i64::MAX);
        assert_ne!(whole, chance.between(i64::MIN, i64::MAX));
    }
}
