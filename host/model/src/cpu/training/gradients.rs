//! Gradients of weights: outer products of the factors that the backward pass left, added in the order of the tokens.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]

use super::{Block, GIVEN, each};
use crate::cpu::elementwise::add;
use crate::cpu::outer::add_outer_products;
use crate::decoder::Projection;
use crate::host_weights::HostDecoder;
use crate::{Decoder, LowRank};

/// Rows of a gradient that one thread sums at once: full strips with all vector instructions.
const SHARE: usize = 48;

/// Sums of gradients, laid out as the weights are. Weights that are not trained have an empty entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gradients(pub(crate) Decoder<Vec<f32>, Vec<f32>>);

impl Gradients {
    /// Zeros for the trained weights.
    pub(crate) fn zeros(host: &HostDecoder, learns: impl Fn(&str) -> bool) -> Self {
        let zeros = |name: &str, length: usize| vec![0.0; if learns(name) { length } else { 0 }];
        Self(host.map(&mut |name, matrix| zeros(name, matrix.count()), &mut |name, vector| zeros(name, vector.len())))
    }

    /// Adds another sum.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, other) in self.0.flat_mut().into_iter().zip(other.0.flat()) {
            add(sum, other);
        }
    }

    /// The lowest layer up to which gradients are needed. `None`: only the head is trained.
    pub(super) fn lowest(&self) -> Option<usize> {
        if !self.0.embedding.is_empty() {
            return Some(0);
        }
        let learns = |block: &crate::Block<Vec<f32>, Vec<f32>>| block.flat().into_iter().any(|one| !one.is_empty());
        self.0.blocks.iter().position(learns)
    }
}

/// The gradient of one matrix: outer products of rows of `outputs` with columns of panels of `inputs`.
fn add_matrix<'a>(
    gradient: &mut [f32],
    [outputs, inputs]: [usize; 2],
    factors: impl Fn(&'a Block) -> (&'a [f32], &'a [f32]) + Sync,
    blocks: &'a [Block],
    threads: bool,
) {
    if gradient.is_empty() {
        return;
    }
    let mut parts: Vec<(usize, &mut [f32])> =
        (0..).step_by(SHARE).zip(gradient.chunks_mut((SHARE * inputs).max(1))).collect();
    each(threads, &mut parts, |(first, slope)| {
        for block in blocks {
            let (upstream, given) = factors(block);
            let rows = upstream.len() / outputs;
            if rows > 0 {
                pulp::Arch::new().dispatch(Outer { upstream, first: *first, outputs, given, rows, slope, inputs });
            }
        }
    });
}

struct Outer<'a> {
    upstream: &'a [f32],
    first: usize,
    outputs: usize,
    given: &'a [f32],
    rows: usize,
    slope: &'a mut [f32],
    inputs: usize,
}

impl pulp::WithSimd for Outer<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self { upstream, first, outputs, given, rows, slope, inputs } = self;
        add_outer_products(simd, (&upstream[first..], outputs), (given, rows), slope, inputs);
    }
}

/// Adds the gradients of one layer, from the factors in the blocks.
pub(super) fn add_layer(blocks: &[Block], layer: usize, to: &mut Gradients, threads: bool) {
    let Some(to) = to.0.blocks.get_mut(layer) else { return };
    for block in blocks {
        let of = &block.of_vectors;
        let norms = [(&mut to.input_norm, &of.input_norm), (&mut to.post_norm, &of.post_norm)];
        norms.into_iter().for_each(|(sum, one)| add(sum, one));
        let norms = [(&mut to.query_norm, &of.query_norm), (&mut to.key_norm, &of.key_norm)];
        norms.into_iter().for_each(|(sum, one)| sum.iter_mut().for_each(|sum| add(sum, one)));
    }
    for (place, (_, projection)) in to.projections_mut().into_iter().enumerate() {
        let Projection { weight, bias, adapter } = projection;
        let upstream =
            |block: &'_ Block| -> usize { block.factors.upstream[place].len() / block.text.tokens.len().max(1) };
        let Some(outputs) = blocks.first().map(upstream) else { return };
        let inputs = weight.len() / outputs.max(1);
        add_matrix(
            weight,
            [outputs, inputs],
            |block| (&block.factors.upstream[place], &block.factors.given[GIVEN[place]]),
            blocks,
            threads,
        );
        for sum in bias.iter_mut().filter(|sum| !sum.is_empty()) {
            for block in blocks {
                block.factors.upstream[place].chunks_exact(outputs).for_each(|row| add(sum, row));
            }
        }
        if let Some(LowRank { a, b, .. }) = adapter {
            let rank = b.len() / outputs.max(1);
            add_matrix(
                b,
                [outputs, rank],
                |block| (&block.factors.upstream[place], &block.factors.low[place]),
                blocks,
                threads,
            );
            let inputs = a.len() / rank.max(1);
            add_matrix(
                a,
                [rank, inputs],
                |block| (&block.factors.of_low[place], &block.factors.given[GIVEN[place]]),
                blocks,
                threads,
            );
        }
    }
}

/// Adds the gradient of the embedding of every token.
pub(super) fn add_embedding(blocks: &[Block], width: usize, to: &mut Gradients) {
    let sum = &mut to.0.embedding;
    if sum.is_empty() {
        return;
    }
    for block in blocks {
        for (token, slope) in block.text.tokens.iter().zip(block.x.chunks_exact(width)) {
            let first = *token as usize * width;
            if let Some(sum) = sum.get_mut(first..first + width) {
                add(sum, slope);
            }
        }
    }
}
