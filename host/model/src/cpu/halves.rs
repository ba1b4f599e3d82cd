//! Floats of 16 bits. A product computes the bits that it would compute with the same numbers in f32: each weight becomes an f32 when it is read.

/// A 16-bit float.
pub(crate) trait Half: Copy + Send + Sync + 'static {
    /// The f32 of the same value, which is finite.
    fn wide(bits: u16) -> f32;
    /// The f32 of any value in a file; not a number, if it is infinite.
    fn read(bytes: [u8; 2]) -> f32;
    /// The nearest value of this format; of two, the even one. `None`: it is too large.
    fn narrow(value: f32) -> Option<u16>;
}

/// bfloat16.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bf16;
/// Half precision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct F16;

impl Half for Bf16 {
    #[inline(always)]
    fn wide(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    #[inline(always)]
    fn read(bytes: [u8; 2]) -> f32 {
        Self::wide(u16::from_le_bytes(bytes))
    }

    #[inline(always)]
    fn narrow(value: f32) -> Option<u16> {
        let bits = value.to_bits();
        // Half of the last place, and one more if that is odd: of two values the even one.
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        if value.is_finite() && rounded & 0x7f80 != 0x7f80 { Some(rounded as u16) } else { None }
    }
}

impl Half for F16 {
    /// The exponent is moved by a product, which is exact for small numbers too; a loop over it becomes vector code.
    #[inline(always)]
    fn wide(bits: u16) -> f32 {
        let bits = u32::from(bits);
        // 2^112, the distance of the biases.
        let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((112 + 127) << 23);
        f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
    }

    #[inline(always)]
    fn read(bytes: [u8; 2]) -> f32 {
        let bits = u16::from_le_bytes(bytes);
        if bits & 0x7c00 == 0x7c00 { f32::NAN } else { Self::wide(bits) }
    }

    fn narrow(value: f32) -> Option<u16> {
        let half = half::f16::from_f32(value);
        half.is_finite().then(|| half.to_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_number_of_16_bits_becomes_its_f32() {
        for bits in 0..=u16::MAX {
            let (brain, half) = (half::bf16::from_bits(bits), half::f16::from_bits(bits));
            if brain.is_finite() {
                assert_eq!(Bf16::wide(bits).to_bits(), brain.to_f32().to_bits(), "{bits:x}");
                assert_eq!(Bf16::narrow(brain.to_f32()), Some(bits));
            }
            if half.is_finite() {
                assert_eq!(F16::wide(bits).to_bits(), half.to_f32().to_bits(), "{bits:x}");
                assert_eq!(F16::narrow(half.to_f32()), Some(bits));
            }
        }
        for bits in [0x3f80_7fffu32, 0x3f80_8000, 0x3f81_8000, 0x0000_8000, 0x8000_8001, 0x7f7f_7fff, 0x1234_5678] {
            let value = f32::from_bits(bits);
            assert_eq!(Bf16::narrow(value), Some(half::bf16::from_f32(value).to_bits()), "{bits:x}");
        }
        assert_eq!(Bf16::narrow(f32::NAN), None);
        assert_eq!((F16::narrow(70_000.0), Bf16::narrow(f32::MAX)), (None, None));
        assert!(
            F16::read(half::f16::INFINITY.to_le_bytes()).is_nan()
                && !Bf16::read(half::bf16::INFINITY.to_le_bytes()).is_finite()
        );
    }
}
