//! How the matrices of a model are kept in memory.

use crate::cpu::{BLOCK, LANES};

/// The number format of a matrix in memory. Vectors (norms, biases) are always f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 32-bit floats: 4 bytes a weight.
    F32,
    /// bfloat16: 2 bytes. Computes the bits of the same numbers in f32.
    BF16,
    /// Half precision: 2 bytes. Computes the bits of the same numbers in f32.
    F16,
    /// Whole numbers of 8 bits with a scale in half precision for each block of 32 along a row: 1.06 bytes. Inputs of products are rounded
    /// in the same way, with f32 scales.
    Int8,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::F32, Self::BF16, Self::F16, Self::Int8];

    /// Its name: `f32`, `bf16`, `f16` or `int8`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::BF16 => "bf16",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        }
    }

    /// The format with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// All names, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Bytes of a matrix `[outputs, inputs]` in this format, without padding.
    pub fn bytes(self, [outputs, inputs]: [usize; 2]) -> u64 {
        let (outputs, inputs) = (outputs as u64, inputs as u64);
        let row = match self {
            Self::F32 => inputs.saturating_mul(4),
            Self::BF16 | Self::F16 => inputs.saturating_mul(2),
            Self::Int8 => inputs.div_ceil(BLOCK as u64).saturating_mul(BLOCK as u64 + 2),
        };
        outputs.saturating_mul(row)
    }

    /// The same with the padding of a matrix that is laid out.
    pub(crate) fn padded_bytes(self, [outputs, inputs]: [usize; 2]) -> u64 {
        self.bytes([outputs.checked_next_multiple_of(LANES).unwrap_or(usize::MAX), inputs])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_names_and_sizes() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::named(dtype.name()), Some(dtype));
        }
        assert_eq!(Dtype::named("int4"), None);
        assert_eq!(Dtype::ALL.map(|dtype| dtype.bytes([2, 64])), [512, 256, 256, 136]);
        assert_eq!(Dtype::Int8.bytes([1, 33]), 68);
        assert_eq!((Dtype::F32.padded_bytes([1, 2]), Dtype::F32.bytes([usize::MAX, 8])), (128, u64::MAX));
    }
}
