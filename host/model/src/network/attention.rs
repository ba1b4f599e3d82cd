//! Causal attention with fewer key and value heads than query heads (Ainslie et al. 2023), none of them repeated in memory.

use super::{Rotary, Rows, normalised};
use crate::ModelConfig;
use crate::decoder::Block;
use burn::tensor::Tensor;
use burn::tensor::activation::softmax;

/// `[rows, length, width]` to the same: queries of a group of heads share keys and values.
pub(super) fn attend(
    block: &Block<Tensor<2>, Tensor<1>>,
    x: Tensor<3>,
    config: &ModelConfig,
    rows: &Rows,
    rotary: &Rotary,
) -> Tensor<3> {
    let [count, length, _] = x.dims();
    let (heads, shared, width) = (config.heads, config.key_value_heads, config.head_width);
    let group = heads / shared;
    let mut query = block.query.apply(x.clone()).reshape([count, length, heads, width]);
    let mut key = block.key.apply(x.clone()).reshape([count, length, shared, width]);
    let value = block.value.apply(x).reshape([count, length, shared, width]);
    if let Some(norm) = &block.query_norm {
        query = normalised(query, norm, config.norm_epsilon);
    }
    if let Some(norm) = &block.key_norm {
        key = normalised(key, norm, config.norm_epsilon);
    }
    let query = rotary.turn(query).mul_scalar(1.0 / (width as f64).sqrt());
    // [rows, shared, group · length, width]: the queries of a group stand below each other.
    let query = query.swap_dims(1, 2).reshape([count, shared, group * length, width]);
    let key = rotary.turn(key).swap_dims(1, 2);
    let value = value.swap_dims(1, 2);
    let scores = query.matmul(key.swap_dims(2, 3)).reshape([count, heads, length, length]);
    let shares = softmax(scores + rows.bias.clone(), 3).reshape([count, shared, group * length, length]);
    let mixed = shares.matmul(value).reshape([count, heads, length, width]).swap_dims(1, 2);
    block.output.apply(mixed.reshape([count, length, heads * width]))
}
