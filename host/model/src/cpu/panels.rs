//! Matrices in the order in which they are read: panels of [`LANES`] outputs, input by input; and the two products that
//! everything is made of.
//!
//! ```text
//! rows · panels:    out[row, output]  = sum over inputs of x[row, input] · panel[input, output]      answers, and the way back
//! outer products:   slope[out, in]   += sum over rows of dy[row, out] · x[row, in]                  gradients of matrices
//! ```
//!
//! Either keeps [`ROWS`] x [`LANES`] sums in registers while it goes along the inner dimension, from the first to the last.

#![allow(clippy::indexing_slicing, reason = "sizes are fixed by the types or checked at the entry of each function")]

use crate::host_weights::HostMatrix;
use rayon::prelude::*;

/// Outputs of a panel: one AVX-512 register, two of AVX2.
pub(crate) const LANES: usize = 16;
/// Rows that are multiplied at once: with [`LANES`] their sums fill twelve of AVX2's sixteen registers, and one weight that is
/// read serves six of them.
pub(super) const ROWS: usize = 6;
/// Rows that pass by one panel before the next is read: with a thousand inputs they still fit a core's second cache.
const ROWS_AT_ONCE: usize = 96;
/// Multiply-adds below which threads cost more than they bring.
const WORTH_THREADS: usize = 1 << 20;

/// A matrix, ready to be multiplied with rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Panels {
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
    /// Panel by panel, input by input, [`LANES`] outputs; what is past the last output is 0.
    values: Vec<f32>,
}

/// Numbers that `outputs` panels of so many inputs take.
pub(super) fn panel_values(outputs: usize, inputs: usize) -> usize {
    outputs.div_ceil(LANES) * LANES * inputs
}

/// Lays columns side by side: the values of a row, `[inputs, outputs]` with `stride` from row to row, become inputs of panels.
/// `to` has room for more inputs than there are: those stay as they are.
pub(super) fn lay_columns(rows: &[f32], stride: usize, outputs: usize, inputs: usize, to: &mut [f32]) {
    for (panel, to) in to.chunks_exact_mut((inputs * LANES).max(1)).enumerate() {
        let first = panel * LANES;
        let width = LANES.min(outputs - first);
        let places = to.as_chunks_mut::<LANES>().0.iter_mut();
        if width == LANES {
            places.zip(rows.chunks(stride)).for_each(|(to, row)| to.copy_from_slice(&row[first..first + LANES]));
        } else {
            for (to, row) in places.zip(rows.chunks(stride)) {
                *to = [0.0; LANES];
                to.iter_mut().zip(&row[first..first + width]).for_each(|(to, value)| *to = *value);
            }
        }
    }
}

/// Lays rows side by side: each, `[outputs, inputs]` with `stride` from row to row, becomes an output of panels.
pub(super) fn lay_rows(rows: &[f32], stride: usize, inputs: usize, to: &mut [f32]) {
    for (rows, to) in rows.chunks(stride * LANES).zip(to.chunks_exact_mut((inputs * LANES).max(1))) {
        for (lane, row) in rows.chunks(stride).enumerate() {
            for (to, value) in to.chunks_exact_mut(LANES).zip(&row[..inputs]) {
                to[lane] = *value;
            }
        }
        for lane in rows.len().div_ceil(stride)..LANES {
            to.chunks_exact_mut(LANES).for_each(|to| to[lane] = 0.0);
        }
    }
}

impl Panels {
    /// Multiplies rows with the transposed matrix: `[.., in]` to `[.., out]`.
    pub(crate) fn of(matrix: &HostMatrix) -> Self {
        Self::of_rows(&matrix.values, matrix.shape)
    }

    /// The same, of plain values.
    pub(crate) fn of_rows(rows: &[f32], [outputs, inputs]: [usize; 2]) -> Self {
        let mut values = vec![0.0; panel_values(outputs, inputs)];
        let panel = (inputs * LANES).max(1);
        values
            .par_chunks_mut(panel)
            .zip(rows.par_chunks(panel))
            .for_each(|(to, rows)| lay_rows(rows, inputs, inputs, to));
        Self { outputs, inputs, values }
    }

    /// Multiplies rows with the matrix as it stands: `[.., out]` to `[.., in]`.
    pub(crate) fn of_columns(rows: &[f32], [inputs, outputs]: [usize; 2]) -> Self {
        let mut values = vec![0.0; panel_values(outputs, inputs)];
        values.par_chunks_mut((inputs * LANES).max(1)).enumerate().for_each(|(panel, to)| {
            let (first, width) = (panel * LANES, LANES.min(outputs - panel * LANES));
            lay_columns(&rows[first..], outputs, width, inputs, to);
        });
        Self { outputs, inputs, values }
    }

    /// Rows times the matrix: `x` is `[rows, in]`, `out` becomes `[rows, out]`.
    pub(crate) fn multiply(&self, x: &[f32], out: &mut [f32], threads: bool) {
        let rows = x.len() / self.inputs.max(1);
        debug_assert_eq!((x.len(), out.len()), (rows * self.inputs, rows * self.outputs));
        if rows == 0 {
            return;
        }
        if !threads || rows * self.inputs * self.outputs < WORTH_THREADS {
            self.product::<false>(x, out);
            return;
        }
        // Panels are shared out, so that each thread reads its own part of the matrix once.
        let width = self.inputs * LANES;
        let part = self.panels_of_a_part();
        let parts: Vec<Vec<f32>> = self
            .values
            .par_chunks(width.max(1) * part)
            .map(|panels| {
                let outputs = panels.len() / width.max(1) * LANES;
                let mut sums = vec![0.0; rows * outputs];
                let product = Product::<false> { x, inputs: self.inputs, panels, outputs, out: &mut sums };
                pulp::Arch::new().dispatch(product);
                sums
            })
            .collect();
        for (number, sums) in parts.iter().enumerate() {
            let first = number * part * LANES;
            let wide = sums.len() / rows;
            let width = wide.min(self.outputs - first);
            for (row, sums) in out.chunks_exact_mut(self.outputs).zip(sums.chunks_exact(wide)) {
                row[first..first + width].copy_from_slice(&sums[..width]);
            }
        }
    }

    /// The same on this thread alone; or added to what is there.
    pub(super) fn product<const ADD: bool>(&self, x: &[f32], out: &mut [f32]) {
        if self.inputs > 0 && self.outputs > 0 {
            let (inputs, outputs) = (self.inputs, self.outputs);
            pulp::Arch::new().dispatch(Product::<ADD> { x, inputs, panels: &self.values, outputs, out });
        }
    }

    fn panels_of_a_part(&self) -> usize {
        self.outputs.div_ceil(LANES).div_ceil(rayon::current_num_threads() * 2).max(1)
    }
}

/// Rows times some panels, with the vectors that this processor has.
struct Product<'a, const ADD: bool> {
    x: &'a [f32],
    inputs: usize,
    panels: &'a [f32],
    outputs: usize,
    out: &'a mut [f32],
}

impl<const ADD: bool> pulp::NullaryFnOnce for Product<'_, ADD> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        rows_times_panels::<ADD>(self.x, self.inputs, self.panels, self.outputs, self.out, self.outputs);
    }
}

/// `x` is `[rows, inputs]`; a row of `out` begins `stride` behind the one before.
#[inline(always)]
pub(super) fn rows_times_panels<const ADD: bool>(
    x: &[f32],
    inputs: usize,
    panels: &[f32],
    outputs: usize,
    out: &mut [f32],
    stride: usize,
) {
    for (x, out) in x.chunks(inputs * ROWS_AT_ONCE).zip(out.chunks_mut(stride * ROWS_AT_ONCE)) {
        for (number, panel) in panels.chunks_exact(inputs * LANES).enumerate() {
            let first = number * LANES;
            let width = LANES.min(outputs - first);
            for (x, out) in x.chunks(inputs * ROWS).zip(out.chunks_mut(stride * ROWS)) {
                let out = &mut out[first..];
                match x.len() / inputs {
                    6 => tile::<6, ADD>(x, inputs, panel, out, stride, width),
                    5 => tile::<5, ADD>(x, inputs, panel, out, stride, width),
                    4 => tile::<4, ADD>(x, inputs, panel, out, stride, width),
                    3 => tile::<3, ADD>(x, inputs, panel, out, stride, width),
                    2 => tile::<2, ADD>(x, inputs, panel, out, stride, width),
                    _ => tile::<1, ADD>(x, inputs, panel, out, stride, width),
                }
            }
        }
    }
}

/// Sums of so many rows over one panel, of which `width` outputs count.
#[inline(always)]
fn tile<const R: usize, const ADD: bool>(
    x: &[f32],
    inputs: usize,
    panel: &[f32],
    out: &mut [f32],
    stride: usize,
    width: usize,
) {
    let sums = sums_of_rows::<R>(x, inputs, panel);
    for (row, sums) in sums.iter().enumerate() {
        put::<ADD>(sums, &mut out[row * stride..][..width]);
    }
}

/// Given back as a whole: sums that somebody writes from while they grow would not stay in registers.
#[inline(always)]
fn sums_of_rows<const R: usize>(x: &[f32], inputs: usize, panel: &[f32]) -> [[f32; LANES]; R] {
    let mut sums = [[0.0f32; LANES]; R];
    let rows: [&[f32]; R] = std::array::from_fn(|row| &x[row * inputs..(row + 1) * inputs]);
    for (input, weights) in panel.chunks_exact(LANES).enumerate() {
        for (sums, row) in sums.iter_mut().zip(rows) {
            let value = row[input];
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = value.mul_add(*weight, *sum);
            }
        }
    }
    sums
}

/// Writes sums, or adds them.
#[inline(always)]
fn put<const ADD: bool>(sums: &[f32; LANES], out: &mut [f32]) {
    if let Some(out) = out.first_chunk_mut::<LANES>() {
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = if ADD { *out + sum } else { *sum };
        }
    } else {
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = if ADD { *out + sum } else { *sum };
        }
    }
}

/// Adds the outer products of rows: `slope[out, in] += dy[row, out] · x[row, in]`, row after row.
///
/// `dy` begins at the first output that is wanted, `stride` from row to row; `x` lies as `inputs` columns of panels over `rows`;
/// `slope` is `[outputs, inputs]`.
#[inline(always)]
pub(super) fn add_outer_products(
    dy: &[f32],
    stride: usize,
    outputs: usize,
    x: &[f32],
    rows: usize,
    slope: &mut [f32],
    inputs: usize,
) {
    let mut strip = Vec::with_capacity(rows);
    for (number, slope) in slope.chunks_mut(inputs * ROWS).enumerate() {
        let first = number * ROWS;
        let count = ROWS.min(outputs - first);
        strip.clear();
        strip.resize(rows, [0.0f32; ROWS]);
        let places = strip.iter_mut().zip(dy.chunks(stride));
        if count == ROWS {
            places.for_each(|(to, row)| to.copy_from_slice(&row[first..first + ROWS]));
        } else {
            for (to, row) in places {
                to.iter_mut().zip(&row[first..first + count]).for_each(|(to, value)| *to = *value);
            }
        }
        for (panel, x) in x.as_chunks::<LANES>().0.chunks_exact(rows).enumerate() {
            let sums = sums_of_products(&strip, x);
            let first = panel * LANES;
            let width = LANES.min(inputs - first);
            for (sums, slope) in sums.iter().zip(slope.chunks_exact_mut(inputs)) {
                put::<true>(sums, &mut slope[first..first + width]);
            }
        }
    }
}

/// Sums over rows of each of a strip's values times each of a panel's.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "only counted loops were unrolled, and sums kept in registers")]
fn sums_of_products(strip: &[[f32; ROWS]], x: &[[f32; LANES]]) -> [[f32; LANES]; ROWS] {
    let mut sums = [[0.0f32; LANES]; ROWS];
    for (values, x) in strip.iter().zip(x) {
        for row in 0..ROWS {
            for lane in 0..LANES {
                sums[row][lane] = values[row].mul_add(x[lane], sums[row][lane]);
            }
        }
    }
    sums
}
