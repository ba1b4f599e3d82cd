//! The steps of a tuning: epochs over shuffled examples, and the loss of the held-out ones after each.

use super::examples::Prepared;
use super::{ExampleCounts, TuneObjective, TuneRequest, TunedEpoch};
use crate::{AppError, Event, EventSink, RequestError, Warning};
use clawhost_core::{Digest, derive_seed};
use clawhost_learn::policy::{
    LabelledReply, LabelledStep, Pair, PreferenceStep, Reply, StepBatch, SupervisedStep, mismatched_divergence,
};
use clawhost_learn::{CheckpointKind, LearnError};
use clawhost_model::{Example, Tuner};
use clawhost_play::Cancel;
use std::fs::File;
use std::io::Write as _;

/// The numbers of every step, one JSON object per line.
const METRICS: &str = "metrics.jsonl";

/// Examples that are learned from, and those that are not.
#[derive(Debug)]
pub(super) struct Divided {
    train: Vec<Prepared>,
    held_out: Vec<Prepared>,
}

/// The result of the steps.
#[derive(Debug)]
pub(super) struct Tuned {
    pub(super) steps: u64,
    pub(super) start: Option<f64>,
    pub(super) epochs: Vec<TunedEpoch>,
    pub(super) best: Option<u32>,
    pub(super) is_stopped: bool,
    pub(super) after: Digest,
}

/// Divides examples in an order that the seed draws.
pub(super) fn divide(
    mut all: Vec<Prepared>,
    request: &TuneRequest,
    counts: &mut ExampleCounts,
) -> Result<Divided, AppError> {
    if all.is_empty() {
        let ExampleCounts { too_long, unusable, .. } = *counts;
        return Err(RequestError::NoExamples { too_long, unusable }.into());
    }
    shuffle(&mut all, request.seed, "held out", 0);
    let wanted = (all.len() as f64 * request.held_out).round() as usize;
    let least = usize::from(request.held_out > 0.0 && all.len() > 1);
    let held_out = all.split_off(all.len() - wanted.max(least).min(all.len() - 1));
    counts.train = all.len() as u64;
    counts.held_out = held_out.len() as u64;
    counts.tokens = all.iter().flat_map(|one| one.example.lengths()).sum::<usize>() as u64;
    Ok(Divided { train: all, held_out })
}

/// Sorts by draws from a seed.
fn shuffle<T>(all: &mut Vec<T>, seed: u64, name: &str, number: u64) {
    let order = derive_seed(seed, name, number);
    let mut drawn: Vec<(u64, usize, T)> = Vec::with_capacity(all.len());
    drawn.extend((0..).zip(all.drain(..)).map(|(place, one)| (derive_seed(order, "place", place as u64), place, one)));
    drawn.sort_by_key(|(draw, place, _)| (*draw, *place));
    all.extend(drawn.into_iter().map(|(_, _, one)| one));
}

impl Divided {
    /// The number of optimiser steps.
    pub(super) fn steps(&self, request: &TuneRequest) -> u64 {
        (self.train.len() as u64).div_ceil(u64::from(request.batch).max(1)) * u64::from(request.epochs)
    }
}

/// An example with what the reference says about it.
struct Known {
    prepared: Prepared,
    /// One for each reply. Empty: the objective has no reference.
    replies: Vec<Reply>,
    /// Log-prob of the mismatched answer under the reference, nats.
    mismatched: f64,
}

/// Computes losses of an objective.
struct Losses {
    objective: TuneObjective,
}

impl Losses {
    /// Examples with the reference's log-probs, which no later step changes.
    fn know(&self, tuner: &Tuner, all: Vec<Prepared>) -> Result<Vec<Known>, LearnError> {
        if self.objective == TuneObjective::Sft {
            let known = |prepared| Known { prepared, replies: Vec::new(), mismatched: 0.0 };
            return Ok(all.into_iter().map(known).collect());
        }
        let examples: Vec<&Example> = all.iter().map(|one| &one.example).collect();
        let others: Vec<&Example> = all.iter().filter_map(|one| one.mismatched.as_ref()).collect();
        let (scores, mismatched) = (tuner.reference_scores(&examples)?, tuner.reference_scores(&others)?);
        let mut mismatched = mismatched.iter().map(|replies| sum(replies));
        let mut known = Vec::with_capacity(all.len());
        for (prepared, scores) in all.into_iter().zip(scores) {
            let reply = |(number, scores): (usize, &clawhost_model::train::TokenScores)| {
                Reply::new(&number.to_string(), &scores.logprobs, vec![true; scores.logprobs.len()])
            };
            let replies = scores.iter().enumerate().map(reply).collect::<Result<_, _>>()?;
            let mismatched = match prepared.mismatched {
                Some(_) => mismatched.next().unwrap_or(0.0),
                None => 0.0,
            };
            known.push(Known { prepared, replies, mismatched });
        }
        Ok(known)
    }

    /// The loss of a step over these examples.
    fn step(&self, tuner: &Tuner, all: &[&Known]) -> Result<Box<dyn StepBatch + Sync>, LearnError> {
        let replies = |known: &Known| known.replies.clone().into_iter();
        Ok(match self.objective {
            TuneObjective::Sft => {
                let lengths = all.iter().flat_map(|known| known.prepared.example.lengths());
                Box::new(SupervisedStep::new(lengths.map(|tokens| vec![true; tokens]).collect())?)
            }
            TuneObjective::Dpo { beta } => {
                let pair = |known: &&Known| {
                    let mut both = replies(known);
                    Some(Pair { chosen: both.next()?, rejected: both.next()? })
                };
                Box::new(PreferenceStep::new(beta, all.iter().filter_map(pair).collect())?)
            }
            TuneObjective::Kto(settings) => {
                let others: Vec<(&Example, f64)> = all
                    .iter()
                    .filter_map(|known| Some((known.prepared.mismatched.as_ref()?, known.mismatched)))
                    .collect();
                let scores = tuner.scores(&others.iter().map(|(example, _)| *example).collect::<Vec<_>>())?;
                let gains: Vec<f64> =
                    scores.iter().zip(&others).map(|(replies, (_, reference))| sum(replies) - reference).collect();
                let labelled = |known: &&Known| {
                    let is_desirable = known.prepared.is_desirable;
                    replies(known).next().map(|reply| LabelledReply { reply, is_desirable })
                };
                let labelled = all.iter().filter_map(labelled).collect();
                Box::new(LabelledStep::new(settings, labelled, mismatched_divergence(&gains))?)
            }
        })
    }

    /// The loss of held-out examples, and the share that is preferred rightly. `None`: there are none.
    fn validate(&self, tuner: &Tuner, held_out: &[Known]) -> Result<Option<(f64, Option<f64>)>, LearnError> {
        if held_out.is_empty() {
            return Ok(None);
        }
        let all: Vec<&Known> = held_out.iter().collect();
        let step = self.step(tuner, &all)?;
        let (loss, metrics) = tuner.loss(step.as_ref(), &examples(&all))?;
        Ok(Some((loss, metrics.preference_accuracy.value())))
    }
}

fn sum(replies: &[clawhost_model::train::TokenScores]) -> f64 {
    replies.iter().flat_map(|scores| &scores.logprobs).sum()
}

fn examples<'a>(all: &[&'a Known]) -> Vec<&'a Example> {
    all.iter().map(|known| &known.prepared.example).collect()
}

/// Writes the numbers of steps. A failed write ends no training, and is reported once.
struct Journal<'a> {
    file: Option<File>,
    events: &'a dyn EventSink,
}

impl<'a> Journal<'a> {
    fn new(request: &TuneRequest, events: &'a dyn EventSink) -> Self {
        let path = request.out.join(METRICS);
        let mut journal = Self { file: None, events };
        match File::create(&path) {
            Ok(file) => journal.file = Some(file),
            Err(error) => journal.failed(&error),
        }
        journal
    }

    fn failed(&mut self, error: &std::io::Error) {
        self.file = None;
        let why = format!("{METRICS}: {error}; numbers of this training are missing from now on");
        self.events.event(Event::Warning(Warning::NotWritten { why }));
    }

    fn write(&mut self, line: &serde_json::Value) {
        if let Some(Err(error)) = self.file.as_mut().map(|file| writeln!(file, "{line}")) {
            self.failed(&error);
        }
    }
}

/// Trains. The last weights are kept whatever ends the training, except for an error.
pub(super) fn train(
    mut tuner: Tuner,
    divided: Divided,
    request: &TuneRequest,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<Tuned, AppError> {
    let losses = Losses { objective: request.objective };
    let total = divided.steps(request);
    let train = losses.know(&tuner, divided.train)?;
    let held_out = losses.know(&tuner, divided.held_out)?;
    let start = losses.validate(&tuner, &held_out)?.map(|(loss, _)| loss);
    let mut tuned = Tuned {
        steps: 0,
        start,
        epochs: Vec::new(),
        best: start.map(|_| 0),
        is_stopped: false,
        after: tuner.digest()?,
    };
    let mut least = start;
    if start.is_some() {
        tuner.keep(CheckpointKind::Best)?;
    }
    let mut journal = Journal::new(request, events);
    for epoch in 1..=request.epochs {
        let mut order: Vec<&Known> = train.iter().collect();
        shuffle(&mut order, request.seed, "epoch", u64::from(epoch));
        let (mut sum, mut steps) = (0.0, 0);
        for batch in order.chunks(request.batch.max(1) as usize) {
            if cancel.is_requested() {
                tuned.is_stopped = true;
                break;
            }
            let step = losses.step(&tuner, batch)?;
            let (loss, metrics, report) = tuner.step(step.as_ref(), &examples(batch))?;
            (sum, steps) = (sum + loss, steps + 1);
            tuned.steps += 1;
            journal.write(&serde_json::json!({
                "step": tuned.steps, "epoch": epoch, "loss": loss,
                "gradient_norm": report.map(|report| report.gradient_norm), "rate": report.map(|report| report.rate),
                "accuracy": metrics.preference_accuracy.value(), "entropy": metrics.entropy.value(),
            }));
            events.event(Event::Progress { done: tuned.steps, total });
        }
        if tuned.is_stopped {
            break;
        }
        let validated = losses.validate(&tuner, &held_out)?;
        let (validation, accuracy) = (validated.map(|(loss, _)| loss), validated.and_then(|(_, accuracy)| accuracy));
        let loss = sum / f64::from(steps.max(1));
        tuned.epochs.push(TunedEpoch { epoch, loss, validation, accuracy });
        if let (Some(loss), Some(before)) = (validation, least)
            && loss < before
        {
            (least, tuned.best) = (Some(loss), Some(epoch));
            tuner.keep(CheckpointKind::Best)?;
        }
    }
    tuner.keep(CheckpointKind::Last)?;
    tuned.after = tuner.digest()?;
    Ok(tuned)
}
