//! From the output of the last layer to log-probs of the trained tokens, and back.
//!
//! Only rows that predict a scored token are multiplied with the head. Logits are computed again in the backward pass:
//! all of them at once would be by far the largest allocation.
//!
//! ```text
//! logprob = l[token] - ln(sum of e^l), l = logits / temperature      dl = g · (one-hot(token) - softmax)
//! ```
//!
//! Tokens that the grammar of an answer excluded are in no sum.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators and closures are not inlined into functions with vector instructions; counted loops become vector code"
)]

use super::backward::{lay, norm_back};
use super::matrix::Matrix;
use super::text::Target;
use super::{Block, Gradients, TrainingModel, Watch, each, fit, frozen_head};
use crate::cpu::attention::Softmax;
use crate::cpu::elementwise::{add, dot, exp, largest, normalise, sum};
use crate::cpu::outer::add_outer_products;
use std::ops::Range;

/// Rows of logits that one thread computes at once.
pub(super) const CHUNK: usize = 64;
/// Logits that are in memory at once in the backward pass of a head that learns: 32 MiB.
const LOGITS: usize = 1 << 23;
/// A block keeps its memory of logits up to this number, 4 MiB: there are many blocks, and few compute at once.
const KEPT_LOGITS: usize = 1 << 20;

/// Log-probs and entropies of a block's targets. A row is multiplied with the head once for each of its targets.
pub(super) fn score(model: &TrainingModel, block: &mut Block, watch: &Watch<'_>) {
    let (width, vocabulary) = (model.config.width, model.config.vocabulary);
    let Block { text, x, foretelling, hidden, wholes, scores, buffers, .. } = block;
    foretelling.clear();
    text.targets.iter().for_each(|target| foretelling.extend_from_slice(&x[target.row * width..][..width]));
    let rows = text.targets.len();
    normalise(foretelling, &model.weights.norm, model.config.norm_epsilon as f32, fit(hidden, rows * width));
    wholes.clear();
    let mut found = Vec::with_capacity(rows);
    for (number, (targets, hidden)) in text.targets.chunks(CHUNK).zip(hidden.chunks(CHUNK * width)).enumerate() {
        if watch.stops() {
            return;
        }
        let logits = fit(&mut buffers.wide, targets.len() * vocabulary);
        if let Some(head) = &model.weights.head {
            head.product::<false>(hidden, logits);
        }
        text.exclude(number * CHUNK, logits, (0, vocabulary));
        pulp::Arch::new().dispatch(Score { targets, logits, vocabulary, softmax: wholes, found: &mut found });
    }
    if buffers.wide.len() > KEPT_LOGITS {
        buffers.wide = Vec::new();
    }
    let mut found = found.into_iter();
    *scores = text.counts.iter().map(|count| (&mut found).take(*count).collect()).collect();
}

struct Score<'a> {
    targets: &'a [Target],
    logits: &'a mut [f32],
    vocabulary: usize,
    softmax: &'a mut Vec<Softmax>,
    /// Log-prob and entropy.
    found: &'a mut Vec<(f64, f64)>,
}

impl pulp::NullaryFnOnce for Score<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mut exponentials = vec![0.0f32; self.vocabulary];
        for (target, logits) in self.targets.iter().zip(self.logits.chunks_exact_mut(self.vocabulary)) {
            let exponentials = &mut exponentials[..logits.len()];
            let most = largest(logits) * target.scale;
            for place in 0..logits.len() {
                logits[place] = logits[place] * target.scale - most;
                exponentials[place] = exp(logits[place]);
            }
            let whole = sum(exponentials);
            // Both as f64: an entropy near 0 is a difference of much larger numbers.
            let logarithm = libm::log(f64::from(whole));
            let entropy = logarithm - f64::from(dot(exponentials, logits)) / f64::from(whole);
            let logit = logits.get(target.token).copied().unwrap_or(f32::NEG_INFINITY);
            self.found.push((f64::from(logit) - logarithm, entropy));
            self.softmax.push(Softmax { most, whole: 1.0 / whole });
        }
    }
}

/// Rows in the backward pass.
struct Chunk<'a> {
    block: usize,
    rows: Range<usize>,
    wanted: &'a [f32],
    logits: Vec<f32>,
    hidden: Vec<f32>,
    slope: Vec<f32>,
}

/// Adds the gradients of the head and of the last norm. Leaves those with respect to the output of the last layer in
/// the blocks.
pub(super) fn backward(
    model: &TrainingModel,
    blocks: &mut [Block],
    wanted: &[f32],
    to: &mut Gradients,
    (threads, watch): (bool, &Watch<'_>),
) {
    match &model.weights.head {
        Some(Matrix::Frozen(head)) => frozen_head::backward(head, blocks, wanted, (threads, watch)),
        Some(head @ Matrix::Learned { .. }) => backward_of_logits(model, head, blocks, wanted, to, (threads, watch)),
        None => return,
    }
    let width = model.config.width;
    let epsilon = model.config.norm_epsilon as f32;
    each(threads, blocks, |block| {
        let Block { text, x, foretelling, hidden, buffers, of_vectors, .. } = block;
        let slope = fit(&mut buffers.normal, hidden.len());
        norm_back::<false>(foretelling, &model.weights.norm, epsilon, hidden, slope, &mut of_vectors.input_norm);
        x.fill(0.0);
        for (target, slope) in text.targets.iter().zip(slope.chunks_exact(width)) {
            add(&mut x[target.row * width..][..width], slope);
        }
    });
    blocks.iter().for_each(|block| add(&mut to.0.norm, &block.of_vectors.input_norm));
}

/// Adds the gradient of a head that learns, and replaces `hidden` by the gradient with respect to it.
fn backward_of_logits(
    model: &TrainingModel,
    head: &Matrix,
    blocks: &mut [Block],
    wanted: &[f32],
    to: &mut Gradients,
    (threads, watch): (bool, &Watch<'_>),
) {
    let (width, vocabulary) = (model.config.width, model.config.vocabulary);
    let mut chunks = Vec::new();
    let mut wanted = wanted;
    for (number, block) in blocks.iter_mut().enumerate() {
        let rows = block.text.targets.len();
        let (mine, others) = wanted.split_at(rows.min(wanted.len()));
        wanted = others;
        for (first, wanted) in (0..).step_by(CHUNK).zip(mine.chunks(CHUNK)) {
            let rows = first..first + wanted.len();
            chunks.push(Chunk { block: number, rows, wanted, logits: vec![], hidden: vec![], slope: vec![] });
        }
    }
    let at_once = (LOGITS / (CHUNK * vocabulary)).clamp(1, 16);
    for group in chunks.chunks_mut(at_once) {
        if watch.stops() {
            return;
        }
        let seen: &[Block] = blocks;
        each(threads, group, |chunk| {
            let block = &seen[chunk.block];
            let hidden = &block.hidden[chunk.rows.start * width..chunk.rows.end * width];
            let logits = fit(&mut chunk.logits, chunk.rows.len() * vocabulary);
            head.product::<false>(hidden, logits);
            block.text.exclude(chunk.rows.start, logits, (0, vocabulary));
            let (targets, softmax) = (&block.text.targets[chunk.rows.clone()], &block.wholes[chunk.rows.clone()]);
            let tokens = 0..vocabulary;
            pulp::Arch::new().dispatch(Slope { targets, softmax, wanted: chunk.wanted, logits, tokens });
            head.back_product::<false>(logits, fit(&mut chunk.slope, chunk.rows.len() * width));
            lay(hidden, width, &mut chunk.hidden);
        });
        let gradient = to.0.head.as_mut().unwrap_or(&mut to.0.embedding);
        add_head(gradient, width, group, threads);
        for chunk in group {
            chunk.logits = Vec::new();
            chunk.hidden = Vec::new();
            blocks[chunk.block].hidden[chunk.rows.start * width..chunk.rows.end * width].copy_from_slice(&chunk.slope);
        }
    }
}

/// Replaces logits of some tokens by the gradient with respect to them.
pub(super) struct Slope<'a> {
    pub(super) targets: &'a [Target],
    pub(super) softmax: &'a [Softmax],
    pub(super) wanted: &'a [f32],
    /// `[targets, tokens]`.
    pub(super) logits: &'a mut [f32],
    pub(super) tokens: Range<usize>,
}

impl pulp::NullaryFnOnce for Slope<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let known = self.targets.iter().zip(self.softmax).zip(self.wanted);
        for (((target, softmax), wanted), logits) in known.zip(self.logits.chunks_exact_mut(self.tokens.len())) {
            let wanted = wanted * target.scale;
            for place in 0..logits.len() {
                logits[place] = -wanted * (exp(logits[place] * target.scale - softmax.most) * softmax.whole);
            }
            if self.tokens.contains(&target.token) {
                logits[target.token - self.tokens.start] += wanted;
            }
        }
    }
}

/// Tokens of the vocabulary whose gradient one thread sums at once.
const SHARE: usize = 96;

fn add_head(gradient: &mut [f32], width: usize, chunks: &[Chunk<'_>], threads: bool) {
    let mut parts: Vec<(usize, &mut [f32])> = (0..).step_by(SHARE).zip(gradient.chunks_mut(SHARE * width)).collect();
    each(threads, &mut parts, |(first, slope)| {
        pulp::Arch::new().dispatch(OuterOfHead { first: *first, slope, width, chunks });
    });
}

struct OuterOfHead<'a> {
    first: usize,
    slope: &'a mut [f32],
    width: usize,
    chunks: &'a [Chunk<'a>],
}

impl pulp::WithSimd for OuterOfHead<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        for chunk in self.chunks {
            let rows = chunk.rows.len();
            let vocabulary = chunk.logits.len() / rows;
            let upstream = (&chunk.logits[self.first..], vocabulary);
            add_outer_products(simd, upstream, (&chunk.hidden, rows), self.slope, self.width);
        }
    }
}
