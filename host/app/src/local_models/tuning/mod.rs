//! Tunes a local model on given conversations, without an environment: imitation (SFT), pairs (DPO) or labels (KTO), from
//! files of JSON lines or from the episodes of a recorded run.

mod examples;
mod recorded;
mod rows;
mod training;

use super::SEED;
use super::folder::check_empty;
use crate::model_folders::{folder_name, read_folder};
use crate::{AppError, Event, EventSink, ModelSettings, RequestError, Warning};
use clawhost_core::{Digest, StoreReader};
use clawhost_learn::CheckpointKind;
use clawhost_learn::policy::LabelledSettings;
use clawhost_model::train::{OptimizerSettings, Rule, Schedule};
use clawhost_model::{AdapterSettings, CheckpointWriter, Learned, TuningSettings, digest};
use clawhost_play::Cancel;
use serde::Serialize;
use std::path::PathBuf;

/// Default passes over the data.
pub const TUNE_EPOCHS: u32 = 3;
/// Default number of examples per step.
pub const TUNE_BATCH: u32 = 16;
/// Default share of the examples that is held out.
pub const TUNE_HELD_OUT: f64 = 0.1;
/// Default highest learning rate for imitation, of all weights.
pub const TUNE_RATE: f64 = 0.002;
/// The same of an adapter.
pub const TUNE_ADAPTER_RATE: f64 = 0.0002;
/// The rate for pairs and labels as a share of that for imitation: their gradients push away from replies without a bound, and
/// published runs use a tenth or less.
pub const TUNE_PREFERENCE_SHARE: f64 = 0.1;
/// Default strength of the reference constraint (DPO: Rafailov et al. 2023; KTO: Ethayarajh et al. 2024).
pub const TUNE_BETA: f64 = 0.1;
/// Default weights of desirable and of undesirable replies (KTO).
pub const TUNE_LABEL_WEIGHT: f64 = 1.0;
/// Share of the steps in which the rate rises.
const WARMUP_SHARE: f64 = 0.1;
/// Final learning rate as a share of the highest, as in learning from rewards.
const FLOOR: f64 = 0.1;

/// What is minimised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TuneObjective {
    /// The negative log-likelihood of given answers, the mean over their tokens.
    Sft,
    /// Direct preference optimisation: chosen against rejected answers.
    Dpo {
        /// Strength of the reference constraint, above 0.
        beta: f64,
    },
    /// Answers that are labelled as desirable or not (Ethayarajh et al. 2024).
    Kto(LabelledSettings),
}

impl TuneObjective {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sft => "sft",
            Self::Dpo { .. } => "dpo",
            Self::Kto(_) => "kto",
        }
    }
}

/// Where the examples come from.
#[derive(Debug, Clone, PartialEq)]
pub enum TuneData {
    /// Files with one JSON object per line.
    Files(Vec<PathBuf>),
    /// A recorded run.
    Run {
        /// Its id, its name, or the beginning of its id.
        run: String,
        /// Reward from which an episode is good. `None`: the mean reward of the run.
        threshold: Option<f64>,
    },
}

/// The settings of a tuning.
#[derive(Debug, Clone, PartialEq)]
pub struct TuneRequest {
    /// The folder of the model, which is not changed.
    pub model: PathBuf,
    /// What is minimised.
    pub objective: TuneObjective,
    /// The examples.
    pub data: TuneData,
    /// The folder for the results: new or empty.
    pub out: PathBuf,
    /// Passes over the examples.
    pub epochs: u32,
    /// Examples per step.
    pub batch: u32,
    /// Highest learning rate. `None`: the default of the objective.
    pub rate: Option<f64>,
    /// Rank of the adapter that learns. `None`: all weights learn.
    pub adapter_rank: Option<u32>,
    /// Share of the examples that is held out, 0 to 0.5.
    pub held_out: f64,
    /// The seed.
    pub seed: u64,
}

impl TuneRequest {
    /// A request with the default settings.
    pub fn new(model: PathBuf, objective: TuneObjective, data: TuneData, out: PathBuf) -> Self {
        Self {
            model,
            objective,
            data,
            out,
            epochs: TUNE_EPOCHS,
            batch: TUNE_BATCH,
            rate: None,
            adapter_rank: None,
            held_out: TUNE_HELD_OUT,
            seed: SEED,
        }
    }

    /// The highest learning rate.
    pub fn peak_rate(&self) -> f64 {
        let usual = if self.adapter_rank.is_some() { TUNE_ADAPTER_RATE } else { TUNE_RATE };
        let share = if self.objective == TuneObjective::Sft { 1.0 } else { TUNE_PREFERENCE_SHARE };
        self.rate.unwrap_or(usual * share)
    }

    fn settings(&self, steps: u64) -> TuningSettings {
        let (learned, rule) = match self.adapter_rank {
            None => (Learned::Full, Rule::Muon),
            Some(rank) => {
                let usual = AdapterSettings::default();
                // As for learning from rewards: alpha is twice the rank.
                let adapter =
                    AdapterSettings { rank: rank as usize, alpha: 2.0 * f64::from(rank), seed: self.seed, ..usual };
                (Learned::Adapter(adapter), Rule::AdamW)
            }
        };
        let warmup = (steps as f64 * WARMUP_SHARE) as u64;
        TuningSettings {
            learned,
            optimizer: OptimizerSettings { rule, ..OptimizerSettings::default() },
            schedule: Schedule { peak: self.peak_rate(), warmup, total: steps, floor: FLOOR },
        }
    }
}

/// The numbers of examples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ExampleCounts {
    /// Learned from.
    pub train: u64,
    /// Held out for the validation loss.
    pub held_out: u64,
    /// Left out, because they are longer than the model's context.
    pub too_long: u64,
    /// Left out of a recorded run: episodes that cannot teach (not decided, without a reward, cut short, kept out of learning, or
    /// without another to compare with).
    pub unusable: u64,
    /// Tokens of the answers that are learned from.
    pub tokens: u64,
}

/// An epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TunedEpoch {
    /// Its number, from 1.
    pub epoch: u32,
    /// Mean loss of its steps.
    pub loss: f64,
    /// Loss of the held-out examples after it. `None`: none are held out.
    pub validation: Option<f64>,
    /// Of pairs, the share of held-out ones whose chosen answer is preferred; of labels, the share on the right side.
    pub accuracy: Option<f64>,
}

/// The result of a tuning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TuneReport {
    /// The objective.
    pub objective: &'static str,
    /// The numbers of examples.
    pub examples: ExampleCounts,
    /// Reward from which an episode of a run was good. `None`: the examples came from files, or are pairs.
    pub threshold: Option<f64>,
    /// Optimiser steps that were taken.
    pub steps: u64,
    /// Highest learning rate.
    pub rate: f64,
    /// Loss of the held-out examples by the starting weights.
    pub start: Option<f64>,
    /// The epochs, in order.
    pub epochs: Vec<TunedEpoch>,
    /// The epoch with the smallest validation loss. 0: the starting weights. `None`: none are held out.
    pub best: Option<u32>,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
    /// Digest of the weights before.
    pub before: Digest,
    /// Digest of the last weights.
    pub after: Digest,
    /// The folder of the last weights.
    pub last_folder: PathBuf,
    /// The folder of the best weights, if some are held out.
    pub best_folder: Option<PathBuf>,
}

/// Tunes a model. A tuning that is stopped by `cancel` keeps its last weights, and says so in the report. `reader`: the data
/// folder, for a recorded run; `now`: the time in milliseconds since 1970. Computes on the calling thread.
///
/// # Errors
/// A line of a file is invalid, the run has no episodes to learn from, the model cannot be used, or files cannot be written.
pub fn tune(
    request: &TuneRequest,
    (reader, now): (Option<&dyn StoreReader>, u64),
    models: &ModelSettings,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<TuneReport, AppError> {
    check_empty(&request.out, false)?;
    let (rows, mut counts, threshold) = match &request.data {
        TuneData::Files(files) => (rows::read(request.objective, files)?, ExampleCounts::default(), None),
        TuneData::Run { run, threshold } => {
            let reader = reader.ok_or_else(|| RequestError::NoRun { name: run.clone() })?;
            let found = recorded::read(reader, run, request.objective, *threshold, now)?;
            let counts = ExampleCounts { unusable: found.unusable, ..ExampleCounts::default() };
            (found.rows, counts, found.threshold)
        }
    };
    let folder = read_folder(&request.model, None, &models.texts, events)?;
    if request.adapter_rank.is_none() && folder.weights.has_adapter() {
        events.event(Event::Warning(Warning::AdapterMerged));
    }
    let shown = request.model.display().to_string();
    let of_folder = |error| RequestError::ModelFolder { folder: shown.clone(), error };
    let format = folder.chat_format(&folder_name(&request.model)).map_err(of_folder)?;
    let before = digest(&folder.weights);
    let prepared = examples::prepare(rows, &format, folder.config.context, &mut counts)?;
    let divided = training::divide(prepared, request, &mut counts)?;
    let steps = divided.steps(request);
    let device = models.open_device(folder.config.parameters(), events)?;
    std::fs::create_dir_all(&request.out)
        .map_err(|error| RequestError::File { path: request.out.display().to_string(), why: error.to_string() })?;
    let tuner = folder.open_tuning(&request.settings(steps), &device, &request.out)?;
    let tuned = training::train(tuner, divided, request, cancel, events)?;
    Ok(TuneReport {
        objective: request.objective.name(),
        examples: counts,
        threshold,
        steps: tuned.steps,
        rate: request.peak_rate(),
        start: tuned.start,
        epochs: tuned.epochs,
        best: tuned.best,
        is_stopped: tuned.is_stopped,
        before,
        after: tuned.after,
        last_folder: CheckpointWriter::place(&request.out, CheckpointKind::Last),
        best_folder: tuned.best.map(|_| CheckpointWriter::place(&request.out, CheckpointKind::Best)),
    })
}
