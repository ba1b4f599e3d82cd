//! Training on a device of burn.

use super::gradient::{GradientSum, gradients, scores};
use super::optimizer::{OptimizerState, Tensors};
use crate::network::{DeviceDecoder, Network, is_looked_up, to_host, values};
use burn::tensor::{Device, Tensor, TensorData};
use clawhost_model::device::{lacks_memory, panic_text};
use clawhost_model::train::{
    AcceleratedTrainer, HostTensor, LossError, OptimizerSettings, PieceLoss, Sequence, StepReport, TokenScores,
    Trained, TrainerState, foreign_weight, pieces,
};
use clawhost_model::{Convert, HostDecoder, HostMatrix, LocalModelError, ModelConfig, Weight};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Tokens of one pass, including padding. The memory for the backward pass grows with them.
const TOKENS: usize = 16_384;
/// Number of concurrent pieces of a step, each on its own thread, because burn computes many operations on a processor with one
/// thread. It is a constant, because a sum of four parts differs in its last bits from a sum of two.
const AT_ONCE: usize = 4;

/// The amount of work in memory at the same time. It is reduced when the device runs out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    passes: usize,
    /// Tokens of one pass.
    tokens: usize,
}

impl Share {
    const WHOLE: Self = Self { passes: AT_ONCE, tokens: TOKENS };

    /// First reduces to one pass at a time, which changes no sum; then to shorter passes.
    fn smaller(self) -> Option<Self> {
        match self {
            Self { passes: 2.., .. } => Some(Self { passes: 1, ..self }),
            Self { tokens: 2.., .. } => Some(Self { tokens: self.tokens / 2, ..self }),
            _ => None,
        }
    }

    fn pieces<'a, 'b>(self, units: &'a [&'b [Sequence]]) -> Vec<(usize, &'a [&'b [Sequence]])> {
        let rows: usize = units.iter().map(|unit| unit.len()).sum();
        pieces(units, rows.div_ceil(AT_ONCE).max(1), |rows, _, longest| rows * longest > self.tokens)
    }

    /// The largest smaller share with which these units are computed differently.
    fn smaller_for(self, units: &[&[Sequence]]) -> Option<Self> {
        let now = self.pieces(units).len();
        std::iter::successors(self.smaller(), |share| share.smaller())
            .find(|share| now > 1 && share.passes < self.passes || share.pieces(units).len() > now)
    }
}

/// Weights that are trained on a device.
#[derive(Debug)]
pub struct DeviceTrainer {
    network: Network,
    state: OptimizerState,
    pending: GradientSum,
    share: Mutex<Share>,
}

impl DeviceTrainer {
    /// Copies weights to a device. Trained weights are tracked.
    pub fn new(config: Arc<ModelConfig>, host: &HostDecoder, device: &Device, trained: Trained) -> Self {
        let plain = Network::new(config, host, &device.clone().autodiff());
        let weights = plain.weights.map(
            &mut |name, matrix| if trained.learns(name) { matrix.clone().require_grad() } else { matrix.clone() },
            &mut |name, vector| if trained.learns(name) { vector.clone().require_grad() } else { vector.clone() },
        );
        let network = Network { weights, ..plain };
        let share = Mutex::new(Share::WHOLE);
        Self { network, state: OptimizerState::default(), pending: GradientSum::default(), share }
    }

    /// Runs a computation on these units. If the device runs out of memory, repeats it with a smaller share, which later calls use as well.
    /// Units are never divided. If a single unit does not fit, burn's panic continues.
    fn with_room<T>(&self, units: &[&[Sequence]], run: impl Fn(Share) -> T) -> T {
        loop {
            let share = *self.share.lock().unwrap_or_else(PoisonError::into_inner);
            // Unwinding is safe: the partial result is dropped, and the computation begins again.
            let panic = match catch_unwind(AssertUnwindSafe(|| run(share))) {
                Ok(done) => return done,
                Err(panic) => panic,
            };
            let smaller = share.smaller_for(units).filter(|_| lacks_memory(&panic_text(panic.as_ref())));
            let Some(smaller) = smaller else { resume_unwind(panic) };
            *self.share.lock().unwrap_or_else(PoisonError::into_inner) = smaller;
        }
    }

    fn scores_of(&self, weights: &DeviceDecoder, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        let plain = Network {
            weights: weights.map(&mut |_, one| one.clone().inner(), &mut |_, one| one.clone().inner()),
            config: self.network.config.clone(),
        };
        let units: Vec<&[Sequence]> = sequences.iter().map(|one| std::slice::from_ref(*one)).collect();
        self.with_room(&units, |share| {
            let mut all = Vec::with_capacity(sequences.len());
            for (_, part) in share.pieces(&units) {
                all.extend(scores(&plain, &part.iter().copied().flatten().collect::<Vec<_>>())?);
            }
            Ok(all)
        })
    }

    fn add_up(
        &self,
        mut sum: GradientSum,
        share: Share,
        units: &[&[Sequence]],
        loss: &PieceLoss<'_>,
    ) -> Result<(GradientSum, Vec<usize>), LossError> {
        let mut added = Vec::new();
        let network = &self.network;
        for round in share.pieces(units).chunks(share.passes) {
            let done: Vec<Result<GradientSum, LossError>> = std::thread::scope(|scope| {
                let running: Vec<_> = round
                    .iter()
                    .map(|(first, piece)| {
                        scope.spawn(move || {
                            let sequences: Vec<&Sequence> = piece.iter().copied().flatten().collect();
                            let sum = gradients(network, &sequences, |scores| {
                                let mut scores = scores.iter().cloned();
                                let by_unit: Vec<Vec<TokenScores>> =
                                    piece.iter().map(|unit| (&mut scores).take(unit.len()).collect()).collect();
                                loss(*first, &by_unit)
                            })?;
                            sum.wait()?;
                            Ok(sum)
                        })
                    })
                    .collect();
                running.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
            });
            for ((first, _), gradients) in round.iter().zip(done) {
                sum.add(gradients?);
                added.push(*first);
            }
        }
        Ok((sum, added))
    }
}

impl AcceleratedTrainer for DeviceTrainer {
    fn scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        self.scores_of(&self.network.weights, sequences)
    }

    fn reference_scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        self.scores_of(&self.network.weights.without_adapters(), sequences)
    }

    /// Pieces are computed concurrently and added in order.
    fn accumulate(&mut self, units: &[&[Sequence]], loss: &PieceLoss<'_>) -> Result<Vec<usize>, LossError> {
        let before = std::mem::take(&mut self.pending);
        let (sum, added) = self.with_room(units, |share| self.add_up(before.clone(), share, units, loss))?;
        self.pending = sum;
        Ok(added)
    }

    fn step(&mut self, rate: f64, settings: &OptimizerSettings) -> Result<Option<StepReport>, LocalModelError> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(None);
        }
        let (weights, state, report) = self.state.step(&self.network, pending, rate, settings)?;
        (self.network.weights, self.state) = (weights, state);
        Ok(Some(report))
    }

    fn forget_momentum(&mut self) {
        self.state = OptimizerState::default();
    }

    fn clear_pending(&mut self) {
        self.pending = GradientSum::default();
    }

    fn host(&self) -> Result<HostDecoder, LocalModelError> {
        to_host(&self.network.weights)
    }

    fn pending(&self) -> Result<BTreeMap<String, Vec<f32>>, LocalModelError> {
        let flat = |name: &str, gradient: &Tensors| Ok(plain(name, gradient)?.values.into_owned());
        self.pending.of.iter().map(|(name, gradient)| Ok((name.clone(), flat(name, gradient)?))).collect()
    }

    fn state(&self) -> Result<TrainerState<'static>, LocalModelError> {
        // If an adapter learns, the base weights do not change.
        let inner = |weight| match weight {
            Weight::Matrix(matrix) => Tensor::is_require_grad(&matrix).then(|| Weight::Matrix(Tensor::inner(matrix))),
            Weight::Vector(vector) => Tensor::is_require_grad(&vector).then(|| Weight::Vector(Tensor::inner(vector))),
        };
        let weights = self.network.weights.weights().into_iter().filter_map(|(name, one)| Some((name, inner(one)?)));
        let all =
            |tensors: &BTreeMap<String, Tensors>| -> Result<BTreeMap<String, HostTensor<'static>>, LocalModelError> {
                tensors.iter().map(|(name, tensor)| Ok((name.clone(), plain(name, tensor)?))).collect()
            };
        Ok(TrainerState {
            steps: self.state.steps,
            weights: all(&weights.collect())?,
            first: all(&self.state.first)?,
            second: all(&self.state.second)?,
        })
    }

    fn resume(&mut self, saved: TrainerState<'_>) -> Result<(), LocalModelError> {
        let device = self.network.device().inner();
        let all = |plain: BTreeMap<String, HostTensor<'_>>| -> Result<BTreeMap<String, Tensors>, LocalModelError> {
            plain.into_iter().map(|(name, plain)| Ok((name.clone(), tensors(&name, plain, &device)?))).collect()
        };
        let state = OptimizerState { steps: saved.steps, first: all(saved.first)?, second: all(saved.second)? };
        self.network.weights = self.network.weights.convert(&mut Replace(&all(saved.weights)?))?;
        self.state = state;
        self.pending = GradientSum::default();
        Ok(())
    }
}

/// Copies from the device to the host, where a matrix is `[out, in]`.
fn plain(name: &str, tensor: &Tensors) -> Result<HostTensor<'static>, LocalModelError> {
    let matrix = match tensor {
        Weight::Vector(vector) => {
            return Ok(HostTensor { shape: vector.dims().to_vec(), values: values(vector)?.into() });
        }
        Weight::Matrix(matrix) => HostMatrix::new(name, matrix.dims(), values(matrix)?)?,
    };
    let [rows, columns] = matrix.shape;
    Ok(match is_looked_up(name) {
        true => HostTensor { shape: vec![rows, columns], values: matrix.values().into_owned().into() },
        false => HostTensor { shape: vec![columns, rows], values: matrix.transposed().into() },
    })
}

/// Copies from the host to the device.
fn tensors(name: &str, plain: HostTensor<'_>, device: &Device) -> Result<Tensors, LocalModelError> {
    let HostTensor { shape, values } = plain;
    match shape.as_slice() {
        [length] => Ok(Weight::Vector(Tensor::from_data(TensorData::new(values.into_owned(), [*length]), device))),
        [rows, columns] if is_looked_up(name) => {
            Ok(Weight::Matrix(Tensor::from_data(TensorData::new(values.into_owned(), [*rows, *columns]), device)))
        }
        [rows, columns] => {
            let turned = HostMatrix::new(name, [*rows, *columns], values.into_owned())?.transposed();
            Ok(Weight::Matrix(Tensor::from_data(TensorData::new(turned, [*columns, *rows]), device)))
        }
        _ => Err(foreign_weight(name)),
    }
}

/// Replaces weights by name with tensors of the same shape.
struct Replace<'a>(&'a BTreeMap<String, Tensors>);

impl Convert<Tensor<2>, Tensor<1>> for Replace<'_> {
    type Matrix = Tensor<2>;
    type Vector = Tensor<1>;
    type Error = LocalModelError;

    fn matrix(&mut self, name: &str, old: &Tensor<2>) -> Result<Tensor<2>, LocalModelError> {
        match self.0.get(name) {
            None if !old.is_require_grad() => Ok(old.clone()),
            Some(Weight::Matrix(new)) if new.dims() == old.dims() => {
                let new = Tensor::from_inner(new.clone());
                Ok(if old.is_require_grad() { new.require_grad() } else { new })
            }
            _ => Err(foreign_weight(name)),
        }
    }

    fn vector(&mut self, name: &str, old: &Tensor<1>) -> Result<Tensor<1>, LocalModelError> {
        match self.0.get(name) {
            None if !old.is_require_grad() => Ok(old.clone()),
            Some(Weight::Vector(new)) if new.dims() == old.dims() => {
                let new = Tensor::from_inner(new.clone());
                Ok(if old.is_require_grad() { new.require_grad() } else { new })
            }
            _ => Err(foreign_weight(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_share_computes_fewer_at_a_time_until_each_is_alone() {
        let check = |lengths: &[usize], expect: &[(usize, usize)]| {
            let made: Vec<Sequence> = lengths
                .iter()
                .map(|length| Sequence::new(vec![1; *length], &vec![false; *length], 1.0).unwrap())
                .collect();
            let units: Vec<&[Sequence]> = made.chunks(1).collect();
            let shares = std::iter::successors(Some(Share::WHOLE), |share| share.smaller_for(&units));
            let found: Vec<(usize, usize)> = shares.map(|share| (share.passes, share.pieces(&units).len())).collect();
            assert_eq!(found, expect, "{lengths:?}");
        };
        check(&[8; 16], &[(4, 4), (1, 4), (1, 8), (1, 16)]);
        check(&[9; 6], &[(4, 3), (1, 3), (1, 6)]);
        check(&[9; 2], &[(4, 2), (1, 2)]);
        check(&[9], &[(4, 1)]);
        check(&[TOKENS, TOKENS], &[(4, 2), (1, 2)]);
    }
}
