//! Caches of answers that are over, kept for prompts that go on from them.

use super::model::Memory;
use std::collections::{HashMap, VecDeque};

/// Caches that are kept, in bytes: a conversation of a small model takes some kilobytes, one of a large model megabytes.
const KEPT_BYTES: usize = 256 << 20;

/// A rolling hash of tokens (FNV-1a over their bytes). What it finds is compared before it is used.
#[derive(Clone, Copy)]
struct Rolling(u64);

impl Rolling {
    const START: Self = Self(0xcbf2_9ce4_8422_2325);

    fn with(self, token: u32) -> Self {
        let byte = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(token.to_le_bytes().into_iter().fold(self.0, byte))
    }
}

/// Caches by what they hold.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    /// By what names the weights, and the hash of all of its tokens.
    known: HashMap<(u64, u64), Memory>,
    /// The oldest first.
    order: VecDeque<(u64, u64)>,
    bytes: usize,
}

impl Prefixes {
    /// Keeps a cache.
    pub(super) fn keep(&mut self, weights: u64, cache: Memory) {
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

    /// The cache that holds the longest beginning of a prompt, all but its last token at most. It is taken: whoever goes on
    /// from it writes behind it.
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

    /// Forgets what other weights computed.
    pub(super) fn only(&mut self, weights: u64) {
        self.known.retain(|(of, _), _| *of == weights);
        self.order.retain(|(of, _)| *of == weights);
        self.bytes = self.known.values().map(Memory::bytes).sum();
    }
}
