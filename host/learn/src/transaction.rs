//! The transaction of a batch: every layer that can use the batch steps, or no layer does.
//!
//! 1. Every layer is snapshotted. If one snapshot fails, no layer receives the batch.
//! 2. Every layer receives the batch. A layer that fails is cleared and left out. A layer whose digest changes before its
//!    step violates the contract of [`Layer`]: it is restored and left out.
//! 3. The remaining layers step in order. If one fails, all of them are restored byte for byte, including those that had not
//!    stepped yet.
//! 4. If a layer cannot be restored from its own snapshot, its state is unknown and the run stops.
//!
//! In every case no layer is left with accumulated updates.

use crate::{Batch, Forward, Layer, LearnError, Step};

/// The outcome of a batch for one layer.
#[derive(Debug, Clone, PartialEq)]
pub enum LayerOutcome {
    /// The layer stepped.
    Stepped(Forward, Step),
    /// The layer could not use the batch and was left out.
    LeftOut(LearnError),
    /// The layer is unchanged, because some layer could not be snapshotted or could not step.
    RolledBack,
}

/// The outcome of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// One outcome per layer, in order.
    pub outcomes: Vec<LayerOutcome>,
    /// Why the batch was rolled back, if it was.
    pub rolled_back: Option<LearnError>,
}

impl Applied {
    /// Whether any layer stepped.
    pub fn learned(&self) -> bool {
        self.outcomes.iter().any(|outcome| matches!(outcome, LayerOutcome::Stepped(..)))
    }

    /// Whether the state of any layer changed.
    pub fn moved(&self) -> bool {
        self.outcomes.iter().any(|outcome| matches!(outcome, LayerOutcome::Stepped(_, step) if step.updates > 0))
    }
}

/// A layer during the transaction: its snapshot from before the batch and the result of its forward pass.
struct Turn<'a> {
    layer: &'a mut dyn Layer,
    before: Vec<u8>,
    forward: Result<Forward, LearnError>,
}

/// Gives one batch to every layer and applies all updates or none.
///
/// # Errors
/// See [`learn_each`].
pub fn learn(layers: &mut [&mut dyn Layer], batch: &Batch) -> Result<Applied, LearnError> {
    let mut with_batch: Vec<(&mut dyn Layer, &Batch)> = Vec::with_capacity(layers.len());
    for layer in layers {
        with_batch.push((&mut **layer, batch));
    }
    learn_each(&mut with_batch)
}

/// Gives every layer its batch and applies all updates or none. Batches may differ: the harness learns from everything that
/// was played, the weights from a selection.
///
/// # Errors
/// [`LearnError::Batch`]: a batch is invalid; nothing was learned. [`LearnError::Interrupted`]: a layer was stopped; every layer is as before.
/// [`LearnError::Restore`]: a layer could not be restored.
/// Its state is unknown; nothing may be learned or recorded after that.
pub fn learn_each(layers: &mut [(&mut dyn Layer, &Batch)]) -> Result<Applied, LearnError> {
    layers.iter().try_for_each(|(_, batch)| batch.check())?;
    let snapshots: Result<Vec<Vec<u8>>, LearnError> = layers.iter().map(|(layer, _)| layer.snapshot()).collect();
    let snapshots = match snapshots {
        Ok(snapshots) => snapshots,
        Err(why) => {
            let outcomes = layers.iter().map(|_| LayerOutcome::RolledBack).collect();
            return Ok(Applied { outcomes, rolled_back: Some(why) });
        }
    };
    let mut turns = Vec::with_capacity(layers.len());
    // Every layer is restored even after a failure, so that as few layers as possible are in an unknown state. The first
    // failure is reported.
    let mut broken = None;
    for ((layer, batch), before) in layers.iter_mut().zip(snapshots) {
        let digest = layer.digest();
        let mut forward = layer.forward_backward(batch);
        if layer.digest() != digest {
            broken = broken.or(take_back(&mut **layer, &before).err());
            let (layer, why) = (layer.name().to_owned(), "its state changed before its step".to_owned());
            forward = forward.and(Err(LearnError::Layer { layer, why }));
        }
        if forward.is_err() {
            layer.clear_pending();
        }
        turns.push(Turn { layer: &mut **layer, before, forward });
    }
    if broken.is_none() && turns.iter().any(|turn| turn.forward == Err(LearnError::Interrupted)) {
        broken = Some(LearnError::Interrupted);
    }
    if let Some(broken) = broken {
        turns.iter_mut().for_each(|turn| turn.layer.clear_pending());
        return Err(broken);
    }
    match step(&mut turns) {
        Ok(steps) => {
            let outcome = |(turn, step): (Turn<'_>, Option<Step>)| match (turn.forward, step) {
                (Ok(forward), Some(step)) => LayerOutcome::Stepped(forward, step),
                (Ok(_), None) => LayerOutcome::RolledBack,
                (Err(why), _) => LayerOutcome::LeftOut(why),
            };
            Ok(Applied { outcomes: turns.into_iter().zip(steps).map(outcome).collect(), rolled_back: None })
        }
        Err(why) => {
            for turn in turns.iter_mut().filter(|turn| turn.forward.is_ok()) {
                broken = broken.or(take_back(&mut *turn.layer, &turn.before).err());
            }
            if broken.is_none() && why == LearnError::Interrupted {
                return Err(why);
            }
            if let Some(broken) = broken {
                return Err(broken);
            }
            let outcome =
                |turn: Turn<'_>| turn.forward.map_or_else(LayerOutcome::LeftOut, |_| LayerOutcome::RolledBack);
            Ok(Applied { outcomes: turns.into_iter().map(outcome).collect(), rolled_back: Some(why) })
        }
    }
}

/// Steps the layers that could use the batch, until one fails.
fn step(turns: &mut [Turn<'_>]) -> Result<Vec<Option<Step>>, LearnError> {
    let step = |turn: &mut Turn<'_>| turn.forward.is_ok().then(|| turn.layer.optim_step()).transpose();
    turns.iter_mut().map(step).collect()
}

/// Restores a layer and verifies the result.
fn take_back(layer: &mut dyn Layer, before: &[u8]) -> Result<(), LearnError> {
    layer.clear_pending();
    let restored = layer.restore(before).and_then(|()| layer.snapshot());
    let why = match restored {
        Ok(again) if again == before => return Ok(()),
        Ok(_) => "the restored state differs from the snapshot".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(LearnError::Restore { layer: layer.name().to_owned(), why })
}
