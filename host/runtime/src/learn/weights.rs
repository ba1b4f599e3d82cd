//! Weights that learn: demonstrations first, the same transaction as every layer after that, and a test before and after.

use super::batch::why_unscored;
use super::conductor::{LearningLoop, Stopped};
use super::evaluate::{compare_arms, test_plan};
use super::guide::UniformPlaybook;
use super::phase::Phase;
use super::plan::{LearnPorts, WarmStart};
use super::report::{Evaluation, IterationReport};
use super::rollout::{Rollout, measures, varies};
use crate::plan::Plan;
use crate::{RuntimeError, ScoringRule, StopReason};
use clawhost_core::{Context, Episode, RewardSource, RunId, derive_seed};
use clawhost_learn::CheckpointKind;
use clawhost_learn::policy::{Generated, IterationSignal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// What came of learning from demonstrations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmStartReport {
    /// Demonstrations that were learned from.
    pub demonstrations: u64,
    /// Mean reward of the demonstrations; none: not scored.
    pub demonstrated: Option<f64>,
    /// Steps taken.
    pub steps: u64,
    /// Loss per token before the last of them, nats.
    pub loss: f64,
    /// Every look: steps so far, and the mean reward of what the model sampled; none: no reward had anything to say about it.
    pub looks: Vec<(u64, Option<f64>)>,
    /// Whether the target was reached.
    pub reached: bool,
    /// Whether it is over.
    pub finished: bool,
}

/// The best weights so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// After which iteration.
    pub iteration: u64,
    /// Mean reward of the validation episodes.
    pub reward: f64,
}

/// What test episodes came to, by their place: the task, and the reward if there is one.
pub(crate) type Tested = BTreeMap<u64, (String, Option<f64>)>;

/// Puts the weights of the last checkpoint in their place.
pub(crate) async fn restore(run: &RunId, ports: &LearnPorts) -> Result<(), RuntimeError> {
    let Some(weights) = &ports.weights else { return Ok(()) };
    if let Some(bytes) = ports.learning.weights(run).await? {
        weights.lock().unwrap_or_else(PoisonError::into_inner).restore(&bytes)?;
    }
    Ok(())
}

fn mean(episodes: &[Arc<Episode>]) -> Option<f64> {
    let rewards: Vec<f64> = episodes.iter().filter_map(|episode| episode.reward).collect();
    (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64)
}

/// Least and most that the rewards say which decide where they have something to say: those of the first source.
fn possible(rules: &[ScoringRule]) -> (f64, f64) {
    let counts = |rule: &&ScoringRule| rule.weight > 0.0;
    let source =
        RewardSource::ALL.into_iter().find(|source| rules.iter().filter(counts).any(|rule| rule.source == *source));
    let deciding = rules.iter().filter(counts).filter(|rule| Some(rule.source) == source);
    let bounds = deciding.map(|rule| (rule.reward.description().minimum, rule.reward.description().maximum));
    bounds.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))).unwrap_or((-1.0, 1.0))
}

/// Which demonstrations a step learns from: a walk through all of them in an order of the seed's, begun again when it is over.
fn chosen(all: &[Arc<Generated>], seed: u64, step: u64, batch: u64) -> Vec<Arc<Generated>> {
    let count = all.len().max(1) as u64;
    let place = |number: u64| {
        let (round, place) = (number / count, number % count);
        // A step of a size without a common divisor meets every place once.
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

impl LearningLoop<'_> {
    /// All that the weights need to go on from here.
    pub(crate) fn weights_snapshot(&self) -> Result<Option<Vec<u8>>, RuntimeError> {
        let Some(weights) = &self.ports.weights else { return Ok(None) };
        Ok(Some(weights.lock().unwrap_or_else(PoisonError::into_inner).snapshot()?))
    }

    /// Writes the weights down as a model, where that was asked for.
    pub(crate) fn keep_weights(&self, kept: CheckpointKind) -> Result<(), RuntimeError> {
        let Some(weights) = &self.ports.weights else { return Ok(()) };
        Ok(weights.lock().unwrap_or_else(PoisonError::into_inner).keep(kept)?)
    }

    /// Notes whether the iteration's rewards said anything, and the numbers that people look for.
    pub(crate) fn watch_weights(&mut self, rollout: &Rollout, report: &mut IterationReport) {
        if self.ports.weights.is_none() {
            return;
        }
        report.metrics.extend(measures(&rollout.played, self.plan.play.group, self.best));
        report.metrics.insert("train.refilled_groups".into(), rollout.refilled as f64);
        let passed_over = self.state.choice.passed_over().map(|count| count as f64);
        report.metrics.extend(passed_over.map(|count| ("train.tasks_passed_over".to_owned(), count)));
        let comparable =
            rollout.played.values().filter(|group| group.iter().filter(|one| one.reward.is_some()).count() >= 2);
        let groups = comparable.count() as u64;
        let varied = rollout.played.values().filter(|group| varies(group)).count() as u64;
        let (least, most) = possible(&self.ports.play.rewards);
        let mean_reward = report.reward.map_or(0.0, |reward| (reward - least) / (most - least).max(f64::MIN_POSITIVE));
        let told = self.state.signal.note(IterationSignal { groups, varied, mean_reward });
        report.signal = told.map(|why| why.to_string());
    }

    /// Looks at the validation tasks now and then, always the same with the same seeds, and keeps the best weights.
    pub(crate) async fn evaluate_on_the_way(
        &mut self,
        report: &mut IterationReport,
    ) -> Result<Result<(), Stopped>, RuntimeError> {
        let Some(plan) = self.plan.weights.as_ref().filter(|plan| plan.evaluate_every > 0) else { return Ok(Ok(())) };
        if self.ports.weights.is_none() || !report.iteration.is_multiple_of(plan.evaluate_every) {
            return Ok(Ok(()));
        }
        let plan = Plan {
            episodes: plan.evaluate_episodes,
            group: 1,
            split: Some(self.splits.val.split.clone()),
            ..self.plan.play.clone()
        };
        let guidance = Arc::new(UniformPlaybook(self.state.harness.serving(self.state.harness.deployed())));
        let name = format!("i{:05}-val", report.iteration);
        let phase = match self.phase(&name, plan, guidance, self.val.clone()).await? {
            Ok(phase) => phase,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let Some(reward) = mean(&phase.episodes) else { return Ok(Ok(())) };
        report.metrics.insert("val.reward".into(), reward);
        if self.state.best.as_ref().is_none_or(|best| reward > best.reward) {
            self.state.best = Some(Best { iteration: report.iteration, reward });
            self.keep_weights(CheckpointKind::Best)?;
        }
        Ok(Ok(()))
    }

    /// Learns from demonstrations until what the model samples is good enough to learn from; checkpointed at every look.
    pub(crate) async fn warm_up(&mut self) -> Result<Result<(), Stopped>, RuntimeError> {
        let warm = self.plan.weights.as_ref().and_then(|plan| plan.warm_start.clone());
        let (Some(warm), Some(weights)) = (warm, self.ports.weights.clone()) else { return Ok(Ok(())) };
        if self.state.warm_start.as_ref().is_some_and(|report| report.finished) {
            return Ok(Ok(()));
        }
        let demonstrations = match self.demonstrations(&warm).await? {
            Ok(episodes) => episodes,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let generated: Vec<Arc<Generated>> =
            demonstrations.iter().filter_map(|episode| Generated::of(episode).map(Arc::new)).collect();
        let mut report = self.state.warm_start.clone().unwrap_or_default();
        (report.demonstrations, report.demonstrated) = (generated.len() as u64, mean(&demonstrations));
        while !report.finished {
            for _ in 0..warm.every.min(warm.steps.saturating_sub(report.steps)) {
                if self.cancel.is_requested() {
                    return Ok(Err(StopReason::Cancelled.into()));
                }
                let batch = chosen(&generated, self.plan.play.seed, report.steps, warm.batch);
                let mut weights = weights.lock().unwrap_or_else(PoisonError::into_inner);
                report.loss = weights.supervise(&batch, warm.rate)?;
                report.steps += 1;
            }
            weights.lock().unwrap_or_else(PoisonError::into_inner).publish()?;
            let reward = match self.look(&warm, report.steps).await? {
                // What nobody judges, and what nobody judged in the demonstrations either: more of them would not help.
                Ok(Err(why)) if report.demonstrated.is_none() => return Ok(Err(StopReason::Unscored { why }.into())),
                Ok(reward) => reward.ok(),
                Err(stopped) => return Ok(Err(stopped)),
            };
            report.looks.push((report.steps, reward));
            report.reached = reward.is_some_and(|reward| reward >= warm.target);
            report.finished = report.reached || report.steps >= warm.steps;
            if report.finished {
                // Before the checkpoint: whoever takes the run up from there must not remember more than whoever went on.
                weights.lock().unwrap_or_else(PoisonError::into_inner).end_supervision();
            }
            self.observer.warmed(&report, &warm);
            self.state.warm_start = Some(report.clone());
            self.checkpoint(serde_json::Value::Null, Vec::new()).await?;
        }
        Ok(Ok(()))
    }

    /// Plays the demonstrations, or reads them.
    async fn demonstrations(&self, warm: &WarmStart) -> Result<Result<Vec<Arc<Episode>>, Stopped>, RuntimeError> {
        let Some(demonstrator) = &self.ports.demonstrator else { return Ok(Ok(Vec::new())) };
        let mut options = self.plan.play.options.clone();
        options.extend(warm.options.iter().cloned());
        let plan = Plan {
            episodes: warm.demonstrations,
            group: 1,
            split: Some(self.splits.train.clone()),
            options,
            ..self.plan.play.clone()
        };
        let policy = self.ports.play.policy.with_model(demonstrator.clone());
        let phase = self.phase_by("demonstrations", plan, policy, self.train.clone()).await?;
        Ok(phase.map(|phase| phase.episodes))
    }

    /// The mean reward of what the model samples now, or why there is none: what nobody judged is no zero.
    async fn look(&self, warm: &WarmStart, steps: u64) -> Result<Result<Result<f64, String>, Stopped>, RuntimeError> {
        let scored = |phase: Phase| mean(&phase.episodes).ok_or_else(|| why_unscored(&phase.episodes));
        let plan = Plan {
            episodes: warm.episodes,
            group: 1,
            split: Some(self.splits.train.clone()),
            ..self.plan.play.clone()
        };
        let guidance = Arc::new(UniformPlaybook(self.state.harness.serving(self.state.harness.deployed())));
        let phase = self.phase(&format!("warm-{steps:05}"), plan, guidance, self.train.clone()).await?;
        Ok(phase.map(scored))
    }

    /// Plays the test split with the weights as they are, once for each pair.
    async fn test_weights(&self, name: &str) -> Result<Result<Tested, Stopped>, RuntimeError> {
        let context = Context { seed: self.plan.play.seed, options: self.plan.play.options.clone() };
        let environment = self.ports.play.environment.as_ref();
        let tasks = self.splits.test.fetch(environment, &context, self.plan.test_pairs).await?;
        let plan = test_plan(&self.plan.play, &self.splits, self.plan.test_pairs);
        let plan = Plan { episodes: self.plan.test_pairs, group: 1, paired: false, ..plan };
        let guidance = Arc::new(UniformPlaybook(self.state.harness.serving(self.state.harness.deployed())));
        let phase = self.phase(name, plan, guidance, tasks).await?;
        let told = |episode: &Arc<Episode>| (episode.index, (episode.task.id.clone(), episode.reward));
        Ok(phase.map(|phase| phase.episodes.iter().map(told).collect()))
    }

    /// Plays the test before the first reward, once.
    pub(crate) async fn test_beforehand(&mut self) -> Result<Result<(), Stopped>, RuntimeError> {
        if self.ports.weights.is_none() || self.plan.test_pairs == 0 || self.state.tested.is_some() {
            return Ok(Ok(()));
        }
        match self.test_weights("test-before").await? {
            Ok(tested) => self.state.tested = Some(tested),
            Err(stopped) => return Ok(Err(stopped)),
        }
        self.checkpoint(serde_json::Value::Null, Vec::new()).await?;
        Ok(Ok(()))
    }

    /// The weights of before the first reward against those of now, on the same test tasks with the same seeds.
    pub(crate) async fn evaluate_weights(&self) -> Result<Result<Evaluation, Stopped>, RuntimeError> {
        let after = match self.test_weights("test-after").await? {
            Ok(episodes) => episodes,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let before = self.state.tested.clone().unwrap_or_default();
        Ok(Ok(compare_arms(&self.splits, &before, &after, &self.ports.play.rewards)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_demonstration_is_met_once_in_a_round() {
        let generated = |number: u32| {
            Arc::new(Generated {
                sequences: vec![],
                rollout: vec![],
                turn_ends: vec![number as usize],
                temperature: 1.0,
                version: 0,
                restricted: false,
                truncated: false,
            })
        };
        for count in [1u32, 2, 6, 30, 31] {
            let all: Vec<_> = (0..count).map(generated).collect();
            for round in 0..3 {
                let mut met: Vec<usize> =
                    chosen(&all, 7, round, u64::from(count)).iter().map(|one| one.turn_ends[0]).collect();
                if count > 6 {
                    assert!(!met.is_sorted(), "{count}: not in the order they were played in");
                }
                met.sort_unstable();
                assert_eq!(met, (0..count as usize).collect::<Vec<_>>(), "{count} round {round}");
            }
        }
    }
}
