//! Metrics of layers, each by a name that the compiler checks.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        /// What is measured. Names in reports and files are those of [`Metric::name`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Metric {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)+
        }

        impl Metric {
            /// All metrics.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name in reports and files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

metrics! {
    /// Episodes in the batch.
    Episodes = "episodes",
    /// Groups in the batch.
    Groups = "groups",
    /// Proposals in the batch.
    Proposals = "proposals",
    /// Entries that wait for a trial.
    Queued = "queued",
    /// Entries on trial.
    OnTrial = "on_trial",
    /// Entries that credit admitted.
    Admitted = "admitted",
    /// Entries that are served.
    Deployed = "deployed",
    /// Entries that were found harmful.
    Harmful = "harmful",
    /// Entries that expired without evidence.
    Expired = "expired",
    /// Loss of the step, per token as the objective aggregates it.
    Loss = "loss",
    /// Tokens that the step was taken on.
    Tokens = "tokens",
    /// Part of the loss that follows rewards.
    RewardLoss = "reward_loss",
    /// Part of the loss that follows a teacher.
    DistillationLoss = "distillation_loss",
    /// Part of the loss that holds the policy near the reference.
    KlLoss = "kl_loss",
    /// Share of tokens whose ratio was clipped.
    ClipFraction = "clip_fraction",
    /// Mean of new to old probability.
    RatioMean = "ratio_mean",
    /// The largest of them.
    RatioMax = "ratio_max",
    /// Policy to reference, nats.
    Kl = "kl",
    /// Old to new policy, nats.
    ApproxKl = "approx_kl",
    /// Entropy of the policy, nats per token.
    Entropy = "entropy",
    /// Share of tokens whose importance weight reached its cap.
    TisTruncatedShare = "tis_truncated_share",
    /// Mean importance weight after truncation.
    TisWeightMean = "tis_weight_mean",
    /// Mean difference between log-probs of rollout and trainer, nats.
    LogprobMismatchMean = "logprob_mismatch_mean",
    /// The largest of them.
    LogprobMismatchMax = "logprob_mismatch_max",
    /// Mean advantage that a teacher adds to a token.
    DistillationAdvantageMean = "distillation_advantage_mean",
    /// Mean advantage that rewards add to a token.
    RewardAdvantageMean = "reward_advantage_mean",
    /// Share of pairs whose chosen reply is preferred.
    PreferenceAccuracy = "preference_accuracy",
    /// By how much.
    PreferenceMargin = "preference_margin",
    /// Trajectories that failed.
    Failed = "failed",
    /// Groups with fewer than two scored members.
    GroupsTooSmall = "groups_too_small",
    /// Truncated trajectories that were left out.
    TruncatedLeftOut = "truncated_left_out",
    /// Share of comparable groups whose rewards do not differ.
    ZeroVarianceShare = "zero_variance_share",
    /// Mean reward of the trajectories.
    RewardMean = "reward_mean",
    /// Their standard deviation.
    RewardStd = "reward_std",
    /// Mean number of trained tokens.
    LengthMean = "length_mean",
    /// Share of trajectories that were cut off.
    TruncationShare = "truncation_share",
    /// Trajectories left out: sampled from an unknown distribution.
    DroppedUnknownDistribution = "dropped_unknown_distribution",
    /// Trajectories left out: of weights that are too old.
    DroppedOldWeights = "dropped_old_weights",
    /// Trajectories left out: of a playbook that is too old.
    DroppedOldPlaybook = "dropped_old_playbook",
    /// Norm of the gradient before clipping.
    GradientNorm = "gradient_norm",
    /// Learning rate of the step.
    LearningRate = "learning_rate",
    /// Version of the weights after the step.
    Version = "version",
}

/// Measured values. A metric that was not measured is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Measurements(BTreeMap<Metric, f64>);

impl Measurements {
    /// The value, if it was measured.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.0.get(&metric).copied()
    }

    /// Notes a value.
    pub fn set(&mut self, metric: Metric, value: f64) {
        self.0.insert(metric, value);
    }

    /// Takes in others; of equal metrics the later value stays.
    pub fn merge(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, f64)> {
        self.0.iter().map(|(metric, value)| (*metric, *value))
    }

    /// All of them by name, for files and reports.
    pub fn by_name(&self) -> BTreeMap<&'static str, f64> {
        self.iter().map(|(metric, value)| (metric.name(), value)).collect()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<const N: usize> From<[(Metric, f64); N]> for Measurements {
    fn from(values: [(Metric, f64); N]) -> Self {
        values.into_iter().collect()
    }
}

impl FromIterator<(Metric, f64)> for Measurements {
    fn from_iter<I: IntoIterator<Item = (Metric, f64)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_read_back() {
        let names: BTreeSet<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(names.len(), Metric::ALL.len());
        for metric in Metric::ALL {
            let text = serde_json::to_string(metric).unwrap();
            assert_eq!(text, format!("\"{}\"", metric.name()));
            assert_eq!(serde_json::from_str::<Metric>(&text).unwrap(), *metric);
        }
    }

    #[test]
    fn of_equal_metrics_the_later_value_stays() {
        let mut one = Measurements::from([(Metric::Loss, 1.0), (Metric::Tokens, 2.0)]);
        one.merge(Measurements::from([(Metric::Loss, 3.0)]));
        assert_eq!(one.by_name(), BTreeMap::from([("loss", 3.0), ("tokens", 2.0)]));
    }
}
