//! The normal distribution, and anytime-valid evidence from asymptotically normal estimates.
//!
//! Checking an estimate after every batch and stopping at the first good one finds effects in pure noise. The intervals and
//! e-values here stay valid however often one looks and whenever one stops. They mix the likelihood of the estimate over a
//! normal prior of width [`TAU`] on the effect and divide by the likelihood under no effect (Robbins 1970). They only assume
//! that the mean of the rewards is approximately normal (asymptotic confidence sequences: Waudby-Smith et al. 2021).

/// Width of the mixture. Effects of this size (0.1 of reward) need the least evidence.
const TAU: f64 = 0.1;

/// Largest probability that an interval misses the true value at any of all looks.
const ALPHA: f64 = 0.05;

/// Largest exponent of an e-value. A larger one would give infinity, which JSON cannot represent.
pub(crate) const LARGEST_EXPONENT: f64 = 700.0;

/// The confidence sequence of an estimate with this standard error (greater than 0):
/// `|x - estimate| <= se sqrt((1 + se^2/tau^2) ln((1 + tau^2/se^2) / alpha^2))`.
pub(crate) fn interval(estimate: f64, standard_error: f64) -> (f64, f64) {
    let ratio = (standard_error / TAU).powi(2);
    let half = standard_error * ((1.0 + ratio) * ((1.0 + 1.0 / ratio) / ALPHA.powi(2)).ln()).sqrt();
    (estimate - half, estimate + half)
}

/// The same for an estimate whose standard error has few degrees of freedom: the half-width is widened as quantiles of Student's t are
/// wider than those of the normal distribution.
pub(crate) fn interval_of_few(estimate: f64, standard_error: f64, degrees: f64) -> (f64, f64) {
    let (_, high) = interval(0.0, standard_error);
    let half = standard_error * t_of_normal(high / standard_error, degrees);
    (estimate - half, estimate + half)
}

/// The one-sided e-value for an effect above 0: at least 0, and at most 1 in expectation if there is none. Always finite. `z` is the
/// estimate in units of its standard error, which is greater than 0.
///
/// It is `sqrt(1 - r) exp(r z^2/2) 2 Phi(sqrt(r) z)`, where `r = tau^2/(se^2 + tau^2)`. For negative z the exponential is left out, which makes
/// the value smaller (conservative).
pub(crate) fn one_sided_e_value(z: f64, standard_error: f64) -> f64 {
    let (noise, prior) = (standard_error.powi(2), TAU.powi(2));
    let r = prior / (noise + prior);
    let exponent = if z < 0.0 { 0.0 } else { (r * z * z / 2.0).min(LARGEST_EXPONENT) };
    (noise / (noise + prior)).sqrt() * exponent.exp() * 2.0 * cumulative(r.sqrt() * z)
}

/// The normal quantile with the tail probability of a `t` of Student's distribution, for 3 or more degrees of freedom, to about 0.03 (Wallace
/// 1959).
pub(crate) fn normal_of_t(t: f64, degrees: f64) -> f64 {
    let shrunk = (degrees * (t * t / degrees).ln_1p()).sqrt() * (8.0 * degrees + 1.0) / (8.0 * degrees + 3.0);
    shrunk.copysign(t)
}

/// The inverse of [`normal_of_t`]. It is infinite where no `t` that a number can hold is large enough.
pub(crate) fn t_of_normal(z: f64, degrees: f64) -> f64 {
    let grown = z * (8.0 * degrees + 3.0) / (8.0 * degrees + 1.0);
    (degrees * (grown * grown / degrees).exp_m1()).sqrt().copysign(z)
}

/// The standard normal distribution function at `x`, to 14 digits (rational approximation of Hart 1968 as given
/// by West, "Better approximations to cumulative normal functions", 2005).
pub(crate) fn cumulative(x: f64) -> f64 {
    /// Coefficients, highest power first.
    const ABOVE: [f64; 7] = [
        3.526_249_659_989_11e-2,
        0.700_383_064_443_688,
        6.373_962_203_531_65,
        33.912_866_078_383,
        112.079_291_497_871,
        221.213_596_169_931,
        220.206_867_912_376,
    ];
    const BELOW: [f64; 8] = [
        8.838_834_764_831_84e-2,
        1.755_667_163_182_64,
        16.064_177_579_207,
        86.780_732_202_946_1,
        296.564_248_779_674,
        637.333_633_378_831,
        793.826_512_519_948,
        440.413_735_824_752,
    ];
    /// From here on a continued fraction is more accurate.
    const FAR: f64 = 7.071_067_811_865_47;
    let size = x.abs();
    let polynomial = |factors: &[f64]| factors.iter().fold(0.0, |sum, factor| sum * size + factor);
    let density = (-size * size / 2.0).exp();
    let tail = if size < FAR {
        density * polynomial(&ABOVE) / polynomial(&BELOW)
    } else {
        let fraction = [4.0, 3.0, 2.0, 1.0].iter().fold(size + 0.65, |below, above| size + above / below);
        density / fraction / std::f64::consts::TAU.sqrt()
    };
    if x > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_function_agrees_with_tables() {
        let check = |x: f64, expect: f64| {
            let got = cumulative(x);
            assert!((got - expect).abs() <= 1e-13 * expect.max(1e-3), "{x}: {got} instead of {expect}");
        };
        check(0.0, 0.5);
        check(1.0, 0.841_344_746_068_542_9);
        check(-1.0, 0.158_655_253_931_457_05);
        check(1.959_963_984_540_054, 0.975);
        check(-3.0, 0.001_349_898_031_630_094_6);
        assert!((cumulative(-8.0) / 6.220_960_574_271_785e-16 - 1.0).abs() < 1e-6, "the tail needs relative precision");
        assert_eq!((cumulative(40.0), cumulative(-40.0)), (1.0, 0.0));
    }

    /// The mean e-value over the sampling distribution of an estimate, by numerical integration.
    fn mean_e_value(effect: f64, standard_error: f64) -> f64 {
        const STEP: f64 = 0.001;
        (-8_000..8_000)
            .map(|step| f64::from(step) * STEP)
            .map(|z| {
                let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
                density * STEP * one_sided_e_value(effect / standard_error + z, standard_error)
            })
            .sum()
    }

    #[test]
    fn without_an_effect_the_mean_e_value_is_at_most_one() {
        for standard_error in [0.3, 0.1, 0.03, 0.01] {
            let mean = mean_e_value(0.0, standard_error);
            assert!(mean <= 1.0 + 1e-6, "{mean} at {standard_error}");
            assert!(mean_e_value(-0.05, standard_error) < mean, "harm is no evidence of help");
            assert!(mean_e_value(0.1, standard_error) > mean);
        }
    }

    #[test]
    fn e_values_equal_hand_computed_ones() {
        let check = |estimate: f64, standard_error: f64, expect: f64| {
            let got = one_sided_e_value(estimate / standard_error, standard_error);
            assert!((got - expect).abs() <= 1e-9 * expect, "{estimate} ± {standard_error}: {got}");
        };
        // r = 1/2: sqrt(1/2) exp(1) 2 Phi(sqrt 2).
        check(0.2, 0.1, 0.5_f64.sqrt() * 1.0_f64.exp() * 2.0 * 0.921_350_396_474_857_4);
        // Negative estimate: without the exponential.
        check(-0.2, 0.1, 0.5_f64.sqrt() * 2.0 * 0.078_649_603_525_142_6);
        check(0.0, 0.1, 0.5_f64.sqrt());
        assert!(one_sided_e_value(1e4, 1e-4).is_finite(), "never infinite");
    }

    #[test]
    fn quantiles_of_students_t_become_normal_ones_and_back() {
        let check = |t: f64, degrees: f64, z: f64| {
            let got = normal_of_t(t, degrees);
            assert!((got - z).abs() < 0.03, "{t} with {degrees}: {got} instead of {z}");
            assert!((t_of_normal(got, degrees) - t).abs() < 1e-9 * t.abs().max(1.0), "{t} with {degrees}");
        };
        // Tables: one-sided 0.025, 0.005 and 0.0005.
        check(2.5706, 5.0, 1.9600);
        check(4.0321, 5.0, 2.5758);
        check(6.8688, 5.0, 3.2905);
        check(-2.0930, 19.0, -1.9600);
        check(3.8834, 19.0, 3.2905);
        check(0.0, 5.0, 0.0);
        let (low, high) = interval_of_few(0.1, 0.05, 5.0);
        let (narrow, wide) = interval(0.1, 0.05);
        assert!(low < narrow && high > wide);
    }

    #[test]
    fn intervals_equal_hand_computed_ones_and_are_wider_than_fixed_sample_ones() {
        let (low, high) = interval(0.3, 0.1);
        // 0.1 sqrt(2 ln(2 / 0.0025)).
        let half = 0.1 * (2.0 * 800.0_f64.ln()).sqrt();
        assert!((low - (0.3 - half)).abs() < 1e-12 && (high - (0.3 + half)).abs() < 1e-12);
        for standard_error in [1.0, 0.1, 0.01, 0.001] {
            let (low, high) = interval(0.0, standard_error);
            assert!(high - low > 2.0 * 1.96 * standard_error, "{standard_error}");
        }
    }
}
