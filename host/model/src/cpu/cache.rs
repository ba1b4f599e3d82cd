//! The key-value cache of one sequence.

use super::panels::LANES;
use crate::ModelConfig;

/// Keys and values of one sequence, by layer, in one allocation that doubles when it grows.
#[derive(Debug, Clone)]
pub struct Cache {
    /// The tokens that were computed.
    pub(crate) tokens: Vec<u32>,
    pub(super) layers: Vec<LayerCache>,
}

/// One layer: a block for every key-value head.
#[derive(Debug, Clone, Default)]
pub(super) struct LayerCache {
    /// `[heads, head_width, capacity]`: positions are contiguous, so that scores of many positions are computed in
    /// vectors.
    pub(super) keys: Vec<f32>,
    /// `[heads, capacity, head_width]`.
    pub(super) values: Vec<f32>,
}

/// Initial capacity in positions. Small, so that the keys of a short text lie close together.
const FIRST: usize = LANES;

impl Cache {
    /// An empty cache for a model with this number of layers.
    pub fn new(layers: usize) -> Self {
        Self { tokens: Vec::new(), layers: vec![LayerCache::default(); layers] }
    }

    /// The tokens it holds.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Drops all but the first tokens. Later writes overwrite the dropped positions.
    pub fn truncate(&mut self, length: usize) {
        self.tokens.truncate(length);
    }

    /// The length of the common prefix with these tokens.
    pub fn shared_with(&self, tokens: &[u32]) -> usize {
        self.tokens.iter().zip(tokens).take_while(|(mine, theirs)| mine == theirs).count()
    }

    /// The capacity for a number of positions.
    pub(super) fn capacity(length: usize) -> usize {
        length.next_power_of_two().max(FIRST)
    }
}

impl LayerCache {
    /// Makes room for `capacity` positions of `heads` heads of `width`, keeping the first `length`.
    pub(super) fn grow(&mut self, (heads, width): (usize, usize), capacity: usize, length: usize) {
        let was = self.values.len() / (heads * width).max(1);
        if was >= capacity {
            return;
        }
        let mut keys = vec![0.0; heads * width * capacity];
        let mut values = vec![0.0; heads * width * capacity];
        for (to, from) in keys.chunks_exact_mut(capacity).zip(self.keys.chunks_exact(was.max(1))) {
            to.iter_mut().zip(from).take(length).for_each(|(to, from)| *to = *from);
        }
        for (to, from) in values.chunks_exact_mut(capacity * width).zip(self.values.chunks_exact((was * width).max(1)))
        {
            to.iter_mut().zip(from).take(length * width).for_each(|(to, from)| *to = *from);
        }
        (self.keys, self.values) = (keys, values);
    }
}

impl Cache {
    /// Bytes of a cache that has grown to a number of positions.
    pub(crate) fn bytes_of(config: &ModelConfig, length: usize) -> u64 {
        let values = 2 * config.layers * config.key_value_heads * config.head_width * size_of::<f32>();
        (values as u64).saturating_mul(Self::capacity(length) as u64)
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> usize {
        let floats: usize = self.layers.iter().map(|layer| layer.keys.len() + layer.values.len()).sum();
        floats * size_of::<f32>() + self.tokens.len() * size_of::<u32>()
    }
}
