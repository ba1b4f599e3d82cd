//! What a layer is.

use crate::policy::Generated;
use crate::{Batch, LearnError, Measurements};
use clawhost_core::Digest;
use std::sync::Arc;

/// What a forward pass found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forward {
    /// What was measured.
    pub metrics: Measurements,
}

/// What a step did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Whether anything changed.
    pub updates: u64,
    /// What was measured.
    pub metrics: Measurements,
    /// What happened, in words.
    pub events: Vec<String>,
}

/// Something that learns. A batch is accumulated first ([`Layer::forward_backward`], which changes nothing that acts), then
/// applied ([`Layer::optim_step`]); between the two it can be dropped.
pub trait Layer: Send {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// Accumulates what a batch teaches. [`Layer::digest`] stays as it was.
    ///
    /// # Errors
    /// It cannot; the layer is cleared and left out of the step.
    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError>;

    /// Applies what was accumulated. Without anything it does nothing.
    ///
    /// # Errors
    /// It cannot; every layer is restored.
    fn optim_step(&mut self) -> Result<Step, LearnError>;

    /// Everything that [`Layer::restore`] brings back, without what is accumulated.
    ///
    /// # Errors
    /// It cannot be written down.
    fn snapshot(&self) -> Result<Vec<u8>, LearnError>;

    /// Becomes what a snapshot holds, and forgets what is accumulated.
    ///
    /// # Errors
    /// These bytes are no snapshot of this layer.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError>;

    /// Forgets what is accumulated.
    fn clear_pending(&mut self);

    /// Names everything that [`Layer::restore`] brings back.
    fn digest(&self) -> Digest;
}

/// The layer that holds a model's weights: it also learns from demonstrations, before it learns from rewards.
pub trait Weights: Layer {
    /// Takes one step towards what was demonstrated, at this rate; what answers stays as it is until [`Weights::publish`].
    /// Gives the mean loss per token, in nats, from before the step.
    ///
    /// # Errors
    /// The demonstrations cannot be learned from; the weights are as before.
    fn supervise(&mut self, demonstrations: &[Arc<Generated>], rate: f64) -> Result<f64, LearnError>;

    /// Demonstrations are over: what a step remembers of those before it, their momentum, is no reward's and is forgotten.
    fn end_supervision(&mut self);

    /// Lets the present weights answer from the next request on.
    ///
    /// # Errors
    /// They cannot be read from where they are.
    fn publish(&mut self) -> Result<(), LearnError>;

    /// Writes the present weights down as a model that others can open, in the place of those that were kept so before. Nothing,
    /// where nobody asked for that.
    ///
    /// # Errors
    /// They cannot be written.
    fn keep(&mut self, _: CheckpointKind) -> Result<(), LearnError> {
        Ok(())
    }
}

/// Which weights are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointKind {
    /// Those that did best on the validation tasks so far.
    Best,
    /// Those of now.
    Last,
}
