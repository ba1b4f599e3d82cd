//! Weights at a service of the Tinker protocol, trained there with this program's objectives.
//!
//! A pass asks the service for log-probs, computes the loss and its derivatives here, and sends them back as weights of a cross entropy: that is
//! `-sum(weight * logprob)`, whose gradient is the one that is wanted. So every objective works, and the service needs no loss of ours. Likely tokens of a teacher are
//! targets of further data with the same input.
//!
//! Every step trains a model of its own, from what the version before kept. What is taken back is not kept, and a process that is killed leaves nothing that
//! counts.

mod backend;

pub(super) use backend::TinkerBackend;

use super::section::WeightsPlan;
use super::step::{MOST_LAG, Steppable, failed, optimizer};
use crate::AppError;
use crate::tinker::{TinkerGenerator, TinkerVersion};
use async_trait::async_trait;
use clawhost_core::ModelError;
use clawhost_learn::policy::mismatch::{self, Compared, Precision};
use clawhost_learn::policy::{
    self, Evaluation, Experience, Generated, Metrics, OtherLogprobs, PolicyGradient, Staleness, StepBatch as _, Updates,
};
use clawhost_learn::{Batch, Forward, LearnError, Measurements, Metric, Step};
use clawhost_model::generate::Generator as _;
use clawhost_model::train::{Sequence, TokenScores};
use clawhost_model::{ChatModel, Learned, with_likely};
use clawhost_providers::{AdamParams, TinkerService, TinkerTraining};
use clawhost_wire::tinker::Datum;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Weights at a service that learn from sessions.
pub(super) struct TinkerLearner {
    model: Arc<ChatModel<TinkerGenerator>>,
    training: TinkerTraining,
    /// Where learning goes back to.
    state: String,
    objective: PolicyGradient,
    updates: Updates,
    staleness: Staleness,
    rate: f64,
    pending: Option<Pending>,
}

/// Experience between the first pass and the steps.
struct Pending {
    experience: Experience,
    units: Vec<Vec<Sequence>>,
    steps: Vec<Vec<usize>>,
    loss: f64,
    metrics: Metrics,
}

fn refused(error: impl std::fmt::Display) -> LearnError {
    LearnError::Layer { layer: "weights".into(), why: error.to_string() }
}

/// A failure of the service as an error of learning. After an outage the same sessions are tried again; after a refusal they are not.
fn of_service(error: ModelError) -> LearnError {
    match error {
        ModelError::Unavailable(why) => LearnError::Unavailable { layer: "weights".into(), why },
        error => refused(error),
    }
}

/// Tokens of a sequence that are scored beside the trained ones: the largest number at a position.
fn ranks(sequence: &Sequence) -> usize {
    let mut counts = BTreeMap::<usize, usize>::new();
    sequence.targets().for_each(|(place, _)| *counts.entry(place).or_default() += 1);
    counts.into_values().max().unwrap_or(1).saturating_sub(1)
}

/// A weight for every target of a sequence, 0 where `values` ends, as data of the service: one datum with the trained tokens, and one for each rank of the tokens beside them.
fn data(sequence: &Sequence, values: &[f64]) -> Vec<Datum> {
    let tokens = sequence.tokens();
    let (Some(input), Some(own)) = (tokens.get(..tokens.len().saturating_sub(1)), tokens.get(1..)) else {
        return Vec::new();
    };
    let mut all = vec![(own.to_vec(), vec![0.0_f32; own.len()]); ranks(sequence) + 1];
    for ((place, target), (rank, value)) in
        sequence.targets().zip(ranked(sequence).zip(values.iter().chain(std::iter::repeat(&0.0))))
    {
        if let Some((targets, weights)) = all.get_mut(rank)
            && let Some(place) = place.checked_sub(1)
        {
            targets.get_mut(place).into_iter().for_each(|one| *one = target);
            weights.get_mut(place).into_iter().for_each(|one| *one = *value as f32);
        }
    }
    all.into_iter().map(|(targets, weights)| Datum::weighted(input, &targets, &weights)).collect()
}

/// The rank of every target: 0 for a trained token, and from 1 on for those beside it.
fn ranked(sequence: &Sequence) -> impl Iterator<Item = usize> + '_ {
    let (mut last, mut rank) = (None, 0);
    sequence.targets().map(move |(place, _)| {
        rank = if last == Some(place) { rank + 1 } else { 0 };
        last = Some(place);
        rank
    })
}

/// The log-probs of every target, from those of the data that [`data`] makes.
fn of_targets(sequence: &Sequence, logprobs: &[Vec<f64>]) -> Option<TokenScores> {
    let found = sequence.targets().zip(ranked(sequence));
    let found = found.map(|((place, _), rank)| logprobs.get(rank)?.get(place.checked_sub(1)?).copied());
    let found: Vec<f64> = found.collect::<Option<_>>()?;
    Some(sequence.token_scores(found.into_iter().map(|logprob| (logprob, 0.0))))
}

impl TinkerLearner {
    /// Weights in training: those of a version, or a fresh adapter. `model` has the weights of the same version.
    ///
    /// # Errors
    /// The service does not have the weights, or does not answer, or other weights than an adapter's shall learn.
    pub(super) async fn begin(
        model: Arc<ChatModel<TinkerGenerator>>,
        (service, base): (&Arc<TinkerService>, &str),
        version: Option<&TinkerVersion>,
        plan: &WeightsPlan,
    ) -> Result<Self, AppError> {
        let Learned::Adapter(adapter) = plan.learned else {
            return Err(failed("a Tinker service trains adapters alone: weights.adapter_rank must be more than 0"));
        };
        let training = service.create_model(base, (adapter.rank, adapter.seed)).await.map_err(failed)?;
        let state = match version {
            Some(version) => {
                training.load(&version.state).await.map_err(failed)?;
                version.state.clone()
            }
            None => training.save("begin").await.map_err(failed)?,
        };
        Ok(Self {
            model,
            training,
            state,
            objective: PolicyGradient::live(plan.signal),
            updates: Updates { epochs: plan.epochs, ..Updates::default() },
            staleness: Staleness { max_version_lag: MOST_LAG },
            rate: plan.rate,
            pending: None,
        })
    }

    /// Keeps the weights as a version of this number.
    ///
    /// # Errors
    /// The service does not answer.
    pub(super) async fn keep(&self, number: u64) -> Result<TinkerVersion, AppError> {
        let name = format!("version-{number}");
        let state = self.training.save(&name).await.map_err(failed)?;
        let sampler = self.training.save_for_sampler(&name).await.map_err(failed)?;
        Ok(TinkerVersion::new(state, sampler))
    }

    /// Frees the memory of the service.
    pub(super) async fn end(self) {
        self.training.unload().await;
    }

    /// Scores of all targets of some sequences.
    async fn scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, ModelError> {
        let mut all = Vec::new();
        for sequence in sequences {
            all.extend(data(sequence, &[]));
        }
        let mut logprobs = self.training.forward(all).await?.into_iter();
        let mut scores = Vec::with_capacity(sequences.len());
        for sequence in sequences {
            let own: Vec<Vec<f64>> = (&mut logprobs).take(ranks(sequence) + 1).collect();
            let found = of_targets(sequence, &own);
            scores.push(found.ok_or_else(|| ModelError::InvalidResponse("log-probs are missing".to_owned()))?);
        }
        Ok(scores)
    }

    /// The columns of trajectories: the scores of their sequences, one after the other.
    async fn columns(&self, units: &[&[Sequence]]) -> Result<Vec<TokenScores>, ModelError> {
        let all: Vec<&Sequence> = units.iter().copied().flatten().collect();
        let mut scores = self.scores(&all).await?.into_iter();
        let column = |unit: &&[Sequence]| {
            let mut column = TokenScores::default();
            for one in (&mut scores).take(unit.len()) {
                column.logprobs.extend(one.logprobs);
                column.beside.extend(one.beside);
            }
            column
        };
        Ok(units.iter().map(column).collect())
    }

    /// A pass over the trajectories of a step: their gradients wait for a step then.
    async fn pass(
        &self,
        experience: &Experience,
        units: &[Vec<Sequence>],
        numbers: &[usize],
    ) -> Result<(f64, Metrics, Vec<TokenScores>), LearnError> {
        let parts: Vec<&[Sequence]> =
            numbers.iter().filter_map(|number| units.get(*number)).map(Vec::as_slice).collect();
        let columns = self.columns(&parts).await.map_err(of_service)?;
        let step = experience.step(numbers)?;
        let evaluations: Vec<Evaluation<'_>> = columns
            .iter()
            .enumerate()
            .map(|(sequence, scores)| Evaluation {
                sequence,
                new: &scores.logprobs,
                entropy: None,
                likely: &scores.beside,
            })
            .collect();
        let outcome = step.loss(&evaluations)?;
        let mut beside = outcome.likely.into_iter().chain(std::iter::repeat_with(Vec::new));
        let mut all = Vec::new();
        for (part, own) in parts.iter().zip(outcome.gradients) {
            let mut own = own
                .into_iter()
                .zip(beside.next().unwrap_or_default().into_iter().chain(std::iter::repeat_with(Vec::new)));
            for sequence in *part {
                let slopes = (&mut own).take(sequence.trained().len());
                // Cross entropy is the negative sum.
                let weights = slopes.flat_map(|(own, beside)| std::iter::once(own).chain(beside)).map(|slope| -slope);
                all.extend(data(sequence, &weights.collect::<Vec<f64>>()));
            }
        }
        self.training.forward_backward(all).await.map_err(of_service)?;
        Ok((outcome.loss, outcome.metrics, columns))
    }

    async fn take(&self) -> Result<(), LearnError> {
        let settings = optimizer();
        let params = AdamParams {
            rate: self.rate,
            beta1: settings.beta1,
            beta2: settings.beta2,
            epsilon: settings.epsilon,
            weight_decay: settings.weight_decay,
            clip: settings.clip,
        };
        self.training.optim_step(params).await.map_err(of_service)
    }

    /// Log-probs of what older weights generated, under the current ones.
    async fn late(&self, batch: &Batch, current: u64) -> Result<BTreeMap<String, Vec<f64>>, LearnError> {
        let mut late = Vec::new();
        for (name, generated) in policy::generated(batch).into_iter().filter(|(_, generated)| !generated.restricted) {
            let lag = current.saturating_sub(generated.version);
            if (1..=self.staleness.max_version_lag).contains(&lag) {
                late.push((name, sequences(&generated)?));
            }
        }
        let units: Vec<&[Sequence]> = late.iter().map(|(_, unit)| unit.as_slice()).collect();
        let columns = self.columns(&units).await.map_err(of_service)?;
        Ok(late.iter().zip(columns).map(|((name, _), column)| (name.clone(), column.logprobs)).collect())
    }
}

/// The sequences of a trajectory with the tokens that a teacher named.
fn sequences(generated: &Generated) -> Result<Vec<Sequence>, LearnError> {
    with_likely(generated).map_err(refused)
}

#[async_trait(?Send)]
impl Steppable for TinkerLearner {
    type Generator = TinkerGenerator;
    type Snapshot = ();

    fn model(&self) -> &ChatModel<TinkerGenerator> {
        &self.model
    }

    async fn snapshot(&mut self) -> Result<(), AppError> {
        // What the version before kept.
        Ok(())
    }

    async fn restore(&mut self, (): ()) -> Result<(), AppError> {
        self.pending = None;
        self.training.load(&self.state).await.map_err(failed)
    }

    async fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        let (current, _) = self.model.engine().weights();
        // The service computes log-probs among all tokens.
        let batch = &*policy::restricted(batch, |_, generated| !generated.grammars.is_empty());
        let mut late = self.late(batch, current).await?;
        let other = |name: &str| OtherLogprobs { trainer: late.remove(name), reference: None };
        let (experience, mut metrics) = Experience::of_batch(batch, (self.objective, self.staleness), current, other)?;
        if experience.trained().is_empty() {
            return Ok(Forward { metrics });
        }
        let written = policy::generated(batch);
        let mut units = Vec::with_capacity(experience.trained().len());
        for trained in experience.trained() {
            let generated = written.get(&trained.trajectory().recorded().sequence);
            units.push(generated.map(|one| sequences(one)).transpose()?.unwrap_or_default());
        }
        let steps = self.updates.divide(&experience, current);
        let first = steps.first().map(Vec::as_slice).unwrap_or_default();
        let (loss, found, columns) = self.pass(&experience, &units, first).await?;
        // Services compute in 16 bits. A folder of another model, or another template, differs by more.
        let trained = first.iter().filter_map(|number| experience.trained().get(*number));
        let compared = trained
            .zip(&columns)
            .map(|(trained, column)| Compared { trajectory: trained.trajectory(), trainer: &column.logprobs });
        mismatch::check(Precision::Rounded, compared)?;
        metrics.set(Metric::Loss, loss);
        metrics.set(Metric::Tokens, units.iter().flatten().map(|one| one.trained().len() as f64).sum());
        metrics.merge(found.named());
        self.pending = Some(Pending { experience, units, steps, loss, metrics: found });
        Ok(Forward { metrics })
    }

    async fn optim_step(&mut self) -> Result<Step, LearnError> {
        let Some(Pending { experience, units, steps, mut loss, metrics: mut all }) = self.pending.take() else {
            return Ok(Step::default());
        };
        self.take().await?;
        for numbers in steps.iter().skip(1) {
            let (part, found, _) = self.pass(&experience, &units, numbers).await?;
            loss += part;
            all.merge(&found.without_mismatch());
            self.take().await?;
        }
        let taken = steps.len() as u64;
        let mut metrics =
            Measurements::from([(Metric::OptimizerSteps, taken as f64), (Metric::LearningRate, self.rate)]);
        if taken > 1 {
            metrics.set(Metric::Loss, loss / taken as f64);
            all.per_step(taken);
            metrics.merge(all.named());
        }
        Ok(Step { updates: taken, metrics, events: Vec::new() })
    }

    async fn logprobs(&self, batch: &Batch) -> Result<Option<Vec<f64>>, LearnError> {
        let mut units = Vec::new();
        for member in batch.groups.iter().flat_map(|group| &group.members) {
            let Some(generated) = &member.generated else { return Ok(None) };
            // Left out of the step, too.
            if !generated.grammars.is_empty() {
                continue;
            }
            let plain = Generated { taught: Vec::new(), ..(**generated).clone() };
            units.push(sequences(&plain)?);
        }
        let units: Vec<&[Sequence]> = units.iter().map(Vec::as_slice).collect();
        match self.columns(&units).await.map_err(of_service) {
            Ok(columns) => Ok(Some(columns.into_iter().flat_map(|column| column.logprobs).collect())),
            Err(error @ LearnError::Unavailable { .. }) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
