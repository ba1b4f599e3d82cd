//! A matrix as it is kept in memory: in panels, in one of the formats of [`Dtype`]. Inference reads it as it is kept.

#![allow(clippy::indexing_slicing, reason = "sizes are checked at the entry of each function")]

use super::half_panels::{Bf16, F16, Half, HalfProduct};
use super::int8_panels::{BLOCK, Inputs, Int8Panels, Int8Product, PANEL_BLOCK, TooLarge, block_of, put_block};
use super::panels::{LANES, Panels, WORTH_THREADS, panel_values};
use crate::host_weights::{are_short, digested};
use crate::{Dtype, LocalModelError};
use clawhost_core::Digest;
use rayon::prelude::*;
use std::marker::PhantomData;

/// A matrix `[outputs, inputs]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Laid {
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
    values: Values,
}

#[derive(Debug, Clone, PartialEq)]
enum Values {
    F32(Panels),
    BF16(Vec<u16>),
    F16(Vec<u16>),
    Int8(Int8Panels),
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
            Dtype::Int8 => Values::Int8(Int8Panels::zeros(outputs, inputs)),
        };
        Self { outputs, inputs, values }
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
    pub(crate) fn of_f32([outputs, inputs]: [usize; 2], rows: &[f32]) -> Self {
        Self { outputs, inputs, values: Values::F32(Panels::of_rows(rows, [outputs, inputs])) }
    }

    /// The digest of the values, as [`digested`] writes them, row by row; of int8, of codes and scales.
    pub(crate) fn digest(&self) -> Digest {
        if let Values::Int8(panels) = &self.values {
            let scales: Vec<u8> = panels.scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
            return Digest::of_parts([&b"int8"[..], &panels.codes, &scales]);
        }
        let panels = self.outputs.div_ceil(LANES);
        let short = match &self.values {
            Values::BF16(_) => true,
            Values::F32(_) | Values::F16(_) => (0..panels).all(|panel| are_short(&self.panel(panel))),
            Values::Int8(_) => false,
        };
        Digest::of_parts((0..panels).map(|panel| digested(&self.panel(panel), short)))
    }

    /// How it is kept.
    pub(crate) fn dtype(&self) -> Dtype {
        match &self.values {
            Values::F32(_) => Dtype::F32,
            Values::BF16(_) => Dtype::BF16,
            Values::F16(_) => Dtype::F16,
            Values::Int8(_) => Dtype::Int8,
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
            Values::Int8(to) => {
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
        let Values::Int8(to) = &mut self.values else { return Ok(()) };
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
            Values::Int8(from) => from.row(row, self.inputs, to),
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
            Values::F32(_) | Values::Int8(_) => {
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

    /// Rows times the transposed matrix: `x` is `[rows, inputs]`, `out` becomes `[rows, outputs]`.
    pub(crate) fn multiply(&self, x: &[f32], out: &mut [f32], threads: bool) {
        let rows = x.len() / self.inputs.max(1);
        debug_assert_eq!((x.len(), out.len()), (rows * self.inputs, rows * self.outputs));
        if rows == 0 || self.outputs == 0 {
            return;
        }
        let rounded = match &self.values {
            Values::F32(panels) => return panels.multiply(x, out, threads),
            Values::BF16(_) | Values::F16(_) => None,
            Values::Int8(_) => Some(Inputs::of(x, self.inputs)),
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
                arch.dispatch(HalfProduct::<Bf16> { x, inputs: self.inputs, panels, outputs, out, of: PhantomData });
            }
            (Values::F16(all), _) => {
                let panels = &all[first * width..(first + count) * width];
                arch.dispatch(HalfProduct::<F16> { x, inputs: self.inputs, panels, outputs, out, of: PhantomData });
            }
            (Values::Int8(all), Some(inputs)) => {
                let blocks = inputs.blocks;
                let codes = &all.codes[first * blocks * PANEL_BLOCK..(first + count) * blocks * PANEL_BLOCK];
                let scales = &all.scales[first * blocks * LANES..(first + count) * blocks * LANES];
                let product = Int8Product { inputs, codes, scales, outputs, out };
                #[cfg(target_arch = "x86_64")]
                let Err(product) = super::int8_x86::compute(product) else { return };
                arch.dispatch(product);
            }
            (Values::F32(_) | Values::Int8(_), _) => {}
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
mod tests {
    use super::*;
    use crate::host_weights::Stream;

    fn random(count: usize, name: &str) -> Vec<f32> {
        let mut stream = Stream::of(3, name);
        (0..count).map(|_| (stream.uniform() * 2.0 - 1.0) as f32).collect()
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// Shapes with and without a rest, in outputs, blocks and groups.
    const SHAPES: [[usize; 2]; 7] = [[1, 1], [16, 32], [17, 33], [5, 70], [40, 64], [100, 96], [33, 130]];

    #[test]
    fn rows_that_are_written_are_read_back_as_the_format_keeps_them() {
        for shape in SHAPES {
            let rows = random(shape[0] * shape[1], "rows");
            for dtype in Dtype::ALL {
                let laid = Laid::of(dtype, shape, &rows).unwrap();
                let expect: Vec<f32> = match dtype {
                    Dtype::F32 => rows.clone(),
                    Dtype::BF16 => rows.iter().map(|value| half::bf16::from_f32(*value).to_f32()).collect(),
                    Dtype::F16 => rows.iter().map(|value| half::f16::from_f32(*value).to_f32()).collect(),
                    Dtype::Int8 => {
                        let row = |row: &[f32]| -> Vec<f32> {
                            row.chunks(BLOCK)
                                .flat_map(|block| {
                                    let (codes, scale) = block_of(block).unwrap();
                                    codes
                                        .into_iter()
                                        .take(block.len())
                                        .map(move |code| f32::from(code) * F16::wide(scale))
                                })
                                .collect()
                        };
                        rows.chunks(shape[1]).flat_map(row).collect()
                    }
                };
                assert_eq!(bits(&laid.rows()), bits(&expect), "{dtype:?} {shape:?}");
                assert_eq!(laid.dtype(), dtype);
                // In two pieces.
                let mut pieces = Laid::zeros(dtype, shape);
                let cut = (16 * shape[1]).min(rows.len());
                pieces.put(0, &rows[..cut]).unwrap();
                pieces.put(16, &rows[cut..]).unwrap();
                assert!(pieces == laid, "{dtype:?} {shape:?}");
            }
        }
    }

    #[test]
    fn a_product_of_halves_has_the_bits_of_the_same_numbers_in_f32() {
        for shape in SHAPES {
            for dtype in [Dtype::BF16, Dtype::F16] {
                let laid = Laid::of(dtype, shape, &random(shape[0] * shape[1], "weights")).unwrap();
                let plain = Laid::of(Dtype::F32, shape, &laid.rows()).unwrap();
                for rows in [1, 2, 5, 6, 7, 13] {
                    let x = random(rows * shape[1], "x");
                    let (mut found, mut right) = (vec![0.0; rows * shape[0]], vec![0.0; rows * shape[0]]);
                    laid.multiply(&x, &mut found, false);
                    plain.multiply(&x, &mut right, false);
                    assert_eq!(bits(&found), bits(&right), "{dtype:?} {shape:?} {rows}");
                }
            }
        }
    }

    #[test]
    fn a_product_of_int8_sums_whole_numbers_block_by_block() {
        for shape in SHAPES {
            let [outputs, inputs] = shape;
            let weights = random(outputs * inputs, "weights");
            let laid = Laid::of(Dtype::Int8, shape, &weights).unwrap();
            let exact = laid.rows();
            for rows in [1, 2, 3, 4, 5, 8, 11, 17] {
                let x = random(rows * inputs, "x");
                let mut found = vec![0.0; rows * outputs];
                laid.multiply(&x, &mut found, false);
                // As the definition says, one number after the other.
                let rounded = Inputs::of(&x, inputs);
                for row in 0..rows {
                    for output in 0..outputs {
                        let mut sum = 0.0f32;
                        for (block, weights) in
                            weights[output * inputs..(output + 1) * inputs].chunks(BLOCK).enumerate()
                        {
                            let (codes, scale) = block_of(weights).unwrap();
                            let at = row * rounded.blocks + block;
                            let x: Vec<i8> = rounded.codes[at]
                                .iter()
                                .flat_map(|four| four.to_le_bytes().map(u8::cast_signed))
                                .collect();
                            let whole: i32 =
                                codes.iter().zip(&x).map(|(code, x)| i32::from(*code) * i32::from(*x)).sum();
                            sum = (whole as f32).mul_add(F16::wide(scale) * rounded.scales[at], sum);
                        }
                        assert_eq!(found[row * outputs + output].to_bits(), sum.to_bits(), "{shape:?} {rows}");
                        let plain: f64 = (0..inputs)
                            .map(|i| f64::from(exact[output * inputs + i]) * f64::from(x[row * inputs + i]))
                            .sum();
                        assert!((plain - f64::from(sum)).abs() < 0.004 * inputs as f64, "{plain} {sum}");
                    }
                }
            }
        }
    }

    #[test]
    fn both_kernels_of_int8_give_equal_bits() {
        for shape in SHAPES {
            let laid = Laid::of(Dtype::Int8, shape, &random(shape[0] * shape[1], "weights")).unwrap();
            let Values::Int8(panels) = &laid.values else { panic!("kept as int8") };
            for rows in [1, 2, 3, 9] {
                let inputs = Inputs::of(&random(rows * shape[1], "x"), shape[1]);
                let product = |out| Int8Product {
                    inputs: &inputs,
                    codes: &panels.codes,
                    scales: &panels.scales,
                    outputs: shape[0],
                    out,
                };
                let mut plain = vec![0.0; rows * shape[0]];
                pulp::Arch::new().dispatch(product(&mut plain));
                #[cfg(target_arch = "x86_64")]
                {
                    let mut fast = vec![0.0; rows * shape[0]];
                    if super::super::int8_x86::compute(product(&mut fast)).is_ok() {
                        assert_eq!(bits(&fast), bits(&plain), "{shape:?} {rows}");
                    }
                }
            }
        }
    }

    #[test]
    fn threads_and_other_rows_change_no_bit() {
        let shape = [2048, 512];
        for dtype in Dtype::ALL {
            let laid = Laid::of(dtype, shape, &random(shape[0] * shape[1], "weights")).unwrap();
            let x = random(9 * shape[1], "x");
            let mut all = vec![0.0; 9 * shape[0]];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            pool.install(|| laid.multiply(&x, &mut all, true));
            for row in 0..9 {
                let mut alone = vec![0.0; shape[0]];
                laid.multiply(&x[row * shape[1]..(row + 1) * shape[1]], &mut alone, false);
                assert_eq!(bits(&alone), bits(&all[row * shape[0]..(row + 1) * shape[0]]), "{dtype:?} {row}");
            }
        }
    }

    #[test]
    fn values_that_a_format_cannot_hold_are_refused() {
        for (dtype, value) in [(Dtype::F16, 1e6), (Dtype::Int8, 1e9)] {
            assert_eq!(Laid::of(dtype, [1, 1], &[value]), Err(Unkept(value)), "{dtype:?}");
        }
    }
}
