//! Attention of one new token over the cached positions of its sequence.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators and closures are not inlined into functions with vector instructions; counted loops become vector code"
)]

use super::cache::LayerCache;
use super::elementwise::{exp, largest, sum, weighted_sum};
use super::panels::LANES;

/// The shape of attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) queries: usize,
    pub(super) shared: usize,
    pub(super) width: usize,
}

/// The normalisation of one row of scores.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Softmax {
    /// The largest score.
    pub(super) most: f32,
    /// One over the sum.
    pub(super) whole: f32,
}

/// Replaces scores by their exponentials, which are proportional to the attention weights. An attention weight is that
/// times `whole`.
#[inline(always)]
pub(super) fn shares(scores: &mut [f32]) -> Softmax {
    let most = largest(scores);
    for place in 0..scores.len() {
        scores[place] = exp(scores[place] - most);
    }
    Softmax { most, whole: 1.0 / sum(scores) }
}

struct Attend<'a> {
    heads: Heads,
    query: &'a [f32],
    cache: &'a LayerCache,
    length: usize,
    scores: &'a mut [f32],
    out: &'a mut [f32],
}

/// Sums the values of the first `length` positions, weighted by the attention of their keys to the query, `[queries,
/// width]`.
pub(super) fn attend(
    heads: Heads,
    query: &[f32],
    cache: &LayerCache,
    length: usize,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    // Capacities are multiples of it.
    scores.resize(length.next_multiple_of(LANES), 0.0);
    pulp::Arch::new().dispatch(Attend { heads, query, cache, length, scores, out });
}

impl pulp::NullaryFnOnce for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { heads: Heads { queries, shared, width }, query, cache, length, scores, out } = self;
        let capacity = cache.values.len() / (shared * width);
        let scale = 1.0 / (width as f32).sqrt();
        // Full vectors of scores: entries after the last position are stale and are left out.
        let mut scaled = vec![0.0f32; width];
        for head in 0..queries {
            let group = head / (queries / shared);
            let query = &query[head * width..(head + 1) * width];
            for channel in 0..width {
                scaled[channel] = query[channel] * scale;
            }
            let keys = &cache.keys[group * width * capacity..(group + 1) * width * capacity];
            weighted_sum(&scaled, keys, capacity, scores);
            let seen = &mut scores[..length];
            let whole = shares(seen).whole;
            for place in 0..length {
                seen[place] *= whole;
            }
            let values = &cache.values[group * capacity * width..(group + 1) * capacity * width];
            weighted_sum(seen, values, width, &mut out[head * width..(head + 1) * width]);
        }
    }
}

impl LayerCache {
    /// Writes the key and the value of one position, each `[shared, width]`.
    pub(super) fn put(&mut self, heads: Heads, position: usize, key: &[f32], value: &[f32]) {
        let capacity = self.values.len() / (heads.shared * heads.width);
        for (channel, key) in key.iter().enumerate() {
            self.keys[channel * capacity + position] = *key;
        }
        for (head, value) in value.chunks_exact(heads.width).enumerate() {
            let start = (head * capacity + position) * heads.width;
            self.values[start..start + heads.width].copy_from_slice(value);
        }
    }
}
