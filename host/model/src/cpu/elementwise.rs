//! What happens to numbers one by one, and sums along one row in a fixed order.

/// Sums run in so many interleaved chains, which are added up in order.
const CHAINS: usize = 16;

/// `e^x` within 2 units in the last place: `2^n · p(r)` with a polynomial of degree 6 (the coefficients of Cephes' `expf`).
/// No table and no branch, so that it runs in vectors; the same bits on every machine.
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
    // n lies between -126 and 128; at 128 one half of the power is taken twice.
    let half = n * 0.5;
    let low = half.floor();
    let power = |n: f32| f32::from_bits(((n as i32 + 127) << 23) as u32);
    p * power(low) * power(n - low)
}

/// Sum of squares.
pub(super) fn square_sum(row: &[f32]) -> f32 {
    let mut chains = [0.0f32; CHAINS];
    for part in row.chunks(CHAINS) {
        for (chain, value) in chains.iter_mut().zip(part) {
            *chain = value.mul_add(*value, *chain);
        }
    }
    chains.iter().sum()
}

/// `x · rsqrt(mean(x²) + ε) · weight`, row by row.
pub(super) fn normalise(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let width = weight.len();
    for (row, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        let scale = 1.0 / (square_sum(row) / width as f32 + epsilon).sqrt();
        for ((out, value), weight) in out.iter_mut().zip(row).zip(weight) {
            *out = value * scale * weight;
        }
    }
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
            *gate = *gate / (1.0 + exp(-*gate)) * up;
        }
    }
}

/// `silu(gate) · up`, into `gate`.
pub(super) fn gated(gate: &mut [f32], up: &[f32]) {
    pulp::Arch::new().dispatch(Gated { gate, up });
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
    fn the_exponential_is_right_to_two_units_in_the_last_place() {
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
