//! Rows times panels, from the first input to the last, with sums in registers:
//!
//! ```text
//! out[row, output]  = sum over inputs of x[row, input] · panel[input, output]      answers, training, attention
//! ```
//!
//! Each sum is a chain of fused multiply-adds of its own, so neither the width of vectors nor the number of rows and panels at once changes a bit.

#![allow(clippy::indexing_slicing, reason = "sizes are fixed by the types or checked at the entry of each function")]

use super::halves::Half;
use super::panels::LANES;

/// Rows that are multiplied at once where sixteen registers have eight lanes: with two registers for a panel, sums fill twelve of them.
pub(super) const ROWS: usize = 6;
/// Rows, and panels, that are multiplied at once where 32 registers have sixteen lanes: sums fill 24 of them.
pub(super) const WIDE_ROWS: usize = 12;
pub(super) const WIDE_PANELS: usize = 2;
/// Rows that are multiplied with one panel before the next panel is read. They fit a core's second-level cache.
const ROWS_AT_ONCE: usize = 96;

/// How a weight is kept in a panel.
pub(super) trait Stored: Copy {
    type Bits: Copy;

    /// The weights of an input, in `N` vectors.
    fn vectors<S: pulp::Simd, const N: usize>(simd: S, lanes: &[Self::Bits; LANES]) -> [S::f32s; N];
}

/// In f32.
#[derive(Clone, Copy)]
pub(super) struct Single;

impl Stored for Single {
    type Bits = f32;

    #[inline(always)]
    fn vectors<S: pulp::Simd, const N: usize>(_: S, lanes: &[f32; LANES]) -> [S::f32s; N] {
        S::as_simd_f32s(lanes).0.as_chunks::<N>().0[0]
    }
}

impl<H: Half> Stored for H {
    type Bits = u16;

    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "counted loops become vector code")]
    fn vectors<S: pulp::Simd, const N: usize>(simd: S, lanes: &[u16; LANES]) -> [S::f32s; N] {
        let mut wide = [0.0f32; LANES];
        for lane in 0..LANES {
            wide[lane] = H::wide(lanes[lane]);
        }
        Single::vectors(simd, &wide)
    }
}

/// What a sum begins with, and what becomes of it.
pub(super) mod mode {
    /// From 0; it is written.
    pub(crate) const WRITE: u8 = 0;
    /// From 0; it is added to what is there.
    pub(crate) const ADD: u8 = 1;
    /// From what is there; it is written.
    pub(crate) const CONTINUE: u8 = 2;
}

/// Rows times panels, with the vector instructions of this processor.
pub(super) struct Product<'a, F: Stored, const MODE: u8> {
    /// `[rows, inputs]`.
    pub(super) x: &'a [f32],
    pub(super) inputs: usize,
    pub(super) panels: &'a [F::Bits],
    pub(super) outputs: usize,
    /// `[rows, outputs]`.
    pub(super) out: &'a mut [f32],
}

impl<F: Stored, const MODE: u8> pulp::WithSimd for Product<'_, F, MODE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self { x, inputs, panels, outputs, out } = self;
        rows_times_panels::<S, F, MODE>(simd, x, inputs, panels, outputs, out, outputs);
    }
}

/// `x` is `[rows, inputs]`. `stride` is the distance between the rows of `out`.
#[inline(always)]
pub(super) fn rows_times_panels<S: pulp::Simd, F: Stored, const MODE: u8>(
    simd: S,
    x: &[f32],
    inputs: usize,
    panels: &[F::Bits],
    outputs: usize,
    out: &mut [f32],
    stride: usize,
) {
    match S::F32_LANES {
        16 => product_of::<S, F, 1, WIDE_PANELS, WIDE_ROWS, MODE>(simd, x, inputs, panels, outputs, out, stride),
        8 => product_of::<S, F, 2, 1, ROWS, MODE>(simd, x, inputs, panels, outputs, out, stride),
        4 => product_of::<S, F, 4, 1, ROWS, MODE>(simd, x, inputs, panels, outputs, out, stride),
        _ => product_of::<S, F, LANES, 1, ROWS, MODE>(simd, x, inputs, panels, outputs, out, stride),
    }
}

/// With panels of `N` vectors, `P` panels and `R` rows at once.
#[inline(always)]
fn product_of<S: pulp::Simd, F: Stored, const N: usize, const P: usize, const R: usize, const MODE: u8>(
    simd: S,
    x: &[f32],
    inputs: usize,
    panels: &[F::Bits],
    outputs: usize,
    out: &mut [f32],
    stride: usize,
) {
    let mut packed = Vec::new();
    for (x, out) in x.chunks(inputs * ROWS_AT_ONCE).zip(out.chunks_mut(stride * ROWS_AT_ONCE)) {
        let x = Rows::<R>::of(x, (x.len() / inputs, inputs), (inputs, outputs), &mut packed);
        let all = panels.as_chunks::<LANES>().0;
        let count = outputs.div_ceil(LANES);
        let mut number = 0;
        while number < count {
            let width = outputs - number * LANES;
            let out = (&mut out[number * LANES..], stride);
            if count - number >= P {
                let mut at = [&all[..0]; P];
                for part in 0..P {
                    at[part] = &all[(number + part) * inputs..][..inputs];
                }
                x.times::<S, F, N, P, MODE>(simd, at, out, width);
                number += P;
            } else {
                x.times::<S, F, N, 1, MODE>(simd, [&all[number * inputs..][..inputs]], out, width);
                number += 1;
            }
        }
    }
}

/// Rows, and how they are read.
pub(super) struct Rows<'a, const R: usize> {
    /// Full strips of `R` rows, input by input. Empty, if that is not worth it.
    strips: &'a [[f32; R]],
    x: &'a [f32],
    stride: usize,
    rows: usize,
    inputs: usize,
}

/// Outputs from which on rows are packed: each value is then read for sixteen vectors or more.
const WORTH_PACKING: usize = 256;

impl<'a, const R: usize> Rows<'a, R> {
    /// Some inputs of some rows, `stride` from row to row, which are multiplied with this number of outputs.
    ///
    /// For many outputs, strips of rows are copied, input by input. Their distance in memory is often a multiple of 4 KiB, and all of them would share
    /// one set of the first-level cache.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators are not inlined here")]
    pub(super) fn of(
        x: &'a [f32],
        (rows, stride): (usize, usize),
        (inputs, outputs): (usize, usize),
        to: &'a mut Vec<[f32; R]>,
    ) -> Self {
        let full = if outputs < WORTH_PACKING { 0 } else { rows / R };
        if to.len() < full * inputs {
            to.resize(full * inputs, [0.0; R]);
        }
        for strip in 0..full {
            let to = &mut to[strip * inputs..(strip + 1) * inputs];
            for row in 0..R {
                let from = &x[(strip * R + row) * stride..][..inputs];
                for input in 0..inputs {
                    to[input][row] = from[input];
                }
            }
        }
        Self { strips: &to[..full * inputs], x, stride, rows, inputs }
    }

    /// All rows over `P` panels, of which `width` outputs are used. `out` has a distance between its rows.
    #[inline(always)]
    pub(super) fn times<S: pulp::Simd, F: Stored, const N: usize, const P: usize, const MODE: u8>(
        &self,
        simd: S,
        panels: [&[[F::Bits; LANES]]; P],
        (out, stride): (&mut [f32], usize),
        width: usize,
    ) {
        let inputs = self.inputs;
        let mut row = 0;
        while row < self.rows {
            let (x, out) = ((&self.x[row * self.stride..], self.stride), (&mut out[row * stride..], stride));
            let left = self.rows - row;
            if left >= R {
                match self.strips.get(row / R * inputs..(row / R + 1) * inputs) {
                    Some(strip) => tile::<S, F, _, R, N, P, MODE>(simd, Packed(strip), panels, out, width),
                    None => tile::<S, F, _, R, N, P, MODE>(simd, Apart::of(x, inputs), panels, out, width),
                }
                row += R;
                continue;
            }
            match left {
                1 => tile::<S, F, _, 1, N, P, MODE>(simd, Apart::of(x, inputs), panels, out, width),
                2 => tile::<S, F, _, 2, N, P, MODE>(simd, Apart::of(x, inputs), panels, out, width),
                3 => tile::<S, F, _, 3, N, P, MODE>(simd, Apart::of(x, inputs), panels, out, width),
                4 => tile::<S, F, _, 4, N, P, MODE>(simd, Apart::of(x, inputs), panels, out, width),
                5 => tile::<S, F, _, 5, N, P, MODE>(simd, Apart::of(x, inputs), panels, out, width),
                _ => tile::<S, F, _, ROWS, N, P, MODE>(simd, Apart::of(x, inputs), panels, out, width),
            }
            row += left.min(ROWS);
        }
    }
}

/// The values of `R` rows at an input.
trait Values<const R: usize>: Copy {
    fn inputs(self) -> usize;
    fn value(self, row: usize, input: usize) -> f32;
}

#[derive(Clone, Copy)]
struct Packed<'a, const R: usize>(&'a [[f32; R]]);

impl<const R: usize> Values<R> for Packed<'_, R> {
    #[inline(always)]
    fn inputs(self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn value(self, row: usize, input: usize) -> f32 {
        self.0[input][row]
    }
}

#[derive(Clone, Copy)]
struct Apart<'a, const R: usize>([&'a [f32]; R]);

impl<'a, const R: usize> Apart<'a, R> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "a closure would not be inlined here")]
    fn of((x, stride): (&'a [f32], usize), inputs: usize) -> Self {
        let mut rows = [&x[..0]; R];
        for row in 0..R {
            rows[row] = &x[row * stride..row * stride + inputs];
        }
        Self(rows)
    }
}

impl<const R: usize> Values<R> for Apart<'_, R> {
    #[inline(always)]
    fn inputs(self) -> usize {
        self.0[0].len()
    }

    #[inline(always)]
    fn value(self, row: usize, input: usize) -> f32 {
        self.0[row][input]
    }
}

/// Sums of `R` rows over `P` panels.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "counted loops are unrolled, so that sums stay in registers")]
fn tile<S: pulp::Simd, F: Stored, X: Values<R>, const R: usize, const N: usize, const P: usize, const MODE: u8>(
    simd: S,
    x: X,
    panels: [&[[F::Bits; LANES]]; P],
    (out, stride): (&mut [f32], usize),
    width: usize,
) {
    let inputs = x.inputs();
    let mut at = panels;
    for part in 0..P {
        at[part] = &panels[part][..inputs];
    }
    // Sums pass through memory before and after: the loops that touch them stay small, are unrolled, and leave them in registers between.
    let mut memory = [[[0.0f32; LANES]; P]; R];
    if MODE == mode::CONTINUE {
        for row in 0..R {
            for part in 0..P {
                let width = LANES.min(width - part * LANES);
                memory[row][part][..width].copy_from_slice(&out[row * stride + part * LANES..][..width]);
            }
        }
    }
    let mut sums = [[[simd.splat_f32s(0.0); N]; P]; R];
    if MODE == mode::CONTINUE {
        for row in 0..R {
            for part in 0..P {
                sums[row][part] = Single::vectors(simd, &memory[row][part]);
            }
        }
    }
    for input in 0..inputs {
        let mut weights = [[simd.splat_f32s(0.0); N]; P];
        for part in 0..P {
            weights[part] = F::vectors::<S, N>(simd, &at[part][input]);
        }
        for row in 0..R {
            let value = simd.splat_f32s(x.value(row, input));
            for part in 0..P {
                for vector in 0..N {
                    sums[row][part][vector] = simd.mul_add_f32s(value, weights[part][vector], sums[row][part][vector]);
                }
            }
        }
    }
    for row in 0..R {
        for part in 0..P {
            keep::<S, N>(&sums[row][part], &mut memory[row][part]);
        }
    }
    for row in 0..R {
        for part in 0..P {
            let out = &mut out[row * stride + part * LANES..][..LANES.min(width - part * LANES)];
            put(&memory[row][part], MODE == mode::ADD, out);
        }
    }
}

/// Writes the sums of a panel to memory.
#[inline(always)]
#[allow(clippy::manual_memcpy, reason = "a copy of the slice would need the sums in memory before")]
pub(super) fn keep<S: pulp::Simd, const N: usize>(sums: &[S::f32s; N], to: &mut [f32; LANES]) {
    let to = S::as_mut_simd_f32s(to).0;
    for vector in 0..N {
        to[vector] = sums[vector];
    }
}

/// Writes sums, of which there may be fewer than [`LANES`], or adds them.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators are not inlined here")]
pub(super) fn put(sums: &[f32; LANES], add: bool, out: &mut [f32]) {
    match out.first_chunk_mut::<LANES>() {
        Some(out) if add => {
            for lane in 0..LANES {
                out[lane] += sums[lane];
            }
        }
        Some(out) => *out = *sums,
        None => {
            for lane in 0..out.len() {
                out[lane] = if add { out[lane] + sums[lane] } else { sums[lane] };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::attention::{Softmax, shares};
    use crate::cpu::elementwise::{dot, norm_scale, silu, weighted_sum};
    use crate::cpu::halves::Bf16;
    use crate::cpu::outer::add_outer_products;
    use crate::cpu::panels::{Panels, lay_columns, panel_values};
    use crate::cpu::unpacked::{BackProduct, Halves};
    use crate::host_weights::Stream;

    fn random(count: usize, name: &str) -> Vec<f32> {
        let mut stream = Stream::of(5, name);
        (0..count).map(|_| (stream.uniform() * 2.0 - 1.0) as f32).collect()
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// Everything that depends on the width of vectors, in one value.
    struct All {
        shape: [usize; 2],
        rows: usize,
    }

    impl pulp::WithSimd for All {
        type Output = Vec<Vec<u32>>;

        fn with_simd<S: pulp::Simd>(self, simd: S) -> Self::Output {
            let Self { shape: [outputs, inputs], rows } = self;
            let panels = Panels::of_rows(&random(outputs * inputs, "weights"), [outputs, inputs]);
            let panels = panels.values().as_flattened();
            let brain: Vec<u16> = panels.iter().map(|value| (value.to_bits() >> 16) as u16).collect();
            let (x, before) = (random(rows * inputs, "x"), random(rows * outputs, "out"));
            let mut found = Vec::new();
            let mut out = before.clone();
            rows_times_panels::<S, Single, { mode::WRITE }>(simd, &x, inputs, panels, outputs, &mut out, outputs);
            found.push(bits(&out));
            out.clone_from(&before);
            rows_times_panels::<S, Single, { mode::ADD }>(simd, &x, inputs, panels, outputs, &mut out, outputs);
            found.push(bits(&out));
            out.clone_from(&before);
            rows_times_panels::<S, Single, { mode::CONTINUE }>(simd, &x, inputs, panels, outputs, &mut out, outputs);
            found.push(bits(&out));
            rows_times_panels::<S, Bf16, { mode::WRITE }>(simd, &x, inputs, &brain, outputs, &mut out, outputs);
            found.push(bits(&out));
            let mut columns = vec![0.0; panel_values(inputs, rows)];
            lay_columns(&x, inputs, inputs, rows, &mut columns);
            let mut slope = random(outputs * inputs, "slope");
            add_outer_products(simd, (&before, outputs), (&columns, rows), &mut slope, inputs);
            found.push(bits(&slope));
            let (weights, mut back) = (Halves::<Bf16>::of(&brain, inputs), x.clone());
            let all = (0, outputs);
            let product = BackProduct { weights, inputs, outputs: all, dy: &before, stride: outputs, out: &mut back };
            product.with_simd(simd);
            found.push(bits(&back));
            // Sums along a row, and what is computed value by value.
            let mut shares_of_row = x.clone();
            let seen = x.len() - x.len() / 3;
            let Softmax { most, whole } = shares(&mut shares_of_row, seen);
            found.push(bits(&shares_of_row));
            let silus: Vec<f32> = x.iter().map(|value| silu(*value)).collect();
            found.push(bits(&silus));
            found.push(bits(&[most, whole, norm_scale(&x, 1e-6), dot(&x, &shares_of_row)]));
            let mut mixed = vec![0.0; inputs];
            weighted_sum(&before[..rows], &x, inputs, &mut mixed);
            found.push(bits(&mixed));
            found
        }
    }

    /// Each sum as its definition says.
    fn defined(shape: [usize; 2], rows: usize) -> Vec<u32> {
        let [outputs, inputs] = shape;
        let (weights, x) = (random(outputs * inputs, "weights"), random(rows * inputs, "x"));
        let sum = |row: usize, output: usize| {
            (0..inputs)
                .fold(0.0f32, |sum, input| x[row * inputs + input].mul_add(weights[output * inputs + input], sum))
        };
        (0..rows).flat_map(|row| (0..outputs).map(move |output| sum(row, output).to_bits())).collect()
    }

    #[test]
    fn products_have_the_same_bits_with_vectors_of_any_width() {
        use pulp::Simd;

        for shape in [[1, 1], [16, 32], [33, 70], [48, 17], [300, 40], [40, 300]] {
            for rows in [1, 5, 6, 11, 12, 13, 25, 100] {
                let here = pulp::Arch::new().dispatch(All { shape, rows });
                let one = Simd::vectorize(pulp::Scalar::new(), All { shape, rows });
                assert_eq!(here, one, "{shape:?} {rows}");
                assert_eq!(here.first(), Some(&defined(shape, rows)), "{shape:?} {rows}");
                #[cfg(target_arch = "x86_64")]
                if let Some(eight) = pulp::x86::V3::try_new() {
                    assert_eq!(Simd::vectorize(eight, All { shape, rows }), one, "{shape:?} {rows}");
                }
            }
        }
    }
}
