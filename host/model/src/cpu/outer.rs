//! Outer products of rows, from the first row to the last, with sums in registers: gradients of matrices.
//!
//! ```text
//! slope[output, input] += sum over rows of dy[row, output] · x[row, input]
//! ```

#![allow(clippy::indexing_slicing, reason = "sizes are fixed by the types or checked at the entry of each function")]

use super::panels::LANES;
use super::product::{ROWS, Single, Stored, WIDE_PANELS, WIDE_ROWS, keep, put};

/// Strips of outputs that are read from `dy` together.
const STRIPS: usize = 4;

/// Adds the outer products of rows: `slope[out, in] += dy[row, out] · x[row, in]`, row after row.
///
/// `dy` begins at the first wanted output, and has a distance between its rows; `x` is `inputs` columns of panels over a number of rows; `slope` is
/// `[outputs, inputs]`.
#[inline(always)]
pub(super) fn add_outer_products<S: pulp::Simd>(
    simd: S,
    dy: (&[f32], usize),
    x: (&[f32], usize),
    slope: &mut [f32],
    inputs: usize,
) {
    match S::F32_LANES {
        16 => outer_of::<S, 1, WIDE_PANELS, WIDE_ROWS>(simd, dy, x, slope, inputs),
        8 => outer_of::<S, 2, 1, ROWS>(simd, dy, x, slope, inputs),
        4 => outer_of::<S, 4, 1, ROWS>(simd, dy, x, slope, inputs),
        _ => outer_of::<S, LANES, 1, ROWS>(simd, dy, x, slope, inputs),
    }
}

/// With panels of `N` vectors, `P` panels and `R` outputs at once.
#[inline(always)]
fn outer_of<S: pulp::Simd, const N: usize, const P: usize, const R: usize>(
    simd: S,
    (dy, stride): (&[f32], usize),
    (x, rows): (&[f32], usize),
    slope: &mut [f32],
    inputs: usize,
) {
    // Some strips at a time: a row of `dy` is often a multiple of 4 KiB from the next, and what is read of it should fill cache lines.
    let mut strips = vec![[0.0f32; R]; rows * STRIPS];
    for (number, slope) in slope.chunks_mut(inputs * R * STRIPS).enumerate() {
        let first = number * R * STRIPS;
        let count = slope.len() / inputs;
        for row in 0..rows {
            let from = &dy[row * stride + first..];
            for strip in 0..count.div_ceil(R) {
                let from = &from[strip * R..];
                let to = &mut strips[strip * rows + row];
                match from.first_chunk::<R>() {
                    // Padding after the last output is multiplied too, and not written.
                    Some(values) => *to = *values,
                    None => to[..from.len()].copy_from_slice(from),
                }
            }
        }
        for (strip, slope) in strips.chunks_exact(rows).zip(slope.chunks_mut(inputs * R)) {
            outer_of_strip::<S, N, P, R>(simd, strip, x, slope, inputs);
        }
    }
}

/// One strip of outputs with all panels.
#[inline(always)]
fn outer_of_strip<S: pulp::Simd, const N: usize, const P: usize, const R: usize>(
    simd: S,
    strip: &[[f32; R]],
    x: &[f32],
    slope: &mut [f32],
    inputs: usize,
) {
    let panel = strip.len() * LANES;
    for (number, group) in x.chunks(panel * P).enumerate() {
        let first = number * P * LANES;
        if group.len() == panel * P {
            let mut at = [&group.as_chunks::<LANES>().0[..0]; P];
            for part in 0..P {
                at[part] = group[part * panel..(part + 1) * panel].as_chunks::<LANES>().0;
            }
            add_sums::<S, N, P, R>(simd, strip, at, &mut slope[first..], inputs, inputs - first);
        } else {
            for (part, panel) in group.chunks_exact(panel).enumerate() {
                let first = first + part * LANES;
                let at = [panel.as_chunks::<LANES>().0];
                add_sums::<S, N, 1, R>(simd, strip, at, &mut slope[first..], inputs, inputs - first);
            }
        }
    }
}

/// Adds, for each value of a strip and each of `P` panels, the sum of products over rows. `slope` has as many rows as outputs are wanted.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops are unrolled, so that sums stay in registers")]
fn add_sums<S: pulp::Simd, const N: usize, const P: usize, const R: usize>(
    simd: S,
    strip: &[[f32; R]],
    panels: [&[[f32; LANES]]; P],
    slope: &mut [f32],
    inputs: usize,
    width: usize,
) {
    let rows = strip.len();
    let mut at = panels;
    for part in 0..P {
        at[part] = &panels[part][..rows];
    }
    let mut sums = [[[simd.splat_f32s(0.0); N]; P]; R];
    for row in 0..rows {
        let mut x = [[simd.splat_f32s(0.0); N]; P];
        for part in 0..P {
            x[part] = Single::vectors::<S, N>(simd, &at[part][row]);
        }
        for output in 0..R {
            let value = simd.splat_f32s(strip[row][output]);
            for part in 0..P {
                for vector in 0..N {
                    sums[output][part][vector] = simd.mul_add_f32s(value, x[part][vector], sums[output][part][vector]);
                }
            }
        }
    }
    // Through memory: the loop that reads sums stays small and is unrolled, so that they were in registers.
    let mut memory = [[[0.0f32; LANES]; P]; R];
    for output in 0..R {
        for part in 0..P {
            keep::<S, N>(&sums[output][part], &mut memory[output][part]);
        }
    }
    for (sums, slope) in memory.iter().zip(slope.chunks_mut(inputs)) {
        for part in 0..P {
            let first = part * LANES;
            put(&sums[part], true, &mut slope[first..][..LANES.min(width - first)]);
        }
    }
}
