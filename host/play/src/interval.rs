//! Confidence intervals of means.

use serde::Serialize;

/// A 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Two-sided 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom (standard tables).
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

fn t_quantile(degrees: usize) -> f64 {
    match degrees {
        0 => f64::INFINITY,
        // Beyond the table: 1.96 with its first-order (Cornish-Fisher) correction; the error is below 0.003.
        more => T.get(more - 1).copied().unwrap_or_else(|| 1.959_964 + 2.372_27 / more as f64),
    }
}

/// Mean of clustered values and its 95 % interval. Members of a group share task and seed, so the group is the unit
/// (cluster-robust variance of a ratio of totals; Cochran, Sampling Techniques, 1977, section 9A). No interval for fewer
/// than two groups; no mean without values.
pub fn mean_interval(groups: &[Vec<f64>]) -> (Option<f64>, Option<Interval>) {
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|group| !group.is_empty()).collect();
    let count: usize = groups.iter().map(|group| group.len()).sum();
    if count == 0 {
        return (None, None);
    }
    let mean = groups.iter().flat_map(|group| group.iter()).sum::<f64>() / count as f64;
    let clusters = groups.len();
    if clusters < 2 {
        return (Some(mean), None);
    }
    let residuals = groups.iter().map(|group| group.iter().map(|value| value - mean).sum::<f64>().powi(2)).sum::<f64>();
    let variance = residuals * clusters as f64 / (clusters as f64 - 1.0) / (count as f64).powi(2);
    let half = t_quantile(clusters - 1) * variance.sqrt();
    (Some(mean), Some(Interval { low: mean - half, high: mean + half }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(groups: &[&[f64]], mean: Option<f64>, interval: Option<(f64, f64)>) {
        let groups: Vec<Vec<f64>> = groups.iter().map(|group| group.to_vec()).collect();
        let (got_mean, got_interval) = mean_interval(&groups);
        assert_eq!(got_mean, mean, "{groups:?}");
        match (got_interval, interval) {
            (None, None) => {}
            (Some(got), Some((low, high))) => {
                assert!((got.low - low).abs() < 1e-3 && (got.high - high).abs() < 1e-3, "{groups:?}: {got:?}");
            }
            (got, _) => panic!("{groups:?}: {got:?}"),
        }
    }

    #[test]
    fn intervals_are_clustered_by_group_and_empty_input_has_no_mean() {
        check(&[], None, None);
        check(&[&[]], None, None);
        check(&[&[1.0]], Some(1.0), None);
        check(&[&[1.0], &[1.0]], Some(1.0), Some((1.0, 1.0)));
        // Three single values: mean 2, sd 1, se 1/sqrt(3), t(2) = 4.303.
        check(&[&[1.0], &[2.0], &[3.0]], Some(2.0), Some((2.0 - 2.4843, 2.0 + 2.4843)));
        // Repetitions within a group do not narrow the interval.
        check(&[&[1.0, 1.0], &[2.0, 2.0], &[3.0, 3.0]], Some(2.0), Some((2.0 - 2.4843, 2.0 + 2.4843)));
    }

    #[test]
    fn quantiles_decrease_towards_the_normal_quantile() {
        let mut last = f64::INFINITY;
        for degrees in 1..1000 {
            let next = t_quantile(degrees);
            assert!(next < last && next > 1.9599, "{degrees}: {next}");
            last = next;
        }
    }
}
