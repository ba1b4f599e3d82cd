//! The weights as a layer: the batch's per-token objective becomes one step of the optimiser, and later requests are
//! answered with the new weights.

use crate::device::ComputeDevice;
use crate::generate::{Engine, Version};
use crate::train::{Sequence, TokenScores, Trainer};
use crate::{CheckpointWriter, HostDecoder, LocalModelError, ModelConfig, digest};
use clawhost_core::Digest;
use clawhost_learn::policy::mismatch::{self, Precision};
use clawhost_learn::policy::{
    Dropped, Evaluation, Experience, Generated, Metrics, PolicyGradient, Recorded, Staleness, StepBatch,
    SupervisedStep, Trajectory, TrajectoryGroup,
};
use clawhost_learn::{Batch, CheckpointKind, Forward, Layer, LearnError, Measurements, Metric, Step, Weights};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The weights of a local model.
#[derive(Debug)]
pub struct WeightsLayer {
    config: Arc<ModelConfig>,
    trainer: Trainer,
    engine: Arc<Engine>,
    objective: PolicyGradient,
    /// The device of the trainer and of the engine.
    device: ComputeDevice,
    staleness: Staleness,
    /// The weights that the engine answers with.
    host: HostDecoder,
    /// The digest of the weights.
    weights_digest: Digest,
    /// Whether log-probs of the current version were compared with the trainer's.
    compared: bool,
    /// The initial weights, if the objective keeps the policy near them. With an adapter they are the base weights.
    reference: Option<Trainer>,
    /// Where weights are written, if requested.
    checkpoints: Option<CheckpointWriter>,
}

/// One trajectory of a step: its index, and its sequences.
struct Unit {
    number: usize,
    sequences: Vec<Sequence>,
}

fn refused(error: LocalModelError) -> LearnError {
    LearnError::Layer { layer: "weights".into(), why: error.to_string() }
}

fn sequences(generated: &Generated) -> Result<Vec<Sequence>, LocalModelError> {
    let temperature = if generated.temperature > 0.0 { generated.temperature } else { 1.0 };
    generated
        .sequences
        .iter()
        .map(|sequence| Sequence::new(sequence.tokens.clone(), &sequence.mask, temperature))
        .collect()
}

/// The scores of a trajectory's sequences, concatenated.
fn joined(scores: &[TokenScores]) -> TokenScores {
    let mut all = TokenScores::default();
    for one in scores {
        all.logprobs.extend(&one.logprobs);
        all.entropies.extend(&one.entropies);
    }
    all
}

impl WeightsLayer {
    /// A layer of a trainer and an engine on this device.
    ///
    /// # Errors
    /// The device does not return the weights.
    pub fn new(
        config: Arc<ModelConfig>,
        trainer: Trainer,
        engine: Arc<Engine>,
        objective: PolicyGradient,
        device: ComputeDevice,
    ) -> Result<Self, LocalModelError> {
        let host = device.guarded(|| trainer.host()).flatten()?;
        Ok(Self {
            config,
            trainer,
            engine,
            objective,
            device,
            staleness: Staleness::default(),
            weights_digest: digest(&host),
            host,
            compared: false,
            reference: None,
            checkpoints: None,
        })
    }

    /// Sets the reference weights for the objective's divergence.
    pub fn stay_near(&mut self, reference: Trainer) {
        self.reference = Some(reference);
    }

    /// Sets the writer for checkpoints.
    pub fn keep_in(&mut self, checkpoints: CheckpointWriter) {
        self.checkpoints = Some(checkpoints);
    }

    /// The current weights.
    pub fn host(&self) -> &HostDecoder {
        &self.host
    }

    fn publish(&mut self) -> Result<(), LocalModelError> {
        let host = self.device.guarded(|| self.trainer.host()).flatten()?;
        let model = self.device.model(self.config.clone(), &host)?;
        self.host = host;
        let number = self.trainer.steps_ever();
        self.weights_digest = digest(&self.host);
        self.engine.publish(Version { number, digest: self.weights_digest, model });
        self.compared = false;
        Ok(())
    }

    /// Accumulates the gradients of units of a step, micro-batch by micro-batch.
    fn accumulate(&mut self, step: &(dyn StepBatch + Sync), units: &[Unit]) -> Result<(f64, Metrics), LearnError> {
        let parts: Vec<&[Sequence]> = units.iter().map(|unit| unit.sequences.as_slice()).collect();
        let trainer = &mut self.trainer;
        let loss = |first: usize, scores: &[Vec<TokenScores>]| {
            let all: Vec<TokenScores> = scores.iter().map(|scores| joined(scores)).collect();
            let numbers = units.iter().skip(first).map(|unit| unit.number);
            let evaluations: Vec<Evaluation<'_>> = numbers
                .zip(&all)
                .map(|(sequence, scores)| Evaluation {
                    sequence,
                    new: &scores.logprobs,
                    entropy: Some(&scores.entropies),
                })
                .collect();
            let outcome = step.loss(&evaluations)?;
            Ok::<_, StepError>((outcome.gradients, (outcome.loss, outcome.metrics)))
        };
        let told = self.device.guarded(|| trainer.accumulate(&parts, &loss)).map_err(refused)??;
        let (mut loss, mut metrics) = (0.0, Metrics::default());
        for (part, found) in told {
            loss += part;
            metrics.merge(&found);
        }
        Ok((loss, metrics))
    }

    /// Log-probs of trajectories under some weights, by the trajectories' indices.
    fn scored(
        &self,
        score: impl Fn(&[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError>,
        written: &BTreeMap<String, Arc<Generated>>,
        wanted: impl Fn(&Generated) -> bool,
    ) -> Result<BTreeMap<String, Vec<f64>>, LearnError> {
        let mut own = Vec::new();
        for (name, generated) in written.iter().filter(|(_, generated)| wanted(generated)) {
            own.push((name, sequences(generated).map_err(refused)?));
        }
        let all: Vec<&Sequence> = own.iter().flat_map(|(_, sequences)| sequences).collect();
        let scores = self.device.guarded(|| score(&all)).flatten();
        let mut scores = scores.map_err(refused)?.into_iter();
        let mut found = BTreeMap::new();
        for (name, sequences) in &own {
            let scores: Vec<TokenScores> = (&mut scores).take(sequences.len()).collect();
            found.insert((*name).clone(), joined(&scores).logprobs);
        }
        Ok(found)
    }

    /// Compares the log-probs of rollout and trainer for what the current version generated.
    fn compare(&mut self, step: &Experience, units: &[Unit]) -> Result<f64, LearnError> {
        let all: Vec<&Sequence> = units.iter().flat_map(|unit| &unit.sequences).collect();
        let scores = self.device.guarded(|| self.trainer.scores(&all)).flatten();
        let mut scores = scores.map_err(refused)?.into_iter();
        let columns: Vec<TokenScores> =
            units.iter().map(|unit| joined(&(&mut scores).take(unit.sequences.len()).collect::<Vec<_>>())).collect();
        let compared = units.iter().zip(&columns).filter_map(|(unit, scores)| {
            let trajectory = step.trained().get(unit.number)?.trajectory();
            Some(mismatch::Compared { trajectory, trainer: &scores.logprobs })
        });
        Ok(mismatch::check(Precision::Exact, compared)?.max)
    }
}

/// Errors of both sides of a step.
enum StepError {
    Learn(LearnError),
    Model(LocalModelError),
}

impl From<LearnError> for StepError {
    fn from(error: LearnError) -> Self {
        Self::Learn(error)
    }
}

impl From<LocalModelError> for StepError {
    fn from(error: LocalModelError) -> Self {
        Self::Model(error)
    }
}

impl From<StepError> for LearnError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Learn(error) => error,
            StepError::Model(error) => refused(error),
        }
    }
}

impl Layer for WeightsLayer {
    fn name(&self) -> &'static str {
        "weights"
    }

    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        let current = self.engine.current().number;
        let mut written: BTreeMap<String, Arc<Generated>> = BTreeMap::new();
        let members = batch.groups.iter().flat_map(|group| &group.members);
        for member in members {
            written.extend(member.generated.as_ref().map(|generated| (member.episode.to_string(), generated.clone())));
        }
        let lag = |generated: &Generated| current.saturating_sub(generated.version);
        // Truncated importance weights for what older weights generated, from the current weights' log-probs.
        let late = |generated: &Generated| (1..=self.staleness.max_version_lag).contains(&lag(generated));
        let mut old = self.scored(|all| self.trainer.scores(all), &written, late)?;
        let mut reference = match &self.reference {
            Some(reference) => self.scored(|all| reference.scores(all), &written, |_| true)?,
            None if self.objective.kl > 0.0 && self.trainer.has_reference() => {
                self.scored(|all| self.trainer.reference_scores(all), &written, |_| true)?
            }
            None => BTreeMap::new(),
        };
        let mut groups = Vec::with_capacity(batch.groups.len());
        for group in &batch.groups {
            let mut members = Vec::with_capacity(group.members.len());
            for member in &group.members {
                let Some(generated) = &member.generated else { continue };
                let name = member.episode.to_string();
                let (trainer, reference) = (old.remove(&name), reference.remove(&name));
                let recorded = generated.recorded(name, member.reward, lag(generated));
                members.push(Trajectory::new(Recorded { trainer, reference, ..recorded })?);
            }
            groups.push(TrajectoryGroup { task: group.task.clone(), members });
        }
        let (groups, dropped) = self.staleness.keep(groups);
        let Dropped { unknown_distribution, old_weights, old_playbook } = dropped;
        let experience = Experience::new(self.objective, groups)?;
        let mut metrics = experience.report().named();
        let counts = [
            (Metric::DroppedUnknownDistribution, unknown_distribution),
            (Metric::DroppedOldWeights, old_weights),
            (Metric::DroppedOldPlaybook, old_playbook),
        ];
        for (metric, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            metrics.set(metric, count as f64);
        }
        if experience.trained().is_empty() {
            return Ok(Forward { metrics });
        }
        let mut units = Vec::with_capacity(experience.trained().len());
        for (number, trained) in experience.trained().iter().enumerate() {
            if let Some(generated) = written.get(&trained.trajectory().recorded().sequence) {
                units.push(Unit { number, sequences: sequences(generated).map_err(refused)? });
            }
        }
        // Weights that generated the whole batch compute their own log-probs in the pass. Others differ legitimately.
        let fresh = experience.trained().iter().all(|one| one.trajectory().recorded().version_lag == 0);
        if !self.compared && !fresh {
            self.compare(&experience, &units)?;
        }
        let step = experience.whole()?;
        let (loss, found) = self.accumulate(&step, &units)?;
        if let (false, true, Some(largest)) = (self.compared, fresh, found.logprob_mismatch_max)
            && largest > mismatch::EXACT_LIMIT
        {
            // A second look finds the token. The step is refused.
            self.compare(&experience, &units)?;
        }
        self.compared = true;
        metrics.set(Metric::Loss, loss);
        let tokens = units.iter().flat_map(|unit| &unit.sequences).map(|one| one.trained().len() as f64).sum();
        metrics.set(Metric::Tokens, tokens);
        metrics.merge(found.named());
        Ok(Forward { metrics })
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        let report = self.device.guarded(|| self.trainer.step()).flatten();
        let Some(report) = report.map_err(refused)? else { return Ok(Step::default()) };
        self.publish().map_err(refused)?;
        let metrics = Measurements::from([
            (Metric::GradientNorm, report.gradient_norm),
            (Metric::LearningRate, report.rate),
            (Metric::Version, self.engine.current().number as f64),
        ]);
        Ok(Step { updates: 1, metrics, events: Vec::new() })
    }

    fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        self.device.guarded(|| self.trainer.to_bytes()).flatten().map_err(refused)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        self.device.guarded(|| self.trainer.restore(bytes)).flatten().map_err(refused)?;
        self.publish().map_err(refused)
    }

    fn clear_pending(&mut self) {
        self.trainer.clear_pending();
    }

    fn digest(&self) -> Digest {
        // As with an unreadable state: the following step fails with the reason.
        let state = self.device.guarded(|| self.trainer.state_digest()).unwrap_or_else(|_| Digest::of(b""));
        self.weights_digest.extended(state.to_string().as_bytes())
    }
}

impl Weights for WeightsLayer {
    fn supervise(&mut self, demonstrations: &[Arc<Generated>], rate: f64) -> Result<f64, LearnError> {
        let mut units = Vec::with_capacity(demonstrations.len());
        for (number, generated) in demonstrations.iter().enumerate() {
            units.push(Unit { number, sequences: sequences(generated).map_err(refused)? });
        }
        let step = SupervisedStep::new(demonstrations.iter().map(|one| vec![true; one.written()]).collect())?;
        let (loss, _) = self.accumulate(&step, &units)?;
        self.device.guarded(|| self.trainer.step_at(rate)).flatten().map_err(refused)?;
        Ok(loss)
    }

    fn end_supervision(&mut self) {
        self.trainer.forget_momentum();
    }

    fn publish(&mut self) -> Result<(), LearnError> {
        Self::publish(self).map_err(refused)
    }

    fn keep(&mut self, kept: CheckpointKind) -> Result<(), LearnError> {
        match &mut self.checkpoints {
            Some(checkpoints) => checkpoints.write(kept, &self.host).map_err(refused),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
