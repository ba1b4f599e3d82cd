//! Causal attention with fewer key and value heads than query heads (Ainslie et al. 2023). The shared heads are not repeated in memory.

use super::{DeviceBlock, Rotary, Rows, normalised, project};
use burn::tensor::Tensor;
use burn::tensor::activation::softmax;
use clawhost_model::ModelConfig;

/// Queries, keys and values of a block, by head: `[rows, heads, length, head_width]`. Keys and values have fewer heads.
pub(super) struct Heads {
    /// Divided by the square root of the head's width.
    pub(super) query: Tensor<4>,
    pub(super) key: Tensor<4>,
    pub(super) value: Tensor<4>,
}

impl Heads {
    pub(super) fn of(block: &DeviceBlock, x: Tensor<3>, config: &ModelConfig, rotary: &Rotary) -> Self {
        let [count, length, _] = x.dims();
        let (heads, shared, width) = (config.heads, config.key_value_heads, config.head_width);
        let mut query = project(&block.query, x.clone()).reshape([count, length, heads, width]);
        let mut key = project(&block.key, x.clone()).reshape([count, length, shared, width]);
        let value = project(&block.value, x).reshape([count, length, shared, width]);
        if let Some(norm) = &block.query_norm {
            query = normalised(query, norm, config.norm_epsilon);
        }
        if let Some(norm) = &block.key_norm {
            key = normalised(key, norm, config.norm_epsilon);
        }
        let query = rotary.turn(query).mul_scalar(1.0 / (width as f64).sqrt());
        Self { query: query.swap_dims(1, 2), key: rotary.turn(key).swap_dims(1, 2), value: value.swap_dims(1, 2) }
    }
}

/// Attention: averages the values `[rows, shared, seen, head_width]`, weighted by the softmax of the scores of queries and keys. `bias` is
/// added to the scores; its shape broadcasts to `[rows, heads, length, seen]`.
pub(super) fn mix(query: Tensor<4>, key: Tensor<4>, value: Tensor<4>, bias: Tensor<4>) -> Tensor<3> {
    let ([count, heads, length, width], [_, shared, seen, _]) = (query.dims(), key.dims());
    let group = heads / shared;
    // [rows, shared, group · length, width]: the queries of a group are concatenated.
    let query = query.reshape([count, shared, group * length, width]);
    let scores = query.matmul(key.swap_dims(2, 3)).reshape([count, heads, length, seen]);
    let shares = softmax(scores + bias, 3).reshape([count, shared, group * length, seen]);
    let mixed = shares.matmul(value).reshape([count, heads, length, width]).swap_dims(1, 2);
    mixed.reshape([count, length, heads * width])
}

/// Attention of a block. Input and output are `[rows, length, width]`. The queries of a group of heads share keys and values.
pub(super) fn attend(
    block: &DeviceBlock,
    x: Tensor<3>,
    config: &ModelConfig,
    rows: &Rows,
    rotary: &Rotary,
) -> Tensor<3> {
    let Heads { query, key, value } = Heads::of(block, x, config, rotary);
    project(&block.output, mix(query, key, value, rows.bias.clone()))
}
