//! Weights as plain numbers in this process's memory: loading, saving, digests, and initialisation from a seed.

use crate::{Decoder, LocalModelError, ModelConfig};
use clawhost_core::{Digest, derive_seed};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::sync::Arc;

/// `[out, in]`, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct HostMatrix {
    /// `[rows, columns]`.
    pub shape: [usize; 2],
    /// As many values as the shape has.
    pub values: Arc<[f32]>,
}

/// A model on the host.
pub type HostDecoder = Decoder<HostMatrix, Arc<[f32]>>;

impl HostMatrix {
    /// A matrix of these values.
    ///
    /// # Errors
    /// The number of values does not fit the shape.
    pub fn new(name: &str, shape: [usize; 2], values: Vec<f32>) -> Result<Self, LocalModelError> {
        if values.len() != shape[0] * shape[1] {
            let found = vec![values.len()];
            return Err(LocalModelError::Shape { name: name.to_owned(), found, expected: shape.to_vec() });
        }
        Ok(Self { shape, values: values.into() })
    }

    /// The values column by column.
    pub fn transposed(&self) -> Vec<f32> {
        let [rows, columns] = self.shape;
        let mut out = Vec::with_capacity(self.values.len());
        for column in 0..columns {
            out.extend((0..rows).filter_map(|row| self.values.get(row * columns + column)));
        }
        out
    }
}

/// The random numbers of one weight: a function of the seed and the weight's name, on every machine.
///
/// Box and Muller 1958 on 53-bit uniforms. Logarithm, root and cosine are libm's in pure Rust, so that results do not
/// depend on the platform.
pub(crate) struct Stream(ChaCha8Rng);

impl Stream {
    pub(crate) fn of(seed: u64, name: &str) -> Self {
        Self(ChaCha8Rng::seed_from_u64(derive_seed(seed, name, 0)))
    }

    /// Strictly between 0 and 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Normally distributed.
    fn next(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    fn values(&mut self, count: usize, deviation: f64) -> Vec<f32> {
        (0..count).map(|_| (self.next() * deviation) as f32).collect()
    }
}

/// A fresh model: normal matrices with the configured standard deviation, norms of 1, biases of 0. Equal seeds give
/// equal bytes.
pub fn initial(config: &ModelConfig, seed: u64) -> HostDecoder {
    let deviation = config.initial_deviation;
    Decoder::blueprint(config).map(
        &mut |name, shape| HostMatrix {
            shape: *shape,
            values: Stream::of(seed, name).values(shape[0] * shape[1], deviation).into(),
        },
        &mut |name, length| vec![if name.ends_with(".bias") { 0.0 } else { 1.0 }; *length].into(),
    )
}

/// The digest of a model: every weight with its name and shape, and the scales of adapters.
pub fn digest(decoder: &HostDecoder) -> Digest {
    use crate::Weight;
    let mut bytes = Vec::new();
    for (name, weight) in decoder.weights() {
        bytes.extend_from_slice(name.as_bytes());
        let values = match &weight {
            Weight::Matrix(matrix) => {
                bytes.extend_from_slice(format!(" {:?} ", matrix.shape).as_bytes());
                &matrix.values
            }
            Weight::Vector(values) => {
                bytes.extend_from_slice(format!(" [{}] ", values.len()).as_bytes());
                values
            }
        };
        values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    }
    for scale in decoder.scales() {
        bytes.extend_from_slice(&scale.to_le_bytes());
    }
    Digest::of(&bytes)
}
