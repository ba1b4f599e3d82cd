//! The backward pass of one layer.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators and closures are not inlined into functions with vector instructions; counted loops become vector code"
)]

use super::{Activations, Block, Buffers, Factors, OfVectors, TrainingModel, attention, fit, forward};
use crate::cpu::elementwise::{OfWidth, dot, exp, norm_scale, normalise, silu, turn, with_common_width};
use crate::cpu::panels::{lay_columns, panel_values};

/// Columns of panels, from contiguous rows.
pub(super) fn lay(rows: &[f32], width: usize, to: &mut Vec<f32>) {
    let count = rows.len() / width.max(1);
    lay_columns(rows, width, width, count, fit(to, panel_values(width, count)));
}

/// Computes one layer backward: `block.x` is the gradient with respect to the layer's output, and becomes the gradient
/// with respect to its input. The factors of the weights' gradients are left in the block.
pub(super) fn backward(model: &TrainingModel, layer: usize, block: &mut Block) {
    let Block { text, layers, recomputed, x, factors, of_vectors, buffers, .. } = block;
    let (Some(weights), Some(layer)) = (model.weights.blocks.get(layer), layers.get(layer)) else { return };
    let (input, kept) = match model.recomputes {
        true => {
            forward::recompute(model, weights, text, &layer.input, recomputed, buffers);
            (&layer.input, &*recomputed)
        }
        false => (&layer.input, &layer.kept),
    };
    let Activations { low, .. } = kept;
    let Factors { upstream, given, of_low, low: low_panels } = factors;
    let OfVectors { input_norm, post_norm, query_norm, key_norm } = of_vectors;
    let Buffers { normal, wide, query, key, attention: scratch } = buffers;
    let (width, heads) = (model.config.width, model.heads);
    let (queries, keys) = (heads.queries * heads.width, heads.shared * heads.width);
    let rows = text.tokens.len();
    let epsilon = model.config.norm_epsilon as f32;

    // The MLP.
    let [d_query, d_key, d_value, d_output, d_gate, d_up, d_down] = upstream;
    fit(d_down, rows * width).copy_from_slice(x);
    fit(wide, kept.gate.len());
    weights.down.apply_back::<false>(d_down, wide, &mut of_low[6]);
    fit(d_gate, kept.gate.len());
    fit(d_up, kept.up.len());
    pulp::Arch::new().dispatch(GatedBack { gate: &kept.gate, up: &kept.up, inner: wide, d_gate, d_up });
    lay(wide, model.config.mlp_width, &mut given[3]);
    fit(normal, rows * width);
    normalise(&kept.middle, &weights.post_norm, epsilon, normal);
    lay(normal, width, &mut given[2]);
    weights.gate.apply_back::<false>(d_gate, normal, &mut of_low[4]);
    weights.up.apply_back::<true>(d_up, normal, &mut of_low[5]);
    norm_back::<true>(&kept.middle, &weights.post_norm, epsilon, normal, x, post_norm);

    // Attention.
    fit(d_output, rows * width).copy_from_slice(x);
    lay(&kept.mixed, queries, &mut given[1]);
    let d_mixed = fit(wide, rows * queries);
    weights.output.apply_back::<false>(d_output, d_mixed, &mut of_low[3]);
    fit(d_query, rows * queries);
    fit(d_key, rows * keys);
    fit(d_value, rows * keys);
    let inputs = attention::Inputs { heads, text, query: &kept.query, key: &kept.key, value: &kept.value };
    let to = attention::Slopes { query: d_query, key: d_key, value: d_value };
    attention::attend_back(inputs, scratch, &kept.softmax, d_mixed, to);
    turn(d_query, queries, heads.width, &text.turns, true);
    turn(d_key, keys, heads.width, &text.turns, true);
    for (norm, raw, slope, before, of_norm) in [
        (&weights.query_norm, &kept.raw_query, &mut *d_query, query, query_norm),
        (&weights.key_norm, &kept.raw_key, &mut *d_key, key, key_norm),
    ] {
        if let Some(norm) = norm {
            fit(before, slope.len());
            std::mem::swap(before, slope);
            norm_back::<false>(raw, norm, epsilon, before, slope, of_norm);
        }
    }
    normalise(input, &weights.input_norm, epsilon, normal);
    lay(normal, width, &mut given[0]);
    weights.query.apply_back::<false>(d_query, normal, &mut of_low[0]);
    weights.key.apply_back::<true>(d_key, normal, &mut of_low[1]);
    weights.value.apply_back::<true>(d_value, normal, &mut of_low[2]);
    norm_back::<true>(input, &weights.input_norm, epsilon, normal, x, input_norm);

    for ((projection, low), panels) in super::projections(weights).into_iter().zip(low).zip(low_panels) {
        if let Some(adapter) = &projection.adapter {
            lay(low, adapter.a.shape()[0], panels);
        }
    }
}

struct GatedBack<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    /// The gradient with respect to the product. Becomes the product.
    inner: &'a mut [f32],
    d_gate: &'a mut [f32],
    d_up: &'a mut [f32],
}

impl pulp::NullaryFnOnce for GatedBack<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { gate, up, inner, d_gate, d_up } = self;
        let count = gate.len();
        let (up, inner) = (&up[..count], &mut inner[..count]);
        let (d_gate, d_up) = (&mut d_gate[..count], &mut d_up[..count]);
        for place in 0..count {
            let (gate, up) = (gate[place], up[place]);
            let share = 1.0 / (1.0 + exp(-gate));
            let (made, slope) = (silu(gate), inner[place]);
            d_up[place] = slope * made;
            d_gate[place] = slope * up * share * (1.0 + gate * (1.0 - share));
            inner[place] = made * up;
        }
    }
}

struct NormBack<'a, const ADD: bool> {
    x: &'a [f32],
    weight: &'a [f32],
    epsilon: f32,
    upstream: &'a [f32],
    out: &'a mut [f32],
    of_weight: &'a mut [f32],
}

/// The backward pass of `y = x · r · weight`, `r = rsqrt(mean(x²) + ε)`: `dx = r (dy · weight) - x r³ mean(x · dy ·
/// weight)`. The gradient of the weight is written.
pub(super) fn norm_back<const ADD: bool>(
    x: &[f32],
    weight: &[f32],
    epsilon: f32,
    upstream: &[f32],
    out: &mut [f32],
    of_weight: &mut Vec<f32>,
) {
    of_weight.clear();
    of_weight.resize(weight.len(), 0.0);
    pulp::Arch::new().dispatch(NormBack::<ADD> { x, weight, epsilon, upstream, out, of_weight });
}

impl<const ADD: bool> pulp::NullaryFnOnce for NormBack<'_, ADD> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let width = self.weight.len();
        with_common_width(self, width);
    }
}

impl<const ADD: bool> OfWidth for NormBack<'_, ADD> {
    #[inline(always)]
    fn with_width(self, width: usize) {
        let Self { x, weight, epsilon, upstream, out, of_weight } = self;
        debug_assert!(x.len().is_multiple_of(width));
        let (weight, of_weight) = (&weight[..width], &mut of_weight[..width]);
        let mut weighted = vec![0.0f32; width];
        let weighted = &mut weighted[..width];
        for row in 0..x.len() / width {
            let first = row * width;
            let (x, slope) = (&x[first..first + width], &upstream[first..first + width]);
            let out = &mut out[first..first + width];
            let scale = norm_scale(x, epsilon);
            for place in 0..width {
                weighted[place] = slope[place] * weight[place];
            }
            let pull = dot(x, weighted) * scale * scale * scale / width as f32;
            for place in 0..width {
                of_weight[place] = (slope[place] * x[place]).mul_add(scale, of_weight[place]);
            }
            for place in 0..width {
                let slope = weighted[place] * scale - x[place] * pull;
                out[place] = if ADD { out[place] + slope } else { slope };
            }
        }
    }
}
