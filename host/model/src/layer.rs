//! The weights as a layer: the batch's per-token objective becomes one step of the optimiser, and later requests are
//! answered with the new weights.

use crate::device::ComputeDevice;
use crate::generate::{Engine, Version};
use crate::train::pass::{self, joined, refused};
use crate::train::{Sequence, TokenScores, Trainer};
use crate::{CheckpointWriter, Grammars, HostDecoder, LocalModelError, ModelConfig, TokenMask, digest};
use clawhost_core::Digest;
use clawhost_learn::policy::mismatch::{self, Precision};
use clawhost_learn::policy::{
    self, Experience, Generated, Metrics, OtherLogprobs, PolicyGradient, Staleness, StepBatch, SupervisedStep, Updates,
};
use clawhost_learn::{
    Batch, CheckpointKind, Forward, Interrupt, Layer, LearnError, Measurements, Metric, Step, Weights,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is called between two pieces of work, on the thread that works.
#[derive(Clone)]
pub struct Between(Arc<dyn Fn() + Send + Sync>);

impl Between {
    /// Calls this function.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }
}

impl std::fmt::Debug for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Between")
    }
}

/// The weights of a local model.
#[derive(Debug)]
pub struct WeightsLayer {
    config: Arc<ModelConfig>,
    trainer: Trainer,
    engine: Arc<Engine>,
    objective: PolicyGradient,
    updates: Updates,
    /// The batch whose first gradient is accumulated.
    pending: Option<Pending>,
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
    /// What is called between two passes.
    between: Option<Between>,
    /// Compiles the grammars of recorded answers.
    grammars: Option<Arc<Grammars>>,
}

/// An iteration's experience between the pass over its first minibatch and the steps.
#[derive(Debug)]
struct Pending {
    experience: Experience,
    /// The sequences of every trajectory, by its index.
    units: Vec<Vec<Sequence>>,
    /// The trajectories of every optimiser step, by their indices.
    steps: Vec<Vec<usize>>,
    /// The loss of the first step.
    loss: f64,
    /// The metrics of the first step.
    metrics: Metrics,
}

/// Sequences by the names of their episodes.
type Known = BTreeMap<String, Vec<Sequence>>;

/// The sequences of some trajectories.
fn parts<'a>(units: &'a [Vec<Sequence>], numbers: &[usize]) -> Vec<&'a [Sequence]> {
    numbers.iter().filter_map(|number| units.get(*number)).map(Vec::as_slice).collect()
}

/// The sequences of a trajectory for training. Where answers had grammars, what these allowed is computed again.
fn sequences(generated: &Generated, grammars: Option<&Grammars>) -> Result<Vec<Sequence>, LocalModelError> {
    let temperature = generated.logprob_temperature();
    let plain = generated.sequences.iter();
    let plain: Vec<Sequence> = plain
        .map(|sequence| Sequence::new(sequence.tokens.clone(), &sequence.mask, temperature))
        .collect::<Result<_, _>>()?;
    if generated.grammars.is_empty() {
        return Ok(plain);
    }
    let Some(grammars) = grammars else {
        let why = "answers with a grammar, whose masks cannot be computed again where these weights are trained";
        return Err(LocalModelError::Samples(why.to_owned()));
    };
    let mut masks = masks(generated, &plain, grammars)?.into_iter();
    plain
        .into_iter()
        .map(|sequence| {
            let own = (&mut masks).take(sequence.trained().len()).collect();
            sequence.with_masks(own)
        })
        .collect()
}

/// What the grammar of its answer allowed in place of each sampled token.
fn masks(
    generated: &Generated,
    sequences: &[Sequence],
    grammars: &Grammars,
) -> Result<Vec<Option<Arc<TokenMask>>>, LocalModelError> {
    let of = |one: &Sequence| one.trained().iter().filter_map(|place| one.tokens().get(*place).copied()).collect();
    let sampled: Vec<u32> = sequences.iter().flat_map(|one| -> Vec<u32> { of(one) }).collect();
    let mut masks = Vec::with_capacity(sampled.len());
    for (grammar, end) in generated.grammars.iter().zip(&generated.turn_ends) {
        let answer = sampled.get(masks.len()..*end).unwrap_or_default();
        match grammar {
            None => masks.resize(*end, None),
            Some(grammar) => {
                masks.extend(grammars.masks(grammar, answer)?.into_iter().map(|mask| Some(Arc::new(mask))));
            }
        }
    }
    Ok(masks)
}

/// The sequences of a trajectory for training, with the tokens that a teacher named beside each sampled one.
///
/// # Errors
/// A mask does not fit its tokens, the temperature is not above 0, or an answer had a grammar: this is for trainers that cannot compute masks.
pub fn with_likely(generated: &Generated) -> Result<Vec<Sequence>, LocalModelError> {
    beside(generated, sequences(generated, None)?)
}

/// Adds the tokens that a teacher named.
fn beside(generated: &Generated, sequences: Vec<Sequence>) -> Result<Vec<Sequence>, LocalModelError> {
    let mut taught = generated.taught.iter();
    let beside = |sequence: Sequence| {
        let own = (&mut taught).take(sequence.trained().len());
        let beside = own.map(|token| token.likely.iter().map(|(id, _)| *id).collect()).collect();
        sequence.with_beside(beside)
    };
    sequences.into_iter().map(beside).collect()
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
            updates: Updates::default(),
            pending: None,
            device,
            staleness: Staleness::default(),
            weights_digest: digest(&host),
            host,
            compared: false,
            reference: None,
            checkpoints: None,
            between: None,
            grammars: None,
        })
    }

    /// Sets what is called after each pass over the trajectories of an optimiser step, and after each optimiser step: training that shares the processor
    /// rests there.
    pub fn call_between(&mut self, between: Between) {
        self.between = Some(between);
    }

    fn ended_piece(&self) {
        if let Some(Between(call)) = &self.between {
            call();
        }
    }

    /// Sets the compiler of grammars, for experience whose answers had some.
    pub fn understand(&mut self, grammars: Arc<Grammars>) {
        self.grammars = Some(grammars);
    }

    /// Sets the optimiser steps of an iteration.
    pub fn divide_into(&mut self, updates: Updates) {
        self.updates = updates;
    }

    /// Sets how old experience may be. Older experience is dropped.
    pub fn accept(&mut self, staleness: Staleness) {
        self.staleness = staleness;
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
        let number = self.trainer.updates_ever();
        self.weights_digest = digest(&self.host);
        self.engine.publish(Version { number, digest: self.weights_digest, model });
        self.compared = false;
        Ok(())
    }

    /// Accumulates the gradients of a step, micro-batch by micro-batch. `parts` has the sequences of each of its
    /// trajectories.
    fn accumulate(
        &mut self,
        step: &(dyn StepBatch + Sync),
        parts: &[&[Sequence]],
    ) -> Result<(f64, Metrics), LearnError> {
        let told =
            pass::accumulate((&mut self.trainer, &self.device), step, parts, 1, &|_, scores| vec![joined(scores)]);
        self.ended_piece();
        told
    }

    /// The sequences of the answers of a batch that may be trained on, by the names of their episodes; and the names of those with a grammar that may not: the masks
    /// cannot be computed again, or a teacher said something. It spoke of all tokens, and the answer was drawn from some.
    fn known(&self, batch: &Batch, current: u64) -> Result<(Known, BTreeSet<String>), LearnError> {
        let (mut known, mut unknown) = (BTreeMap::new(), BTreeSet::new());
        for (name, generated) in policy::generated(batch) {
            let is_late = current.saturating_sub(generated.version) > self.staleness.max_version_lag;
            if generated.restricted || is_late {
                continue;
            }
            let has_grammar = !generated.grammars.is_empty();
            if has_grammar && self.objective.distillation.is_some() && !generated.taught.is_empty() {
                unknown.insert(name);
                continue;
            }
            match sequences(&generated, self.grammars.as_deref()) {
                Ok(sequences) => drop(known.insert(name, sequences)),
                Err(_) if has_grammar => drop(unknown.insert(name)),
                Err(error) => return Err(refused(error)),
            }
        }
        Ok((known, unknown))
    }

    /// Log-probs of trajectories under some weights, by the names of their episodes.
    fn scored(
        &self,
        score: impl Fn(&[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError>,
        known: &Known,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<String, Vec<f64>>, LearnError> {
        let own: Vec<_> = known.iter().filter(|(name, _)| wanted(name)).collect();
        let all: Vec<&Sequence> = own.iter().flat_map(|(_, sequences)| *sequences).collect();
        let scores = self.device.guarded(|| score(&all)).flatten();
        self.ended_piece();
        let mut scores = scores.map_err(refused)?.into_iter();
        let mut found = BTreeMap::new();
        for (name, sequences) in own {
            let scores: Vec<TokenScores> = (&mut scores).take(sequences.len()).collect();
            found.insert(name.clone(), joined(&scores).logprobs);
        }
        Ok(found)
    }

    /// Compares the log-probs of rollout and trainer for those of the trajectories that the current version generated.
    fn compare(
        &self,
        experience: &Experience,
        units: &[Vec<Sequence>],
        numbers: &[usize],
    ) -> Result<mismatch::Difference, LearnError> {
        let parts = parts(units, numbers);
        let all: Vec<&Sequence> = parts.iter().copied().flatten().collect();
        let scores = self.device.guarded(|| self.trainer.scores(&all)).flatten();
        self.ended_piece();
        let mut scores = scores.map_err(refused)?.into_iter();
        let columns: Vec<TokenScores> =
            parts.iter().map(|part| joined(&(&mut scores).take(part.len()).collect::<Vec<_>>())).collect();
        let compared = numbers.iter().zip(&columns).filter_map(|(number, scores)| {
            let trajectory = experience.trained().get(*number)?.trajectory();
            Some(mismatch::Compared { trajectory, trainer: &scores.logprobs })
        });
        mismatch::check(Precision::Exact, compared)
    }
}

impl Layer for WeightsLayer {
    fn name(&self) -> &'static str {
        "weights"
    }

    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        let current = self.engine.current().number;
        let (mut known, unknown) = self.known(batch, current)?;
        let batch = &*policy::restricted(batch, |name, _| unknown.contains(name));
        let written = policy::generated(batch);
        // Truncated importance weights for what older weights generated, from the current weights' log-probs.
        let late = |name: &str| {
            let lag = written.get(name).map_or(0, |generated| current.saturating_sub(generated.version));
            (1..=self.staleness.max_version_lag).contains(&lag)
        };
        let mut old = self.scored(|all| self.trainer.scores(all), &known, late)?;
        let mut reference = match &self.reference {
            Some(reference) => self.scored(|all| reference.scores(all), &known, |_| true)?,
            None if self.objective.kl > 0.0 && self.trainer.has_reference() => {
                self.scored(|all| self.trainer.reference_scores(all), &known, |_| true)?
            }
            None => BTreeMap::new(),
        };
        let other = |name: &str| OtherLogprobs { trainer: old.remove(name), reference: reference.remove(name) };
        let (experience, mut metrics) = Experience::of_batch(batch, (self.objective, self.staleness), current, other)?;
        if experience.trained().is_empty() {
            return Ok(Forward { metrics });
        }
        let mut units = Vec::with_capacity(experience.trained().len());
        for trained in experience.trained() {
            let name = &trained.trajectory().recorded().sequence;
            let both = written.get(name).zip(known.remove(name));
            let unit = both.map(|(generated, sequences)| beside(generated, sequences));
            units.push(unit.transpose().map_err(refused)?.unwrap_or_default());
        }
        let steps = self.updates.divide(&experience, current);
        let first = steps.first().map(Vec::as_slice).unwrap_or_default();
        let all: Vec<usize> = (0..units.len()).collect();
        // Weights that generated the whole batch compute their own log-probs in the pass. Others differ legitimately.
        let fresh = experience.trained().iter().all(|one| one.trajectory().recorded().version_lag == 0);
        if !self.compared && !fresh {
            self.compare(&experience, &units, &all)?;
        }
        let (loss, mut found) = self.accumulate(&experience.step(first)?, &parts(&units, first))?;
        if !self.compared && fresh {
            // The pass covers the first minibatch. The others are compared before weights change.
            let others: Vec<usize> =
                all.iter().copied().filter(|number| first.binary_search(number).is_err()).collect();
            if !others.is_empty() {
                found.merge_mismatch(self.compare(&experience, &units, &others)?);
            }
            if found.logprob_mismatch_max.is_some_and(|largest| largest > mismatch::EXACT_LIMIT) {
                // A second look finds the token. The step is refused.
                self.compare(&experience, &units, &all)?;
            }
        }
        self.compared = true;
        metrics.set(Metric::Loss, loss);
        let tokens = units.iter().flatten().map(|one| one.trained().len() as f64).sum();
        metrics.set(Metric::Tokens, tokens);
        metrics.merge(found.named());
        self.pending = Some(Pending { experience, units, steps, loss, metrics: found });
        Ok(Forward { metrics })
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        let pending = self.pending.take();
        let report = self.device.guarded(|| self.trainer.step()).flatten();
        self.ended_piece();
        let (Some(mut report), Some(pending)) = (report.map_err(refused)?, pending) else { return Ok(Step::default()) };
        let Pending { experience, units, steps, mut loss, metrics: mut all } = pending;
        let (mut taken, mut norms) = (1, report.gradient_norm);
        // An error in any of these steps takes all of them back: the transaction restores the weights.
        for numbers in steps.iter().skip(1) {
            let (part, found) = self.accumulate(&experience.step(numbers)?, &parts(&units, numbers))?;
            loss += part;
            all.merge(&found.without_mismatch());
            let further = self.device.guarded(|| self.trainer.step_further()).flatten();
            self.ended_piece();
            if let Some(further) = further.map_err(refused)? {
                report = further;
                norms += report.gradient_norm;
                taken += 1;
            }
        }
        self.publish().map_err(refused)?;
        let mut metrics = Measurements::from([
            (Metric::OptimizerSteps, taken as f64),
            (Metric::GradientNorm, norms / taken as f64),
            (Metric::LearningRate, report.rate),
            (Metric::Version, self.engine.current().number as f64),
        ]);
        if taken > 1 {
            metrics.set(Metric::Loss, loss / taken as f64);
            all.per_step(taken);
            metrics.merge(all.named());
        }
        Ok(Step { updates: taken, metrics, events: Vec::new() })
    }

    fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        self.device.guarded(|| self.trainer.to_bytes()).flatten().map_err(refused)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        self.pending = None;
        self.device.guarded(|| self.trainer.restore(bytes)).flatten().map_err(refused)?;
        self.publish().map_err(refused)
    }

    fn clear_pending(&mut self) {
        self.pending = None;
        self.trainer.clear_pending();
    }

    fn digest(&self) -> Digest {
        // As with an unreadable state: the following step fails with the reason.
        let state = self.device.guarded(|| self.trainer.state_digest()).unwrap_or_else(|_| Digest::of(b""));
        self.weights_digest.extended(state.to_string().as_bytes())
    }

    fn stop_when(&mut self, interrupt: Interrupt) {
        self.trainer.stop_when(interrupt.clone());
        self.reference.iter_mut().for_each(|reference| reference.stop_when(interrupt.clone()));
    }
}

impl Weights for WeightsLayer {
    fn supervise(&mut self, demonstrations: &[Arc<Generated>], rate: f64) -> Result<f64, LearnError> {
        let mut units = Vec::with_capacity(demonstrations.len());
        for generated in demonstrations {
            units.push(sequences(generated, self.grammars.as_deref()).map_err(refused)?);
        }
        let step = SupervisedStep::new(demonstrations.iter().map(|one| vec![true; one.written()]).collect())?;
        let (loss, _) = self.accumulate(&step, &units.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
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
