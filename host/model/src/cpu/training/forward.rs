//! The forward pass, layer by layer.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]

use super::{Activations, Block, TrainingModel, attention, fit};
use crate::cpu::attention::Softmax;
use crate::cpu::elementwise::{add, gated, normalise, turn};

/// Computes the output of the last layer.
pub(super) fn forward(model: &TrainingModel, block: &mut Block) {
    let (width, heads) = (model.config.width, model.heads);
    let (queries, keys) = (heads.queries * heads.width, heads.shared * heads.width);
    let rows = block.text.tokens.len();
    let epsilon = model.config.norm_epsilon as f32;
    block.layers.resize_with(model.weights.blocks.len(), Activations::default);
    let Block { text, layers, x, buffers, .. } = block;
    fit(x, rows * width);
    for (to, token) in x.chunks_exact_mut(width).zip(&text.tokens) {
        model.embedding.read_row(*token as usize, to);
    }
    let normal = fit(&mut buffers.normal, rows * width);
    for (weights, kept) in model.weights.blocks.iter().zip(layers) {
        let low = &mut kept.low;
        fit(&mut kept.input, rows * width).copy_from_slice(x);
        normalise(x, &weights.input_norm, epsilon, normal);
        weights.query.apply(normal, &mut kept.query, &mut low[0]);
        weights.key.apply(normal, &mut kept.key, &mut low[1]);
        weights.value.apply(normal, &mut kept.value, &mut low[2]);
        for (norm, rows, raw, row_width) in [
            (&weights.query_norm, &mut kept.query, &mut kept.raw_query, queries),
            (&weights.key_norm, &mut kept.key, &mut kept.raw_key, keys),
        ] {
            if let Some(norm) = norm {
                fit(raw, rows.len()).copy_from_slice(rows);
                normalise(raw, norm, epsilon, rows);
            }
            turn(rows, row_width, heads.width, &text.turns, false);
        }
        kept.softmax.resize(rows * heads.queries, Softmax::default());
        let inputs = attention::Inputs { heads, text, query: &kept.query, key: &kept.key, value: &kept.value };
        attention::attend(inputs, &mut buffers.attention, &mut kept.softmax, fit(&mut kept.mixed, rows * queries));
        weights.output.apply(&kept.mixed, normal, &mut low[3]);
        add(x, normal);
        fit(&mut kept.middle, rows * width).copy_from_slice(x);
        normalise(x, &weights.post_norm, epsilon, normal);
        weights.gate.apply(normal, &mut kept.gate, &mut low[4]);
        weights.up.apply(normal, &mut kept.up, &mut low[5]);
        let inner = fit(&mut buffers.wide, kept.gate.len());
        inner.copy_from_slice(&kept.gate);
        gated(inner, &kept.up);
        weights.down.apply(inner, normal, &mut low[6]);
        add(x, normal);
    }
}
