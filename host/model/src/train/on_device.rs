//! Weights that learn on a device of burn.

use super::gradient::{GradientSum, TokenScores, Wanted, gradients, scores};
use super::optimizer::{OptimizerSettings, OptimizerState, StepReport, Tensors};
use super::sequence::Sequence;
use super::snapshot::{Plain, Saved, foreign};
use super::trainer::{Trained, pieces};
use crate::network::{DeviceDecoder, Network, is_looked_up, to_host, values};
use crate::{Convert, HostDecoder, HostMatrix, LocalModelError, ModelConfig, Weight};
use burn::tensor::{Device, Tensor, TensorData};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tokens of one pass, padding too: what is in memory for the way back grows with them.
const TOKENS: usize = 16_384;
/// Pieces of a step that are computed at the same time, each on a thread of its own: much of what burn does on a processor
/// is done by one thread. A constant, because a sum of four parts is not, bit for bit, one of two.
const AT_ONCE: usize = 4;

/// Weights that learn there.
#[derive(Debug)]
pub(super) struct OnDevice {
    network: Network,
    state: OptimizerState,
    pending: GradientSum,
}

impl OnDevice {
    pub(super) fn new(config: Arc<ModelConfig>, host: &HostDecoder, device: &Device, trained: Trained) -> Self {
        let plain = Network::new(config, host, &device.clone().autodiff());
        let weights = plain.weights.map(
            &mut |name, matrix| if trained.learns(name) { matrix.clone().require_grad() } else { matrix.clone() },
            &mut |name, vector| if trained.learns(name) { vector.clone().require_grad() } else { vector.clone() },
        );
        let network = Network { weights, ..plain };
        Self { network, state: OptimizerState::default(), pending: GradientSum::default() }
    }

    fn pieces<'a, 'b>(units: &'a [&'b [Sequence]]) -> Vec<(usize, &'a [&'b [Sequence]])> {
        let rows: usize = units.iter().map(|unit| unit.len()).sum();
        pieces(units, rows.div_ceil(AT_ONCE).max(1), |rows, _, longest| rows * longest > TOKENS)
    }

    /// Scores of trained tokens, without learning from them.
    ///
    /// # Errors
    /// The device gives nothing back.
    pub(super) fn scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        self.scores_of(&self.network.weights, sequences)
    }

    /// Scores that the model gives without its adapters.
    ///
    /// # Errors
    /// The device gives nothing back.
    pub(super) fn reference_scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        self.scores_of(&self.network.weights.without_adapters(), sequences)
    }

    fn scores_of(&self, weights: &DeviceDecoder, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        let plain = Network {
            weights: weights.map(&mut |_, one| one.clone().inner(), &mut |_, one| one.clone().inner()),
            config: self.network.config.clone(),
        };
        let mut all = Vec::with_capacity(sequences.len());
        let units: Vec<&[Sequence]> = sequences.iter().map(|one| std::slice::from_ref(*one)).collect();
        for (_, part) in Self::pieces(&units) {
            all.extend(scores(&plain, &part.iter().copied().flatten().collect::<Vec<_>>())?);
        }
        Ok(all)
    }

    /// As [`super::Trainer::accumulate`]. Pieces are computed at the same time and added up in order.
    pub(super) fn accumulate<T: Send, E: From<LocalModelError> + Send>(
        &mut self,
        units: &[&[Sequence]],
        loss: &(dyn Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<T>, E> + Sync),
    ) -> Result<Vec<T>, E> {
        let mut sum = std::mem::take(&mut self.pending);
        let mut told = Vec::new();
        let pieces = Self::pieces(units);
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

    /// Takes a step with what was added up; none: nothing was.
    pub(super) fn step(
        &mut self,
        rate: f64,
        settings: &OptimizerSettings,
    ) -> Result<Option<StepReport>, LocalModelError> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(None);
        }
        let (weights, state, report) = self.state.step(&self.network, pending, rate, settings)?;
        (self.network.weights, self.state) = (weights, state);
        Ok(Some(report))
    }

    pub(super) fn forget_momentum(&mut self) {
        self.state = OptimizerState::default();
    }

    pub(super) fn clear_pending(&mut self) {
        self.pending = GradientSum::default();
    }

    pub(super) fn host(&self) -> Result<HostDecoder, LocalModelError> {
        to_host(&self.network.weights)
    }

    /// What was added up, as it lies on the host.
    #[cfg(test)]
    pub(super) fn pending(&self) -> BTreeMap<String, Vec<f32>> {
        let flat = |name: &str, gradient: &Tensors| Some(plain(name, gradient).ok()?.values.into_owned());
        self.pending.of.iter().filter_map(|(name, gradient)| Some((name.clone(), flat(name, gradient)?))).collect()
    }

    /// Everything that a step depends on.
    pub(super) fn saved(&self) -> Result<Saved<'static>, LocalModelError> {
        // Beside an adapter nothing changes.
        let inner = |weight| match weight {
            Weight::Matrix(matrix) => Tensor::is_require_grad(&matrix).then(|| Weight::Matrix(Tensor::inner(matrix))),
            Weight::Vector(vector) => Tensor::is_require_grad(&vector).then(|| Weight::Vector(Tensor::inner(vector))),
        };
        let weights = self.network.weights.weights().into_iter().filter_map(|(name, one)| Some((name, inner(one)?)));
        let all = |tensors: &BTreeMap<String, Tensors>| -> Result<BTreeMap<String, Plain<'static>>, LocalModelError> {
            tensors.iter().map(|(name, tensor)| Ok((name.clone(), plain(name, tensor)?))).collect()
        };
        Ok(Saved {
            steps: self.state.steps,
            weights: all(&weights.collect())?,
            first: all(&self.state.first)?,
            second: all(&self.state.second)?,
        })
    }

    /// Becomes what was saved, if it is of this model. Where it fails nothing has changed.
    pub(super) fn resume(&mut self, saved: Saved<'_>) -> Result<(), LocalModelError> {
        let device = self.network.device().inner();
        let all = |plain: BTreeMap<String, Plain<'_>>| -> Result<BTreeMap<String, Tensors>, LocalModelError> {
            plain.into_iter().map(|(name, plain)| Ok((name.clone(), tensors(&name, plain, &device)?))).collect()
        };
        let state = OptimizerState { steps: saved.steps, first: all(saved.first)?, second: all(saved.second)? };
        self.network.weights = self.network.weights.convert(&mut Replace(&all(saved.weights)?))?;
        self.state = state;
        self.pending = GradientSum::default();
        Ok(())
    }
}

/// From the device to the host, where a matrix is `[out, in]`.
fn plain(name: &str, tensor: &Tensors) -> Result<Plain<'static>, LocalModelError> {
    let matrix = match tensor {
        Weight::Vector(vector) => return Ok(Plain { shape: vector.dims().to_vec(), values: values(vector)?.into() }),
        Weight::Matrix(matrix) => HostMatrix::new(name, matrix.dims(), values(matrix)?)?,
    };
    let [rows, columns] = matrix.shape;
    Ok(match is_looked_up(name) {
        true => Plain { shape: vec![rows, columns], values: matrix.values.to_vec().into() },
        false => Plain { shape: vec![columns, rows], values: matrix.transposed().into() },
    })
}

/// The other way.
fn tensors(name: &str, plain: Plain<'_>, device: &Device) -> Result<Tensors, LocalModelError> {
    let Plain { shape, values } = plain;
    match shape.as_slice() {
        [length] => Ok(Weight::Vector(Tensor::from_data(TensorData::new(values.into_owned(), [*length]), device))),
        [rows, columns] if is_looked_up(name) => {
            Ok(Weight::Matrix(Tensor::from_data(TensorData::new(values.into_owned(), [*rows, *columns]), device)))
        }
        [rows, columns] => {
            let turned = HostMatrix::new(name, [*rows, *columns], values.into_owned())?.transposed();
            Ok(Weight::Matrix(Tensor::from_data(TensorData::new(turned, [*columns, *rows]), device)))
        }
        _ => Err(foreign(name)),
    }
}

/// Weights by name, in the place of those of the same shape.
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
            _ => Err(foreign(name)),
        }
    }

    fn vector(&mut self, name: &str, old: &Tensor<1>) -> Result<Tensor<1>, LocalModelError> {
        match self.0.get(name) {
            None if !old.is_require_grad() => Ok(old.clone()),
            Some(Weight::Vector(new)) if new.dims() == old.dims() => {
                let new = Tensor::from_inner(new.clone());
                Ok(if old.is_require_grad() { new.require_grad() } else { new })
            }
            _ => Err(foreign(name)),
        }
    }
}
