//! Matrices of 16-bit floats in panels. A product computes the bits that it would compute with the same numbers in f32: each weight becomes an
//! f32 when it is read.

#![allow(clippy::indexing_slicing, reason = "sizes are fixed by the types or checked at the entry of each function")]

use super::panels::{LANES, ROWS, ROWS_AT_ONCE, put};

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

/// Rows times panels, as [`super::panels::rows_times_panels`]: `x` is `[rows, inputs]`, `stride` the distance between the rows of `out`.
pub(super) struct HalfProduct<'a, H> {
    pub(super) x: &'a [f32],
    pub(super) inputs: usize,
    pub(super) panels: &'a [u16],
    pub(super) outputs: usize,
    pub(super) out: &'a mut [f32],
    pub(super) of: std::marker::PhantomData<H>,
}

impl<H: Half> pulp::WithSimd for HalfProduct<'_, H> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self { x, inputs, panels, outputs, out, .. } = self;
        match S::F32_LANES {
            16 => product_of::<S, H, 1>(simd, x, inputs, panels, outputs, out),
            8 => product_of::<S, H, 2>(simd, x, inputs, panels, outputs, out),
            4 => product_of::<S, H, 4>(simd, x, inputs, panels, outputs, out),
            _ => product_of::<S, H, LANES>(simd, x, inputs, panels, outputs, out),
        }
    }
}

#[inline(always)]
fn product_of<S: pulp::Simd, H: Half, const N: usize>(
    simd: S,
    x: &[f32],
    inputs: usize,
    panels: &[u16],
    outputs: usize,
    out: &mut [f32],
) {
    for (x, out) in x.chunks(inputs * ROWS_AT_ONCE).zip(out.chunks_mut(outputs * ROWS_AT_ONCE)) {
        for (number, panel) in panels.chunks_exact(inputs * LANES).enumerate() {
            let first = number * LANES;
            let width = LANES.min(outputs - first);
            let panel = panel.as_chunks::<LANES>().0;
            for (x, out) in x.chunks(inputs * ROWS).zip(out.chunks_mut(outputs * ROWS)) {
                let out = &mut out[first..];
                match x.len() / inputs {
                    6 => tile::<S, H, 6, N>(simd, x, panel, out, outputs, width),
                    5 => tile::<S, H, 5, N>(simd, x, panel, out, outputs, width),
                    4 => tile::<S, H, 4, N>(simd, x, panel, out, outputs, width),
                    3 => tile::<S, H, 3, N>(simd, x, panel, out, outputs, width),
                    2 => tile::<S, H, 2, N>(simd, x, panel, out, outputs, width),
                    _ => tile::<S, H, 1, N>(simd, x, panel, out, outputs, width),
                }
            }
        }
    }
}

/// Sums of `R` rows over one panel, of which the first `width` outputs are used.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops are unrolled, so that sums stay in registers")]
fn tile<S: pulp::Simd, H: Half, const R: usize, const N: usize>(
    simd: S,
    x: &[f32],
    panel: &[[u16; LANES]],
    out: &mut [f32],
    stride: usize,
    width: usize,
) {
    let inputs = panel.len();
    // A closure would not be inlined here, and the length of a row not known: each value would be checked.
    let mut rows = [&x[..0]; R];
    for row in 0..R {
        rows[row] = &x[row * inputs..row * inputs + panel.len()];
    }
    let mut sums = [[simd.splat_f32s(0.0); N]; R];
    for (input, halves) in panel.iter().enumerate() {
        let mut wide = [0.0f32; LANES];
        for lane in 0..LANES {
            wide[lane] = H::wide(halves[lane]);
        }
        let weights = &S::as_simd_f32s(&wide).0.as_chunks::<N>().0[0];
        for row in 0..R {
            let value = simd.splat_f32s(rows[row][input]);
            for part in 0..N {
                sums[row][part] = simd.mul_add_f32s(value, weights[part], sums[row][part]);
            }
        }
    }
    for row in 0..R {
        put::<S, N, false>(simd, sums[row], &mut out[row * stride..][..width]);
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
