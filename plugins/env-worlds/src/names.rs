//! Names that nobody has seen before.

use clawhost_sdk::Random;
use std::collections::BTreeSet;

const STARTS: [&str; 16] = ["b", "br", "d", "dr", "f", "fl", "g", "gr", "k", "m", "n", "pl", "s", "t", "v", "z"];
const VOWELS: [&str; 6] = ["a", "e", "i", "o", "u", "ou"];
const ENDS: [&str; 8] = ["l", "m", "n", "r", "rk", "st", "x", "nd"];
/// Longest name in syllables.
const SYLLABLES: i64 = 3;

/// A source of names, each of which it gives once.
#[derive(Debug)]
pub(crate) struct Names {
    random: Random,
    given: BTreeSet<String>,
}

impl Names {
    /// Names that follow from this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), given: BTreeSet::new() }
    }

    /// A new name of two or three syllables in lower case.
    pub(crate) fn next(&mut self) -> String {
        loop {
            let syllables = self.random.between(2, SYLLABLES);
            let mut name = String::new();
            for _ in 0..syllables {
                for parts in [&STARTS[..], &VOWELS[..]] {
                    name.push_str(self.random.choose(parts).copied().unwrap_or("a"));
                }
            }
            name.push_str(self.random.choose(&ENDS).copied().unwrap_or("n"));
            if self.given.insert(name.clone()) {
                return name;
            }
        }
    }

    /// This number of new names.
    pub(crate) fn several(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_given_once_and_follows_from_the_seed() {
        let names = |seed| Names::new(seed).several(500);
        assert_eq!(names(1).into_iter().collect::<BTreeSet<_>>().len(), 500);
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
        assert!(names(1).iter().all(|name| name.chars().all(|letter| letter.is_ascii_lowercase())));
    }
}
