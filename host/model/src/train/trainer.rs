//! Weights that learn: what is accumulated, what a step makes of it, and all of it as bytes.

use super::gradient::{GradientSum, TokenScores, Wanted, gradients, scores};
use super::optimizer::{OptimizerSettings, OptimizerState, StepReport, Tensors};
use super::schedule::Schedule;
use super::sequence::Sequence;
use crate::network::{DeviceDecoder, Network, to_host};
use crate::{Convert, HostDecoder, LocalModelError, ModelConfig, Weight, digest, is_adapter};
use burn::tensor::{Device, Tensor};
use clawhost_core::Digest;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tokens of one pass, padding too: what is in memory for the way back grows with them.
const TOKENS: usize = 16_384;
/// Pieces of a step that are computed at the same time, each on a thread of its own: much of what burn does on a processor
/// is done by one thread. A constant, because a sum of four parts is not, bit for bit, one of two.
const AT_ONCE: usize = 4;

/// Which weights are trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trained {
    /// All of them.
    Full,
    /// The adapters alone.
    Adapters,
}

/// Weights that learn.
#[derive(Debug)]
pub struct Trainer {
    network: Network,
    settings: OptimizerSettings,
    schedule: Schedule,
    /// Steps that the schedule has counted.
    scheduled: u64,
    /// Steps of any kind, from the beginning: the number of the weights.
    ever: u64,
    state: OptimizerState,
    pending: GradientSum,
    /// Names what does not learn, where something does not.
    frozen: Option<Digest>,
}

impl Trainer {
    /// Trains these weights on a device.
    pub fn new(
        config: Arc<ModelConfig>,
        host: &HostDecoder,
        device: &Device,
        trained: Trained,
        settings: OptimizerSettings,
        schedule: Schedule,
    ) -> Self {
        let plain = Network::new(config, host, &device.clone().autodiff());
        let learns = |name: &str| trained == Trained::Full || is_adapter(name);
        let weights = plain.weights.map(
            &mut |name, matrix| if learns(name) { matrix.clone().require_grad() } else { matrix.clone() },
            &mut |name, vector| if learns(name) { vector.clone().require_grad() } else { vector.clone() },
        );
        let network = Network { weights, ..plain };
        let frozen = (trained == Trained::Adapters).then(|| {
            let scales = host.scales().into_iter().flat_map(f64::to_le_bytes).collect::<Vec<_>>();
            digest(&host.without_adapters()).extended(&scales)
        });
        Self {
            network,
            frozen,
            settings,
            schedule,
            scheduled: 0,
            ever: 0,
            state: OptimizerState::default(),
            pending: GradientSum::default(),
        }
    }

    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    pub(super) fn state(&self) -> &OptimizerState {
        &self.state
    }

    pub(super) fn frozen(&self) -> Option<Digest> {
        self.frozen
    }

    pub(super) fn counters(&self) -> [u64; 2] {
        [self.scheduled, self.ever]
    }

    /// Takes weights and state over, if they are of this model.
    pub(super) fn become_what(
        &mut self,
        weights: BTreeMap<String, Tensors>,
        state: OptimizerState,
        [scheduled, ever]: [u64; 2],
    ) -> Result<(), LocalModelError> {
        struct Replace<'a>(&'a BTreeMap<String, Tensors>);
        fn missing(name: &str) -> LocalModelError {
            LocalModelError::Checkpoint(format!(
                "the weight {name} is missing or has another shape; it is of another model"
            ))
        }
        impl Convert<Tensor<2>, Tensor<1>> for Replace<'_> {
            type Matrix = Tensor<2>;
            type Vector = Tensor<1>;
            type Error = LocalModelError;

            fn matrix(&mut self, name: &str, old: &Tensor<2>) -> Result<Tensor<2>, LocalModelError> {
                match self.0.get(name) {
                    // What does not learn is in no snapshot.
                    None if !old.is_require_grad() => Ok(old.clone()),
                    Some(Weight::Matrix(new)) if new.dims() == old.dims() => {
                        let new = Tensor::from_inner(new.clone());
                        Ok(if old.is_require_grad() { new.require_grad() } else { new })
                    }
                    _ => Err(missing(name)),
                }
            }

            fn vector(&mut self, name: &str, old: &Tensor<1>) -> Result<Tensor<1>, LocalModelError> {
                match self.0.get(name) {
                    None if !old.is_require_grad() => Ok(old.clone()),
                    Some(Weight::Vector(new)) if new.dims() == old.dims() => {
                        let new = Tensor::from_inner(new.clone());
                        Ok(if old.is_require_grad() { new.require_grad() } else { new })
                    }
                    _ => Err(missing(name)),
                }
            }
        }
        self.network.weights = self.network.weights.convert(&mut Replace(&weights))?;
        (self.state, self.scheduled, self.ever) = (state, scheduled, ever);
        self.pending = GradientSum::default();
        Ok(())
    }

    /// What was added up, by the weight's name, as it lies on the device.
    #[cfg(test)]
    pub(super) fn pending(&self) -> BTreeMap<String, Vec<f32>> {
        let flat = |gradient: &Tensors| match gradient {
            Weight::Matrix(matrix) => crate::network::values(matrix),
            Weight::Vector(vector) => crate::network::values(vector),
        };
        self.pending.of.iter().filter_map(|(name, gradient)| Some((name.clone(), flat(gradient).ok()?))).collect()
    }

    /// Steps taken, of any kind, from the beginning.
    pub fn steps_ever(&self) -> u64 {
        self.ever
    }

    /// Another rate from the next step on.
    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// Scores of trained tokens, without learning from them.
    ///
    /// # Errors
    /// The device gives nothing back.
    pub fn scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        self.scores_of(&self.network.weights, sequences)
    }

    /// Whether it has an adapter alone to learn, so that what it began with is there.
    pub fn has_reference(&self) -> bool {
        self.frozen.is_some()
    }

    /// The same of the model without its adapters: what an adapter is held near to.
    ///
    /// # Errors
    /// As [`Trainer::scores`].
    pub fn reference_scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        self.scores_of(&self.network.weights.without_adapters(), sequences)
    }

    fn scores_of(&self, weights: &DeviceDecoder, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        let plain = Network {
            weights: weights.map(&mut |_, one| one.clone().inner(), &mut |_, one| one.clone().inner()),
            config: self.network.config.clone(),
        };
        let mut all = Vec::with_capacity(sequences.len());
        let units: Vec<&[Sequence]> = sequences.iter().map(|one| std::slice::from_ref(*one)).collect();
        for (_, part) in pieces(&units) {
            all.extend(scores(&plain, &part.iter().copied().flatten().collect::<Vec<_>>())?);
        }
        Ok(all)
    }

    /// Adds up what `loss` wants, piece by piece: it is handed the place of the first unit of the piece, and the scores of each
    /// unit's sequences; it gives one derivative per trained token of each unit. A unit stays whole. Pieces are computed at the
    /// same time and added up in order; what the loss tells is given back in that order.
    ///
    /// # Errors
    /// Those of the loss, or the device gives nothing back; nothing that was added up is kept then.
    pub fn accumulate<T: Send, E: From<LocalModelError> + Send>(
        &mut self,
        units: &[&[Sequence]],
        loss: &(dyn Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<T>, E> + Sync),
    ) -> Result<Vec<T>, E> {
        let mut sum = std::mem::take(&mut self.pending);
        let mut told = Vec::new();
        let pieces = pieces(units);
        let network = &self.network;
        for round in pieces.chunks(AT_ONCE) {
            let done: Vec<Result<(GradientSum, T), E>> = std::thread::scope(|scope| {
                let running: Vec<_> = round
                    .iter()
                    .map(|(first, piece)| {
                        scope.spawn(move || {
                            let sequences: Vec<&Sequence> = piece.iter().copied().flatten().collect();
                            gradients(network, &sequences, |scores| {
                                let mut scores = scores.iter().cloned();
                                let by_unit: Vec<Vec<TokenScores>> =
                                    piece.iter().map(|unit| (&mut scores).take(unit.len()).collect()).collect();
                                loss(*first, &by_unit)
                            })
                        })
                    })
                    .collect();
                running
                    .into_iter()
                    .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                    .collect()
            });
            for one in done {
                let (gradients, one) = one?;
                sum.add(gradients);
                told.push(one);
            }
        }
        self.pending = sum;
        Ok(told)
    }

    /// Takes a step with what was added up, and forgets it. None: nothing was.
    ///
    /// # Errors
    /// A gradient or a new weight is not finite; the weights are as before.
    pub fn step(&mut self) -> Result<Option<StepReport>, LocalModelError> {
        let report = self.step_at(self.schedule.rate(self.scheduled))?;
        self.scheduled += u64::from(report.is_some());
        Ok(report)
    }

    /// The same at a rate of one's own, which the schedule does not count.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn step_at(&mut self, rate: f64) -> Result<Option<StepReport>, LocalModelError> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(None);
        }
        let (weights, state, report) = self.state.step(&self.network, pending, rate, &self.settings)?;
        (self.network.weights, self.state) = (weights, state);
        self.ever += 1;
        Ok(Some(report))
    }

    /// Forgets the moments of the steps so far.
    pub fn forget_momentum(&mut self) {
        self.state = OptimizerState::default();
    }

    /// Forgets what was added up.
    pub fn clear_pending(&mut self) {
        self.pending = GradientSum::default();
    }

    /// The weights as plain numbers.
    ///
    /// # Errors
    /// The device gives nothing back.
    pub fn host(&self) -> Result<HostDecoder, LocalModelError> {
        to_host(&self.network.weights)
    }
}

/// Neighbours whose rows are in memory together, with the place of the first: as many as are computed at once, or more where they
/// would be too large. How they are cut depends on nothing but them, so sums do not depend on the machine.
fn pieces<'a, 'b>(units: &'a [&'b [Sequence]]) -> Vec<(usize, &'a [&'b [Sequence]])> {
    let rows: usize = units.iter().map(|unit| unit.len()).sum();
    let enough = rows.div_ceil(AT_ONCE).max(1);
    let mut pieces = Vec::new();
    let (mut start, mut rows, mut longest) = (0, 0, 0);
    for (place, unit) in units.iter().enumerate() {
        let length = unit.iter().map(|sequence| sequence.tokens().len()).max().unwrap_or(0);
        let full = rows >= enough || (rows + unit.len()) * longest.max(length) > TOKENS;
        if place > start && full {
            pieces.extend(units.get(start..place).map(|piece| (start, piece)));
            (start, rows, longest) = (place, 0, 0);
        }
        rows += unit.len();
        longest = longest.max(length);
    }
    pieces.extend(units.get(start..).filter(|rest| !rest.is_empty()).map(|piece| (start, piece)));
    pieces
}
