//! KL divergence from a reference policy, estimated from the sampled tokens.

/// Differences are clipped to this many nats, without a gradient beyond: a single outlier must not dominate a step.
const LARGEST_DIFFERENCE: f64 = 10.0;

/// `exp(d) - d - 1` with `d = reference - new`: an unbiased, non-negative estimate of `KL(new || reference)` (k3: Schulman,
/// "Approximating KL divergence", 2020). Returns it with its derivative by `new`, `1 - exp(d)`.
pub(super) fn k3(new: f64, reference: f64) -> (f64, f64) {
    let difference = reference - new;
    let cut = difference.clamp(-LARGEST_DIFFERENCE, LARGEST_DIFFERENCE);
    let slope = if difference.abs() < LARGEST_DIFFERENCE { -cut.exp_m1() } else { 0.0 };
    (cut.exp_m1() - cut, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_points_towards_the_reference() {
        let (value, slope) = k3(-0.1, -0.3);
        assert!(
            (value - ((-0.2_f64).exp() + 0.2 - 1.0)).abs() < 1e-15 && slope > 0.0,
            "more likely than under the reference: decreased"
        );
        let (value, slope) = k3(-2.0, -1.5);
        assert!(value > 0.0 && slope < 0.0, "less likely than under the reference: increased");
        assert_eq!(k3(-1.0, -1.0), (0.0, 0.0));
    }

    #[test]
    fn an_outlier_token_is_bounded() {
        for (new, reference) in [(-50.0, -0.1), (-0.1, -50.0), (-1e9, 0.0)] {
            let (value, slope) = k3(new, reference);
            assert!(value <= 10.0_f64.exp() && slope == 0.0, "{new}, {reference}: {value}");
        }
    }
}
