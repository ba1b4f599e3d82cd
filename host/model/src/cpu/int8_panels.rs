//! Matrices of 8-bit numbers in panels, with a scale for each output and block of [`BLOCK`] inputs.
//!
//! ```text
//! a row of weights, a block:   scale = f16(most / 127)   codes = round(value / (most / 127))        as in GGUF's Q8_0
//! a row of inputs, a block:    scale = most / 127        codes = round to even(value / scale)
//! an output:  sum over blocks, from the first to the last, of  (sum of products of codes) * (scale of inputs * scale of weights)
//! ```
//!
//! The sums inside of a block are whole numbers, which no order changes; the sum over blocks runs in order with fused multiply-adds. A scale
//! belongs to one row. So the bits of a row do not depend on the other rows, on threads, or on the vector instructions.

#![allow(clippy::indexing_slicing, reason = "sizes are fixed by the types or checked at the entry of each function")]

use super::halves::{F16, Half};
use super::panels::LANES;

/// Weights and inputs that share a scale.
pub(crate) const BLOCK: usize = 32;
/// Inputs of an output that lie side by side: a 32-bit lane multiplies and adds four numbers of 8 bits.
pub(super) const GROUP: usize = 4;
/// Groups of a block.
pub(super) const GROUPS: usize = BLOCK / GROUP;
/// Codes of a panel and a block.
pub(super) const PANEL_BLOCK: usize = LANES * BLOCK;
/// Codes of weights are kept without sign, with this offset: the instruction multiplies numbers without a sign by signed ones.
pub(super) const OFFSET: i32 = 128;

/// A matrix in panels of [`LANES`] outputs, block by block.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Int8Panels {
    /// Panel by panel, block by block: groups of [`GROUP`] inputs, `[8, LANES, GROUP]`.
    pub(super) codes: Vec<u8>,
    /// Panel by panel, block by block: [`LANES`] scales in half precision.
    pub(super) scales: Vec<u16>,
}

/// A value that is too large for a scale in half precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TooLarge(pub(crate) f32);

/// The codes and the scale of a block of weights (at most [`BLOCK`]), as ggml's `quantize_row_q8_0_ref` computes them.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops become vector code")]
pub(crate) fn block_of(values: &[f32]) -> Result<([i8; BLOCK], u16), TooLarge> {
    let full = padded(values);
    let most = largest(&full);
    let scale = most / 127.0;
    // A subnormal scale has no finite inverse. Its block is 0 in half precision anyway.
    let inverse = if scale > f32::MIN_POSITIVE { 1.0 / scale } else { 0.0 };
    let mut codes = [0i8; BLOCK];
    for place in 0..BLOCK {
        codes[place] = nearest(full[place] * inverse);
    }
    let scale = F16::narrow(scale).ok_or(TooLarge(most))?;
    Ok((codes, scale))
}

/// A block with zeros behind its values.
#[inline(always)]
fn padded(values: &[f32]) -> [f32; BLOCK] {
    let mut full = [0.0f32; BLOCK];
    let count = values.len().min(BLOCK);
    full[..count].copy_from_slice(&values[..count]);
    full
}

/// The largest magnitude. What is not a number is left out.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops become vector code")]
fn largest(values: &[f32; BLOCK]) -> f32 {
    let mut most = [0.0f32; 8];
    for part in 0..BLOCK / 8 {
        for lane in 0..8 {
            let value = values[part * 8 + lane].abs();
            most[lane] = if value > most[lane] { value } else { most[lane] };
        }
    }
    let mut all = 0.0;
    for value in most {
        all = if value > all { value } else { all };
    }
    all
}

/// Floats near this number, 1.5 · 2^23, are whole, and their lowest bits count from 0. A cast has to check for overflow, and is not vectorised.
const WHOLE: f32 = 12_582_912.0;

/// The code of a whole number from -128 to 127.
#[inline(always)]
fn code_of(whole: f32) -> i8 {
    (whole + WHOLE).to_bits() as i8
}

/// The nearest whole number, of two the one farther from 0: C's `roundf`, of which processors have no instruction.
#[inline(always)]
fn nearest(value: f32) -> i8 {
    let cut = value.trunc();
    let rest = value - cut;
    let up = if rest >= 0.5 { 1.0 } else { 0.0 };
    let down = if rest <= -0.5 { 1.0 } else { 0.0 };
    code_of(cut + up - down)
}

impl Int8Panels {
    /// Blocks of a row.
    pub(super) fn blocks(inputs: usize) -> usize {
        inputs.div_ceil(BLOCK)
    }

    /// Room for a matrix, as zeros.
    pub(super) fn zeros(outputs: usize, inputs: usize) -> Self {
        let blocks = outputs.div_ceil(LANES) * Self::blocks(inputs);
        Self { codes: vec![OFFSET as u8; blocks * PANEL_BLOCK], scales: vec![0; blocks * LANES] }
    }

    /// Reads a row.
    pub(super) fn row(&self, row: usize, inputs: usize, to: &mut [f32]) {
        let (panel, lane) = (row / LANES, row % LANES);
        let blocks = Self::blocks(inputs);
        for (block, to) in to[..inputs].chunks_mut(BLOCK).enumerate() {
            let at = panel * blocks + block;
            let scale = F16::wide(self.scales[at * LANES + lane]);
            let codes = &self.codes[at * PANEL_BLOCK..][..PANEL_BLOCK];
            for (input, to) in to.iter_mut().enumerate() {
                *to = (i32::from(codes[place(lane, input)]) - OFFSET) as f32 * scale;
            }
        }
    }
}

/// The place of a code inside of a panel's block.
#[inline(always)]
pub(super) fn place(lane: usize, input: usize) -> usize {
    (input / GROUP * LANES + lane) * GROUP + input % GROUP
}

/// Writes a block of a row into the codes and scales of its panel. `codes`: those of all blocks of the panel.
#[inline(always)]
pub(super) fn put_block(lane: usize, block: usize, of: &([i8; BLOCK], u16), codes: &mut [u8], scales: &mut [u16]) {
    let (values, scale) = of;
    scales[block * LANES + lane] = *scale;
    let codes = &mut codes[block * PANEL_BLOCK..][..PANEL_BLOCK];
    for group in 0..GROUPS {
        let mut four = [0u8; GROUP];
        for part in 0..GROUP {
            four[part] = (i32::from(values[group * GROUP + part]) + OFFSET) as u8;
        }
        codes[(group * LANES + lane) * GROUP..][..GROUP].copy_from_slice(&four);
    }
}

/// Rows of inputs in codes.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// `[rows, blocks]`: groups of four codes, the first in the lowest byte; padded with 0.
    pub(super) codes: Vec<[i32; GROUPS]>,
    /// `[rows, blocks]`.
    pub(super) scales: Vec<f32>,
    /// `[rows, blocks]`: what the offset of the weights adds to a sum.
    pub(super) offsets: Vec<i32>,
    pub(super) blocks: usize,
}

struct Rounding<'a> {
    x: &'a [f32],
    inputs: usize,
    to: &'a mut Inputs,
}

impl Inputs {
    /// Rounds rows of inputs, `[rows, inputs]`.
    pub(super) fn of(x: &[f32], inputs: usize) -> Self {
        let (rows, blocks) = (x.len() / inputs, Int8Panels::blocks(inputs));
        let mut to = Self {
            codes: vec![[0; GROUPS]; rows * blocks],
            scales: vec![0.0; rows * blocks],
            offsets: vec![0; rows * blocks],
            blocks,
        };
        pulp::Arch::new().dispatch(Rounding { x, inputs, to: &mut to });
        to
    }
}

impl pulp::NullaryFnOnce for Rounding<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { x, inputs, to } = self;
        let rows = x.chunks_exact(inputs);
        let codes = to.codes.chunks_exact_mut(to.blocks);
        let numbers = to.scales.chunks_exact_mut(to.blocks).zip(to.offsets.chunks_exact_mut(to.blocks));
        for ((x, codes), (scales, offsets)) in rows.zip(codes).zip(numbers) {
            let blocks = x.chunks(BLOCK).zip(codes);
            for ((x, codes), (scale, offset)) in blocks.zip(scales.iter_mut().zip(offsets.iter_mut())) {
                let mut rounded = [0i8; BLOCK];
                (*scale, *offset) = round_block(&padded(x), &mut rounded);
                for (code, four) in codes.iter_mut().zip(rounded.as_chunks::<GROUP>().0) {
                    *code = i32::from_le_bytes([four[0] as u8, four[1] as u8, four[2] as u8, four[3] as u8]);
                }
            }
        }
    }
}

/// Rounds a block of inputs. Returns the scale, and what the offset of the weights adds to a sum. If an input is not finite, neither is the scale: the
/// logits are not either then, which is an error.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops become vector code")]
fn round_block(values: &[f32; BLOCK], codes: &mut [i8; BLOCK]) -> (f32, i32) {
    let scale = largest(values) / 127.0;
    let inverse = if scale > f32::MIN_POSITIVE { 1.0 / scale } else { 0.0 };
    let (mut sum, mut wrong) = (0i32, [0.0f32; 8]);
    for part in 0..BLOCK / 8 {
        for lane in 0..8 {
            let value = values[part * 8 + lane];
            let code = code_of((value * inverse).round_ties_even());
            codes[part * 8 + lane] = code;
            sum += i32::from(code);
            wrong[lane] += value * 0.0;
        }
    }
    let mut all = 0.0;
    for value in wrong {
        all += value;
    }
    (scale + all, sum * OFFSET)
}

/// Rows of inputs times panels, of which `outputs` are used; `out` is `[rows, outputs]`. On any processor.
pub(super) struct Int8Product<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) codes: &'a [u8],
    pub(super) scales: &'a [u16],
    pub(super) outputs: usize,
    pub(super) out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Int8Product<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { inputs, codes, scales, outputs, out } = self;
        let blocks = inputs.blocks;
        let panels = codes.chunks_exact(blocks * PANEL_BLOCK).zip(scales.chunks_exact(blocks * LANES));
        for (number, (codes, scales)) in panels.enumerate() {
            let first = number * LANES;
            let width = LANES.min(outputs - first);
            let codes = codes.as_chunks::<PANEL_BLOCK>().0;
            let scales = scales.as_chunks::<LANES>().0;
            for (row, out) in out.chunks_exact_mut(outputs).enumerate() {
                let at = row * blocks;
                let x = &inputs.codes[at..at + blocks];
                let mut sums = [0.0f32; LANES];
                for (block, ((codes, scales), x)) in codes.iter().zip(scales).zip(x).enumerate() {
                    let whole = products(codes, x);
                    let (scale, offset) = (inputs.scales[at + block], inputs.offsets[at + block]);
                    for lane in 0..LANES {
                        let factor = F16::wide(scales[lane]) * scale;
                        sums[lane] = ((whole[lane] - offset) as f32).mul_add(factor, sums[lane]);
                    }
                }
                out[first..first + width].copy_from_slice(&sums[..width]);
            }
        }
    }
}

/// The sums of products of a block.
#[inline(always)]
fn products(codes: &[u8; PANEL_BLOCK], x: &[i32; GROUPS]) -> [i32; LANES] {
    let mut sums = [0i32; LANES];
    for (codes, x) in codes.as_chunks::<{ LANES * GROUP }>().0.iter().zip(x) {
        let x = x.to_le_bytes();
        for (sum, codes) in sums.iter_mut().zip(codes.as_chunks::<GROUP>().0) {
            for (code, x) in codes.iter().zip(x) {
                *sum += i32::from(*code) * i32::from(x as i8);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_weights_is_rounded_to_its_largest_value() {
        let check = |values: &[f32], codes: &[i8], scale: f32| {
            let (found, bits) = block_of(values).unwrap();
            assert_eq!((&found[..codes.len()], F16::wide(bits)), (codes, scale), "{values:?}");
            assert!(found[codes.len()..].iter().all(|code| *code == 0));
        };
        check(&[], &[], 0.0);
        check(&[0.0; 4], &[0; 4], 0.0);
        check(&[127.0, -127.0, 1.0, 0.5, -0.5, 0.49], &[127, -127, 1, 1, -1, 0], 1.0);
        check(&[127.0, 0.499_999_97, -0.499_999_97, 2.5, -3.5], &[127, 0, 0, 3, -4], 1.0);
        check(&[1e-44, -1e-44], &[0, 0], 0.0);
        assert_eq!(block_of(&[1e9]), Err(TooLarge(1e9)));
    }

    #[test]
    fn a_block_of_inputs_is_rounded_and_its_sum_counted() {
        let mut values = [0.0f32; BLOCK];
        values[..5].copy_from_slice(&[-254.0, 3.0, 1.0, 5.0, 254.0]);
        let mut codes = [0; BLOCK];
        // Halves go to the even number.
        assert_eq!(round_block(&values, &mut codes), (2.0, (2 + 2) * OFFSET));
        assert_eq!(codes[..6], [-127, 2, 0, 2, 127, 0]);
        assert_eq!(round_block(&[0.0; BLOCK], &mut codes), (0.0, 0));
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            values[7] = wrong;
            assert!(round_block(&values, &mut codes).0.is_nan(), "{wrong}");
        }
    }
}
