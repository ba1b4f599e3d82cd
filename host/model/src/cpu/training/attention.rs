//! Attention of whole sequences, forward and backward.
//!
//! [`QUERIES`] queries are computed at a time against all positions that the last of them sees, so that each step is a
//! product of rows and panels. The terms of each sum, and their order, are as in [`super::super::attention`]: the
//! weight of an unseen position is 0, which adds nothing. Attention weights are not kept for the backward pass, only
//! the normalisation from which scores give them again (Dao et al. 2022):
//!
//! ```text
//! p = softmax(q kᵀ)     o = p v     dv = pᵀ do     ds = p (do vᵀ - sum(p · do vᵀ))     dq = ds k     dk = dsᵀ q
//! ```

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators and closures are not inlined into functions with vector instructions; counted loops become vector code"
)]

use super::fit;
use super::text::Text;
use crate::cpu::attention::{Heads, Softmax, shares};
use crate::cpu::elementwise::{dot, exp};
use crate::cpu::outer::add_outer_products;
use crate::cpu::panels::{LANES, lay_columns, lay_rows, panel_values};
use crate::cpu::product::{Single, mode, rows_times_panels};

/// Queries that are computed together: four times the rows that fit into registers.
const QUERIES: usize = 24;

/// Buffers of the attention, reused between calls.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    keys: Vec<f32>,
    values: Vec<f32>,
    key_columns: Vec<f32>,
    query: Vec<f32>,
    query_panels: Vec<f32>,
    upstream: Vec<f32>,
    upstream_panels: Vec<f32>,
    scores: Vec<f32>,
    slopes: Vec<f32>,
    of_query: Vec<f32>,
    of_keys: Vec<f32>,
    of_values: Vec<f32>,
}

/// Rows of queries, keys and values after norms and rotation.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) heads: Heads,
    pub(super) text: &'a Text,
    pub(super) query: &'a [f32],
    pub(super) key: &'a [f32],
    pub(super) value: &'a [f32],
}

/// A head of one sequence, and where its numbers are.
#[derive(Clone, Copy)]
struct Head {
    /// First row, and number of rows.
    start: usize,
    length: usize,
    /// The number of rows, rounded up to full panels.
    padded: usize,
    width: usize,
    /// The distance between rows, and the offset of the head in a row.
    query_stride: usize,
    query_first: usize,
    key_stride: usize,
    key_first: usize,
}

fn zeros(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    buffer.clear();
    buffer.resize(length, 0.0);
    buffer
}

/// Copies the values of one head of some rows, contiguously.
#[inline(always)]
fn gather(from: &[f32], stride: usize, first: usize, width: usize, scale: f32, to: &mut Vec<f32>) {
    let rows = from.len() / stride;
    to.resize(rows * width, 0.0);
    for row in 0..rows {
        let (from, to) = (&from[row * stride + first..][..width], &mut to[row * width..(row + 1) * width]);
        for place in 0..width {
            to[place] = from[place] * scale;
        }
    }
}

impl Inputs<'_> {
    fn head(&self, rows: &std::ops::Range<usize>, group: usize) -> Head {
        let Heads { queries, shared, width } = self.heads;
        Head {
            start: rows.start,
            length: rows.len(),
            padded: rows.len().div_ceil(LANES) * LANES,
            width,
            query_stride: queries * width,
            query_first: group * (queries / shared) * width,
            key_stride: shared * width,
            key_first: group * width,
        }
    }

    fn scale(&self) -> f32 {
        1.0 / (self.heads.width as f32).sqrt()
    }
}

impl Head {
    /// The head's part of the sequence's keys or values, from its first number on.
    #[inline(always)]
    fn part<'a>(&self, keys: &'a [f32]) -> &'a [f32] {
        &keys[self.start * self.key_stride + self.key_first..(self.start + self.length) * self.key_stride]
    }

    /// Positions as outputs, channels as inputs.
    #[inline(always)]
    fn as_rows<'a>(&self, keys: &[f32], to: &'a mut Vec<f32>) -> &'a [f32] {
        let to = fit(to, panel_values(self.length, self.width));
        lay_rows(self.part(keys), self.key_stride, self.width, to);
        to
    }

    /// Channels as outputs, positions as inputs.
    #[inline(always)]
    fn as_columns<'a>(&self, keys: &[f32], to: &'a mut Vec<f32>) -> &'a [f32] {
        let to = fit(to, panel_values(self.width, self.padded));
        lay_columns(self.part(keys), self.key_stride, self.width, self.padded, to);
        for panel in to.chunks_exact_mut((self.padded * LANES).max(1)) {
            panel[self.length * LANES..].fill(0.0);
        }
        to
    }
}

/// Attention weights times columns: `[rows, seen]` times the first `seen` inputs of panels with `padded` inputs.
#[inline(always)]
fn mix<S: pulp::Simd>(
    simd: S,
    shares: &[f32],
    seen: usize,
    columns: &[f32],
    head: &Head,
    out: &mut [f32],
    stride: usize,
) {
    for (number, panel) in columns.chunks_exact((head.padded * LANES).max(1)).enumerate() {
        let first = number * LANES;
        let width = LANES.min(head.width - first);
        rows_times_panels::<S, Single, { mode::WRITE }>(
            simd,
            shares,
            seen,
            &panel[..seen * LANES],
            width,
            &mut out[first..],
            stride,
        );
    }
}

struct Forward<'a> {
    inputs: Inputs<'a>,
    scratch: &'a mut Scratch,
    softmax: &'a mut [Softmax],
    out: &'a mut [f32],
}

/// The attention output of each position, `[rows, heads · width]`, and the normalisation of its scores, `[rows,
/// heads]`.
pub(super) fn attend(inputs: Inputs<'_>, scratch: &mut Scratch, softmax: &mut [Softmax], out: &mut [f32]) {
    pulp::Arch::new().dispatch(Forward { inputs, scratch, softmax, out });
}

impl pulp::WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self { inputs, scratch, softmax, out } = self;
        let Heads { queries, shared, width } = inputs.heads;
        for rows in inputs.text.sequences() {
            for group in 0..shared {
                let head = inputs.head(&rows, group);
                let keys = head.as_rows(inputs.key, &mut scratch.keys);
                let values = head.as_columns(inputs.value, &mut scratch.values);
                for member in 0..queries / shared {
                    let column = head.query_first + member * width;
                    let number = column / width;
                    for first in (0..head.length).step_by(QUERIES) {
                        let last = (first + QUERIES).min(head.length);
                        let seen = last.div_ceil(LANES) * LANES;
                        let these = (head.start + first) * head.query_stride..(head.start + last) * head.query_stride;
                        let query = &inputs.query[these.clone()];
                        gather(query, head.query_stride, column, width, inputs.scale(), &mut scratch.query);
                        let scores = fit(&mut scratch.scores, (last - first) * seen);
                        rows_times_panels::<S, Single, { mode::WRITE }>(
                            simd,
                            &scratch.query,
                            width,
                            &keys[..seen * width],
                            seen,
                            scores,
                            seen,
                        );
                        for (position, scores) in (first..).zip(scores.chunks_exact_mut(seen)) {
                            let scores = &mut scores[..seen];
                            let made = shares(scores, position + 1);
                            for place in 0..seen {
                                scores[place] *= made.whole;
                            }
                            softmax[(head.start + position) * queries + number] = made;
                        }
                        mix(
                            simd,
                            scores,
                            seen,
                            values,
                            &head,
                            &mut out[these.start + column..these.end],
                            head.query_stride,
                        );
                    }
                }
            }
        }
    }
}

/// Gradients with respect to queries, keys and values. They overwrite the buffers.
pub(super) struct Slopes<'a> {
    pub(super) query: &'a mut [f32],
    pub(super) key: &'a mut [f32],
    pub(super) value: &'a mut [f32],
}

struct Backward<'a> {
    inputs: Inputs<'a>,
    scratch: &'a mut Scratch,
    softmax: &'a [Softmax],
    upstream: &'a [f32],
    to: Slopes<'a>,
}

/// From the gradient with respect to the output to those with respect to queries, keys and values.
pub(super) fn attend_back(
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
    softmax: &[Softmax],
    upstream: &[f32],
    to: Slopes<'_>,
) {
    pulp::Arch::new().dispatch(Backward { inputs, scratch, softmax, upstream, to });
}

impl pulp::WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self { inputs, scratch, softmax, upstream, to } = self;
        let Heads { queries, shared, width } = inputs.heads;
        for rows in inputs.text.sequences() {
            for group in 0..shared {
                let head = inputs.head(&rows, group);
                let keys = head.as_rows(inputs.key, &mut scratch.keys);
                let values = head.as_rows(inputs.value, &mut scratch.values);
                let key_columns = head.as_columns(inputs.key, &mut scratch.key_columns);
                let of_keys = zeros(&mut scratch.of_keys, head.padded * width);
                let of_values = zeros(&mut scratch.of_values, head.padded * width);
                for member in 0..queries / shared {
                    let column = head.query_first + member * width;
                    let number = column / width;
                    for first in (0..head.length).step_by(QUERIES) {
                        let last = (first + QUERIES).min(head.length);
                        let (count, seen) = (last - first, last.div_ceil(LANES) * LANES);
                        let these = (head.start + first) * head.query_stride..(head.start + last) * head.query_stride;
                        let stride = head.query_stride;
                        gather(&inputs.query[these.clone()], stride, column, width, inputs.scale(), &mut scratch.query);
                        gather(&upstream[these.clone()], stride, column, width, 1.0, &mut scratch.upstream);
                        let scores = fit(&mut scratch.scores, count * seen);
                        rows_times_panels::<S, Single, { mode::WRITE }>(
                            simd,
                            &scratch.query,
                            width,
                            &keys[..seen * width],
                            seen,
                            scores,
                            seen,
                        );
                        let slopes = fit(&mut scratch.slopes, count * seen);
                        rows_times_panels::<S, Single, { mode::WRITE }>(
                            simd,
                            &scratch.upstream,
                            width,
                            &values[..seen * width],
                            seen,
                            slopes,
                            seen,
                        );
                        let both = scores.chunks_exact_mut(seen).zip(slopes.chunks_exact_mut(seen));
                        for (position, (shares, slopes)) in (first..).zip(both) {
                            let Softmax { most, whole } = softmax[(head.start + position) * queries + number];
                            let (shares, slopes) = (&mut shares[..seen], &mut slopes[..seen]);
                            for place in 0..seen {
                                shares[place] = exp(shares[place] - most) * whole;
                            }
                            shares[position + 1..].fill(0.0);
                            let mean = dot(shares, slopes);
                            for place in 0..seen {
                                slopes[place] = shares[place] * (slopes[place] - mean);
                            }
                        }
                        let of_query = fit(&mut scratch.of_query, count * width);
                        mix(simd, slopes, seen, key_columns, &head, of_query, width);
                        let to = to.query[these].chunks_exact_mut(stride);
                        for (to, from) in to.zip(of_query.chunks_exact(width)) {
                            for (to, from) in to[column..column + width].iter_mut().zip(from) {
                                *to = from * inputs.scale();
                            }
                        }
                        let panels = fit(&mut scratch.query_panels, panel_values(width, count));
                        lay_columns(&scratch.query, width, width, count, panels);
                        add_outer_products(simd, (slopes, seen), (panels, count), &mut of_keys[..seen * width], width);
                        let panels = fit(&mut scratch.upstream_panels, panel_values(width, count));
                        lay_columns(&scratch.upstream, width, width, count, panels);
                        add_outer_products(
                            simd,
                            (scores, seen),
                            (panels, count),
                            &mut of_values[..seen * width],
                            width,
                        );
                    }
                }
                for (to, from) in [(&mut *to.key, &*of_keys), (&mut *to.value, &*of_values)] {
                    let rows = to[head.start * head.key_stride..].chunks_exact_mut(head.key_stride);
                    for (to, from) in rows.zip(from.chunks_exact(width).take(head.length)) {
                        to[head.key_first..head.key_first + width].copy_from_slice(from);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::rotary_table::RotaryTable;
    use crate::host_weights::Stream;
    use crate::train::Sequence;

    /// More than one panel, more queries than are computed together, and lengths that fill neither.
    const LENGTHS: [usize; 4] = [40, 17, 3, 33];

    struct Case {
        heads: Heads,
        text: Text,
        query: Vec<f32>,
        key: Vec<f32>,
        value: Vec<f32>,
        upstream: Vec<f32>,
    }

    /// What is computed forward and backward: the output, and the gradients with respect to queries, keys and values.
    type Results = [Vec<f32>; 4];

    impl Case {
        fn of(heads: Heads) -> Self {
            let sequence = |length: usize| Sequence::new(vec![1; length], &vec![false; length], 1.0).unwrap();
            let sequences = LENGTHS.map(sequence);
            let mut text = Text::default();
            text.set(&sequences.iter().collect::<Vec<_>>(), &RotaryTable::new(vec![]), 0);
            let rows: usize = LENGTHS.iter().sum();
            let random = |count: usize, name: &str| -> Vec<f32> {
                let mut stream = Stream::of(7, name);
                (0..count).map(|_| (stream.uniform() * 4.0 - 2.0) as f32).collect()
            };
            let (queries, keys) = (rows * heads.queries * heads.width, rows * heads.shared * heads.width);
            let [query, upstream] = ["query", "upstream"].map(|name| random(queries, name));
            let [key, value] = ["key", "value"].map(|name| random(keys, name));
            Self { heads, text, query, key, value, upstream }
        }

        fn computed(&self, scratch: &mut Scratch) -> Results {
            let Self { heads, text, query, key, value, upstream } = self;
            let inputs = Inputs { heads: *heads, text, query, key, value };
            let mut softmax = vec![Softmax::default(); text.tokens.len() * heads.queries];
            let mut out = vec![f32::NAN; query.len()];
            attend(inputs, scratch, &mut softmax, &mut out);
            let [mut of_query, mut of_key, mut of_value] =
                [query, key, value].map(|values| vec![f32::NAN; values.len()]);
            let to = Slopes { query: &mut of_query, key: &mut of_key, value: &mut of_value };
            attend_back(inputs, scratch, &softmax, upstream, to);
            [out, of_query, of_key, of_value]
        }

        /// The same in f64, position by position, as the formulas above say.
        fn defined(&self) -> [Vec<f64>; 4] {
            let Heads { queries, shared, width } = self.heads;
            let mut found = [&self.query, &self.query, &self.key, &self.value].map(|values| vec![0.0; values.len()]);
            let [out, of_query, of_key, of_value] = &mut found;
            let scale = 1.0 / (width as f64).sqrt();
            for rows in self.text.sequences() {
                for (row, head) in rows.clone().flat_map(|row| (0..queries).map(move |head| (row, head))) {
                    let mine = (row * queries + head) * width;
                    let seen: Vec<usize> =
                        (rows.start..=row).map(|row| (row * shared + head / (queries / shared)) * width).collect();
                    let dot = |one: &[f32], other: &[f32], at: usize| -> f64 {
                        (0..width).map(|channel| f64::from(one[mine + channel]) * f64::from(other[at + channel])).sum()
                    };
                    let scores: Vec<f64> =
                        seen.iter().map(|at| (dot(&self.query, &self.key, *at) * scale).exp()).collect();
                    let whole: f64 = scores.iter().sum();
                    let pulls: Vec<f64> = seen.iter().map(|at| dot(&self.upstream, &self.value, *at)).collect();
                    let mean: f64 = scores.iter().zip(&pulls).map(|(score, pull)| score / whole * pull).sum();
                    for ((at, score), pull) in seen.into_iter().zip(scores).zip(pulls) {
                        let share = score / whole;
                        let slope = share * (pull - mean) * scale;
                        for channel in 0..width {
                            out[mine + channel] += share * f64::from(self.value[at + channel]);
                            of_query[mine + channel] += slope * f64::from(self.key[at + channel]);
                            of_key[at + channel] += slope * f64::from(self.query[mine + channel]);
                            of_value[at + channel] += share * f64::from(self.upstream[mine + channel]);
                        }
                    }
                }
            }
            found
        }
    }

    /// Buffers that an earlier text left: larger, and full of what would spoil every sum.
    fn left_behind() -> Scratch {
        let [keys, values, key_columns, query, query_panels, upstream] = [0; 6].map(|_| vec![f32::NAN; 1 << 14]);
        let [upstream_panels, scores, slopes, of_query, of_keys, of_values] = [0; 6].map(|_| vec![f32::NAN; 1 << 14]);
        Scratch {
            keys,
            values,
            key_columns,
            query,
            query_panels,
            upstream,
            upstream_panels,
            scores,
            slopes,
            of_query,
            of_keys,
            of_values,
        }
    }

    #[test]
    fn attention_is_what_its_formulas_say_whatever_its_buffers_held() {
        for (queries, shared, width) in [(4, 2, 16), (2, 2, 8), (3, 1, 24), (2, 1, 64), (1, 1, 128)] {
            let case = Case::of(Heads { queries, shared, width });
            let found = case.computed(&mut Scratch::default());
            let again = case.computed(&mut left_behind());
            for ((found, again), right) in found.iter().zip(&again).zip(case.defined()) {
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
                assert_eq!(bits(found), bits(again), "{:?}", case.heads);
                for (found, right) in found.iter().zip(right) {
                    assert!((f64::from(*found) - right).abs() < 1e-4, "{:?}: {found} {right}", case.heads);
                }
            }
        }
    }
}
