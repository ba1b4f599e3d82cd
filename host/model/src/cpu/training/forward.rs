//! The forward pass, layer by layer.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]

use super::text::Text;
use super::{Activations, Block, Buffers, TrainingModel, Watch, Weights, attention, fit};
use crate::cpu::attention::Softmax;
use crate::cpu::elementwise::{added, gated, normalise, turn};

/// Computes the output of the last layer, unless it is stopped before.
pub(super) fn forward(model: &TrainingModel, block: &mut Block, watch: &Watch<'_>) {
    let width = model.config.width;
    let rows = block.text.tokens.len();
    let Block { text, layers, recomputed, x, buffers, .. } = block;
    layers.resize_with(model.weights.blocks.len(), Default::default);
    fit(x, rows * width);
    for (to, token) in x.chunks_exact_mut(width).zip(&text.tokens) {
        model.embedding.read_row(*token as usize, to);
    }
    for (weights, layer) in model.weights.blocks.iter().zip(layers) {
        if watch.stops() {
            return;
        }
        fit(&mut layer.input, rows * width).copy_from_slice(x);
        let kept = if model.recomputes { &mut *recomputed } else { &mut layer.kept };
        inside(model, weights, text, &layer.input, kept, buffers);
        let inner = fit(&mut buffers.wide, kept.gate.len());
        gated(&kept.gate, &kept.up, inner);
        weights.down.apply(inner, &mut buffers.normal, &mut kept.low[6]);
        added(&kept.middle, &buffers.normal, x);
    }
}

/// Computes again what the backward pass needs of a layer, from its input.
pub(super) fn recompute(
    model: &TrainingModel,
    weights: &Weights,
    text: &Text,
    input: &[f32],
    kept: &mut Activations,
    buffers: &mut Buffers,
) {
    inside(model, weights, text, input, kept, buffers);
    let inner = fit(&mut buffers.wide, kept.gate.len());
    gated(&kept.gate, &kept.up, inner);
    weights.down.lower(inner, &mut kept.low[6]);
}

/// Computes a layer up to the inputs of the MLP's product.
fn inside(
    model: &TrainingModel,
    weights: &Weights,
    text: &Text,
    input: &[f32],
    kept: &mut Activations,
    buffers: &mut Buffers,
) {
    let heads = model.heads;
    let (queries, keys) = (heads.queries * heads.width, heads.shared * heads.width);
    let rows = text.tokens.len();
    let epsilon = model.config.norm_epsilon as f32;
    let low = &mut kept.low;
    let normal = fit(&mut buffers.normal, input.len());
    normalise(input, &weights.input_norm, epsilon, normal);
    weights.query.apply(normal, &mut kept.query, &mut low[0]);
    weights.key.apply(normal, &mut kept.key, &mut low[1]);
    weights.value.apply(normal, &mut kept.value, &mut low[2]);
    for (norm, rows, raw, row_width) in [
        (&weights.query_norm, &mut kept.query, &mut kept.raw_query, queries),
        (&weights.key_norm, &mut kept.key, &mut kept.raw_key, keys),
    ] {
        if let Some(norm) = norm {
            fit(raw, rows.len());
            std::mem::swap(raw, rows);
            normalise(raw, norm, epsilon, rows);
        }
        turn(rows, row_width, heads.width, &text.turns, false);
    }
    kept.softmax.resize(rows * heads.queries, Softmax::default());
    let inputs = attention::Inputs { heads, text, query: &kept.query, key: &kept.key, value: &kept.value };
    attention::attend(inputs, &mut buffers.attention, &mut kept.softmax, fit(&mut kept.mixed, rows * queries));
    weights.output.apply(&kept.mixed, normal, &mut low[3]);
    added(input, normal, fit(&mut kept.middle, input.len()));
    normalise(&kept.middle, &weights.post_norm, epsilon, normal);
    weights.gate.apply(normal, &mut kept.gate, &mut low[4]);
    weights.up.apply(normal, &mut kept.up, &mut low[5]);
}
