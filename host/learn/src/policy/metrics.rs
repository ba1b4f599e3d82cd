//! Training metrics, under their usual names.

use super::mismatch::Difference;
use crate::{Measurements, Metric};

/// A mean that can be merged from parts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    /// Adds a number.
    pub fn note(&mut self, number: f64) {
        self.sum += number;
        self.count += 1.0;
    }

    /// The mean; `None` if there are no numbers.
    pub fn value(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
    }
}

/// Metrics of one micro-batch; those of a step are merged. Means are over trained tokens unless stated otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// Reward term of the loss. The three terms sum to the loss.
    pub reward_loss: f64,
    /// Distillation term of the loss.
    pub distillation_loss: f64,
    /// KL term of the loss.
    pub kl_loss: f64,
    /// Share of tokens whose ratio was clipped, so that they have no gradient (with CISPO: a bounded one).
    pub clip_fraction: Mean,
    /// Importance ratio, new to old probability; with GSPO that of the sequence. 1 on-policy.
    pub ratio: Mean,
    /// Largest importance ratio.
    pub ratio_max: Option<f64>,
    /// KL divergence of the policy from the reference, nats (k3 estimator).
    pub kl: Mean,
    /// KL divergence of the old from the new policy, nats (k3 estimator).
    pub approx_kl: Mean,
    /// Entropy as the caller computed it, nats.
    pub entropy: Mean,
    /// Share of tokens whose importance-sampling weight reached its cap.
    pub tis_truncated: Mean,
    /// Importance-sampling weight after truncation.
    pub tis_weight: Mean,
    /// `|new - rollout|`, nats. In the first step of a weights version, the numerical mismatch between rollout and trainer.
    pub logprob_mismatch: Mean,
    /// Largest mismatch, nats.
    pub logprob_mismatch_max: Option<f64>,
    /// Distillation part of a token's advantage: `teacher - old`, weighted; over the teacher's most likely tokens, the negative
    /// divergence.
    pub distillation_advantage: Mean,
    /// The policy's mass outside of the teacher's most likely tokens.
    pub distillation_tail: Mean,
    /// Reward part of a token's advantage, weighted.
    pub reward_advantage: Mean,
    /// Share of pairs whose chosen reply has the larger implicit reward; of labelled replies, the share on the right side of the
    /// divergence.
    pub preference_accuracy: Mean,
    /// Mean difference of implicit rewards (`beta` times nats), over pairs or labelled replies.
    pub preference_margin: Mean,
}

impl Metrics {
    /// Merges the metrics of another micro-batch of the same step.
    pub fn merge(&mut self, other: &Self) {
        self.reward_loss += other.reward_loss;
        self.distillation_loss += other.distillation_loss;
        self.kl_loss += other.kl_loss;
        let own = self.means_mut();
        own.into_iter().zip(other.means()).for_each(|(own, (_, other))| own.merge(other));
        largest(&mut self.ratio_max, other.ratio_max);
        largest(&mut self.logprob_mismatch_max, other.logprob_mismatch_max);
    }

    /// The values as metrics.
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

    /// Turns sums over several optimiser steps into means per step: the terms of the loss. Other metrics are means over
    /// tokens.
    pub fn per_step(&mut self, steps: u64) {
        for term in [&mut self.reward_loss, &mut self.distillation_loss, &mut self.kl_loss] {
            *term /= steps.max(1) as f64;
        }
    }

    /// Merges a comparison of rollout and trainer.
    pub fn merge_mismatch(&mut self, difference: Difference) {
        let tokens = difference.tokens as f64;
        self.logprob_mismatch.merge(Mean { sum: difference.mean * tokens, count: tokens });
        largest(&mut self.logprob_mismatch_max, (difference.tokens > 0).then_some(difference.max));
    }

    /// Leaves out the mismatch of a step that is not the first: it contains what the earlier steps changed.
    pub fn without_mismatch(self) -> Self {
        Self { logprob_mismatch: Mean::default(), logprob_mismatch_max: None, ..self }
    }

    pub(super) fn note_ratio(&mut self, ratio: f64) {
        self.ratio.note(ratio);
        largest(&mut self.ratio_max, Some(ratio));
    }

    pub(super) fn note_mismatch(&mut self, difference: f64) {
        self.logprob_mismatch.note(difference);
        largest(&mut self.logprob_mismatch_max, Some(difference));
    }

    fn means(&self) -> [(Metric, Mean); 13] {
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
            (Metric::DistillationTail, self.distillation_tail),
            (Metric::RewardAdvantageMean, self.reward_advantage),
            (Metric::PreferenceAccuracy, self.preference_accuracy),
            (Metric::PreferenceMargin, self.preference_margin),
        ]
    }

    /// In the order of [`Self::means`].
    fn means_mut(&mut self) -> [&mut Mean; 13] {
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
            &mut self.distillation_tail,
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
