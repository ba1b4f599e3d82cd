//! Matrices in the order in which they are read: panels of [`LANES`] outputs, input by input.

#![allow(clippy::indexing_slicing, reason = "sizes are fixed by the types or checked at the entry of each function")]

use crate::host_weights::HostMatrix;
use rayon::prelude::*;

/// Outputs of a panel: one AVX-512 register, two of AVX2.
pub(crate) const LANES: usize = 16;
/// Rows that are multiplied at once: with [`LANES`] their sums fill twelve of AVX2's sixteen registers, and one weight that is
/// read serves six of them.
const ROWS: usize = 6;
/// Multiply-adds below which threads cost more than they bring.
const WORTH_THREADS: usize = 1 << 20;

/// `[out, in]`, ready to be multiplied with rows.
#[derive(Debug, Clone)]
pub(crate) struct Panels {
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
    /// Panel by panel, input by input, [`LANES`] outputs; what is past the last output is 0.
    values: Vec<f32>,
}

impl Panels {
    pub(crate) fn of(matrix: &HostMatrix) -> Self {
        let [outputs, inputs] = matrix.shape;
        let mut values = vec![0.0; outputs.div_ceil(LANES) * inputs * LANES];
        for (output, row) in matrix.values.chunks(inputs.max(1)).enumerate() {
            let panel = output / LANES * inputs * LANES;
            for (input, value) in row.iter().enumerate() {
                values[panel + input * LANES + output % LANES] = *value;
            }
        }
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
            self.multiply_here(x, out);
            return;
        }
        // Panels are shared out, so that each thread reads its own part of the matrix once.
        let width = self.inputs * LANES;
        let parts: Vec<Vec<f32>> = self
            .values
            .par_chunks(width.max(1) * self.panels_of_a_part())
            .map(|part| {
                let mut sums = vec![0.0; rows * (part.len() / width.max(1)) * LANES];
                pulp::Arch::new().dispatch(Product { x, inputs: self.inputs, panels: part, out: &mut sums });
                sums
            })
            .collect();
        let columns = self.panels_of_a_part() * LANES;
        for (number, part) in parts.iter().enumerate() {
            let first = number * columns;
            let panels = part.len() / (rows * LANES).max(1);
            for (panel, sums) in part.chunks(rows * LANES).enumerate().take(panels) {
                self.scatter(first + panel * LANES, sums, out);
            }
        }
    }

    fn multiply_here(&self, x: &[f32], out: &mut [f32]) {
        let rows = x.len() / self.inputs.max(1);
        let mut sums = vec![0.0; rows * LANES];
        for (panel, values) in self.values.chunks(self.inputs.max(1) * LANES).enumerate() {
            pulp::Arch::new().dispatch(Product { x, inputs: self.inputs, panels: values, out: &mut sums });
            self.scatter(panel * LANES, &sums, out);
        }
    }

    /// Puts the sums of one panel, `[rows, LANES]`, where they belong.
    fn scatter(&self, first: usize, sums: &[f32], out: &mut [f32]) {
        let width = LANES.min(self.outputs - first);
        for (row, sums) in out.chunks_mut(self.outputs).zip(sums.chunks(LANES)) {
            row[first..first + width].copy_from_slice(&sums[..width]);
        }
    }

    fn panels_of_a_part(&self) -> usize {
        self.outputs.div_ceil(LANES).div_ceil(rayon::current_num_threads() * 2).max(1)
    }
}

/// Rows times some panels, with the vectors that this processor has: `out` is `[panels, rows, LANES]`.
struct Product<'a> {
    x: &'a [f32],
    inputs: usize,
    panels: &'a [f32],
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let rows = self.x.len() / self.inputs;
        for (panel, out) in self.panels.chunks_exact(self.inputs * LANES).zip(self.out.chunks_exact_mut(rows * LANES)) {
            let mut x = self.x.chunks_exact(self.inputs * ROWS);
            let mut out = out.chunks_exact_mut(LANES * ROWS);
            for (x, out) in (&mut x).zip(&mut out) {
                tile::<ROWS>(x, self.inputs, panel, out);
            }
            let rest = x.remainder();
            for (x, out) in rest.chunks_exact(self.inputs).zip(out.into_remainder().chunks_exact_mut(LANES)) {
                tile::<1>(x, self.inputs, panel, out);
            }
        }
    }
}

/// Sums of so many rows over one panel.
#[inline(always)]
fn tile<const R: usize>(x: &[f32], inputs: usize, panel: &[f32], out: &mut [f32]) {
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
    for (out, sums) in out.chunks_exact_mut(LANES).zip(&sums) {
        out.copy_from_slice(sums);
    }
}
