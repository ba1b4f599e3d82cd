//! Weights that learn from given conversations: no environment is played, and nothing is sampled.

use crate::device::ComputeDevice;
use crate::train::pass::{accumulate, joined, refused};
use crate::train::{OptimizerSettings, Schedule, Sequence, StepReport, TokenScores, Trainer};
use crate::{CheckpointWriter, Learned, LocalModelError, ModelFolder, digest};
use clawhost_core::Digest;
use clawhost_learn::policy::{Evaluation, Metrics, StepBatch};
use clawhost_learn::{CheckpointKind, LearnError};
use std::path::Path;
use std::sync::Arc;

/// How weights learn from given conversations.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct TuningSettings {
    /// Which weights learn.
    pub learned: Learned,
    /// The optimiser.
    pub optimizer: OptimizerSettings,
    /// The learning rate of each step.
    pub schedule: Schedule,
}

/// One or more replies that stay in one micro-batch: one to imitate or to judge, or two to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The sequences of all replies, in order.
    sequences: Vec<Sequence>,
    /// For each reply, the number of sequences up to its end.
    ends: Vec<usize>,
}

impl Example {
    /// An example of these replies, each with its sequences.
    pub fn new(replies: Vec<Vec<Sequence>>) -> Self {
        let mut example = Self { sequences: Vec::new(), ends: Vec::with_capacity(replies.len()) };
        for reply in replies {
            example.sequences.extend(reply);
            example.ends.push(example.sequences.len());
        }
        example
    }

    /// The number of trained tokens of each reply.
    pub fn lengths(&self) -> Vec<usize> {
        self.parts(&self.sequences).map(|part| part.iter().map(|one| one.trained().len()).sum()).collect()
    }

    /// Divides what belongs to the sequences by replies.
    fn parts<'a, T>(&'a self, all: &'a [T]) -> impl Iterator<Item = &'a [T]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| all.get(*start..*end).unwrap_or_default())
    }
}

/// Weights under tuning.
#[derive(Debug)]
pub struct Tuner {
    trainer: Trainer,
    device: ComputeDevice,
    checkpoints: CheckpointWriter,
}

impl ModelFolder {
    /// The model with a trainer of its weights, or of an adapter. Checkpoints are written into `out`.
    ///
    /// # Errors
    /// The adapter's settings are invalid or differ from those of the folder's, the machine lacks memory, or the device does not
    /// accept the weights.
    pub fn open_tuning(
        &self,
        settings: &TuningSettings,
        device: &ComputeDevice,
        out: &Path,
    ) -> Result<Tuner, LocalModelError> {
        let (weights, trained) = self.learned_weights(settings.learned, device)?;
        let config = Arc::new(self.config.clone());
        let trainer = device.trainer(&config, &weights, trained, settings.optimizer, settings.schedule)?;
        let checkpoints = CheckpointWriter::new(out, Self { weights, ..self.clone() });
        Ok(Tuner { trainer, device: device.clone(), checkpoints })
    }
}

impl Tuner {
    fn scored(
        &self,
        score: impl Fn(&[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError>,
        examples: &[&Example],
    ) -> Result<Vec<Vec<TokenScores>>, LearnError> {
        let all: Vec<&Sequence> = examples.iter().flat_map(|example| &example.sequences).collect();
        let scores = self.device.guarded(|| score(&all)).flatten().map_err(refused)?;
        let mut scores = scores.into_iter();
        let of = |example: &&Example| {
            let own: Vec<TokenScores> = (&mut scores).take(example.sequences.len()).collect();
            example.parts(&own).map(joined).collect()
        };
        Ok(examples.iter().map(of).collect())
    }

    /// Scores of the trained tokens of every reply, by the current weights.
    ///
    /// # Errors
    /// The device failed.
    pub fn scores(&self, examples: &[&Example]) -> Result<Vec<Vec<TokenScores>>, LearnError> {
        self.scored(|all| self.trainer.scores(all), examples)
    }

    /// The same by the reference: the base model of an adapter, else the current weights, which are the reference before the
    /// first step.
    ///
    /// # Errors
    /// The device failed.
    pub fn reference_scores(&self, examples: &[&Example]) -> Result<Vec<Vec<TokenScores>>, LearnError> {
        match self.trainer.has_reference() {
            true => self.scored(|all| self.trainer.reference_scores(all), examples),
            false => self.scores(examples),
        }
    }

    /// The loss of some examples, and its metrics. Nothing is accumulated. The step's sequences are the replies, in order.
    ///
    /// # Errors
    /// The step refuses them, or the device failed.
    pub fn loss(&self, step: &dyn StepBatch, examples: &[&Example]) -> Result<(f64, Metrics), LearnError> {
        let scores = self.scores(examples)?;
        let evaluations: Vec<Evaluation<'_>> = (0..)
            .zip(scores.iter().flatten())
            .map(|(sequence, scores)| Evaluation {
                sequence,
                new: &scores.logprobs,
                entropy: Some(&scores.entropies),
                ..Evaluation::default()
            })
            .collect();
        let outcome = step.loss(&evaluations)?;
        Ok((outcome.loss, outcome.metrics))
    }

    /// Takes one optimiser step over some examples with equal numbers of replies. The step's sequences are the replies, in
    /// order. Returns the loss before the step, and its metrics. `None` as a report: no gradient.
    ///
    /// # Errors
    /// The step refuses them, a result is not finite, or the device failed. The weights are unchanged.
    pub fn step(
        &mut self,
        step: &(dyn StepBatch + Sync),
        examples: &[&Example],
    ) -> Result<(f64, Metrics, Option<StepReport>), LearnError> {
        let units: Vec<&[Sequence]> = examples.iter().map(|example| example.sequences.as_slice()).collect();
        let each = examples.first().map_or(1, |example| example.ends.len());
        let columns = |unit: usize, scores: &[TokenScores]| -> Vec<TokenScores> {
            examples.get(unit).map(|example| example.parts(scores).map(joined).collect()).unwrap_or_default()
        };
        let (loss, metrics) = accumulate((&mut self.trainer, &self.device), step, &units, each, &columns)?;
        let report = self.device.guarded(|| self.trainer.step()).flatten().map_err(refused)?;
        Ok((loss, metrics, report))
    }

    /// The digest of the current weights.
    ///
    /// # Errors
    /// The device returns no data.
    pub fn digest(&self) -> Result<Digest, LearnError> {
        let host = self.device.guarded(|| self.trainer.host()).flatten().map_err(refused)?;
        Ok(digest(&host))
    }

    /// Writes the current weights, replacing the last checkpoint of this kind.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn keep(&mut self, kind: CheckpointKind) -> Result<(), LearnError> {
        let host = self.device.guarded(|| self.trainer.host()).flatten().map_err(refused)?;
        self.checkpoints.write(kind, &host).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::TextHost;
    use crate::{AdapterSettings, TinyModel};
    use clawhost_core::{Message, Origin, Role};
    use clawhost_learn::policy::{Pair, PreferenceStep, Reply, SupervisedStep};

    fn settings(learned: Learned) -> TuningSettings {
        TuningSettings { learned, optimizer: OptimizerSettings::default(), schedule: Schedule::constant(0.01) }
    }

    /// The sequences of one sum with an answer.
    fn reply(folder: &ModelFolder, question: &str, answer: &str) -> Vec<Sequence> {
        let said = |role, text| Message::text(role, Origin::User, text);
        let talk = [said(Role::User, question), said(Role::Assistant, answer)];
        folder.chat_format("tiny").unwrap().given(&talk, &[], 0, folder.config.context).unwrap()
    }

    fn imitated(examples: &[&Example]) -> SupervisedStep {
        SupervisedStep::new(examples.iter().map(|one| vec![true; one.lengths()[0]]).collect()).unwrap()
    }

    fn compared(tuner: &Tuner, examples: &[&Example]) -> PreferenceStep {
        let reference = tuner.reference_scores(examples).unwrap();
        let of = |scores: &TokenScores| Reply::new("r", &scores.logprobs, vec![true; scores.logprobs.len()]).unwrap();
        let pairs = reference.iter().map(|both| Pair { chosen: of(&both[0]), rejected: of(&both[1]) });
        PreferenceStep::new(0.1, pairs.collect()).unwrap()
    }

    #[test]
    fn imitation_makes_replies_likelier_and_checkpoints_can_be_opened() {
        let out = tempfile::tempdir().unwrap();
        let folder = TinyModel { seed: 3, ..TinyModel::default() }.make().unwrap();
        let device = ComputeDevice::processor();
        let mut tuner = folder.open_tuning(&settings(Learned::Full), &device, out.path()).unwrap();
        let examples = [("1+1=", "2"), ("2+2=", "4"), ("10+5=", "15")]
            .map(|(question, answer)| Example::new(vec![reply(&folder, question, answer)]));
        let all: Vec<&Example> = examples.iter().collect();
        assert_eq!(examples[2].lengths(), [3], "two digits and the end");
        let step = imitated(&all);
        let (before, _) = tuner.loss(&step, &all).unwrap();
        let start = tuner.digest().unwrap();
        for _ in 0..30 {
            let (loss, metrics, report) = tuner.step(&step, &all).unwrap();
            assert!(loss.is_finite() && metrics.entropy.value().is_some() && report.is_some());
        }
        let (after, _) = tuner.loss(&step, &all).unwrap();
        assert!(after < 0.2 * before, "{before} to {after}");
        assert_ne!(tuner.digest().unwrap(), start);
        tuner.keep(CheckpointKind::Last).unwrap();
        let place = CheckpointWriter::place(out.path(), CheckpointKind::Last);
        let read = ModelFolder::read(&place, &TextHost::InProcess).unwrap();
        assert_eq!(digest(&read.weights), tuner.digest().unwrap());
    }

    #[test]
    fn a_pair_moves_apart_and_the_reference_of_an_adapter_is_its_base() {
        let out = tempfile::tempdir().unwrap();
        let folder = TinyModel { seed: 5, ..TinyModel::default() }.make().unwrap();
        let device = ComputeDevice::processor();
        let adapter = AdapterSettings { rank: 4, alpha: 8.0, ..AdapterSettings::default() };
        for learned in [Learned::Full, Learned::Adapter(adapter)] {
            let mut tuner = folder.open_tuning(&settings(learned), &device, out.path()).unwrap();
            // Of different lengths: columns must not be confused.
            let examples = [("1+1=", "2", "345"), ("2+2=", "14", "0")].map(|(question, chosen, rejected)| {
                Example::new(vec![reply(&folder, question, chosen), reply(&folder, question, rejected)])
            });
            let all: Vec<&Example> = examples.iter().collect();
            assert_eq!(examples[0].lengths(), [2, 4]);
            let step = compared(&tuner, &all);
            let (before, _) = tuner.loss(&step, &all).unwrap();
            assert!((before - 2.0_f64.ln()).abs() < 1e-6, "at first the policy is the reference: {before}");
            for _ in 0..20 {
                tuner.step(&step, &all).unwrap();
            }
            let (after, metrics) = tuner.loss(&step, &all).unwrap();
            assert!(after < 0.95 * before, "{learned:?}: {before} to {after}");
            assert_eq!(metrics.preference_accuracy.value(), Some(1.0));
            let again = compared(&tuner, &all);
            let is_base = learned != Learned::Full;
            assert_eq!((tuner.loss(&again, &all).unwrap().0 - after).abs() < 1e-6, is_base, "{learned:?}");
        }
    }
}
