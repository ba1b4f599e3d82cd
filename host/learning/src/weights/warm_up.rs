//! Warm start: the model imitates demonstrations of an environment until its own samples are good enough to learn from
//! rewards.

use super::stage::WeightsStage;
use crate::Staged;
use crate::batch::unscored_reason;
use crate::experience::mean_reward;
use crate::stage::{StageContext, WarmUp};
use clawhost_core::{Attributes, Episode, derive_seed};
use clawhost_learn::policy::Generated;
use clawhost_play::{Plan, StopReason};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Supervised warm start. If the model never succeeds, rewards carry no signal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarmStart {
    /// Number of demonstrations; training cycles over them in a seeded order.
    pub demonstrations: u64,
    /// Options of the environment for demonstrating, added to its usual ones.
    pub options: Attributes,
    /// Demonstrations per step.
    pub batch: u64,
    /// Learning rate of the first step.
    pub rate: f64,
    /// Learning rate of the last step; between them it changes in a straight line. A lower one lets the weights settle.
    pub last_rate: f64,
    /// Mean reward of sampled training episodes that ends the warm start.
    pub target: f64,
    /// Steps between two measurements.
    pub every: u64,
    /// Episodes of a measurement.
    pub episodes: u64,
    /// Most steps.
    pub steps: u64,
}

impl WarmStart {
    /// The learning rate of a step.
    fn rate_at(&self, step: u64) -> f64 {
        let last = self.steps.saturating_sub(1).max(1);
        self.rate + (self.last_rate - self.rate) * (step.min(last) as f64 / last as f64)
    }
}

/// Report of a warm start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmStartReport {
    /// Number of demonstrations used.
    pub demonstrations: u64,
    /// Mean reward of the demonstrations; `None` if none was scored.
    pub demonstrated: Option<f64>,
    /// Steps taken.
    pub steps: u64,
    /// Loss per token before the last step, nats.
    pub loss: f64,
    /// Measurements: steps so far, and the mean reward of the model's samples (`None` if none was scored).
    pub looks: Vec<(u64, Option<f64>)>,
    /// Whether the target was reached.
    pub reached: bool,
    /// Whether the warm start is over.
    pub finished: bool,
}

/// The demonstrations of a step: a cycle over all of them, in a new seeded order per round.
fn chosen(all: &[Arc<Generated>], seed: u64, step: u64, batch: u64) -> Vec<Arc<Generated>> {
    let count = all.len().max(1) as u64;
    let place = |number: u64| {
        let (round, place) = (number / count, number % count);
        // A stride coprime to the count visits every index once.
        let mut stride = (derive_seed(seed, "demonstrations", round) % count) | 1;
        while gcd(stride, count) != 1 {
            stride += 2;
        }
        usize::try_from((place * stride + derive_seed(seed, "first demonstration", round) % count) % count).unwrap_or(0)
    };
    (step * batch..(step + 1) * batch).filter_map(|number| all.get(place(number)).cloned()).collect()
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

impl WeightsStage {
    /// Takes steps on demonstrations up to the next measurement, which is checkpointed.
    pub(super) async fn imitate(&mut self, context: &StageContext<'_>) -> Staged<WarmUp> {
        let Some(warm) = self.plan.warm_start.clone() else { return Ok(WarmUp::Done) };
        if self.state.warm_start.as_ref().is_some_and(|report| report.finished) {
            return Ok(WarmUp::Done);
        }
        let generated = self.demonstrations(&warm, context).await?;
        let mut report = self.state.warm_start.clone().unwrap_or_default();
        (report.demonstrations, report.demonstrated) = (generated.len() as u64, self.demonstrated);
        for _ in 0..warm.every.min(warm.steps.saturating_sub(report.steps)) {
            if context.cancel.is_requested() {
                return Err(StopReason::Cancelled.into());
            }
            let batch = chosen(&generated, context.plan.play.seed, report.steps, warm.batch);
            let rate = warm.rate_at(report.steps);
            report.loss = self.compute(context, move |weights| weights.supervise(&batch, rate)).await?;
            report.steps += 1;
        }
        self.is_changed = true;
        self.compute(context, |weights| weights.publish()).await?;
        let reward = match self.look(&warm, report.steps, context).await? {
            // Neither demonstrations nor samples were scored: more steps would not help.
            Err(why) if report.demonstrated.is_none() => return Err(StopReason::Unscored { why }.into()),
            reward => reward.ok(),
        };
        report.looks.push((report.steps, reward));
        report.reached = reward.is_some_and(|reward| reward >= warm.target);
        report.finished = report.reached || report.steps >= warm.steps;
        if report.finished {
            // Before the checkpoint, so that a resumed run has the same optimizer state as an uninterrupted one.
            self.compute(context, |weights| {
                weights.end_supervision();
                Ok(())
            })
            .await?;
        }
        context.observer.warmed(&report, &warm);
        self.state.warm_start = Some(report);
        Ok(WarmUp::Again(Vec::new()))
    }

    /// The demonstrations, played or read once per process.
    async fn demonstrations(&mut self, warm: &WarmStart, context: &StageContext<'_>) -> Staged<Arc<[Arc<Generated>]>> {
        if let Some(known) = &self.demonstrations {
            return Ok(known.clone());
        }
        let mut episodes: Vec<Arc<Episode>> = Vec::new();
        if let Some(demonstrator) = &self.ports.demonstrator {
            let mut options = context.plan.play.options.clone();
            options.extend(warm.options.iter().cloned());
            let plan = Plan { options, ..training_plan(warm.demonstrations, context) };
            let policy = context.policy.with_model(demonstrator.clone());
            episodes = context.phase("demonstrations", plan, policy, context.train.clone()).await?.episodes;
        }
        self.demonstrated = mean_reward(&episodes);
        let generated = episodes.iter().filter_map(|episode| Generated::of(episode).map(Arc::new));
        Ok(self.demonstrations.insert(generated.collect()).clone())
    }

    /// The mean reward of the model's current samples, or why they have none. An unscored measurement is not 0.
    async fn look(&self, warm: &WarmStart, steps: u64, context: &StageContext<'_>) -> Staged<Result<f64, String>> {
        let policy = self.alone(context.policy.clone());
        let plan = training_plan(warm.episodes, context);
        let phase = context.phase(&format!("warm-{steps:05}"), plan, policy, context.train.clone()).await?;
        Ok(mean_reward(&phase.episodes).ok_or_else(|| unscored_reason(&phase.episodes)))
    }
}

/// A plan for training episodes without groups.
fn training_plan(episodes: u64, context: &StageContext<'_>) -> Plan {
    Plan { episodes, group: 1, split: Some(context.splits.train.clone()), ..context.plan.play.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_changes_in_a_straight_line() {
        let warm = |rate, last_rate, steps| WarmStart {
            demonstrations: 1,
            options: Vec::new(),
            batch: 1,
            rate,
            last_rate,
            target: 1.0,
            every: 1,
            episodes: 1,
            steps,
        };
        let falling = warm(1.0, 0.0, 5);
        assert_eq!([0, 1, 2, 4].map(|step| falling.rate_at(step)), [1.0, 0.75, 0.5, 0.0]);
        assert_eq!([0, 3, 9].map(|step| warm(0.5, 0.5, 4).rate_at(step)), [0.5; 3]);
        assert_eq!(warm(0.5, 0.1, 1).rate_at(0), 0.5, "a single step is the first one");
    }

    #[test]
    fn every_round_uses_each_demonstration_once() {
        let generated = |number: u32| {
            Arc::new(Generated {
                sequences: vec![],
                rollout: vec![],
                turn_ends: vec![number as usize],
                states: Vec::new(),
                turn_rewards: None,
                temperature: 1.0,
                version: 0,
                restricted: false,
                grammars: Vec::new(),
                truncated: false,
                taught: Vec::new(),
                unrewarded: false,
            })
        };
        for count in [1u32, 2, 6, 30, 31] {
            let all: Vec<_> = (0..count).map(generated).collect();
            for round in 0..3 {
                let mut met: Vec<usize> =
                    chosen(&all, 7, round, u64::from(count)).iter().map(|one| one.turn_ends[0]).collect();
                if count > 6 {
                    assert!(!met.is_sorted(), "{count}: not in the played order");
                }
                met.sort_unstable();
                assert_eq!(met, (0..count as usize).collect::<Vec<_>>(), "{count} round {round}");
            }
        }
    }
}
