//! Matrices in the order in which they are read, as panels of [`LANES`] outputs, input by input. All products read them so.

#![allow(clippy::indexing_slicing, reason = "sizes are fixed by the types or checked at the entry of each function")]

use super::product::{Product, Single, mode};
use rayon::prelude::*;

/// Outputs of a panel: one AVX-512 register, two of AVX2.
pub(crate) const LANES: usize = 16;
/// Below this number of multiply-adds, threads cost more than they save.
pub(super) const WORTH_THREADS: usize = 1 << 20;

/// A matrix in panels.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Panels {
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
    /// Panel by panel, input by input, [`LANES`] outputs. Padding after the last output is 0.
    values: Vec<f32>,
}

/// The length of panels with these outputs and inputs.
pub(super) fn panel_values(outputs: usize, inputs: usize) -> usize {
    outputs.div_ceil(LANES) * LANES * inputs
}

/// Lays out columns: the values of a row, `[inputs, outputs]` with `stride` from row to row, become inputs of panels.
/// If `to` has room for more inputs, those are unchanged.
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

/// Lays out rows: each row, `[outputs, inputs]` with `stride` from row to row, becomes an output of panels.
pub(super) fn lay_rows(rows: &[f32], stride: usize, inputs: usize, to: &mut [f32]) {
    for (rows, to) in rows.chunks(stride * LANES).zip(to.chunks_exact_mut((inputs * LANES).max(1))) {
        let count = rows.len().div_ceil(stride);
        let to = to.as_chunks_mut::<LANES>().0;
        if count < LANES {
            to.fill([0.0; LANES]);
        }
        let mut lanes = [&rows[..0]; LANES];
        for lane in 0..count {
            lanes[lane] = &rows[lane * stride..lane * stride + inputs];
        }
        // Counted loops: closures are not inlined into functions with vector instructions.
        for input in 0..inputs {
            if count == LANES {
                for lane in 0..LANES {
                    to[input][lane] = lanes[lane][input];
                }
            } else {
                for lane in 0..count {
                    to[input][lane] = lanes[lane][input];
                }
            }
        }
    }
}

impl Panels {
    /// Multiplies rows with the transposed matrix of these values: `[.., in]` to `[.., out]`.
    pub(crate) fn of_rows(rows: &[f32], [outputs, inputs]: [usize; 2]) -> Self {
        let mut values = vec![0.0; panel_values(outputs, inputs)];
        let panel = (inputs * LANES).max(1);
        values
            .par_chunks_mut(panel)
            .zip(rows.par_chunks(panel))
            .for_each(|(to, rows)| lay_rows(rows, inputs, inputs, to));
        Self { outputs, inputs, values }
    }

    /// A matrix of zeros, whose rows are put later.
    pub(super) fn zeros(outputs: usize, inputs: usize) -> Self {
        Self { outputs, inputs, values: vec![0.0; panel_values(outputs, inputs)] }
    }

    /// The weights, panel by panel, input by input.
    pub(super) fn values(&self) -> &[[f32; LANES]] {
        self.values.as_chunks::<LANES>().0
    }

    /// Rows times some panels, from `first` on, of which `outputs` are used; `out` is `[rows, outputs]`. On the current thread.
    pub(super) fn part(&self, x: &[f32], first: usize, outputs: usize, out: &mut [f32]) {
        let inputs = self.inputs;
        let panels = &self.values[first * inputs * LANES..(first + outputs.div_ceil(LANES)) * inputs * LANES];
        pulp::Arch::new().dispatch(Product::<Single, { mode::WRITE }> { x, inputs, panels, outputs, out });
    }

    /// Writes panels from this one on, with the rows that `of_panel` gives for each.
    pub(super) fn put<E: Send>(
        &mut self,
        first: usize,
        count: usize,
        of_panel: impl Fn(usize, &mut Vec<f32>) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let panel = (self.inputs * LANES).max(1);
        let to = self.values[first * panel..].par_chunks_mut(panel).take(count);
        to.enumerate().try_for_each_init(Vec::new, |rows, (number, to)| {
            of_panel(number, rows)?;
            lay_rows(rows, self.inputs, self.inputs, to);
            Ok(())
        })
    }

    /// Reads a row.
    pub(super) fn row(&self, row: usize, to: &mut [f32]) {
        let (panel, lane) = (row / LANES, row % LANES);
        let width = self.inputs * LANES;
        let from = self.values[panel * width..(panel + 1) * width].chunks_exact(LANES);
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from[lane]);
    }

    /// Multiplies rows with the matrix, not transposed: `[.., out]` to `[.., in]`.
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
        // Panels are distributed over threads, so that each thread reads its own part of the matrix once.
        let width = self.inputs * LANES;
        let part = self.panels_of_a_part();
        let parts: Vec<Vec<f32>> = self
            .values
            .par_chunks(width.max(1) * part)
            .map(|panels| {
                let outputs = panels.len() / width.max(1) * LANES;
                let mut sums = vec![0.0; rows * outputs];
                let product =
                    Product::<Single, { mode::WRITE }> { x, inputs: self.inputs, panels, outputs, out: &mut sums };
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

    /// The same on the current thread. With `ADD`, the result is added to `out`.
    pub(crate) fn product<const ADD: bool>(&self, x: &[f32], out: &mut [f32]) {
        if self.inputs > 0 && self.outputs > 0 {
            let (inputs, outputs, panels) = (self.inputs, self.outputs, &self.values[..]);
            if ADD {
                pulp::Arch::new().dispatch(Product::<Single, { mode::ADD }> { x, inputs, panels, outputs, out });
            } else {
                pulp::Arch::new().dispatch(Product::<Single, { mode::WRITE }> { x, inputs, panels, outputs, out });
            }
        }
    }

    fn panels_of_a_part(&self) -> usize {
        self.outputs.div_ceil(LANES).div_ceil(rayon::current_num_threads() * 2).max(1)
    }
}
