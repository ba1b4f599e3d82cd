//! Removes adapters from a model, or merges them into the weights.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the shapes of the two matrices")]

use crate::decoder::{Block, Projection};
use crate::{Decoder, HostDecoder, HostMatrix, LowRank};
use std::sync::Arc;

impl<M: Clone, V: Clone> Decoder<M, V> {
    /// The same model without its adapters.
    pub fn without_adapters(&self) -> Self {
        let mut plain = self.clone();
        for block in &mut plain.blocks {
            block.projections_mut().into_iter().for_each(|(_, projection)| projection.adapter = None);
        }
        plain
    }

    /// The scale of each adapter, in the order of blocks and projections.
    pub(crate) fn scales(&self) -> Vec<f64> {
        let of = |projection: &Projection<M, V>| projection.adapter.as_ref().map(|adapter| adapter.scale);
        let block =
            |block: &Block<M, V>| block.projections().into_iter().filter_map(|(_, one)| of(one)).collect::<Vec<_>>();
        self.blocks.iter().flat_map(block).collect()
    }
}

impl HostDecoder {
    /// Merges adapters into the weights: a model without adapters that gives the same answers.
    pub fn merged(&self) -> Self {
        self.merged_where(|_| true)
    }

    /// The same for adapters beside some matrices.
    pub(crate) fn merged_where(&self, wanted: impl Fn(&HostMatrix) -> bool) -> Self {
        let mut whole = self.clone();
        for block in &mut whole.blocks {
            for (_, projection) in block.projections_mut().into_iter().filter(|(_, one)| wanted(&one.weight)) {
                *projection = merged(projection);
            }
        }
        whole
    }

    /// Whether the model has adapters.
    pub fn has_adapter(&self) -> bool {
        !self.scales().is_empty()
    }
}

/// `W + scale · B A`, row by row in a fixed order.
fn merged(projection: &Projection<HostMatrix, Arc<[f32]>>) -> Projection<HostMatrix, Arc<[f32]>> {
    let Some(LowRank { a, b, scale }) = &projection.adapter else { return projection.clone() };
    let [out, input] = projection.weight.shape;
    let rank = a.shape[0];
    let mut values = projection.weight.values().into_owned();
    let (a, b) = (a.values(), b.values());
    for row in 0..out {
        for inner in 0..rank {
            let factor = b[row * rank + inner] * *scale as f32;
            let to = &mut values[row * input..(row + 1) * input];
            for (to, from) in to.iter_mut().zip(&a[inner * input..(inner + 1) * input]) {
                *to = factor.mul_add(*from, *to);
            }
        }
    }
    let weight = HostMatrix::of_rows([out, input], values.into());
    Projection { weight, bias: projection.bias.clone(), adapter: None }
}
