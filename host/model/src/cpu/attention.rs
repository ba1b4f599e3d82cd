//! Attention of one new token over what its sequence remembers.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]

use super::cache::LayerCache;
use super::elementwise::{exp, largest, sum};

/// The shape of attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) queries: usize,
    pub(super) shared: usize,
    pub(super) width: usize,
}

/// What scores were made shares with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Softmax {
    /// The largest score.
    pub(super) most: f32,
    /// One over the sum.
    pub(super) whole: f32,
}

/// Makes scores what they are in proportion to their shares; a share is that times the whole.
#[inline(always)]
pub(super) fn shares(scores: &mut [f32]) -> Softmax {
    let most = largest(scores);
    scores.iter_mut().for_each(|score| *score = exp(*score - most));
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

/// Mixes the values of the first `length` positions by how well their keys answer the query, `[queries, width]`.
pub(super) fn attend(
    heads: Heads,
    query: &[f32],
    cache: &LayerCache,
    length: usize,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    scores.resize(length, 0.0);
    pulp::Arch::new().dispatch(Attend { heads, query, cache, length, scores, out });
}

impl pulp::NullaryFnOnce for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { heads: Heads { queries, shared, width }, query, cache, length, scores, out } = self;
        let capacity = cache.values.len() / (shared * width);
        let scale = 1.0 / (width as f32).sqrt();
        for head in 0..queries {
            let group = head / (queries / shared);
            let keys = &cache.keys[group * width * capacity..(group + 1) * width * capacity];
            scores.fill(0.0);
            for (value, keys) in query[head * width..(head + 1) * width].iter().zip(keys.chunks_exact(capacity)) {
                let value = value * scale;
                for (score, key) in scores.iter_mut().zip(&keys[..length]) {
                    *score = value.mul_add(*key, *score);
                }
            }
            let whole = shares(scores).whole;
            let values = &cache.values[group * capacity * width..(group + 1) * capacity * width];
            let out = &mut out[head * width..(head + 1) * width];
            out.fill(0.0);
            for (score, values) in scores.iter().zip(values.chunks_exact(width)) {
                let share = score * whole;
                for (out, value) in out.iter_mut().zip(values) {
                    *out = share.mul_add(*value, *out);
                }
            }
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
