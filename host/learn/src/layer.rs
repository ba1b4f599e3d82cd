//! The interface of a layer: something that learns from batches.

use crate::policy::Generated;
use crate::{Batch, Interrupt, LearnError, Measurements};
use clawhost_core::Digest;
use std::sync::Arc;

/// The result of a forward pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forward {
    /// Metrics of the pass.
    pub metrics: Measurements,
}

/// The result of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Number of updates; 0 if the step changed nothing.
    pub updates: u64,
    /// Metrics of the step.
    pub metrics: Measurements,
    /// Notable events, as text for the report.
    pub events: Vec<String>,
}

/// Something that learns, in two phases: [`Layer::forward_backward`] accumulates updates and changes nothing that acts;
/// [`Layer::optim_step`] applies them. Accumulated updates can be discarded in between ([`Layer::clear_pending`]).
pub trait Layer: Send {
    /// The layer's name in reports.
    fn name(&self) -> &str;

    /// Accumulates the updates of a batch. [`Layer::digest`] must not change.
    ///
    /// # Errors
    /// The layer cannot use the batch. The transaction clears the layer and leaves it out of the step.
    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError>;

    /// Applies the accumulated updates. Does nothing if there are none.
    ///
    /// # Errors
    /// The step failed. The transaction restores every layer.
    fn optim_step(&mut self) -> Result<Step, LearnError>;

    /// The state that [`Layer::restore`] restores, serialised. Accumulated updates are not part of it.
    ///
    /// # Errors
    /// The state cannot be serialised.
    fn snapshot(&self) -> Result<Vec<u8>, LearnError>;

    /// Replaces the state by that of a snapshot and discards accumulated updates.
    ///
    /// # Errors
    /// The bytes are not a snapshot of this layer.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError>;

    /// Discards accumulated updates.
    fn clear_pending(&mut self);

    /// Digest of the state that [`Layer::restore`] restores.
    fn digest(&self) -> Digest;

    /// Sets what a long computation asks in between. If it is to stop, it fails with [`LearnError::Interrupted`], and the layer is unchanged. The default
    /// asks nothing: its computations are short.
    fn stop_when(&mut self, _: Interrupt) {}
}

/// The layer that holds a model's weights. It can also learn from demonstrations, before it learns from rewards.
pub trait Weights: Layer {
    /// Takes one supervised step on these demonstrations with learning rate `rate`. The model that answers requests does not
    /// change before [`Weights::publish`]. Returns the mean loss per token before the step, in nats.
    ///
    /// # Errors
    /// The demonstrations cannot be used; the weights are unchanged.
    fn supervise(&mut self, demonstrations: &[Arc<Generated>], rate: f64) -> Result<f64, LearnError>;

    /// Ends the supervised phase: resets the optimizer's momentum, so that it does not enter the steps on rewards.
    fn end_supervision(&mut self);

    /// Makes the current weights answer, from the next request on.
    ///
    /// # Errors
    /// The weights cannot be copied from their device.
    fn publish(&mut self) -> Result<(), LearnError>;

    /// Writes the current weights as a model folder, replacing the previous one of the same kind. The default does nothing.
    ///
    /// # Errors
    /// The weights cannot be written.
    fn keep(&mut self, _: CheckpointKind) -> Result<(), LearnError> {
        Ok(())
    }
}

/// Which weights a model folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointKind {
    /// The weights with the best validation reward so far.
    Best,
    /// The latest weights.
    Last,
}
