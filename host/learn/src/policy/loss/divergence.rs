//! The distance to a reference policy, estimated from the tokens that were sampled.

/// Differences beyond this, nats, are cut, with no gradient: one odd token must not decide a step.
const LARGEST_DIFFERENCE: f64 = 10.0;

/// `exp(d) - d - 1` with `d = reference - new`: an unbiased estimate of `KL(new || reference)` that is never below 0 (k3: Schulman,
/// "Approximating KL divergence", 2020). Returned with its derivative by `new`, `1 - exp(d)`.
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
    fn a_policy_is_held_back_towards_its_reference() {
        let (value, slope) = k3(-0.1, -0.3);
        assert!(
            (value - ((-0.2_f64).exp() + 0.2 - 1.0)).abs() < 1e-15 && slope > 0.0,
            "likelier than there: pulled down"
        );
        let (value, slope) = k3(-2.0, -1.5);
        assert!(value > 0.0 && slope < 0.0, "less likely than there: pulled up");
        assert_eq!(k3(-1.0, -1.0), (0.0, 0.0));
    }

    #[test]
    fn one_odd_token_does_not_decide_a_step() {
        for (new, reference) in [(-50.0, -0.1), (-0.1, -50.0), (-1e9, 0.0)] {
            let (value, slope) = k3(new, reference);
            assert!(value <= 10.0_f64.exp() && slope == 0.0, "{new}, {reference}: {value}");
        }
    }
}
