//! Attention of one new token over the cached positions of its sequence.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators and closures are not inlined into functions with vector instructions; counted loops become vector code"
)]

use super::cache::LayerCache;
use super::elementwise::{OfWidth, exp, largest, sum, weighted_sum, with_common_width};
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

/// Replaces the first scores of a row by their exponentials, which are proportional to the attention weights, and the others by 0. An attention
/// weight is that times `whole`.
///
/// All of the row is computed, so that vectors are filled: what is not seen adds nothing.
#[inline(always)]
pub(super) fn shares(row: &mut [f32], seen: usize) -> Softmax {
    row[seen..].fill(f32::NEG_INFINITY);
    let most = largest(row);
    for place in 0..row.len() {
        row[place] = exp(row[place] - most);
    }
    row[seen..].fill(0.0);
    Softmax { most, whole: 1.0 / sum(row) }
}

/// Buffers, reused between calls.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    query: Vec<f32>,
    scores: Vec<f32>,
}

struct Attend<'a> {
    heads: Heads,
    query: &'a [f32],
    cache: &'a LayerCache,
    length: usize,
    scratch: &'a mut Scratch,
    out: &'a mut [f32],
}

/// Sums the values of the first `length` positions, weighted by the attention of their keys to the query, `[queries,
/// width]`.
pub(super) fn attend(
    heads: Heads,
    query: &[f32],
    cache: &LayerCache,
    length: usize,
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    scratch.query.resize(heads.width, 0.0);
    // Full vectors of scores: those after the last position are stale, and have no share. Capacities of caches are multiples of it.
    scratch.scores.resize(length.next_multiple_of(LANES), 0.0);
    pulp::Arch::new().dispatch(Attend { heads, query, cache, length, scratch, out });
}

impl pulp::NullaryFnOnce for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let width = self.heads.width;
        with_common_width(self, width);
    }
}

impl OfWidth for Attend<'_> {
    #[inline(always)]
    fn with_width(self, width: usize) {
        let Self { heads: Heads { queries, shared, .. }, query, cache, length, scratch, out } = self;
        let capacity = cache.values.len() / (shared * width);
        let scale = 1.0 / (width as f32).sqrt();
        let (scaled, scores) = (&mut scratch.query[..width], &mut scratch.scores[..]);
        for head in 0..queries {
            let group = head / (queries / shared);
            let query = &query[head * width..(head + 1) * width];
            for channel in 0..width {
                scaled[channel] = query[channel] * scale;
            }
            let keys = &cache.keys[group * width * capacity..(group + 1) * width * capacity];
            weighted_sum(scaled, keys, capacity, scores);
            let whole = shares(scores, length).whole;
            for place in 0..scores.len() {
                scores[place] *= whole;
            }
            let values = &cache.values[group * capacity * width..(group + 1) * capacity * width];
            weighted_sum(&scores[..length], values, width, &mut out[head * width..(head + 1) * width]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_that_are_not_seen_change_no_share_and_have_none() {
        let row: Vec<f32> = (0..32u8).map(|place| f32::from(place * 7 % 13) - 6.0).collect();
        for seen in 1..=row.len() {
            let (mut whole, mut cut) = (row.clone(), row[..seen].to_vec());
            let both = [shares(&mut whole, seen), shares(&mut cut, seen)];
            let [one, other] = both.map(|made| (made.most.to_bits(), made.whole.to_bits()));
            assert_eq!((one, &whole[..seen]), (other, &cut[..]), "{seen}");
            assert!(whole[seen..].iter().all(|share| *share == 0.0), "{seen}: {whole:?}");
        }
    }
}
