//! Products with weights that become f32 before they are multiplied, a tile at a time.
//!
//! ```text
//! back:     out[row, input]  += sum over outputs of dy[row, output] · w[output, input]      through a matrix that does not learn
//! forward:  out[row, output]  = sum over inputs of x[row, input] · w[output, input]         int8 beside inputs that are not rounded
//! ```
//!
//! Both read panels as inference does, so a matrix is in memory once. The back product transposes its tiles. Unpacking a tile costs about a multiply-add
//! for each of its weights, and all rows share it. Sums run from the first to the last output or input with fused multiply-adds, those of the back product
//! from what `out` holds: neither tiles nor other rows change a bit.

#![allow(clippy::indexing_slicing, reason = "sizes are fixed by the types or checked at the entry of each function")]

use super::half_panels::{F16, Half};
use super::int8_panels::{BLOCK, GROUP, GROUPS, Int8Panels, OFFSET};
use super::panels::{LANES, ROWS, add_products, put, rows_times_panels, take};
use std::marker::PhantomData;

/// Outputs whose weights are unpacked at once in the back product. A tile of them is 16 KiB, half of a small first-level cache.
pub(super) const OUTPUTS_AT_ONCE: usize = 256;
/// Rows that share an unpacked panel in the forward product. With a thousand inputs they still fit a core's second-level cache.
const ROWS_AT_ONCE: usize = 96;

/// The weights of panels, read as f32.
pub(super) trait Weights: Copy {
    /// The weights from one input to the outputs of a panel.
    fn read(self, panel: usize, input: usize) -> [f32; LANES];
}

/// Weights in f32.
#[derive(Clone, Copy)]
pub(super) struct Singles<'a> {
    pub(super) values: &'a [[f32; LANES]],
    pub(super) inputs: usize,
}

impl Weights for Singles<'_> {
    #[inline(always)]
    fn read(self, panel: usize, input: usize) -> [f32; LANES] {
        self.values[panel * self.inputs + input]
    }
}

/// Weights of 16 bits.
pub(super) struct Halves<'a, H> {
    values: &'a [[u16; LANES]],
    inputs: usize,
    of: PhantomData<H>,
}

impl<'a, H> Halves<'a, H> {
    pub(super) fn of(values: &'a [u16], inputs: usize) -> Self {
        Self { values: values.as_chunks::<LANES>().0, inputs, of: PhantomData }
    }
}

impl<H> Clone for Halves<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Halves<'_, H> {}

impl<H: Half> Weights for Halves<'_, H> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "counted loops become vector code")]
    fn read(self, panel: usize, input: usize) -> [f32; LANES] {
        let from = &self.values[panel * self.inputs + input];
        let mut to = [0.0; LANES];
        for lane in 0..LANES {
            to[lane] = H::wide(from[lane]);
        }
        to
    }
}

/// Weights of 8 bits: a code times the scale of its block.
#[derive(Clone, Copy)]
pub(super) struct Scaled<'a> {
    /// `[panels, blocks, groups]`: the codes of [`GROUP`] inputs for each output.
    codes: &'a [[[u8; GROUP]; LANES]],
    /// `[panels, blocks]`.
    scales: &'a [[u16; LANES]],
    blocks: usize,
}

impl<'a> Scaled<'a> {
    pub(super) fn of(panels: &'a Int8Panels, inputs: usize) -> Self {
        let codes = panels.codes.as_chunks::<GROUP>().0.as_chunks::<LANES>().0;
        Self { codes, scales: panels.scales.as_chunks::<LANES>().0, blocks: Int8Panels::blocks(inputs) }
    }
}

impl Weights for Scaled<'_> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "counted loops become vector code")]
    fn read(self, panel: usize, input: usize) -> [f32; LANES] {
        let block = panel * self.blocks + input / BLOCK;
        let codes = &self.codes[block * GROUPS + input % BLOCK / GROUP];
        let scales = &self.scales[block];
        let shift = input % GROUP * 8;
        let mut to = [0.0; LANES];
        for lane in 0..LANES {
            let code = (u32::from_le_bytes(codes[lane]) >> shift & 0xff).cast_signed() - OFFSET;
            to[lane] = code as f32 * F16::wide(scales[lane]);
        }
        to
    }
}

/// Adds the product of rows with some outputs of a matrix, not transposed.
pub(super) struct BackProduct<'a, W> {
    pub(super) weights: W,
    /// Of the matrix.
    pub(super) inputs: usize,
    /// The first output, a multiple of [`LANES`], and how many.
    pub(super) outputs: (usize, usize),
    /// `[rows, stride]`, of which each row begins with the gradients of these outputs.
    pub(super) dy: &'a [f32],
    pub(super) stride: usize,
    /// `[rows, inputs]`.
    pub(super) out: &'a mut [f32],
}

impl<W: Weights> pulp::WithSimd for BackProduct<'_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.compute::<S, 1>(simd),
            8 => self.compute::<S, 2>(simd),
            4 => self.compute::<S, 4>(simd),
            _ => self.compute::<S, LANES>(simd),
        }
    }
}

impl<W: Weights> BackProduct<'_, W> {
    /// With panels of `N` vectors.
    #[inline(always)]
    fn compute<S: pulp::Simd, const N: usize>(self, simd: S) {
        let Self { weights, inputs, outputs: (first, count), dy, stride, out } = self;
        let rows = out.len() / inputs;
        let mut tile = vec![[0.0f32; LANES]; OUTPUTS_AT_ONCE];
        for start in (0..count).step_by(OUTPUTS_AT_ONCE) {
            let length = OUTPUTS_AT_ONCE.min(count - start);
            for input in (0..inputs).step_by(LANES) {
                let width = LANES.min(inputs - input);
                for part in 0..length.div_ceil(LANES) {
                    let to = &mut tile[part * LANES..(part + 1) * LANES];
                    unpack_transposed(weights, (first + start) / LANES + part, input, width, to);
                }
                let panel = S::as_simd_f32s(tile[..length].as_flattened()).0.as_chunks::<N>().0;
                for row in (0..rows).step_by(ROWS) {
                    let x = &dy[row * stride + start..];
                    let out = &mut out[row * inputs + input..];
                    match rows - row {
                        1 => continued::<S, 1, N>(simd, (x, stride), panel, (out, inputs), width),
                        2 => continued::<S, 2, N>(simd, (x, stride), panel, (out, inputs), width),
                        3 => continued::<S, 3, N>(simd, (x, stride), panel, (out, inputs), width),
                        4 => continued::<S, 4, N>(simd, (x, stride), panel, (out, inputs), width),
                        5 => continued::<S, 5, N>(simd, (x, stride), panel, (out, inputs), width),
                        _ => continued::<S, 6, N>(simd, (x, stride), panel, (out, inputs), width),
                    }
                }
            }
        }
    }
}

/// The weights of a panel from `width` inputs on, output by output.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops become vector code")]
fn unpack_transposed<W: Weights>(weights: W, panel: usize, input: usize, width: usize, to: &mut [[f32; LANES]]) {
    let mut tile = [[0.0f32; LANES]; LANES];
    for place in 0..width {
        tile[place] = weights.read(panel, input + place);
    }
    if let Some(to) = to.first_chunk_mut::<LANES>() {
        for lane in 0..LANES {
            for place in 0..LANES {
                to[lane][place] = tile[place][lane];
            }
        }
    }
}

/// Sums of `R` rows over one panel, which continue those in `out`. Both matrices have a distance between their rows.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops are unrolled, so that sums stay in registers")]
fn continued<S: pulp::Simd, const R: usize, const N: usize>(
    simd: S,
    (x, x_stride): (&[f32], usize),
    panel: &[[S::f32s; N]],
    (out, stride): (&mut [f32], usize),
    width: usize,
) {
    let mut sums = [[simd.splat_f32s(0.0); N]; R];
    for row in 0..R {
        sums[row] = take::<S, N>(simd, &out[row * stride..][..width]);
    }
    let sums = add_products(simd, x, x_stride, panel, sums);
    for row in 0..R {
        put::<S, N, false>(simd, sums[row], &mut out[row * stride..][..width]);
    }
}

/// Rows times panels from `first` on, of which `outputs` are used; `out` is `[rows, outputs]`.
pub(super) struct ForwardProduct<'a, W> {
    pub(super) weights: W,
    /// `[rows, inputs]`.
    pub(super) x: &'a [f32],
    pub(super) inputs: usize,
    pub(super) first: usize,
    pub(super) outputs: usize,
    pub(super) out: &'a mut [f32],
}

impl<W: Weights> pulp::WithSimd for ForwardProduct<'_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self { weights, x, inputs, first, outputs, out } = self;
        let mut panel = vec![[0.0f32; LANES]; inputs];
        for (x, out) in x.chunks(inputs * ROWS_AT_ONCE).zip(out.chunks_mut(outputs * ROWS_AT_ONCE)) {
            for part in 0..outputs.div_ceil(LANES) {
                for (input, to) in panel.iter_mut().enumerate() {
                    *to = weights.read(first + part, input);
                }
                let begin = part * LANES;
                let width = LANES.min(outputs - begin);
                let values = panel.as_flattened();
                rows_times_panels::<S, false>(simd, x, inputs, values, width, &mut out[begin..], outputs);
            }
        }
    }
}
