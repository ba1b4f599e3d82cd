//! Element-wise operations, and sums along a row in a fixed order.

#![allow(clippy::indexing_slicing, reason = "lengths are those of the arrays")]

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

/// Reduces a row in interleaved chains, so that vectors are filled. The remainder is reduced into the first chains.
#[inline(always)]
fn chained(row: &[f32], start: f32, join: impl Fn(f32, f32) -> f32) -> [f32; CHAINS] {
    let mut chains = [start; CHAINS];
    let (full, rest) = row.as_chunks::<CHAINS>();
    for part in full {
        for (chain, value) in chains.iter_mut().zip(part) {
            *chain = join(*chain, *value);
        }
    }
    for (chain, value) in chains.iter_mut().zip(rest) {
        *chain = join(*chain, *value);
    }
    chains
}

/// Joins chains: adds the upper half to the lower half until one is left.
#[inline(always)]
fn joined(mut chains: [f32; CHAINS], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = CHAINS / 2;
    while half > 0 {
        let (low, high) = chains.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = join(*low, *high));
        half /= 2;
    }
    let [first, ..] = chains;
    first
}

/// Sum of squares.
#[inline(always)]
pub(super) fn square_sum(row: &[f32]) -> f32 {
    joined(chained(row, 0.0, |sum, value| value.mul_add(value, sum)), |one, other| one + other)
}

/// Sum.
#[inline(always)]
pub(super) fn sum(row: &[f32]) -> f32 {
    let add = |one: f32, other: f32| one + other;
    joined(chained(row, 0.0, add), add)
}

/// The largest element.
#[inline(always)]
pub(super) fn largest(row: &[f32]) -> f32 {
    let larger = |one: f32, other: f32| if other > one { other } else { one };
    joined(chained(row, f32::NEG_INFINITY, larger), larger)
}

/// Sum of products.
#[inline(always)]
pub(super) fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut chains = [0.0f32; CHAINS];
    let ((full, rest), (other_full, other_rest)) = (one.as_chunks::<CHAINS>(), other.as_chunks::<CHAINS>());
    for (one, other) in full.iter().zip(other_full) {
        for (chain, (one, other)) in chains.iter_mut().zip(one.iter().zip(other)) {
            *chain = one.mul_add(*other, *chain);
        }
    }
    for (chain, (one, other)) in chains.iter_mut().zip(rest.iter().zip(other_rest)) {
        *chain = one.mul_add(*other, *chain);
    }
    joined(chains, |one, other| one + other)
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
        for (row, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            let scale = norm_scale(row, self.epsilon);
            for ((out, value), weight) in out.iter_mut().zip(row).zip(self.weight) {
                *out = value * scale * weight;
            }
        }
    }
}

/// `x · rsqrt(mean(x²) + ε) · weight`, row by row.
pub(super) fn normalise(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    pulp::Arch::new().dispatch(Normalise { x, weight, epsilon, out });
}

struct Gated<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl pulp::NullaryFnOnce for Gated<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (gate, up) in self.gate.iter_mut().zip(self.up) {
            *gate = silu(*gate) * up;
        }
    }
}

/// `x / (1 + e^-x)`.
#[inline(always)]
pub(super) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// `silu(gate) · up`, written to `gate`.
pub(super) fn gated(gate: &mut [f32], up: &[f32]) {
    pulp::Arch::new().dispatch(Gated { gate, up });
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
        for (row, turns) in self.rows.chunks_exact_mut(self.row_width).zip(self.turns.chunks_exact(half)) {
            for head in row.chunks_exact_mut(self.head_width) {
                let (low, high) = head.split_at_mut(half);
                for ((low, high), (cosine, sine)) in low.iter_mut().zip(high).zip(turns) {
                    let (a, b, sine) = (*low, *high, sine * self.sign);
                    *low = a * cosine - b * sine;
                    *high = b * cosine + a * sine;
                }
            }
        }
    }
}

/// `to += from`.
pub(super) fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
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
