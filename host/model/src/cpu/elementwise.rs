//! Element-wise operations, and sums along a row in a fixed order.

#![allow(clippy::indexing_slicing, reason = "lengths are those of the arrays")]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators and closures are not inlined into functions with vector instructions; counted loops become vector code"
)]

/// A sum runs in this number of interleaved chains, which are then added in order.
const CHAINS: usize = 16;

/// Floats near this number, 1.5 · 2^23, are integers, and their lowest bits count from 0.
const WHOLE: f32 = 12_582_912.0;

/// `e^x` within 2 units in the last place: `2^n · p(r)` with a polynomial of degree 6 (the coefficients of Cephes'
/// `expf`). No table and no branch, so that it vectorises. The same bits on every machine.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.3, 88.7);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    let r = n.mul_add(-0.693_359_4, x);
    let r = n.mul_add(2.121_944_4e-4, r);
    let p = 1.987_569_1e-4f32;
    let p = p.mul_add(r, 1.398_199_9e-3);
    let p = p.mul_add(r, 8.333_452e-3);
    let p = p.mul_add(r, 4.166_579_6e-2);
    let p = p.mul_add(r, 1.666_666_5e-1);
    let p = p.mul_add(r, 0.5);
    let p = p.mul_add(r * r, r + 1.0);
    // n is between -126 and 128. At 128, half of the power is applied twice.
    let half = n * 0.5;
    let low = half.floor();
    // The lowest bits of such a large float are an integer. A cast has to check for overflow, and is not vectorised.
    let power = |n: f32| f32::from_bits((n + (WHOLE + 127.0)).to_bits() << 23);
    p * power(low) * power(n - low)
}

/// How a row is reduced. Not closures: these are not inlined into functions with vector instructions.
trait Reduction {
    const START: f32;
    fn take(sum: f32, value: f32) -> f32;
    fn join(one: f32, other: f32) -> f32;
}

struct Squares;

impl Reduction for Squares {
    const START: f32 = 0.0;

    #[inline(always)]
    fn take(sum: f32, value: f32) -> f32 {
        value.mul_add(value, sum)
    }

    #[inline(always)]
    fn join(one: f32, other: f32) -> f32 {
        one + other
    }
}

struct Sum;

impl Reduction for Sum {
    const START: f32 = 0.0;

    #[inline(always)]
    fn take(sum: f32, value: f32) -> f32 {
        sum + value
    }

    #[inline(always)]
    fn join(one: f32, other: f32) -> f32 {
        one + other
    }
}

struct Largest;

impl Reduction for Largest {
    const START: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    fn take(one: f32, other: f32) -> f32 {
        if other > one { other } else { one }
    }

    #[inline(always)]
    fn join(one: f32, other: f32) -> f32 {
        Self::take(one, other)
    }
}

/// Reduces a row in interleaved chains, so that vectors are filled. The remainder is reduced into the first chains.
#[inline(always)]
fn reduced<R: Reduction>(row: &[f32]) -> f32 {
    let mut chains = [R::START; CHAINS];
    let (full, rest) = row.as_chunks::<CHAINS>();
    for part in 0..full.len() {
        for chain in 0..CHAINS {
            chains[chain] = R::take(chains[chain], full[part][chain]);
        }
    }
    for chain in 0..rest.len().min(CHAINS) {
        chains[chain] = R::take(chains[chain], rest[chain]);
    }
    joined::<R>(chains)
}

/// Joins chains: adds the upper half to the lower half until one is left.
#[inline(always)]
fn joined<R: Reduction>(mut chains: [f32; CHAINS]) -> f32 {
    const { assert!(CHAINS == 16) };
    for chain in 0..8 {
        chains[chain] = R::join(chains[chain], chains[chain + 8]);
    }
    for chain in 0..4 {
        chains[chain] = R::join(chains[chain], chains[chain + 4]);
    }
    for chain in 0..2 {
        chains[chain] = R::join(chains[chain], chains[chain + 2]);
    }
    R::join(chains[0], chains[1])
}

/// Sum of squares.
#[inline(always)]
pub(super) fn square_sum(row: &[f32]) -> f32 {
    reduced::<Squares>(row)
}

/// Sum.
#[inline(always)]
pub(super) fn sum(row: &[f32]) -> f32 {
    reduced::<Sum>(row)
}

/// The largest element.
#[inline(always)]
pub(super) fn largest(row: &[f32]) -> f32 {
    reduced::<Largest>(row)
}

/// Sum of products.
#[inline(always)]
pub(super) fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut chains = [0.0f32; CHAINS];
    let ((full, rest), (other_full, other_rest)) = (one.as_chunks::<CHAINS>(), other.as_chunks::<CHAINS>());
    for part in 0..full.len().min(other_full.len()) {
        for chain in 0..CHAINS {
            chains[chain] = full[part][chain].mul_add(other_full[part][chain], chains[chain]);
        }
    }
    for chain in 0..rest.len().min(other_rest.len()).min(CHAINS) {
        chains[chain] = rest[chain].mul_add(other_rest[chain], chains[chain]);
    }
    joined::<Sum>(chains)
}

/// The weighted sum of rows, added in order: `out = sum of weight · row`. `stride` is the distance between the
/// beginnings of two rows.
#[inline(always)]
pub(super) fn weighted_sum(weights: &[f32], rows: &[f32], stride: usize, out: &mut [f32]) {
    let mut first = 0;
    for wide in out.chunks_mut(4 * CHAINS) {
        if let Some(wide) = wide.first_chunk_mut::<{ 4 * CHAINS }>() {
            *wide = sum_of_rows(weights, rows, stride, first);
        } else {
            let (full, rest) = wide.as_chunks_mut::<CHAINS>();
            for (number, out) in full.iter_mut().enumerate() {
                *out = sum_of_rows(weights, rows, stride, first + number * CHAINS);
            }
            let first = first + full.len() * CHAINS;
            for (place, out) in (first..).zip(rest) {
                let column = rows.iter().skip(place).step_by(stride);
                *out = weights.iter().zip(column).fold(0.0, |sum, (weight, value)| weight.mul_add(*value, sum));
            }
        }
        first += 4 * CHAINS;
    }
}

/// `N` columns of a weighted sum, from `first` on.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "only counted loops were unrolled, and sums kept in registers")]
fn sum_of_rows<const N: usize>(weights: &[f32], rows: &[f32], stride: usize, first: usize) -> [f32; N] {
    let mut sums = [0.0f32; N];
    for place in 0..weights.len() {
        let start = place * stride + first;
        if let Some((row, _)) = rows.split_at_checked(start).and_then(|(_, rest)| rest.split_first_chunk::<N>()) {
            let weight = weights[place];
            for lane in 0..N {
                sums[lane] = weight.mul_add(row[lane], sums[lane]);
            }
        }
    }
    sums
}

/// The scale of a norm before its weight: `rsqrt(mean(x²) + ε)`. If the squares overflow, it is NaN: 0 would hide the overflow, and the
/// answer would be uniform.
#[inline(always)]
pub(super) fn norm_scale(row: &[f32], epsilon: f32) -> f32 {
    let mean = square_sum(row) / row.len() as f32;
    if mean.is_finite() { 1.0 / (mean + epsilon).sqrt() } else { f32::NAN }
}

/// Work on rows of a width.
pub(super) trait OfWidth {
    /// Must be inlined, so that loops have a known length where the width is a constant.
    fn with_width(self, width: usize);
}

/// Does the work with a constant for the common widths of heads. Rows of a head are so short that in a loop of unknown length most of the time is not
/// arithmetic.
#[inline(always)]
pub(super) fn with_common_width(work: impl OfWidth, width: usize) {
    match width {
        16 => work.with_width(16),
        64 => work.with_width(64),
        128 => work.with_width(128),
        _ => work.with_width(width),
    }
}

struct Normalise<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    epsilon: f32,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Normalise<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let width = self.weight.len();
        with_common_width(self, width);
    }
}

impl OfWidth for Normalise<'_> {
    #[inline(always)]
    fn with_width(self, width: usize) {
        debug_assert!(self.x.len().is_multiple_of(width));
        let weight = &self.weight[..width];
        for row in 0..self.x.len() / width {
            let first = row * width;
            let (row, out) = (&self.x[first..first + width], &mut self.out[first..first + width]);
            let scale = norm_scale(row, self.epsilon);
            for place in 0..width {
                out[place] = row[place] * scale * weight[place];
            }
        }
    }
}

/// `x · rsqrt(mean(x²) + ε) · weight`, row by row.
pub(super) fn normalise(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    pulp::Arch::new().dispatch(Normalise { x, weight, epsilon, out });
}

struct Gated<'a> {
    gate: &'a [f32],
    up: &'a [f32],
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Gated<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let count = self.gate.len();
        let (up, out) = (&self.up[..count], &mut self.out[..count]);
        for place in 0..count {
            out[place] = silu(self.gate[place]) * up[place];
        }
    }
}

/// `x / (1 + e^-x)`.
#[inline(always)]
pub(super) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// `silu(gate) · up`.
pub(super) fn gated(gate: &[f32], up: &[f32], out: &mut [f32]) {
    pulp::Arch::new().dispatch(Gated { gate, up, out });
}

/// Rotates the heads of every row by the angles of its position, or back.
pub(super) fn turn(rows: &mut [f32], row_width: usize, head_width: usize, turns: &[(f32, f32)], back: bool) {
    pulp::Arch::new().dispatch(Turn { rows, row_width, head_width, turns, sign: if back { -1.0 } else { 1.0 } });
}

struct Turn<'a> {
    rows: &'a mut [f32],
    row_width: usize,
    head_width: usize,
    turns: &'a [(f32, f32)],
    sign: f32,
}

impl pulp::NullaryFnOnce for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let half = self.head_width / 2;
        for row in 0..self.rows.len() / self.row_width {
            let turns = &self.turns[row * half..(row + 1) * half];
            let row = &mut self.rows[row * self.row_width..(row + 1) * self.row_width];
            for head in (0..self.row_width).step_by(self.head_width) {
                let (low, high) = row[head..head + self.head_width].split_at_mut(half);
                let high = &mut high[..half];
                for place in 0..half {
                    let ((a, b), (cosine, sine)) = ((low[place], high[place]), turns[place]);
                    let sine = sine * self.sign;
                    low[place] = a * cosine - b * sine;
                    high[place] = b * cosine + a * sine;
                }
            }
        }
    }
}

/// `to += from`.
pub(super) fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// `one + other`.
pub(super) fn added(one: &[f32], other: &[f32], out: &mut [f32]) {
    debug_assert_eq!((one.len(), other.len()), (out.len(), out.len()));
    out.iter_mut().zip(one).zip(other).for_each(|((out, one), other)| *out = one + other);
}

/// Adds a bias to every row.
pub(super) fn add_bias(rows: &mut [f32], bias: &[f32]) {
    rows.chunks_exact_mut(bias.len().max(1)).for_each(|row| add(row, bias));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_accurate_to_two_units_in_the_last_place() {
        let mut x = -87.0f32;
        while x < 88.5 {
            let (found, right) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((found / right - 1.0).abs() < 2.5e-7, "{x}: {found} {right}");
            x += 0.0137;
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e30) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37 && exp(1e30).is_finite());
    }
}
