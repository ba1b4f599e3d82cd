//! Numbers from a seed.

/// A generator whose numbers follow from its seed (SplitMix64, Steele et al. 2014). Not for secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator for this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for a position of a split, the same whatever else is drawn: an environment makes its tasks with it.
    pub fn at(seed: u64, split: &str, position: u64) -> Self {
        let split = split.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(257).wrapping_add(u64::from(byte)));
        Self::new(seed ^ Self::new(split ^ Self::new(position).next_u64()).next_u64())
    }

    /// Any 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0 if `bound` is 0. Uniform up to a bias of `bound` in 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.saturating_sub(low).max(0) as u64;
        low.saturating_add(self.below(span.saturating_add(1)) as i64)
    }

    /// One of the items, or `None` if there are none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_inside_the_bounds() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.between(-3, 3)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        assert!(numbers(1).iter().all(|number| (-3..=3).contains(number)));
        assert_eq!(Random::new(1).choose::<u8>(&[]), None);
    }

    #[test]
    fn every_seed_split_and_position_has_numbers_of_its_own() {
        let first = |seed, split, position| Random::at(seed, split, position).next_u64();
        let all = [first(1, "train", 0), first(2, "train", 0), first(1, "test", 0), first(1, "train", 1)];
        assert_eq!(first(1, "train", 0), all[0]);
        assert_eq!(std::collections::BTreeSet::from(all).len(), 4);
    }
}
