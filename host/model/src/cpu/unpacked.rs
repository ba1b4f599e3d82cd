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

use super::halves::{F16, Half};
use super::int8_panels::{BLOCK, GROUP, GROUPS, Int8Panels, OFFSET};
use super::panels::LANES;
use super::product::{ROWS, Rows, Single, WIDE_PANELS, WIDE_ROWS, mode, rows_times_panels};
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
            16 => self.compute::<S, 1, WIDE_PANELS, WIDE_ROWS>(simd),
            8 => self.compute::<S, 2, 1, ROWS>(simd),
            4 => self.compute::<S, 4, 1, ROWS>(simd),
            _ => self.compute::<S, LANES, 1, ROWS>(simd),
        }
    }
}

impl<W: Weights> BackProduct<'_, W> {
    /// With panels of `N` vectors, `P` panels and `R` rows at once.
    #[inline(always)]
    fn compute<S: pulp::Simd, const N: usize, const P: usize, const R: usize>(self, simd: S) {
        let Self { weights, inputs, outputs: (first, count), dy, stride, out } = self;
        let rows = out.len() / inputs;
        let mut dy_packed = Vec::new();
        let mut tiles = vec![[[0.0f32; LANES]; OUTPUTS_AT_ONCE]; P];
        for start in (0..count).step_by(OUTPUTS_AT_ONCE) {
            let length = OUTPUTS_AT_ONCE.min(count - start);
            let dy = Rows::<R>::of(&dy[start..], (rows, stride), (length, inputs), &mut dy_packed);
            for input in (0..inputs).step_by(LANES * P) {
                let width = (LANES * P).min(inputs - input);
                for (part, tile) in tiles.iter_mut().enumerate().take(width.div_ceil(LANES)) {
                    let (input, width) = (input + part * LANES, LANES.min(width - part * LANES));
                    for (number, to) in tile.chunks_exact_mut(LANES).enumerate().take(length.div_ceil(LANES)) {
                        unpack_transposed(weights, (first + start) / LANES + number, input, width, to);
                    }
                }
                if width > (P - 1) * LANES {
                    let mut at = [&tiles[0][..length]; P];
                    for part in 0..P {
                        at[part] = &tiles[part][..length];
                    }
                    let out = (&mut out[input..], inputs);
                    dy.times::<S, Single, N, P, { mode::CONTINUE }>(simd, at, out, width);
                } else {
                    for (part, tile) in tiles.iter().enumerate().take(width.div_ceil(LANES)) {
                        let (out, width) = ((&mut out[input + part * LANES..], inputs), width - part * LANES);
                        dy.times::<S, Single, N, 1, { mode::CONTINUE }>(simd, [&tile[..length]], out, width);
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
                rows_times_panels::<S, Single, { mode::WRITE }>(
                    simd,
                    x,
                    inputs,
                    values,
                    width,
                    &mut out[begin..],
                    outputs,
                );
            }
        }
    }
}
