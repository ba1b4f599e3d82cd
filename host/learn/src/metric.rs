//! Metrics of layers, each by a name that the compiler checks.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?) => {
        /// A measured quantity. Reports and files use [`Metric::name`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Metric {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)+
        }

        impl Metric {
            /// All metrics.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Name in reports and files.
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
    /// Entries waiting for a trial.
    Queued = "queued",
    /// Entries on trial.
    OnTrial = "on_trial",
    /// Entries that credit admitted.
    Admitted = "admitted",
    /// Deployed entries.
    Deployed = "deployed",
    /// Entries found harmful.
    Harmful = "harmful",
    /// Entries whose trial ended without a finding.
    Expired = "expired",
    /// Loss of the step, per token, aggregated as the objective says.
    Loss = "loss",
    /// Trained tokens in the step.
    Tokens = "tokens",
    /// Reward term of the loss.
    RewardLoss = "reward_loss",
    /// Distillation term of the loss.
    DistillationLoss = "distillation_loss",
    /// KL term of the loss, which keeps the policy near the reference.
    KlLoss = "kl_loss",
    /// Optimiser steps of the iteration.
    OptimizerSteps = "optimizer_steps",
    /// Share of tokens whose ratio was clipped, over all optimiser steps.
    ClipFraction = "clip_fraction",
    /// Mean importance ratio (new to old probability).
    RatioMean = "ratio_mean",
    /// Largest importance ratio.
    RatioMax = "ratio_max",
    /// KL divergence of the policy from the reference, nats.
    Kl = "kl",
    /// Approximate KL divergence of the old from the new policy, nats.
    ApproxKl = "approx_kl",
    /// Entropy of the policy, nats per token.
    Entropy = "entropy",
    /// Share of tokens whose truncated-importance-sampling weight reached its cap.
    TisTruncatedShare = "tis_truncated_share",
    /// Mean importance-sampling weight after truncation.
    TisWeightMean = "tis_weight_mean",
    /// Mean absolute difference of log-probs between rollout and trainer, nats.
    LogprobMismatchMean = "logprob_mismatch_mean",
    /// Largest such difference, nats.
    LogprobMismatchMax = "logprob_mismatch_max",
    /// Mean advantage per token from distillation.
    DistillationAdvantageMean = "distillation_advantage_mean",
    /// Mean mass of the policy outside of the teacher's most likely tokens.
    DistillationTail = "distillation_tail",
    /// Mean advantage per token from rewards.
    RewardAdvantageMean = "reward_advantage_mean",
    /// Share of preference pairs whose chosen reply has the larger implicit reward.
    PreferenceAccuracy = "preference_accuracy",
    /// Mean difference of implicit rewards between chosen and rejected reply.
    PreferenceMargin = "preference_margin",
    /// Failed trajectories.
    Failed = "failed",
    /// Groups with fewer than two scored members.
    GroupsTooSmall = "groups_too_small",
    /// Truncated trajectories that were left out.
    TruncatedLeftOut = "truncated_left_out",
    /// Share of groups of at least two scored members whose rewards are all equal.
    ZeroVarianceShare = "zero_variance_share",
    /// Mean reward of the trajectories.
    RewardMean = "reward_mean",
    /// Standard deviation of the rewards.
    RewardStd = "reward_std",
    /// Mean number of trained tokens per trajectory.
    LengthMean = "length_mean",
    /// Share of truncated trajectories.
    TruncationShare = "truncation_share",
    /// Trajectories left out because their sampling distribution is unknown.
    DroppedUnknownDistribution = "dropped_unknown_distribution",
    /// Trajectories left out because their weights are too old.
    DroppedOldWeights = "dropped_old_weights",
    /// Trajectories left out because their playbook is too old.
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

    /// Sets a value.
    pub fn set(&mut self, metric: Metric, value: f64) {
        self.0.insert(metric, value);
    }

    /// Merges others in; they replace values of the same metric.
    pub fn merge(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// All values, in the order of [`Metric`].
    pub fn iter(&self) -> impl Iterator<Item = (Metric, f64)> {
        self.0.iter().map(|(metric, value)| (*metric, *value))
    }

    /// All values by name, for files and reports.
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
    fn merge_replaces_values_of_the_same_metric() {
        let mut one = Measurements::from([(Metric::Loss, 1.0), (Metric::Tokens, 2.0)]);
        one.merge(Measurements::from([(Metric::Loss, 3.0)]));
        assert_eq!(one.by_name(), BTreeMap::from([("loss", 3.0), ("tokens", 2.0)]));
    }
}
