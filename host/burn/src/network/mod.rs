//! The decoder on a device of burn, for training and for generation.
//!
//! On a device, the weight of a projection is `[in, out]`, as burn multiplies it; embeddings stay `[vocabulary, width]`. The
//! sequences of a batch are in rows, padded on the right or packed one after the other: see [`Rows`].

mod answering;
mod attention;
mod batch;
mod rotary;
mod rows;
mod slots;
#[cfg(test)]
mod tests;

pub use answering::DeviceModel;
pub use rotary::Rotary;
pub use rows::{Place, Rows};

use burn::tensor::activation::silu;
use burn::tensor::module::{embedding, linear};
use burn::tensor::{Device, Tensor, TensorData};
use clawhost_model::{
    Block, Convert, Decoder, HostDecoder, HostMatrix, LocalModelError, LowRank, ModelConfig, Projection,
};
use std::sync::Arc;

/// The weights on a device.
pub type DeviceDecoder = Decoder<Tensor<2>, Tensor<1>>;

/// A model on a device.
#[derive(Debug, Clone)]
pub struct Network {
    /// Its shape.
    pub config: Arc<ModelConfig>,
    /// Its weights.
    pub weights: DeviceDecoder,
}

/// Whether a matrix keeps its orientation, because its rows are looked up.
pub(crate) fn is_looked_up(name: &str) -> bool {
    name == "model.embed_tokens.weight"
}

/// Copies a model to a device.
pub fn to_device(host: &HostDecoder, device: &Device) -> DeviceDecoder {
    host.map(
        &mut |name, matrix| {
            let [rows, columns] = matrix.shape;
            if is_looked_up(name) {
                Tensor::from_data(TensorData::new(matrix.values().into_owned(), [rows, columns]), device)
            } else {
                Tensor::from_data(TensorData::new(matrix.transposed(), [columns, rows]), device)
            }
        },
        &mut |_, values| Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device),
    )
}

/// Values of a tensor, row by row.
///
/// # Errors
/// The device does not return them.
pub fn values<const D: usize>(tensor: &Tensor<D>) -> Result<Vec<f32>, LocalModelError> {
    let broken = |why: String| LocalModelError::Device { name: format!("{:?}", tensor.device()), why };
    let data = tensor.clone().into_data();
    data.try_into_vec::<f32>().map_err(|error| broken(format!("{error:?}")))
}

/// Copies a model from its device.
///
/// # Errors
/// The device does not return a weight.
pub fn to_host(weights: &DeviceDecoder) -> Result<HostDecoder, LocalModelError> {
    struct Fetch;
    impl Convert<Tensor<2>, Tensor<1>> for Fetch {
        type Matrix = HostMatrix;
        type Vector = Arc<[f32]>;
        type Error = LocalModelError;

        fn matrix(&mut self, name: &str, matrix: &Tensor<2>) -> Result<HostMatrix, LocalModelError> {
            let host = HostMatrix::new(name, matrix.dims(), values(matrix)?)?;
            if is_looked_up(name) {
                return Ok(host);
            }
            let [rows, columns] = host.shape;
            HostMatrix::new(name, [columns, rows], host.transposed())
        }

        fn vector(&mut self, _: &str, vector: &Tensor<1>) -> Result<Arc<[f32]>, LocalModelError> {
            Ok(values(vector)?.into())
        }
    }
    weights.convert(&mut Fetch)
}

/// `x · rsqrt(mean(x²) + ε) · weight` over the last dimension (Zhang and Sennrich 2019).
pub(crate) fn normalised<const D: usize>(x: Tensor<D>, weight: &Tensor<1>, epsilon: f64) -> Tensor<D> {
    let mean = x.clone().square().mean_dim(D - 1);
    x / (mean + epsilon).sqrt() * weight.clone().unsqueeze()
}

/// `y = x Wᵀ + b`, plus the output of the adapter, if there is one.
pub(crate) fn project(projection: &Projection<Tensor<2>, Tensor<1>>, x: Tensor<3>) -> Tensor<3> {
    let plain = linear(x.clone(), projection.weight.clone(), projection.bias.clone());
    match &projection.adapter {
        None => plain,
        Some(LowRank { a, b, scale }) => plain + linear(linear(x, a.clone(), None), b.clone(), None).mul_scalar(*scale),
    }
}

/// A block on a device.
pub(crate) type DeviceBlock = Block<Tensor<2>, Tensor<1>>;

/// One block, with the given attention.
pub(crate) fn apply_block(
    block: &DeviceBlock,
    x: Tensor<3>,
    config: &ModelConfig,
    attention: impl FnOnce(&DeviceBlock, Tensor<3>) -> Tensor<3>,
) -> Tensor<3> {
    let normal = normalised(x.clone(), &block.input_norm, config.norm_epsilon);
    let x = x + attention(block, normal);
    let normal = normalised(x.clone(), &block.post_norm, config.norm_epsilon);
    let inner = silu(project(&block.gate, normal.clone())) * project(&block.up, normal);
    x + project(&block.down, inner)
}

impl Network {
    /// A model on a device.
    pub fn new(config: Arc<ModelConfig>, host: &HostDecoder, device: &Device) -> Self {
        Self { config, weights: to_device(host, device) }
    }

    /// The same weights as leaves of another autodiff graph. The same ones are tracked.
    pub(crate) fn with_own_leaves(&self) -> Self {
        fn leaf<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
            let own = Tensor::from_inner(tensor.clone().inner());
            if tensor.is_require_grad() { own.require_grad() } else { own }
        }
        let weights = self.weights.map(&mut |_, matrix| leaf(matrix), &mut |_, vector| leaf(vector));
        Self { config: self.config.clone(), weights }
    }

    /// Its device.
    pub fn device(&self) -> Device {
        self.weights.embedding.device()
    }

    /// The normalised output of the last block: `[rows, length, width]`.
    pub fn hidden(&self, rows: &Rows) -> Tensor<3> {
        let rotary = Rotary::of(&self.config, rows, &self.device());
        let mut x = embedding(self.weights.embedding.clone(), rows.tokens.clone());
        for block in &self.weights.blocks {
            x = apply_block(block, x, &self.config, |block, x| {
                attention::attend(block, x, &self.config, rows, &rotary)
            });
        }
        normalised(x, &self.weights.norm, self.config.norm_epsilon)
    }

    /// The output head as `[width, vocabulary]`.
    pub fn head(&self) -> Tensor<2> {
        match &self.weights.head {
            Some(head) => head.clone(),
            None => self.weights.embedding.clone().transpose(),
        }
    }

    /// Logits of every position: `[rows, length, vocabulary]`. For short texts only; training computes them in chunks.
    pub fn logits(&self, rows: &Rows) -> Tensor<3> {
        linear(self.hidden(rows), self.head(), None)
    }
}
