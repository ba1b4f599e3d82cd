//! Tensors of a GGUF file, piece by piece: a model takes little more memory than it has already.

use crate::cpu::{BLOCK, block_of};
use crate::gguf::Q8_0;
use crate::weight_files::Stored;
use crate::{HostMatrix, LocalModelError};
use std::sync::Arc;

/// Values that are converted at once, in whole rows.
const PIECE: usize = 1 << 20;

/// The number format of matrices in a GGUF file. Vectors are always f32, as llama.cpp's converter writes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GgufNumbers {
    /// Unchanged: f32.
    #[default]
    F32,
    /// Rounded to half precision.
    F16,
    /// Rounded to bfloat16.
    BF16,
    /// Blocks of 32 values of 8 bits with a scale in half precision. A matrix whose rows are not made of whole blocks is written in half precision, as
    /// llama.cpp's converter does.
    Q8_0,
}

impl GgufNumbers {
    /// Its name: `f32`, `f16`, `bf16` or `q8_0`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::Q8_0 => "q8_0",
        }
    }

    /// The number of ggml's type.
    pub(super) fn kind(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8_0 => 8,
            Self::BF16 => 30,
        }
    }

    /// The number of llama.cpp's type of files.
    pub(super) fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8_0 => 7,
            Self::BF16 => 32,
        }
    }

    fn bytes(self, values: u64) -> u64 {
        match self {
            Self::F32 => values * 4,
            Self::F16 | Self::BF16 => values * 2,
            Self::Q8_0 => values / BLOCK as u64 * Q8_0 as u64,
        }
    }

    /// The values as bytes.
    fn encode(self, name: &str, values: &[f32]) -> Result<Vec<u8>, LocalModelError> {
        match self {
            Self::F32 => Stored::F32.bytes(name, values),
            Self::F16 => Stored::F16.bytes(name, values),
            Self::BF16 => Stored::BF16.bytes(name, values),
            Self::Q8_0 => {
                let mut bytes = Vec::with_capacity(values.len() / BLOCK * Q8_0);
                for block in values.chunks(BLOCK) {
                    let (codes, scale) = block_of(block).map_err(|most| {
                        let why = format!("the weight {name} holds {}, too large for q8_0; write bf16 or f32", most.0);
                        LocalModelError::Config(why)
                    })?;
                    bytes.extend(scale.to_le_bytes());
                    bytes.extend(codes.map(i8::cast_unsigned));
                }
                Ok(bytes)
            }
        }
    }
}

/// Where the numbers of a tensor come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Matrix(HostMatrix),
    Vector(Arc<[f32]>),
}

/// A tensor of a file.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) source: Source,
    /// The format of a matrix.
    pub(super) numbers: GgufNumbers,
    /// Rows of a head whose first and second halves are written in pairs.
    pub(super) paired: Option<usize>,
}

/// The row that comes at a place of the file, where the rows of a head are in pairs: the first row of each pair is of the first half of the head.
fn row_at(place: usize, paired: Option<usize>) -> usize {
    match paired.filter(|head| *head > 1) {
        None => place,
        Some(head) => place - place % head + place % 2 * (head / 2) + place % head / 2,
    }
}

impl Tensor {
    /// Rows first.
    pub(super) fn shape(&self) -> Vec<usize> {
        match &self.source {
            Source::Matrix(matrix) => matrix.shape.to_vec(),
            Source::Vector(values) => vec![values.len()],
        }
    }

    /// The format in which it is written.
    pub(super) fn format(&self) -> GgufNumbers {
        match (&self.source, self.numbers) {
            (Source::Vector(_), _) => GgufNumbers::F32,
            (Source::Matrix(matrix), GgufNumbers::Q8_0) if !matrix.shape[1].is_multiple_of(BLOCK) => GgufNumbers::F16,
            (Source::Matrix(_), numbers) => numbers,
        }
    }

    /// Bytes in the file, without padding.
    pub(super) fn bytes(&self) -> u64 {
        self.format().bytes(self.shape().iter().map(|size| *size as u64).product())
    }

    /// Gives its bytes, piece by piece.
    ///
    /// # Errors
    /// Those of `to`, or a value is too large for the format.
    pub(super) fn pieces(
        &self,
        to: &mut dyn FnMut(&[u8]) -> Result<(), LocalModelError>,
    ) -> Result<(), LocalModelError> {
        match &self.source {
            Source::Vector(values) => {
                let ordered = (0..values.len()).filter_map(|place| values.get(row_at(place, self.paired)).copied());
                to(&self.format().encode(&self.name, &ordered.collect::<Vec<_>>())?)
            }
            Source::Matrix(matrix) => {
                let [rows, columns] = matrix.shape;
                let at_once = (PIECE / columns.max(1)).max(1);
                for first in (0..rows).step_by(at_once) {
                    let count = at_once.min(rows - first);
                    let mut values = vec![0.0; count * columns];
                    for (place, to) in (first..).zip(values.chunks_exact_mut(columns.max(1))) {
                        matrix.read_row(row_at(place, self.paired), to);
                    }
                    to(&self.format().encode(&self.name, &values)?)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_head_are_written_in_pairs_of_its_halves() {
        let check = |rows: usize, paired: Option<usize>, expect: &[usize]| {
            let order: Vec<usize> = (0..rows).map(|place| row_at(place, paired)).collect();
            assert_eq!(order, expect, "{paired:?}");
        };
        check(4, None, &[0, 1, 2, 3]);
        check(8, Some(4), &[0, 2, 1, 3, 4, 6, 5, 7]);
        check(6, Some(6), &[0, 3, 1, 4, 2, 5]);
        check(4, Some(2), &[0, 1, 2, 3]);
    }

    #[test]
    fn a_matrix_is_written_as_asked_and_a_vector_as_f32() {
        let check = |source: Source, numbers: GgufNumbers, expect: (GgufNumbers, u64)| {
            let tensor = Tensor { name: "t".into(), source, numbers, paired: None };
            let mut bytes = 0;
            tensor
                .pieces(&mut |piece| {
                    bytes += piece.len() as u64;
                    Ok(())
                })
                .unwrap();
            assert_eq!((tensor.format(), tensor.bytes()), expect);
            assert_eq!(bytes, expect.1);
        };
        let matrix = |columns| Source::Matrix(HostMatrix::new("t", [2, columns], vec![1.0; 2 * columns]).unwrap());
        check(matrix(64), GgufNumbers::F32, (GgufNumbers::F32, 512));
        check(matrix(64), GgufNumbers::BF16, (GgufNumbers::BF16, 256));
        check(matrix(64), GgufNumbers::Q8_0, (GgufNumbers::Q8_0, 136));
        // No whole blocks.
        check(matrix(48), GgufNumbers::Q8_0, (GgufNumbers::F16, 192));
        check(Source::Vector(vec![1.0; 64].into()), GgufNumbers::Q8_0, (GgufNumbers::F32, 256));
    }

    #[test]
    fn a_value_that_is_too_large_is_refused_by_name() {
        let matrix = HostMatrix::new("t", [1, 32], vec![1e8; 32]).unwrap();
        for (numbers, expect) in [(GgufNumbers::F16, "too large for f16"), (GgufNumbers::Q8_0, "too large for q8_0")] {
            let tensor = Tensor {
                name: "blk.0.attn_v.weight".into(),
                source: Source::Matrix(matrix.clone()),
                numbers,
                paired: None,
            };
            let error = tensor.pieces(&mut |_| Ok(())).unwrap_err().to_string();
            assert!(error.contains("blk.0.attn_v.weight") && error.contains(expect), "{error}");
        }
    }
}
