//! Confidence intervals of means.

use serde::{Deserialize, Serialize};

/// A 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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

/// The two-sided 97.5 % quantile of Student's t.
pub(crate) fn t_quantile(degrees: usize) -> f64 {
    match degrees {
        0 => f64::INFINITY,
        // Beyond the table: 1.96 with its first-order (Cornish-Fisher) correction; the error is below 0.003.
        more => T.get(more - 1).copied().unwrap_or_else(|| 1.959_964 + 2.372_27 / more as f64),
    }
}

/// The mean of clustered values, with its variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClusteredMean {
    pub(crate) mean: f64,
    /// The variance of the mean: cluster-robust variance of a ratio of totals (Cochran, Sampling Techniques, 1977, section
    /// 9A). `None`: there are fewer than two clusters.
    pub(crate) variance: Option<f64>,
    /// Number of clusters that have a value.
    pub(crate) clusters: usize,
}

impl ClusteredMean {
    /// `None`: there are no values.
    pub(crate) fn of(clusters: &[Vec<f64>]) -> Option<Self> {
        let filled: Vec<&Vec<f64>> = clusters.iter().filter(|cluster| !cluster.is_empty()).collect();
        let count: usize = filled.iter().map(|cluster| cluster.len()).sum();
        if count == 0 {
            return None;
        }
        let mean = filled.iter().flat_map(|cluster| cluster.iter()).sum::<f64>() / count as f64;
        let clusters = filled.len();
        let variance = (clusters >= 2).then(|| {
            let residual = |cluster: &&Vec<f64>| cluster.iter().map(|value| value - mean).sum::<f64>().powi(2);
            let residuals = filled.iter().map(residual).sum::<f64>();
            residuals * clusters as f64 / (clusters as f64 - 1.0) / (count as f64).powi(2)
        });
        Some(Self { mean, variance, clusters })
    }

    pub(crate) fn interval(self) -> Option<Interval> {
        let half = t_quantile(self.clusters.saturating_sub(1)) * self.variance?.sqrt();
        Some(Interval { low: self.mean - half, high: self.mean + half })
    }
}

/// Mean of clustered values and its 95 % interval. Members of a group share task and seed, so the group is the unit. No
/// interval for fewer than two groups; no mean without values.
pub fn mean_interval(groups: &[Vec<f64>]) -> (Option<f64>, Option<Interval>) {
    match ClusteredMean::of(groups) {
        None => (None, None),
        Some(found) => (Some(found.mean), found.interval()),
    }
}

impl Interval {
    /// Widens the interval of a mean difference by the effect of one pair with the opposite result. Differences that happen
    /// to be equal have no sample variance, which would make the interval too narrow.
    #[must_use]
    pub fn widened(self, mean: f64, pairs: u64) -> Self {
        /// 97.5 % quantile of the standard normal distribution.
        const QUANTILE: f64 = 1.959_964;
        let floor = QUANTILE * 2.0 / pairs.max(1) as f64;
        let wider = |half: f64| (half.powi(2) + floor.powi(2)).sqrt();
        Self { low: mean - wider(mean - self.low), high: mean + wider(self.high - mean) }
    }

    /// Limited to the range of possible values.
    #[must_use]
    pub fn within(self, range: Option<(f64, f64)>) -> Self {
        let Some((least, most)) = range else { return self };
        Self { low: self.low.max(least), high: self.high.min(most) }
    }
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
