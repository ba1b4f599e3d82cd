//! Matrices in the order in which they are read, as panels of [`LANES`] outputs, input by input; and the two matrix
//! products that all computations use.
//!
//! ```text
//! rows · panels:    out[row, output]  = sum over inputs of x[row, input] · panel[input, output]      answers, and the way back
//! outer products:   slope[out, in]   += sum over rows of dy[row, out] · x[row, in]                  gradients of matrices
//! ```
//!
//! Both keep [`ROWS`] x [`LANES`] sums in registers along the inner dimension, from the first to the last.

#![allow(clippy::indexing_slicing, reason = "sizes are fixed by the types or checked at the entry of each function")]

use rayon::prelude::*;

/// Outputs of a panel: one AVX-512 register, two of AVX2.
pub(crate) const LANES: usize = 16;
/// Rows that are multiplied at once: with [`LANES`] their sums fill twelve of AVX2's sixteen registers, and each weight
/// that is read is used for six of them.
pub(super) const ROWS: usize = 6;
/// Rows that are multiplied with one panel before the next panel is read. With a thousand inputs they still fit a
/// core's second-level cache.
pub(super) const ROWS_AT_ONCE: usize = 96;
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
        pulp::Arch::new().dispatch(Product::<false> { x, inputs, panels, outputs, out });
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

    /// The same on the current thread. With `ADD`, the result is added to `out`.
    pub(crate) fn product<const ADD: bool>(&self, x: &[f32], out: &mut [f32]) {
        if self.inputs > 0 && self.outputs > 0 {
            let (inputs, outputs) = (self.inputs, self.outputs);
            pulp::Arch::new().dispatch(Product::<ADD> { x, inputs, panels: &self.values, outputs, out });
        }
    }

    fn panels_of_a_part(&self) -> usize {
        self.outputs.div_ceil(LANES).div_ceil(rayon::current_num_threads() * 2).max(1)
    }
}

/// Rows times panels, with the vector instructions of this processor.
struct Product<'a, const ADD: bool> {
    x: &'a [f32],
    inputs: usize,
    panels: &'a [f32],
    outputs: usize,
    out: &'a mut [f32],
}

impl<const ADD: bool> pulp::WithSimd for Product<'_, ADD> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        rows_times_panels::<S, ADD>(simd, self.x, self.inputs, self.panels, self.outputs, self.out, self.outputs);
    }
}

/// `x` is `[rows, inputs]`. `stride` is the distance between the rows of `out`.
#[inline(always)]
pub(super) fn rows_times_panels<S: pulp::Simd, const ADD: bool>(
    simd: S,
    x: &[f32],
    inputs: usize,
    panels: &[f32],
    outputs: usize,
    out: &mut [f32],
    stride: usize,
) {
    match S::F32_LANES {
        16 => product_of::<S, 1, ADD>(simd, x, inputs, panels, outputs, out, stride),
        8 => product_of::<S, 2, ADD>(simd, x, inputs, panels, outputs, out, stride),
        4 => product_of::<S, 4, ADD>(simd, x, inputs, panels, outputs, out, stride),
        _ => product_of::<S, LANES, ADD>(simd, x, inputs, panels, outputs, out, stride),
    }
}

/// With panels of `N` vectors.
#[inline(always)]
fn product_of<S: pulp::Simd, const N: usize, const ADD: bool>(
    simd: S,
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
            let panel = S::as_simd_f32s(panel).0.as_chunks::<N>().0;
            for (x, out) in x.chunks(inputs * ROWS).zip(out.chunks_mut(stride * ROWS)) {
                let out = &mut out[first..];
                match x.len() / inputs {
                    6 => tile::<S, 6, N, ADD>(simd, x, panel, out, stride, width),
                    5 => tile::<S, 5, N, ADD>(simd, x, panel, out, stride, width),
                    4 => tile::<S, 4, N, ADD>(simd, x, panel, out, stride, width),
                    3 => tile::<S, 3, N, ADD>(simd, x, panel, out, stride, width),
                    2 => tile::<S, 2, N, ADD>(simd, x, panel, out, stride, width),
                    _ => tile::<S, 1, N, ADD>(simd, x, panel, out, stride, width),
                }
            }
        }
    }
}

/// Sums of `R` rows over one panel, of which the first `width` outputs are used.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops are unrolled, so that sums stay in registers")]
fn tile<S: pulp::Simd, const R: usize, const N: usize, const ADD: bool>(
    simd: S,
    x: &[f32],
    panel: &[[S::f32s; N]],
    out: &mut [f32],
    stride: usize,
    width: usize,
) {
    let sums = add_products(simd, x, panel.len(), panel, [[simd.splat_f32s(0.0); N]; R]);
    for row in 0..R {
        put::<S, N, ADD>(simd, sums[row], &mut out[row * stride..][..width]);
    }
}

/// Adds the products of `R` rows with one panel to sums, from the first input to the last. `stride` is the distance between the rows of `x`.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops are unrolled, so that sums stay in registers")]
pub(super) fn add_products<S: pulp::Simd, const R: usize, const N: usize>(
    simd: S,
    x: &[f32],
    stride: usize,
    panel: &[[S::f32s; N]],
    before: [[S::f32s; N]; R],
) -> [[S::f32s; N]; R] {
    // Copied one by one, so that they are values here and not memory.
    let mut sums = [[simd.splat_f32s(0.0); N]; R];
    for row in 0..R {
        for part in 0..N {
            sums[row][part] = before[row][part];
        }
    }
    // A closure would not be inlined here, and the length of a row not known: each value would be checked.
    let mut rows = [&x[..0]; R];
    for row in 0..R {
        rows[row] = &x[row * stride..row * stride + panel.len()];
    }
    for (input, weights) in panel.iter().enumerate() {
        for row in 0..R {
            let value = simd.splat_f32s(rows[row][input]);
            for part in 0..N {
                sums[row][part] = simd.mul_add_f32s(value, weights[part], sums[row][part]);
            }
        }
    }
    sums
}

/// Reads sums that [`put`] wrote, of which there may be fewer than [`LANES`].
#[inline(always)]
pub(super) fn take<S: pulp::Simd, const N: usize>(simd: S, from: &[f32]) -> [S::f32s; N] {
    let mut sums = [simd.splat_f32s(0.0); N];
    let mut all = [0.0f32; LANES];
    let from = if from.len() == LANES {
        from
    } else {
        all[..from.len()].copy_from_slice(from);
        &all
    };
    sums.copy_from_slice(&S::as_simd_f32s(from).0[..N]);
    sums
}

/// Writes sums, or adds them.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators are not inlined here")]
pub(super) fn put<S: pulp::Simd, const N: usize, const ADD: bool>(simd: S, sums: [S::f32s; N], out: &mut [f32]) {
    if out.len() == LANES {
        let out = S::as_mut_simd_f32s(out).0;
        for part in 0..N {
            out[part] = if ADD { simd.add_f32s(out[part], sums[part]) } else { sums[part] };
        }
    } else {
        let mut all = [0.0f32; LANES];
        S::as_mut_simd_f32s(&mut all).0.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum);
        for (out, sum) in out.iter_mut().zip(all) {
            *out = if ADD { *out + sum } else { sum };
        }
    }
}

/// Adds the outer products of rows: `slope[out, in] += dy[row, out] · x[row, in]`, row after row.
///
/// `dy` begins at the first wanted output, with `stride` from row to row; `x` is `inputs` columns of panels over
/// `rows`; `slope` is `[outputs, inputs]`.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "two matrices, with their shapes")]
pub(super) fn add_outer_products<S: pulp::Simd>(
    simd: S,
    dy: &[f32],
    stride: usize,
    outputs: usize,
    x: &[f32],
    rows: usize,
    slope: &mut [f32],
    inputs: usize,
) {
    match S::F32_LANES {
        16 => outer_of::<S, 1>(simd, dy, stride, outputs, x, rows, slope, inputs),
        8 => outer_of::<S, 2>(simd, dy, stride, outputs, x, rows, slope, inputs),
        4 => outer_of::<S, 4>(simd, dy, stride, outputs, x, rows, slope, inputs),
        _ => outer_of::<S, LANES>(simd, dy, stride, outputs, x, rows, slope, inputs),
    }
}

/// With panels of `N` vectors.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "two matrices, with their shapes")]
fn outer_of<S: pulp::Simd, const N: usize>(
    simd: S,
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
        for (to, row) in strip.iter_mut().zip(dy.chunks(stride)) {
            match row[first..].first_chunk::<ROWS>() {
                // Padding after the last output is multiplied too, and not written.
                Some(six) => *to = *six,
                None => to.iter_mut().zip(&row[first..first + count]).for_each(|(to, value)| *to = *value),
            }
        }
        let panels = S::as_simd_f32s(x).0.as_chunks::<N>().0;
        for (panel, x) in panels.chunks_exact(rows).enumerate() {
            let sums = sums_of_products(simd, &strip, x);
            let first = panel * LANES;
            let width = LANES.min(inputs - first);
            for (sums, slope) in sums.into_iter().zip(slope.chunks_exact_mut(inputs)) {
                put::<S, N, true>(simd, sums, &mut slope[first..first + width]);
            }
        }
    }
}

/// Sums over rows of the products of each value of a strip with each value of a panel.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops are unrolled, so that sums stay in registers")]
fn sums_of_products<S: pulp::Simd, const N: usize>(
    simd: S,
    strip: &[[f32; ROWS]],
    x: &[[S::f32s; N]],
) -> [[S::f32s; N]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); N]; ROWS];
    for (values, x) in strip.iter().zip(x) {
        for row in 0..ROWS {
            let value = simd.splat_f32s(values[row]);
            for part in 0..N {
                sums[row][part] = simd.mul_add_f32s(value, x[part], sums[row][part]);
            }
        }
    }
    sums
}
