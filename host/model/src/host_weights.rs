//! Weights as plain numbers in this process's memory: loading, saving, digests, and initialisation from a seed.

use crate::cpu::{LANES, Laid};
use crate::{Convert, Decoder, Dtype, LocalModelError, ModelConfig, Weight};
use clawhost_core::{Digest, derive_seed};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

/// Rows that are kept together.
pub(crate) const PANEL_ROWS: usize = LANES;

/// A matrix `[out, in]` on the host.
#[derive(Debug, Clone)]
pub struct HostMatrix {
    /// `[rows, columns]`.
    pub shape: [usize; 2],
    kept: Kept,
}

#[derive(Debug, Clone)]
enum Kept {
    /// f32, row by row: what training changes.
    Rows(Arc<[f32]>),
    /// As inference reads it, which shares it.
    Laid(Arc<Laid>),
}

/// A model on the host.
pub type HostDecoder = Decoder<HostMatrix, Arc<[f32]>>;

impl HostMatrix {
    /// A matrix of these values, row by row, kept as f32.
    ///
    /// # Errors
    /// The number of values does not fit the shape.
    pub fn new(name: &str, shape: [usize; 2], values: Vec<f32>) -> Result<Self, LocalModelError> {
        if values.len() != shape[0] * shape[1] {
            let found = vec![values.len()];
            return Err(LocalModelError::Shape { name: name.to_owned(), found, expected: shape.to_vec() });
        }
        Ok(Self::of_rows(shape, values.into()))
    }

    /// The same for values whose number is known to fit.
    pub(crate) fn of_rows(shape: [usize; 2], values: Arc<[f32]>) -> Self {
        debug_assert_eq!(values.len(), shape[0] * shape[1]);
        Self { shape, kept: Kept::Rows(values) }
    }

    pub(crate) fn laid_out(laid: Arc<Laid>) -> Self {
        Self { shape: [laid.outputs, laid.inputs], kept: Kept::Laid(laid) }
    }

    /// How it is kept.
    pub fn dtype(&self) -> Dtype {
        match &self.kept {
            Kept::Rows(_) => Dtype::F32,
            Kept::Laid(laid) => laid.dtype(),
        }
    }

    /// The same matrix kept in this format. `name` is for the error.
    ///
    /// # Errors
    /// The format cannot keep a value.
    pub fn kept_as(&self, name: &str, dtype: Dtype) -> Result<Self, LocalModelError> {
        if self.dtype() == dtype {
            return Ok(self.clone());
        }
        let laid = Laid::of(dtype, self.shape, &self.values()).map_err(|error| error.of(name, dtype))?;
        Ok(Self::laid_out(Arc::new(laid)))
    }

    /// The number of its values.
    pub fn count(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    /// The values, row by row.
    pub fn values(&self) -> Cow<'_, [f32]> {
        match &self.kept {
            Kept::Rows(values) => Cow::Borrowed(values),
            Kept::Laid(laid) => Cow::Owned(laid.rows()),
        }
    }

    /// The values of a matrix in 16 bits as the bytes of a file, row by row. `None`: it is kept in another format.
    pub(crate) fn halves(&self) -> Option<Vec<u8>> {
        match &self.kept {
            Kept::Rows(_) => None,
            Kept::Laid(laid) => laid.halves(),
        }
    }

    /// The same values as f32, row by row.
    #[must_use]
    pub(crate) fn in_rows(&self) -> Self {
        match &self.kept {
            Kept::Rows(_) => self.clone(),
            Kept::Laid(laid) => Self::of_rows(self.shape, laid.rows().into()),
        }
    }

    /// The same numbers, beside which learning computes: products with them round no inputs. The memory is shared.
    #[must_use]
    pub(crate) fn learnable(&self) -> Self {
        match &self.kept {
            Kept::Rows(_) => self.clone(),
            Kept::Laid(laid) => {
                laid.with_exact_inputs().map_or_else(|| self.clone(), |one| Self::laid_out(Arc::new(one)))
            }
        }
    }

    /// Reads a row of as many values as the matrix has columns. Rows that it does not have are zeros.
    pub(crate) fn read_row(&self, row: usize, to: &mut [f32]) {
        let [rows, columns] = self.shape;
        match &self.kept {
            Kept::Laid(laid) if row < rows => laid.row(row, to),
            Kept::Rows(values) if row < rows => {
                let found = values.get(row * columns..).unwrap_or_default();
                to.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
            }
            Kept::Rows(_) | Kept::Laid(_) => to.fill(0.0),
        }
    }

    /// As inference reads it. What is laid out already is shared.
    pub(crate) fn laid(&self) -> Arc<Laid> {
        match &self.kept {
            Kept::Rows(values) => Arc::new(Laid::of_f32(self.shape, values)),
            Kept::Laid(laid) => laid.clone(),
        }
    }

    /// The values column by column.
    pub fn transposed(&self) -> Vec<f32> {
        let [rows, columns] = self.shape;
        let values = self.values();
        let mut out = Vec::with_capacity(values.len());
        for column in 0..columns {
            out.extend((0..rows).filter_map(|row| values.get(row * columns + column)));
        }
        out
    }

    /// The digest of its values; of a matrix in [`Dtype::Int8`] that rounds inputs, of its codes and scales, because products with them have other results.
    fn digest(&self) -> Digest {
        match &self.kept {
            Kept::Rows(values) => {
                let short = values.chunks(DIGESTED).all(are_short);
                Digest::of_parts(values.chunks(DIGESTED).map(|part| digested(part, short)))
            }
            Kept::Laid(laid) => laid.digest(),
        }
    }
}

impl PartialEq for HostMatrix {
    fn eq(&self, other: &Self) -> bool {
        match (&self.kept, &other.kept) {
            (Kept::Laid(one), Kept::Laid(other)) => one == other,
            _ => self.shape == other.shape && self.dtype() == other.dtype() && self.values() == other.values(),
        }
    }
}

/// Values whose bytes are digested at once.
const DIGESTED: usize = 1 << 14;

/// The bytes of values in a file.
pub(crate) fn little_endian(values: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * 4];
    for (to, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(values) {
        *to = value.to_le_bytes();
    }
    bytes
}

/// Whether all values are numbers of bfloat16.
pub(crate) fn are_short(values: &[f32]) -> bool {
    values.iter().fold(0, |all, value| all | value.to_bits()) & 0xffff == 0
}

/// What is digested of values: the bytes of f32, or of bfloat16 where all values of a matrix are such numbers. So equal numbers have equal digests, and half as
/// many bytes are digested of most models.
pub(crate) fn digested(values: &[f32], short: bool) -> Vec<u8> {
    if !short {
        return little_endian(values);
    }
    let mut bytes = vec![0; values.len() * 2];
    for (to, value) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(values) {
        *to = ((value.to_bits() >> 16) as u16).to_le_bytes();
    }
    bytes
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
        &mut |name, shape| {
            HostMatrix::of_rows(*shape, Stream::of(seed, name).values(shape[0] * shape[1], deviation).into())
        },
        &mut |name, length| vec![if name.ends_with(".bias") { 0.0 } else { 1.0 }; *length].into(),
    )
}

impl HostDecoder {
    /// The same model with all matrices as f32, row by row.
    #[must_use]
    pub(crate) fn in_rows(&self) -> Self {
        self.map(&mut |_, matrix| matrix.in_rows(), &mut |_, vector| vector.clone())
    }

    /// The same model for learning beside its matrices: learning compares what was answered with what it computes, and it computes without rounding inputs.
    /// Matrices in [`Dtype::Int8`] keep their numbers and their memory.
    #[must_use]
    pub(crate) fn learnable(&self) -> Self {
        self.map(&mut |_, one| one.learnable(), &mut |_, vector| vector.clone())
    }

    /// Bytes of matrices that a copy row by row would not share.
    pub(crate) fn laid_bytes(&self) -> u64 {
        let bytes = |weight: &Weight<HostMatrix, Arc<[f32]>>| match weight {
            Weight::Matrix(HostMatrix { shape, kept: Kept::Laid(laid) }) => laid.dtype().bytes(*shape),
            Weight::Matrix(_) | Weight::Vector(_) => 0,
        };
        self.weights().iter().map(|(_, weight)| bytes(weight)).sum()
    }

    /// Bytes of its weights in memory, without what only one way of computing needs.
    pub fn bytes(&self) -> u64 {
        let bytes = |weight: &Weight<HostMatrix, Arc<[f32]>>| match weight {
            Weight::Matrix(matrix) => matrix.dtype().bytes(matrix.shape),
            Weight::Vector(values) => Dtype::F32.bytes([1, values.len()]),
        };
        self.weights().iter().map(|(_, weight)| bytes(weight)).sum()
    }

    /// The model with its matrices kept in this format; adapters stay f32.
    ///
    /// # Errors
    /// The format cannot keep a value.
    pub fn kept_as(&self, dtype: Dtype) -> Result<Self, LocalModelError> {
        self.convert(&mut Keep(dtype))
    }
}

struct Keep(Dtype);

impl Convert<HostMatrix, Arc<[f32]>> for Keep {
    type Matrix = HostMatrix;
    type Vector = Arc<[f32]>;
    type Error = LocalModelError;

    fn matrix(&mut self, name: &str, matrix: &HostMatrix) -> Result<HostMatrix, LocalModelError> {
        if crate::is_adapter(name) { Ok(matrix.clone()) } else { matrix.kept_as(name, self.0) }
    }

    fn vector(&mut self, _: &str, vector: &Arc<[f32]>) -> Result<Arc<[f32]>, LocalModelError> {
        Ok(vector.clone())
    }
}

/// The digest of a model: every weight with its name and shape, and the scales of adapters. The numbers count, not the format that keeps them,
/// except for [`Dtype::Int8`].
pub fn digest(decoder: &HostDecoder) -> Digest {
    let weights = decoder.weights();
    let digests: Vec<Digest> = weights
        .par_iter()
        .map(|(_, weight)| match weight {
            Weight::Matrix(matrix) => matrix.digest(),
            Weight::Vector(values) => Digest::of(&little_endian(values)),
        })
        .collect();
    let mut bytes = Vec::new();
    for ((name, weight), digest) in weights.iter().zip(digests) {
        bytes.extend_from_slice(name.as_bytes());
        let shape = match weight {
            Weight::Matrix(matrix) => format!(" {:?} ", matrix.shape),
            Weight::Vector(values) => format!(" [{}] ", values.len()),
        };
        bytes.extend_from_slice(shape.as_bytes());
        bytes.extend_from_slice(digest.as_bytes());
    }
    for scale in decoder.scales() {
        bytes.extend_from_slice(&scale.to_le_bytes());
    }
    Digest::of(&bytes)
}
