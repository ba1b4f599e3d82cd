//! The product of 8-bit numbers with the instruction `vpdpbusd` (AVX-512 VNNI), which multiplies and adds 64 pairs at once.
//!
//! The only unsafe code of this crate: the standard library's vector instructions of a processor may be called only after a check that the
//! processor has them, and no safe crate offers this one. The bits are those of [`Int8Product`], which a test compares.

#![allow(
    unsafe_code,
    reason = "calls a function with instructions that the line before has found on this processor, and loads from arrays"
)]
#![allow(clippy::indexing_slicing, reason = "sizes are checked at the entry of each function")]

use super::int8_panels::{GROUP, GROUPS, Int8Product, PANEL_BLOCK};
use super::panels::LANES;
use std::arch::x86_64::{
    __m256i, __m512, __m512i, _mm256_loadu_si256, _mm512_add_epi32, _mm512_cvtepi32_ps, _mm512_cvtph_ps,
    _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_si512, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_setzero_si512, _mm512_storeu_ps, _mm512_sub_epi32,
};

/// Rows that are multiplied with a panel at once: their sums and those of the block fill half of the registers.
const ROWS: usize = 8;
/// Rows that are multiplied with one panel before the next panel is read: their codes stay in the second-level cache.
const ROWS_AT_ONCE: usize = 128;

/// Whether this processor has the instructions.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni")
}

/// Computes the product if this processor can.
///
/// # Errors
/// It cannot: the product is given back.
pub(super) fn compute(product: Int8Product<'_>) -> Result<(), Int8Product<'_>> {
    if !is_here() {
        return Err(product);
    }
    // SAFETY: the processor has both features.
    unsafe { rows_times_panels(product) };
    Ok(())
}

#[target_feature(enable = "avx512f,avx512vnni")]
fn rows_times_panels(product: Int8Product<'_>) {
    let Int8Product { inputs, codes, scales, outputs, out } = product;
    let blocks = inputs.blocks;
    let rows = out.len() / outputs;
    for first_row in (0..rows).step_by(ROWS_AT_ONCE) {
        let last_row = (first_row + ROWS_AT_ONCE).min(rows);
        let panels = codes.chunks_exact(blocks * PANEL_BLOCK).zip(scales.chunks_exact(blocks * LANES));
        for (number, (codes, scales)) in panels.enumerate() {
            let first = number * LANES;
            let panel = Panel {
                codes: codes.as_chunks::<PANEL_BLOCK>().0,
                scales: scales.as_chunks::<LANES>().0,
                width: LANES.min(outputs - first),
            };
            for row in (first_row..last_row).step_by(ROWS) {
                let count = ROWS.min(last_row - row);
                let x = Rows {
                    codes: &inputs.codes[row * blocks..(row + count) * blocks],
                    scales: &inputs.scales[row * blocks..(row + count) * blocks],
                    offsets: &inputs.offsets[row * blocks..(row + count) * blocks],
                };
                let out = &mut out[row * outputs + first..];
                match count {
                    8 => tile::<8, 1>(&panel, &x, out, outputs),
                    7 => tile::<7, 1>(&panel, &x, out, outputs),
                    6 => tile::<6, 1>(&panel, &x, out, outputs),
                    5 => tile::<5, 1>(&panel, &x, out, outputs),
                    4 => tile::<4, 1>(&panel, &x, out, outputs),
                    3 => tile::<3, 2>(&panel, &x, out, outputs),
                    2 => tile::<2, 2>(&panel, &x, out, outputs),
                    _ => tile::<1, 4>(&panel, &x, out, outputs),
                }
            }
        }
    }
}

struct Panel<'a> {
    /// Block by block.
    codes: &'a [[u8; PANEL_BLOCK]],
    scales: &'a [[u16; LANES]],
    width: usize,
}

struct Rows<'a> {
    /// `[rows, blocks]`.
    codes: &'a [[i32; GROUPS]],
    scales: &'a [f32],
    offsets: &'a [i32],
}

/// `R` rows over one panel. The whole numbers of a block are summed in `C` chains, so that an instruction does not wait for the one before.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
#[allow(clippy::needless_range_loop, reason = "counted loops are unrolled, so that sums stay in registers")]
fn tile<const R: usize, const C: usize>(panel: &Panel<'_>, x: &Rows<'_>, out: &mut [f32], stride: usize) {
    let blocks = panel.codes.len();
    // No closures: they would not have these instructions.
    let mut codes = [&x.codes[..0]; R];
    let mut scales = [&x.scales[..0]; R];
    let mut offsets = [&x.offsets[..0]; R];
    for row in 0..R {
        codes[row] = &x.codes[row * blocks..(row + 1) * blocks];
        scales[row] = &x.scales[row * blocks..(row + 1) * blocks];
        offsets[row] = &x.offsets[row * blocks..(row + 1) * blocks];
    }
    let mut sums = [_mm512_setzero_ps(); R];
    for (block, (weights, of_weights)) in panel.codes.iter().zip(panel.scales).enumerate() {
        let mut whole = [[_mm512_setzero_si512(); C]; R];
        let (groups, _) = weights.as_chunks::<{ LANES * GROUP }>();
        for group in 0..GROUPS {
            let weights = load(&groups[group]);
            for row in 0..R {
                let four = _mm512_set1_epi32(codes[row][block][group]);
                whole[row][group % C] = _mm512_dpbusd_epi32(whole[row][group % C], weights, four);
            }
        }
        let of_weights = wide(of_weights);
        for row in 0..R {
            let mut all = whole[row][0];
            for chain in 1..C {
                all = _mm512_add_epi32(all, whole[row][chain]);
            }
            let all = _mm512_sub_epi32(all, _mm512_set1_epi32(offsets[row][block]));
            let factor = _mm512_mul_ps(of_weights, _mm512_set1_ps(scales[row][block]));
            sums[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(all), factor, sums[row]);
        }
    }
    for row in 0..R {
        let all = values(sums[row]);
        out[row * stride..][..panel.width].copy_from_slice(&all[..panel.width]);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(codes: &[u8; LANES * GROUP]) -> __m512i {
    // SAFETY: the array has 64 bytes, and the instruction needs no alignment.
    unsafe { _mm512_loadu_si512(codes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn wide(halves: &[u16; LANES]) -> __m512 {
    // SAFETY: the array has 32 bytes, and the instruction needs no alignment.
    let halves: __m256i = unsafe { _mm256_loadu_si256(halves.as_ptr().cast()) };
    _mm512_cvtph_ps(halves)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn values(sums: __m512) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    // SAFETY: the array has 64 bytes, and the instruction needs no alignment.
    unsafe { _mm512_storeu_ps(all.as_mut_ptr(), sums) };
    all
}
