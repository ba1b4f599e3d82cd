//! Training on an accelerator: what its implementation provides.

use super::{OptimizerSettings, Sequence, StepReport, TokenScores, TrainerState};
use crate::{HostDecoder, LocalModelError};
use std::collections::BTreeMap;
use std::fmt;

/// Why [`AcceleratedTrainer::accumulate`] failed.
#[derive(Debug, thiserror::Error)]
pub enum LossError {
    /// The loss refused the piece that begins with this unit. The caller knows why.
    #[error("the loss failed for the piece of unit {first}")]
    Refused {
        /// The index of the piece's first unit.
        first: usize,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] LocalModelError),
}

/// The loss of one piece: gets the index of the piece's first unit and the scores of each unit's sequences, and returns one
/// derivative per trained token, unit by unit. It may be called more than once for a piece, if memory was short.
pub type PieceLoss<'a> = dyn Fn(usize, &[Vec<TokenScores>]) -> Result<Vec<Vec<f64>>, LossError> + Sync + 'a;

/// A trainer whose weights, gradients and moments are on a device.
///
/// A device may report with a panic that it is lost. The caller runs every method inside
/// [`ComputeDevice::guarded`](crate::device::ComputeDevice::guarded). A method that fails or panics changes nothing.
pub trait AcceleratedTrainer: fmt::Debug + Send + Sync {
    /// The state that a step depends on.
    ///
    /// # Errors
    /// The device returns no data.
    fn state(&self) -> Result<TrainerState<'static>, LocalModelError>;
    /// Replaces weights and moments by these, and drops accumulated gradients.
    ///
    /// # Errors
    /// They belong to another model.
    fn resume(&mut self, state: TrainerState<'_>) -> Result<(), LocalModelError>;
    /// Scores of the trained tokens.
    ///
    /// # Errors
    /// The device returns no data.
    fn scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError>;
    /// Scores of the trained tokens by the model without its adapters.
    ///
    /// # Errors
    /// The device returns no data.
    fn reference_scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError>;
    /// Accumulates gradients piece by piece. Returns the first unit of each piece that was added, in order.
    ///
    /// # Errors
    /// Those of the loss, or the device returns no data.
    fn accumulate(&mut self, units: &[&[Sequence]], loss: &PieceLoss<'_>) -> Result<Vec<usize>, LossError>;
    /// Takes a step with the accumulated gradients. `None`: there are none.
    ///
    /// # Errors
    /// A gradient or a new weight is not finite.
    fn step(&mut self, rate: f64, settings: &OptimizerSettings) -> Result<Option<StepReport>, LocalModelError>;
    /// Resets the moments.
    fn forget_momentum(&mut self);
    /// The accumulated gradients, by the weight's name, laid out as on the host.
    ///
    /// # Errors
    /// The device returns no data.
    fn pending(&self) -> Result<BTreeMap<String, Vec<f32>>, LocalModelError>;
    /// Drops accumulated gradients.
    fn clear_pending(&mut self);
    /// The weights on the host.
    ///
    /// # Errors
    /// The device returns no data.
    fn host(&self) -> Result<HostDecoder, LocalModelError>;
}
