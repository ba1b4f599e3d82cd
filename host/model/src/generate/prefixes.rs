//! Caches of completed answers, kept for prompts that continue them.

use super::model::Memory;
use std::collections::{HashMap, VecDeque};

/// Bytes of caches that are kept. A conversation of a small model takes some kilobytes, one of a large model megabytes.
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

/// Caches by their tokens.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    /// Key: the identity of the weights, and the hash of all tokens.
    known: HashMap<(u64, u64), Memory>,
    /// The oldest first.
    order: VecDeque<(u64, u64)>,
    bytes: usize,
    /// The identity of the current weights.
    weights: u64,
}

impl Prefixes {
    /// Keeps a cache if it was computed with the current weights.
    pub(super) fn keep(&mut self, weights: u64, cache: Memory) {
        if weights != self.weights {
            return;
        }
        let hash = cache.tokens().iter().fold(Rolling::START, |hash, token| hash.with(*token)).0;
        self.bytes += cache.bytes();
        if let Some(old) = self.known.insert((weights, hash), cache) {
            self.bytes -= old.bytes();
        } else {
            self.order.push_back((weights, hash));
        }
        while self.bytes > KEPT_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.known.remove(&oldest).map_or(0, |cache| cache.bytes());
        }
    }

    /// Removes and returns the cache with the longest prefix of a prompt, at most all but its last token. It is removed
    /// because the caller appends to it.
    pub(super) fn take(&mut self, weights: u64, prompt: &[u32]) -> Option<Memory> {
        let mut hash = Rolling::START;
        let mut best = None;
        for (length, token) in (1..prompt.len()).zip(prompt) {
            hash = hash.with(*token);
            let holds = |cache: &Memory| cache.tokens().len() == length && cache.shared_with(prompt) == length;
            if self.known.get(&(weights, hash.0)).is_some_and(holds) {
                best = Some((weights, hash.0));
            }
        }
        let cache = self.known.remove(&best?)?;
        self.order.retain(|key| Some(*key) != best);
        self.bytes -= cache.bytes();
        Some(cache)
    }

    /// Drops caches of other weights.
    pub(super) fn only(&mut self, weights: u64) {
        if std::mem::replace(&mut self.weights, weights) == weights {
            return;
        }
        self.known.retain(|(of, _), _| *of == weights);
        self.order.retain(|(of, _)| *of == weights);
        self.bytes = self.known.values().map(Memory::bytes).sum();
    }
}
