//! Weights that learn on a device of burn.

use super::gradient::{GradientSum, TokenScores, Wanted, gradients, scores};
use super::optimizer::{OptimizerSettings, OptimizerState, StepReport, Tensors};
use super::sequence::Sequence;
use super::snapshot::{Plain, Saved, foreign};
use super::trainer::{Trained, pieces};
use crate::device::{lacks_memory, words};
use crate::network::{DeviceDecoder, Network, is_looked_up, to_host, values};
use crate::{Convert, HostDecoder, HostMatrix, LocalModelError, ModelConfig, Weight};
use burn::tensor::{Device, Tensor, TensorData};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Tokens of one pass, padding too: what is in memory for the way back grows with them.
const TOKENS: usize = 16_384;
/// Pieces of a step that are computed at the same time, each on a thread of its own: much of what burn does on a processor
/// is done by one thread. A constant, because a sum of four parts is not, bit for bit, one of two.
const AT_ONCE: usize = 4;

/// How much is in memory at the same time: all that is wanted, and less once a device had no room for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    passes: usize,
    /// Of one pass.
    tokens: usize,
}

impl Share {
    const WHOLE: Self = Self { passes: AT_ONCE, tokens: TOKENS };

    /// Passes one at a time first, because that changes no sum; then shorter ones.
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

    /// The largest smaller one that computes these in another way.
    fn smaller_for(self, units: &[&[Sequence]]) -> Option<Self> {
        let now = self.pieces(units).len();
        std::iter::successors(self.smaller(), |share| share.smaller())
            .find(|share| now > 1 && share.passes < self.passes || share.pieces(units).len() > now)
    }
}

/// Weights that learn there.
#[derive(Debug)]
pub(super) struct OnDevice {
    network: Network,
    state: OptimizerState,
    pending: GradientSum,
    share: Mutex<Share>,
}

impl OnDevice {
    pub(super) fn new(config: Arc<ModelConfig>, host: &HostDecoder, device: &Device, trained: Trained) -> Self {
        let plain = Network::new(config, host, &device.clone().autodiff());
        let weights = plain.weights.map(
            &mut |name, matrix| if trained.learns(name) { matrix.clone().require_grad() } else { matrix.clone() },
            &mut |name, vector| if trained.learns(name) { vector.clone().require_grad() } else { vector.clone() },
        );
        let network = Network { weights, ..plain };
        let share = Mutex::new(Share::WHOLE);
        Self { network, state: OptimizerState::default(), pending: GradientSum::default(), share }
    }

    /// Computes something of these units. Where the device has no room for it, again with a smaller share, from then on; a unit stays
    /// whole, and one that has no room by itself ends it as burn says so, in a panic.
    fn with_room<T>(&self, units: &[&[Sequence]], run: impl Fn(Share) -> T) -> T {
        loop {
            let share = *self.share.lock().unwrap_or_else(PoisonError::into_inner);
            // Unwinding is safe: what was under way is dropped, and begun anew.
            let panic = match catch_unwind(AssertUnwindSafe(|| run(share))) {
                Ok(done) => return done,
                Err(panic) => panic,
            };
            let smaller = share.smaller_for(units).filter(|_| lacks_memory(&words(panic.as_ref())));
            let Some(smaller) = smaller else { resume_unwind(panic) };
            *self.share.lock().unwrap_or_else(PoisonError::into_inner) = smaller;
        }
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
        let units: Vec<&[Sequence]> = sequences.iter().map(|one| std::slice::from_ref(*one)).collect();
        self.with_room(&units, |share| {
            let mut all = Vec::with_capacity(sequences.len());
            for (_, part) in share.pieces(&units) {
                all.extend(scores(&plain, &part.iter().copied().flatten().collect::<Vec<_>>())?);
            }
            Ok(all)
        })
    }

    /// As [`super::Trainer::accumulate`]. Pieces are computed at the same time and added up in order.
    pub(super) fn accumulate<T: Send, E: From<LocalModelError> + Send>(
        &mut self,
        units: &[&[Sequence]],
        loss: &(dyn Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<T>, E> + Sync),
    ) -> Result<Vec<T>, E> {
        let before = std::mem::take(&mut self.pending);
        let (sum, told) = self.with_room(units, |share| self.add_up(before.clone(), share, units, loss))?;
        self.pending = sum;
        Ok(told)
    }

    fn add_up<T: Send, E: From<LocalModelError> + Send>(
        &self,
        mut sum: GradientSum,
        share: Share,
        units: &[&[Sequence]],
        loss: &(dyn Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<T>, E> + Sync),
    ) -> Result<(GradientSum, Vec<T>), E> {
        let mut told = Vec::new();
        let network = &self.network;
        for round in share.pieces(units).chunks(share.passes) {
            let done: Vec<Result<(GradientSum, T), E>> = std::thread::scope(|scope| {
                let running: Vec<_> = round
                    .iter()
                    .map(|(first, piece)| {
                        scope.spawn(move || {
                            let sequences: Vec<&Sequence> = piece.iter().copied().flatten().collect();
                            let (sum, told) = gradients(network, &sequences, |scores| {
                                let mut scores = scores.iter().cloned();
                                let by_unit: Vec<Vec<TokenScores>> =
                                    piece.iter().map(|unit| (&mut scores).take(unit.len()).collect()).collect();
                                loss(*first, &by_unit)
                            })?;
                            sum.wait()?;
                            Ok((sum, told))
                        })
                    })
                    .collect();
                running.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
            });
            for one in done {
                let (gradients, one) = one?;
                sum.add(gradients);
                told.push(one);
            }
        }
        Ok((sum, told))
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
