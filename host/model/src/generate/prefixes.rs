//! Caches of completed answers, kept for prompts of the same partition that continue them.

use super::model::Memory;
use clawhost_core::Partition;
use std::collections::{BTreeMap, HashMap};

/// Bytes of caches that are kept, of all partitions together. A conversation of a small model takes some kilobytes, one of a large model megabytes.
const KEPT_BYTES: usize = 256 << 20;

/// A rolling hash of tokens (FNV-1a over their bytes). A match is compared token by token before it is used.
#[derive(Clone, Copy)]
struct Rolling(u64);

impl Rolling {
    const START: Self = Self(0xcbf2_9ce4_8422_2325);

    fn with(self, token: u32) -> Self {
        let byte = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(token.to_le_bytes().into_iter().fold(self.0, byte))
    }
}

/// Which cache it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// The identity of the weights.
    weights: u64,
    /// Whose requests may continue it.
    partition: Partition,
    /// The hash of all tokens.
    tokens: u64,
}

/// A cache, and how many were kept before it.
#[derive(Debug)]
struct Kept {
    before: u64,
    cache: Memory,
}

/// Caches by their tokens.
#[derive(Debug)]
pub(super) struct Prefixes {
    known: HashMap<Key, Kept>,
    /// By how many were kept before: the oldest first.
    order: BTreeMap<u64, Key>,
    /// How many were ever kept.
    count: u64,
    bytes: usize,
    /// Largest number of bytes.
    most: usize,
    /// The identity of the current weights.
    weights: u64,
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { known: HashMap::new(), order: BTreeMap::new(), count: 0, bytes: 0, most: KEPT_BYTES, weights: 0 }
    }
}

impl Prefixes {
    /// Keeps a cache if it was computed with the current weights.
    pub(super) fn keep(&mut self, weights: u64, partition: Partition, cache: Memory) {
        if weights != self.weights {
            return;
        }
        let tokens = cache.tokens().iter().fold(Rolling::START, |hash, token| hash.with(*token)).0;
        let key = Key { weights, partition, tokens };
        self.bytes += cache.bytes();
        let before = self.count;
        self.count += 1;
        self.order.insert(before, key);
        if let Some(old) = self.known.insert(key, Kept { before, cache }) {
            self.bytes -= old.cache.bytes();
            self.order.remove(&old.before);
        }
        while self.bytes > self.most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.bytes -= self.known.remove(&oldest).map_or(0, |kept| kept.cache.bytes());
        }
    }

    /// Removes and returns the cache of a partition with the longest prefix of a prompt, at most all but its last token. It
    /// is removed because the caller appends to it.
    pub(super) fn take(&mut self, weights: u64, partition: Partition, prompt: &[u32]) -> Option<Memory> {
        let mut hash = Rolling::START;
        let mut best = None;
        for (length, token) in (1..prompt.len()).zip(prompt) {
            hash = hash.with(*token);
            let holds =
                |Kept { cache, .. }: &Kept| cache.tokens().len() == length && cache.shared_with(prompt) == length;
            let key = Key { weights, partition, tokens: hash.0 };
            if self.known.get(&key).is_some_and(holds) {
                best = Some(key);
            }
        }
        let Kept { before, cache } = self.known.remove(&best?)?;
        self.order.remove(&before);
        self.bytes -= cache.bytes();
        Some(cache)
    }

    /// Drops caches of other weights.
    pub(super) fn only(&mut self, weights: u64) {
        if std::mem::replace(&mut self.weights, weights) == weights {
            return;
        }
        self.known.retain(|key, _| key.weights == weights);
        self.order.retain(|_, key| key.weights == weights);
        self.bytes = self.known.values().map(|kept| kept.cache.bytes()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::tests::config;
    use crate::cpu::{CpuModel, Work};
    use crate::{Architecture, initial};
    use std::sync::Arc;

    fn cache(tokens: &[u32]) -> Memory {
        let config = Arc::new(config(Architecture::Qwen3));
        let model = CpuModel::new(config.clone(), &initial(&config, 1));
        let mut cache = model.cache();
        model.forward(&mut [Work::last(&mut cache, tokens)]);
        Memory::Processor(cache)
    }

    #[test]
    fn a_cache_is_found_in_its_own_partition_alone() {
        let all = [Partition::OWN, Partition::of_client(""), Partition::of_client("a"), Partition::of_client("b")];
        for owner in all {
            let mut prefixes = Prefixes::default();
            prefixes.keep(0, owner, cache(&[1, 2, 3]));
            for other in all.into_iter().filter(|other| *other != owner) {
                assert!(prefixes.take(0, other, &[1, 2, 3, 4]).is_none(), "{other:?} of {owner:?}");
            }
            assert_eq!(prefixes.take(0, owner, &[1, 2, 3, 4]).unwrap().tokens(), [1, 2, 3]);
        }
    }

    #[test]
    fn equal_tokens_of_two_partitions_are_two_caches() {
        let [a, b] = ["a", "b"].map(Partition::of_client);
        let mut prefixes = Prefixes::default();
        [a, b, b].into_iter().for_each(|owner| prefixes.keep(0, owner, cache(&[1, 2, 3])));
        assert_eq!((prefixes.known.len(), prefixes.bytes), (2, 2 * cache(&[1, 2, 3]).bytes()));
        assert!(prefixes.take(0, a, &[1, 2, 3, 4]).is_some());
        assert!(prefixes.take(0, a, &[1, 2, 3, 4]).is_none());
        assert!(prefixes.take(0, b, &[1, 2, 3, 4]).is_some());
        assert_eq!((prefixes.order.len(), prefixes.bytes), (0, 0));
    }

    #[test]
    fn all_partitions_together_keep_a_limited_number_of_bytes() {
        let one = cache(&[1, 2, 3]).bytes();
        let mut prefixes = Prefixes { most: 3 * one, ..Prefixes::default() };
        let owners = ["a", "b", "c", "d", "e"].map(Partition::of_client);
        owners.into_iter().for_each(|owner| prefixes.keep(0, owner, cache(&[1, 2, 3])));
        assert_eq!((prefixes.known.len(), prefixes.order.len(), prefixes.bytes), (3, 3, 3 * one));
        let kept = owners.map(|owner| prefixes.take(0, owner, &[1, 2, 3, 4]).is_some());
        assert_eq!(kept, [false, false, true, true, true], "the oldest go first, whosever they are");
        // What is kept again is the newest.
        [owners[0], owners[1], owners[0], owners[2], owners[3]]
            .into_iter()
            .for_each(|owner| prefixes.keep(0, owner, cache(&[1, 2, 3])));
        let kept = owners.map(|owner| prefixes.take(0, owner, &[1, 2, 3, 4]).is_some());
        assert_eq!(kept, [true, false, true, true, false]);
    }
}
