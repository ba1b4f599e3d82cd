//! Numbers to watch while training, under the names that people look for.

use crate::{Measurements, Metric};

/// A mean that can be put together from parts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    /// One more number.
    pub fn note(&mut self, number: f64) {
        self.sum += number;
        self.count += 1.0;
    }

    /// None of nothing.
    pub fn value(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
    }
}

/// What one micro-batch showed; those of a step are merged. Means run over trained tokens unless said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// Part of the loss that follows rewards. The parts add up to the loss.
    pub reward_loss: f64,
    /// Part of the loss that follows the teacher.
    pub distillation_loss: f64,
    /// Part of the loss that holds the policy near the reference.
    pub kl_loss: f64,
    /// Share of tokens whose ratio was clipped, so that they give no gradient (with CISPO: a bounded one).
    pub clip_fraction: Mean,
    /// New to old probability; with GSPO of the sequence. On-policy 1.
    pub ratio: Mean,
    /// The largest of them.
    pub ratio_max: Option<f64>,
    /// Policy to reference, nats, by the k3 estimator.
    pub kl: Mean,
    /// Old to new policy, nats, by the k3 estimator.
    pub approx_kl: Mean,
    /// Nats, as the caller computed it.
    pub entropy: Mean,
    /// Share of tokens whose importance weight reached its cap.
    pub tis_truncated: Mean,
    /// The importance weight after truncation.
    pub tis_weight: Mean,
    /// `|new - rollout|`, nats. At the first step of a weights version: what the two programs disagree by.
    pub logprob_mismatch: Mean,
    /// The largest of them.
    pub logprob_mismatch_max: Option<f64>,
    /// What distillation adds to the advantage of a token: `teacher - old`, clipped and weighted.
    pub distillation_advantage: Mean,
    /// What rewards add to it, weighted.
    pub reward_advantage: Mean,
    /// Share of pairs whose chosen reply is preferred already (over pairs).
    pub preference_accuracy: Mean,
    /// By how much, in units of `beta` times nats (over pairs).
    pub preference_margin: Mean,
}

impl Metrics {
    /// Takes in what another micro-batch of the same step showed.
    pub fn merge(&mut self, other: &Self) {
        self.reward_loss += other.reward_loss;
        self.distillation_loss += other.distillation_loss;
        self.kl_loss += other.kl_loss;
        let own = self.means_mut();
        own.into_iter().zip(other.means()).for_each(|(own, (_, other))| own.merge(other));
        largest(&mut self.ratio_max, other.ratio_max);
        largest(&mut self.logprob_mismatch_max, other.logprob_mismatch_max);
    }

    /// What was measured.
    pub fn named(&self) -> Measurements {
        let losses = [
            (Metric::RewardLoss, self.reward_loss),
            (Metric::DistillationLoss, self.distillation_loss),
            (Metric::KlLoss, self.kl_loss),
        ];
        let maxima = [(Metric::RatioMax, self.ratio_max), (Metric::LogprobMismatchMax, self.logprob_mismatch_max)];
        let means = self.means().into_iter().map(|(metric, mean)| (metric, mean.value()));
        let measured = means.chain(maxima).filter_map(|(metric, value)| Some((metric, value?)));
        losses.into_iter().chain(measured).collect()
    }

    pub(super) fn note_ratio(&mut self, ratio: f64) {
        self.ratio.note(ratio);
        largest(&mut self.ratio_max, Some(ratio));
    }

    pub(super) fn note_mismatch(&mut self, difference: f64) {
        self.logprob_mismatch.note(difference);
        largest(&mut self.logprob_mismatch_max, Some(difference));
    }

    fn means(&self) -> [(Metric, Mean); 12] {
        [
            (Metric::ClipFraction, self.clip_fraction),
            (Metric::RatioMean, self.ratio),
            (Metric::Kl, self.kl),
            (Metric::ApproxKl, self.approx_kl),
            (Metric::Entropy, self.entropy),
            (Metric::TisTruncatedShare, self.tis_truncated),
            (Metric::TisWeightMean, self.tis_weight),
            (Metric::LogprobMismatchMean, self.logprob_mismatch),
            (Metric::DistillationAdvantageMean, self.distillation_advantage),
            (Metric::RewardAdvantageMean, self.reward_advantage),
            (Metric::PreferenceAccuracy, self.preference_accuracy),
            (Metric::PreferenceMargin, self.preference_margin),
        ]
    }

    /// In the order of [`Self::means`].
    fn means_mut(&mut self) -> [&mut Mean; 12] {
        [
            &mut self.clip_fraction,
            &mut self.ratio,
            &mut self.kl,
            &mut self.approx_kl,
            &mut self.entropy,
            &mut self.tis_truncated,
            &mut self.tis_weight,
            &mut self.logprob_mismatch,
            &mut self.distillation_advantage,
            &mut self.reward_advantage,
            &mut self.preference_accuracy,
            &mut self.preference_margin,
        ]
    }
}

fn largest(own: &mut Option<f64>, other: Option<f64>) {
    *own = match (*own, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    };
}
