//! A matrix as it is kept in memory: in panels, in one of the formats of [`Dtype`]. Inference reads it as it is kept.

#![allow(clippy::indexing_slicing, reason = "sizes are checked at the entry of each function")]

use super::halves::{Bf16, F16, Half};
use super::int8_panels::{BLOCK, Inputs, Int8Panels, Int8Product, PANEL_BLOCK, TooLarge, block_of, put_block};
use super::panels::{LANES, Panels, WORTH_THREADS, panel_values};
use super::product::{Product, mode};
use super::unpacked::{BackProduct, ForwardProduct, Halves, Scaled, Singles, Weights};
use crate::host_weights::{are_short, digested};
use crate::{Dtype, LocalModelError};
use clawhost_core::Digest;
use rayon::prelude::*;
use std::sync::{Arc, OnceLock};

/// A matrix `[outputs, inputs]`.
#[derive(Debug, Clone)]
pub(crate) struct Laid {
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
    values: Values,
    /// Of the values, once it was asked for: each version of weights that learn beside this matrix asks again.
    digest: OnceLock<Digest>,
}

impl PartialEq for Laid {
    fn eq(&self, other: &Self) -> bool {
        (self.outputs, self.inputs) == (other.outputs, other.inputs) && self.values == other.values
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Values {
    F32(Panels),
    BF16(Vec<u16>),
    F16(Vec<u16>),
    /// Shared by a matrix that rounds inputs and the one that learning has of it, which does not.
    Int8(Arc<Int8Panels>, Beside),
}

/// What numbers of 8 bits are multiplied by.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Beside {
    /// Inputs that are rounded to 8 bits, too.
    Rounded,
    /// Inputs as they are.
    Exact,
}

/// A value that the format cannot hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unkept(pub(crate) f32);

impl Unkept {
    /// The error, with the name of the weight.
    pub(crate) fn of(self, name: &str, dtype: Dtype) -> LocalModelError {
        let (value, format) = (self.0, dtype.name());
        LocalModelError::Config(format!(
            "the weight {name} holds {value}, too large for {format}; keep it as bf16 or f32"
        ))
    }
}

impl From<TooLarge> for Unkept {
    fn from(TooLarge(value): TooLarge) -> Self {
        Self(value)
    }
}

impl Laid {
    /// A matrix of zeros.
    pub(crate) fn zeros(dtype: Dtype, [outputs, inputs]: [usize; 2]) -> Self {
        let halves = || vec![0; panel_values(outputs, inputs)];
        let values = match dtype {
            Dtype::F32 => Values::F32(Panels::zeros(outputs, inputs)),
            Dtype::BF16 => Values::BF16(halves()),
            Dtype::F16 => Values::F16(halves()),
            Dtype::Int8 => Values::Int8(Arc::new(Int8Panels::zeros(outputs, inputs)), Beside::Rounded),
        };
        Self::new([outputs, inputs], values)
    }

    fn new([outputs, inputs]: [usize; 2], values: Values) -> Self {
        Self { outputs, inputs, values, digest: OnceLock::new() }
    }

    /// A matrix of these values, row by row.
    ///
    /// # Errors
    /// The format cannot hold a value.
    pub(crate) fn of(dtype: Dtype, shape: [usize; 2], rows: &[f32]) -> Result<Self, Unkept> {
        let mut laid = Self::zeros(dtype, shape);
        laid.put(0, rows)?;
        Ok(laid)
    }

    /// The same in f32, which holds every value.
    pub(crate) fn of_f32(shape: [usize; 2], rows: &[f32]) -> Self {
        Self::new(shape, Values::F32(Panels::of_rows(rows, shape)))
    }

    /// A matrix that computes the bits of the same numbers in f32. `None`: this one does.
    pub(crate) fn with_exact_inputs(&self) -> Option<Self> {
        match &self.values {
            Values::Int8(panels, Beside::Rounded) => {
                Some(Self::new([self.outputs, self.inputs], Values::Int8(panels.clone(), Beside::Exact)))
            }
            Values::F32(_) | Values::BF16(_) | Values::F16(_) | Values::Int8(_, Beside::Exact) => None,
        }
    }

    /// The digest of the values, as [`digested`] writes them, row by row; of int8 that rounds inputs, of codes and scales. Computed once.
    pub(crate) fn digest(&self) -> Digest {
        *self.digest.get_or_init(|| self.digest_of_values())
    }

    fn digest_of_values(&self) -> Digest {
        if let Values::Int8(panels, Beside::Rounded) = &self.values {
            let scales: Vec<u8> = panels.scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
            return Digest::of_parts([&b"int8"[..], &panels.codes, &scales]);
        }
        let panels = self.outputs.div_ceil(LANES);
        let short = match &self.values {
            Values::BF16(_) => true,
            Values::F32(_) | Values::F16(_) | Values::Int8(..) => {
                (0..panels).all(|panel| are_short(&self.panel(panel)))
            }
        };
        Digest::of_parts((0..panels).map(|panel| digested(&self.panel(panel), short)))
    }

    /// How it is kept.
    pub(crate) fn dtype(&self) -> Dtype {
        match &self.values {
            Values::F32(_) => Dtype::F32,
            Values::BF16(_) => Dtype::BF16,
            Values::F16(_) => Dtype::F16,
            Values::Int8(..) => Dtype::Int8,
        }
    }

    /// Writes whole rows, beginning with one that is a multiple of [`LANES`].
    ///
    /// # Errors
    /// The format cannot hold a value.
    pub(crate) fn put(&mut self, first: usize, rows: &[f32]) -> Result<(), Unkept> {
        let inputs = self.inputs;
        self.fill(first, rows.len() / inputs.max(1), |place, count, to| {
            to.extend_from_slice(&rows[place * inputs..(place + count) * inputs]);
            Ok(())
        })
    }

    /// The same with rows that `read` appends: it gets the number of the first one, counted from `first`, and how many. Threads read at the same time.
    ///
    /// # Errors
    /// Those of `read`, or the format cannot hold a value.
    pub(crate) fn fill<E: From<Unkept> + Send>(
        &mut self,
        first: usize,
        rows: usize,
        read: impl Fn(usize, usize, &mut Vec<f32>) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let (inputs, panel) = (self.inputs, first / LANES);
        self.digest = OnceLock::new();
        if inputs == 0 {
            return Ok(());
        }
        let count = rows.div_ceil(LANES);
        let of_panel = |number: usize, values: &mut Vec<f32>| {
            values.clear();
            read(number * LANES, LANES.min(rows - number * LANES), values)
        };
        let width = inputs * LANES;
        match &mut self.values {
            Values::F32(panels) => panels.put(panel, count, of_panel),
            Values::BF16(to) => lay_halves(&mut to[panel * width..][..count * width], inputs, Bf16::narrow, of_panel),
            Values::F16(to) => lay_halves(&mut to[panel * width..][..count * width], inputs, F16::narrow, of_panel),
            Values::Int8(to, _) => {
                let to = Arc::make_mut(to);
                let blocks = Int8Panels::blocks(inputs);
                let codes = to.codes[panel * blocks * PANEL_BLOCK..].par_chunks_mut(blocks * PANEL_BLOCK);
                let scales = to.scales[panel * blocks * LANES..].par_chunks_mut(blocks * LANES);
                codes.zip(scales).take(count).enumerate().try_for_each_init(
                    Vec::new,
                    |values, (number, (codes, scales))| {
                        of_panel(number, values)?;
                        Ok(pulp::Arch::new().dispatch(RoundedRows { rows: values, inputs, codes, scales })?)
                    },
                )
            }
        }
    }

    /// Writes whole rows that are stored as they are kept, in 16 bits, beginning with one that is a multiple of [`LANES`]. Returns the largest magnitude: infinite
    /// or not a number, if one of them is. A matrix in another format is unchanged.
    pub(crate) fn put_halves(&mut self, first: usize, rows: &[[u8; 2]]) -> f32 {
        self.digest = OnceLock::new();
        let (inputs, width) = (self.inputs, self.inputs * LANES);
        if inputs == 0 {
            return 0.0;
        }
        let from = first / LANES * width;
        match &mut self.values {
            Values::BF16(to) => Bf16::wide(copy_halves(rows, inputs, &mut to[from..])),
            Values::F16(to) => match copy_halves(rows, inputs, &mut to[from..]) {
                // Wide expects finite numbers.
                most if most < 0x7c00 => F16::wide(most),
                _ => f32::NAN,
            },
            Values::F32(_) | Values::Int8(..) => 0.0,
        }
    }

    /// Writes whole rows of blocks as they are into a matrix of int8, beginning with a row that is a multiple of [`LANES`]. `read` gets the number of a row,
    /// counted from the first one, and of a block. Threads read at the same time.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn put_blocks<E: Send>(
        &mut self,
        first: usize,
        rows: usize,
        read: impl Fn(usize, usize) -> Result<([i8; BLOCK], u16), E> + Sync,
    ) -> Result<(), E> {
        let blocks = Int8Panels::blocks(self.inputs);
        self.digest = OnceLock::new();
        let Values::Int8(to, _) = &mut self.values else { return Ok(()) };
        let to = Arc::make_mut(to);
        let panel = first / LANES;
        let codes = to.codes[panel * blocks * PANEL_BLOCK..].par_chunks_mut(blocks * PANEL_BLOCK);
        let scales = to.scales[panel * blocks * LANES..].par_chunks_mut(blocks * LANES);
        let panels = codes.zip(scales).take(rows.div_ceil(LANES)).enumerate();
        panels.try_for_each(|(number, (codes, scales))| {
            for lane in 0..LANES.min(rows - number * LANES) {
                for block in 0..blocks {
                    put_block(lane, block, &read(number * LANES + lane, block)?, codes, scales);
                }
            }
            Ok(())
        })
    }

    /// Reads a row of at least the matrix's inputs.
    pub(crate) fn row(&self, row: usize, to: &mut [f32]) {
        let (panel, lane) = (row / LANES, row % LANES);
        let width = self.inputs * LANES;
        let halves = |from: &[u16], wide: fn(u16) -> f32, to: &mut [f32]| {
            let panel = from[panel * width..(panel + 1) * width].chunks_exact(LANES);
            to.iter_mut().zip(panel).for_each(|(to, from)| *to = wide(from[lane]));
        };
        match &self.values {
            Values::F32(panels) => panels.row(row, to),
            Values::BF16(from) => halves(from, Bf16::wide, to),
            Values::F16(from) => halves(from, F16::wide, to),
            Values::Int8(from, _) => from.row(row, self.inputs, to),
        }
    }

    /// The rows of a panel, one after the other.
    fn panel(&self, panel: usize) -> Vec<f32> {
        let (inputs, width) = (self.inputs, self.inputs * LANES);
        let rows = LANES.min(self.outputs - panel * LANES);
        let mut to = vec![0.0; rows * inputs];
        fn halves<H: Half>(from: &[u16], (rows, inputs): (usize, usize), to: &mut [f32]) {
            for lane in 0..rows {
                let to = &mut to[lane * inputs..(lane + 1) * inputs];
                for input in 0..inputs {
                    to[input] = H::wide(from[input * LANES + lane]);
                }
            }
        }
        match &self.values {
            Values::BF16(from) => halves::<Bf16>(&from[panel * width..(panel + 1) * width], (rows, inputs), &mut to),
            Values::F16(from) => halves::<F16>(&from[panel * width..(panel + 1) * width], (rows, inputs), &mut to),
            Values::F32(_) | Values::Int8(..) => {
                to.chunks_exact_mut(inputs.max(1)).enumerate().for_each(|(row, to)| self.row(panel * LANES + row, to));
            }
        }
        to
    }

    /// All values, row by row.
    pub(crate) fn rows(&self) -> Vec<f32> {
        let mut rows = vec![0.0; self.outputs * self.inputs];
        let panels = rows.par_chunks_mut((self.inputs * LANES).max(1)).enumerate();
        panels.for_each(|(panel, to)| to.copy_from_slice(&self.panel(panel)));
        rows
    }

    /// All values of a matrix in 16 bits as the bytes of a file, row by row. `None`: it is kept in another format.
    pub(crate) fn halves(&self) -> Option<Vec<u8>> {
        let (Values::BF16(from) | Values::F16(from)) = &self.values else { return None };
        let width = (self.inputs * LANES).max(1);
        let mut rows = vec![0; self.outputs * self.inputs * 2];
        rows.par_chunks_mut(width * 2).zip(from.par_chunks(width)).for_each(|(to, from)| {
            for (lane, to) in to.chunks_exact_mut(self.inputs * 2).enumerate() {
                for (to, from) in to.as_chunks_mut::<2>().0.iter_mut().zip(from.as_chunks::<LANES>().0) {
                    *to = from[lane].to_le_bytes();
                }
            }
        });
        Some(rows)
    }

    /// Rows times the transposed matrix: `x` is `[rows, inputs]`, `out` becomes `[rows, outputs]`.
    pub(crate) fn multiply(&self, x: &[f32], out: &mut [f32], threads: bool) {
        let rows = x.len() / self.inputs.max(1);
        debug_assert_eq!((x.len(), out.len()), (rows * self.inputs, rows * self.outputs));
        if rows == 0 || self.outputs == 0 {
            return;
        }
        let rounded = match &self.values {
            Values::F32(panels) => return panels.multiply(x, out, threads),
            Values::BF16(_) | Values::F16(_) | Values::Int8(_, Beside::Exact) => None,
            Values::Int8(_, Beside::Rounded) => Some(Inputs::of(x, self.inputs)),
        };
        let panels = self.outputs.div_ceil(LANES);
        let product = |first: usize, count: usize, outputs: usize, out: &mut [f32]| {
            self.product(x, rounded.as_ref(), first, count, outputs, out);
        };
        if !threads || rows * self.inputs * self.outputs < WORTH_THREADS {
            return product(0, panels, self.outputs, out);
        }
        // Panels are distributed over threads, so that each thread reads its own part of the matrix once.
        let part = panels.div_ceil(rayon::current_num_threads() * 2).max(1);
        let starts: Vec<usize> = (0..panels).step_by(part).collect();
        let parts: Vec<Vec<f32>> = starts
            .par_iter()
            .map(|first| {
                let count = part.min(panels - first);
                let outputs = (count * LANES).min(self.outputs - first * LANES);
                let mut sums = vec![0.0; rows * outputs];
                product(*first, count, outputs, &mut sums);
                sums
            })
            .collect();
        for (first, sums) in starts.iter().zip(&parts) {
            let width = sums.len() / rows;
            for (row, sums) in out.chunks_exact_mut(self.outputs).zip(sums.chunks_exact(width)) {
                row[first * LANES..first * LANES + width].copy_from_slice(sums);
            }
        }
    }

    /// The product with some panels, of which `outputs` are used, on the current thread.
    fn product(
        &self,
        x: &[f32],
        rounded: Option<&Inputs>,
        first: usize,
        count: usize,
        outputs: usize,
        out: &mut [f32],
    ) {
        let width = self.inputs * LANES;
        let arch = pulp::Arch::new();
        match (&self.values, rounded) {
            (Values::BF16(all), _) => {
                let panels = &all[first * width..(first + count) * width];
                arch.dispatch(Product::<Bf16, { mode::WRITE }> { x, inputs: self.inputs, panels, outputs, out });
            }
            (Values::F16(all), _) => {
                let panels = &all[first * width..(first + count) * width];
                arch.dispatch(Product::<F16, { mode::WRITE }> { x, inputs: self.inputs, panels, outputs, out });
            }
            (Values::Int8(all, _), Some(inputs)) => {
                let blocks = inputs.blocks;
                let codes = &all.codes[first * blocks * PANEL_BLOCK..(first + count) * blocks * PANEL_BLOCK];
                let scales = &all.scales[first * blocks * LANES..(first + count) * blocks * LANES];
                let product = Int8Product { inputs, codes, scales, outputs, out };
                #[cfg(target_arch = "x86_64")]
                let Err(product) = super::int8_x86::compute(product) else { return };
                arch.dispatch(product);
            }
            (Values::Int8(all, _), None) => {
                let weights = Scaled::of(all, self.inputs);
                arch.dispatch(ForwardProduct { weights, x, inputs: self.inputs, first, outputs, out });
            }
            (Values::F32(all), _) => all.part(x, first, outputs, out),
        }
    }

    /// Rows times some outputs of the transposed matrix, on the current thread: `x` is `[rows, inputs]`, `out` becomes `[rows, count]`. `first` is a
    /// multiple of [`LANES`].
    pub(crate) fn multiply_some(&self, x: &[f32], (first, count): (usize, usize), out: &mut [f32]) {
        let rounded = match &self.values {
            Values::Int8(_, Beside::Rounded) => Some(Inputs::of(x, self.inputs)),
            _ => None,
        };
        self.product(x, rounded.as_ref(), first / LANES, count.div_ceil(LANES), count, out);
    }

    /// Adds the product of rows with the matrix, not transposed, on the current thread: `dy` is `[rows, outputs]`, `out` `[rows, inputs]`. Inputs are
    /// never rounded: it is the gradient of what is computed in f32.
    pub(crate) fn add_back(&self, dy: &[f32], out: &mut [f32]) {
        self.add_back_some(dy, self.outputs, (0, self.outputs), out);
    }

    /// The same for some outputs: a row of `dy` begins with their gradients, and `stride` is the distance between its rows. `first` is a multiple of
    /// [`LANES`].
    pub(crate) fn add_back_some(&self, dy: &[f32], stride: usize, outputs: (usize, usize), out: &mut [f32]) {
        let inputs = self.inputs;
        if inputs == 0 || outputs.1 == 0 {
            return;
        }
        fn compute<W: Weights>(
            weights: W,
            inputs: usize,
            outputs: (usize, usize),
            dy: (&[f32], usize),
            out: &mut [f32],
        ) {
            let (dy, stride) = dy;
            pulp::Arch::new().dispatch(BackProduct { weights, inputs, outputs, dy, stride, out });
        }
        let dy = (dy, stride);
        match &self.values {
            Values::F32(all) => compute(Singles { values: all.values(), inputs }, inputs, outputs, dy, out),
            Values::BF16(all) => compute(Halves::<Bf16>::of(all, inputs), inputs, outputs, dy, out),
            Values::F16(all) => compute(Halves::<F16>::of(all, inputs), inputs, outputs, dy, out),
            Values::Int8(all, _) => compute(Scaled::of(all, inputs), inputs, outputs, dy, out),
        }
    }
}

/// Lays out halves, panel by panel.
fn lay_halves<E: From<Unkept> + Send>(
    to: &mut [u16],
    inputs: usize,
    narrow: impl Fn(f32) -> Option<u16> + Sync,
    of_panel: impl Fn(usize, &mut Vec<f32>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    to.par_chunks_mut(inputs * LANES).enumerate().try_for_each_init(Vec::new, |values, (number, to)| {
        of_panel(number, values)?;
        let rows = values.len() / inputs;
        for input in 0..inputs {
            for lane in 0..rows {
                let value = values[lane * inputs + input];
                to[input * LANES + lane] = narrow(value).ok_or(Unkept(value))?;
            }
        }
        Ok(())
    })
}

/// Lays out rows of 16-bit numbers, and returns the bits of the largest magnitude.
fn copy_halves(rows: &[[u8; 2]], inputs: usize, to: &mut [u16]) -> u16 {
    let panels = to.par_chunks_mut(inputs * LANES).zip(rows.par_chunks(inputs * LANES));
    let most = panels.map(|(to, rows)| {
        // A few inputs of all rows at a time, so that what is written stays in the first-level cache.
        for (number, to) in to.as_chunks_mut::<LANES>().0.chunks_mut(LANES).enumerate() {
            for (lane, row) in rows.chunks_exact(inputs).enumerate() {
                for (to, bytes) in to.iter_mut().zip(&row[number * LANES..]) {
                    to[lane] = u16::from_le_bytes(*bytes);
                }
            }
        }
        to.iter().fold(0, |most, bits| most.max(bits & 0x7fff))
    });
    most.max().unwrap_or_default()
}

/// Rows of a panel that become codes.
struct RoundedRows<'a> {
    rows: &'a [f32],
    inputs: usize,
    codes: &'a mut [u8],
    scales: &'a mut [u16],
}

impl pulp::NullaryFnOnce for RoundedRows<'_> {
    type Output = Result<(), Unkept>;

    #[inline(always)]
    fn call(self) -> Self::Output {
        let Self { rows, inputs, codes, scales } = self;
        for (lane, row) in rows.chunks(inputs).enumerate() {
            for (block, values) in row.chunks(BLOCK).enumerate() {
                put_block(lane, block, &block_of(values)?, codes, scales);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
