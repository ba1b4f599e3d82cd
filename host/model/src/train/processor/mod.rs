//! Training on this machine's processor, on plain numbers.

mod optimizer;

use super::optimizer::{OptimizerSettings, StepReport};
use super::scores::{TokenScores, Wanted};
use super::sequence::Sequence;
use super::snapshot::{HostTensor, TrainerState};
use super::trainer::{Trained, pieces};
use crate::cpu::RotaryTable;
use crate::cpu::training::{Gradients, Pass, TrainingModel};
use crate::{Convert, HostDecoder, HostMatrix, LocalModelError, ModelConfig, Weight, memory};
use clawhost_learn::Interrupt;
use optimizer::Moments;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Below this number of weights each thread computes pieces of its own with gradients of its own: a piece with its kept
/// values fits into a core's cache. Above it, threads share each piece.
const SMALL: u64 = 1_000_000;
/// Tokens of a piece of a small model.
const PIECE: usize = 384;
/// Largest number of gradient sums of a small model that are computed concurrently. A constant, because the bits of a
/// sum depend on the number of its parts.
const SUMS: usize = 16;
/// Bytes that a piece of a large model may keep for the backward pass. A longer sequence is a piece of its own.
const KEPT: usize = 512 << 20;

/// Bytes that a pass takes at most: for the tokens of a piece, and for the logits that threads compute.
pub(crate) fn kept_by_a_pass(config: &ModelConfig) -> u64 {
    let tokens = (TrainingModel::bytes_of_a_token(config).saturating_mul(config.context.max(PIECE))).min(KEPT) as u64;
    tokens.saturating_add(TrainingModel::bytes_of_logits(config))
}

/// The trained weights.
#[derive(Debug)]
pub(super) struct Processor {
    config: Arc<ModelConfig>,
    weights: HostDecoder,
    trained: Trained,
    moments: Moments,
    pending: Option<Gradients>,
    turns: Arc<RotaryTable>,
    /// The weights laid out, on demand.
    model: OnceLock<TrainingModel>,
    /// The same without adapters, which never changes; on demand.
    reference: OnceLock<TrainingModel>,
    /// Memory of completed passes.
    passes: Mutex<Vec<Pass>>,
    interrupt: Interrupt,
}

/// A piece: the index of its first unit, and its units.
type Piece<'a, 'b> = (usize, &'a [&'b [Sequence]]);

impl Processor {
    pub(super) fn new(config: Arc<ModelConfig>, host: &HostDecoder, trained: Trained) -> Self {
        Self {
            turns: Arc::new(RotaryTable::new(config.rotary_frequencies())),
            config,
            weights: host.clone(),
            trained,
            moments: Moments::default(),
            pending: None,
            model: OnceLock::new(),
            reference: OnceLock::new(),
            passes: Mutex::default(),
            interrupt: Interrupt::default(),
        }
    }

    pub(super) fn stop_when(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
    }

    fn model(&self) -> &TrainingModel {
        self.model.get_or_init(|| self.laid_out(&self.weights))
    }

    fn laid_out(&self, weights: &HostDecoder) -> TrainingModel {
        TrainingModel::new(self.config.clone(), self.turns.clone(), weights, |name| self.trained.learns(name))
    }

    fn is_small(&self) -> bool {
        self.config.parameters() < SMALL
    }

    fn pieces<'a, 'b>(&self, units: &'a [&'b [Sequence]]) -> Vec<Piece<'a, 'b>> {
        let most = if self.is_small() { PIECE } else { KEPT / TrainingModel::bytes_of_a_token(&self.config) };
        pieces(units, usize::MAX, |_, tokens, _| tokens > most)
    }

    fn pass(&self) -> Pass {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn done(&self, pass: Pass) {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner).push(pass);
    }

    fn zeros(&self) -> Gradients {
        Gradients::zeros(&self.weights, |name| self.trained.learns(name))
    }

    /// Scores of trained tokens.
    pub(super) fn scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        self.scores_of(self.model(), sequences)
    }

    /// Scores by the model without its adapters.
    pub(super) fn reference_scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        let model = self.reference.get_or_init(|| self.laid_out(&self.weights.without_adapters()));
        self.scores_of(model, sequences)
    }

    fn scores_of(&self, model: &TrainingModel, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        let units: Vec<&[Sequence]> = sequences.iter().map(|one| std::slice::from_ref(*one)).collect();
        let score = |(_, piece): &Piece<'_, '_>, threads| {
            let mut pass = self.pass();
            let sequences = piece.iter().copied().flatten().collect::<Vec<_>>();
            let scores = model.forward(&sequences, &mut pass, threads, &self.interrupt);
            self.done(pass);
            scores
        };
        let pieces = self.pieces(&units);
        let by_piece: Result<Vec<Vec<TokenScores>>, LocalModelError> = match self.is_small() {
            true => pieces.par_iter().map(|piece| score(piece, false)).collect(),
            false => pieces.iter().map(|piece| score(piece, true)).collect(),
        };
        Ok(by_piece?.into_iter().flatten().collect())
    }

    /// As [`super::Trainer::accumulate`].
    pub(super) fn accumulate<T: Send, E: From<LocalModelError> + Send>(
        &mut self,
        units: &[&[Sequence]],
        loss: &(dyn Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<T>, E> + Sync),
    ) -> Result<Vec<T>, E> {
        let mut pending = self.pending.take();
        let pieces = self.pieces(units);
        // A piece keeps little. A sequence that is longer than a piece is computed whole.
        let tokens = |unit: &[Sequence]| unit.iter().map(|sequence| sequence.tokens().len()).sum::<usize>();
        let longest = units.iter().map(|unit| tokens(unit)).max().unwrap_or(0);
        let kept = longest.saturating_mul(TrainingModel::bytes_of_a_token(&self.config));
        if kept > KEPT {
            memory::check(&format!("learning from a trajectory of {longest} tokens"), kept as u64)?;
        }
        // Weights are laid out before pieces are distributed. The layout also runs in parallel, and a thread that waits
        // inside of it may take other work. If that work were a piece, the piece would wait for the layout below it on
        // its own stack: a deadlock.
        let model = self.model();
        let mut told = Vec::with_capacity(pieces.len());
        if self.is_small() {
            let sums: Vec<Result<_, E>> = pieces
                .par_chunks(pieces.len().div_ceil(SUMS).max(1))
                .map(|pieces| {
                    let mut sum = None;
                    let told = self.add_up(model, pieces, loss, &mut sum, false)?;
                    Ok((sum, told))
                })
                .collect();
            for one in sums {
                let (sum, one) = one?;
                told.extend(one);
                match (&mut pending, sum) {
                    (Some(pending), Some(sum)) => pending.add(&sum),
                    (None, sum) => pending = sum,
                    (Some(_), None) => {}
                }
            }
        } else {
            told = self.add_up(model, &pieces, loss, &mut pending, true)?;
        }
        self.pending = pending;
        Ok(told)
    }

    /// Computes one piece after the other.
    fn add_up<T, E: From<LocalModelError>>(
        &self,
        model: &TrainingModel,
        pieces: &[Piece<'_, '_>],
        loss: &(dyn Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<T>, E> + Sync),
        sum: &mut Option<Gradients>,
        threads: bool,
    ) -> Result<Vec<T>, E> {
        let mut told = Vec::with_capacity(pieces.len());
        let mut pass = self.pass();
        for (first, piece) in pieces {
            let sequences: Vec<&Sequence> = piece.iter().copied().flatten().collect();
            let mut scores = model.forward(&sequences, &mut pass, threads, &self.interrupt)?.into_iter();
            let by_unit: Vec<Vec<TokenScores>> =
                piece.iter().map(|unit| (&mut scores).take(unit.len()).collect()).collect();
            let (wanted, one) = loss(*first, &by_unit)?;
            told.push(one);
            let wanted: Vec<f32> = wanted.into_iter().flatten().map(|one| one as f32).collect();
            if !wanted.is_empty() {
                let sum = sum.get_or_insert_with(|| self.zeros());
                model.backward(&mut pass, &wanted, sum, threads, &self.interrupt)?;
            }
        }
        self.done(pass);
        Ok(told)
    }

    /// Takes a step with the accumulated gradients. `None`: there are none.
    pub(super) fn step(
        &mut self,
        rate: f64,
        settings: &OptimizerSettings,
    ) -> Result<Option<StepReport>, LocalModelError> {
        let Some(pending) = self.pending.take() else { return Ok(None) };
        let (weights, moments, report) = self.moments.step(&self.weights, &pending, rate, settings)?;
        (self.weights, self.moments) = (weights, moments);
        self.model = OnceLock::new();
        Ok(Some(report))
    }

    pub(super) fn forget_momentum(&mut self) {
        self.moments = Moments::default();
    }

    pub(super) fn clear_pending(&mut self) {
        self.pending = None;
    }

    pub(super) fn host(&self) -> HostDecoder {
        self.weights.clone()
    }

    /// The accumulated gradients, by the weight's name.
    pub(super) fn pending(&self) -> BTreeMap<String, Vec<f32>> {
        let Some(Gradients(pending)) = &self.pending else { return BTreeMap::new() };
        let names = self.weights.weights().into_iter().map(|(name, _)| name);
        names.zip(pending.flat()).filter(|(_, one)| !one.is_empty()).map(|(name, one)| (name, one.clone())).collect()
    }

    /// The state that a step depends on.
    pub(super) fn saved(&self) -> TrainerState<'_> {
        let mut shapes = BTreeMap::new();
        let mut weights = BTreeMap::new();
        // With an adapter the base weights do not change.
        for (name, weight) in self.weights.weights().into_iter().filter(|(name, _)| self.trained.learns(name)) {
            let (shape, values) = match weight {
                Weight::Matrix(matrix) => (matrix.shape.to_vec(), matrix.values().into_owned()),
                Weight::Vector(values) => (vec![values.len()], values.to_vec()),
            };
            shapes.insert(name.clone(), shape.clone());
            weights.insert(name, HostTensor { shape, values: values.into() });
        }
        let plain = |moments| plain(&shapes, moments);
        TrainerState {
            steps: self.moments.steps,
            weights,
            first: plain(&self.moments.first),
            second: plain(&self.moments.second),
        }
    }

    /// Restores a saved state, if it belongs to this model. An error changes nothing.
    pub(super) fn resume(&mut self, saved: TrainerState<'_>) -> Result<(), LocalModelError> {
        let weights = self.weights.convert(&mut Replace { by: &saved.weights, trained: self.trained })?;
        let flat = |moments: BTreeMap<String, HostTensor<'_>>| -> BTreeMap<String, Vec<f32>> {
            moments.into_iter().map(|(name, plain)| (name, plain.values.into_owned())).collect()
        };
        self.weights = weights;
        self.moments = Moments { steps: saved.steps, first: flat(saved.first), second: flat(saved.second) };
        self.pending = None;
        self.model = OnceLock::new();
        Ok(())
    }
}

fn plain<'a>(
    shapes: &BTreeMap<String, Vec<usize>>,
    moments: &'a BTreeMap<String, Vec<f32>>,
) -> BTreeMap<String, HostTensor<'a>> {
    let plain = |(name, values): (&String, &'a Vec<f32>)| {
        (name.clone(), HostTensor { shape: shapes.get(name).cloned().unwrap_or_default(), values: values.into() })
    };
    moments.iter().map(plain).collect()
}

/// Replaces weights by name with weights of the same shape.
struct Replace<'a> {
    by: &'a BTreeMap<String, HostTensor<'a>>,
    trained: Trained,
}

impl Replace<'_> {
    /// The new values. `None`: the old ones stay.
    fn of(&self, name: &str, shape: &[usize]) -> Result<Option<Arc<[f32]>>, LocalModelError> {
        if !self.trained.learns(name) {
            return Ok(None);
        }
        let found = self.by.get(name).filter(|plain| plain.shape == shape);
        found.map(|plain| Some(plain.values.to_vec().into())).ok_or_else(|| super::snapshot::foreign_weight(name))
    }
}

impl Convert<HostMatrix, Arc<[f32]>> for Replace<'_> {
    type Matrix = HostMatrix;
    type Vector = Arc<[f32]>;
    type Error = LocalModelError;

    fn matrix(&mut self, name: &str, old: &HostMatrix) -> Result<HostMatrix, LocalModelError> {
        let new = self.of(name, &old.shape)?;
        Ok(new.map_or_else(|| old.clone(), |values| HostMatrix::of_rows(old.shape, values)))
    }

    fn vector(&mut self, name: &str, old: &Arc<[f32]>) -> Result<Arc<[f32]>, LocalModelError> {
        Ok(self.of(name, &[old.len()])?.unwrap_or_else(|| old.clone()))
    }
}
