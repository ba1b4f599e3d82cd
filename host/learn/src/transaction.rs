//! The transaction: a batch goes to every layer, and all that could make use of it step, or none.
//!
//! 1. Every layer is snapshotted. If one cannot be, the batch goes to nobody.
//! 2. Every layer gets the batch. One that fails is cleared and left out. One that changes before its step breaks its word:
//!    it is restored and left out too.
//! 3. The others step in order. The first that fails ends it: all of them are restored byte for byte, those that had not
//!    stepped too.
//! 4. If a layer does not take back its own snapshot its state is unknown: the run stops.
//!
//! Whatever comes of it, nothing accumulated is left in any layer.

use crate::{Batch, Forward, Layer, LearnError, Step};

/// What came of a batch in one layer.
#[derive(Debug, Clone, PartialEq)]
pub enum LayerOutcome {
    /// It stepped.
    Stepped(Forward, Step),
    /// It could not make use of the batch, and was left out.
    LeftOut(LearnError),
    /// It is as it was before, because a layer could not be snapshotted or could not step.
    RolledBack,
}

/// What came of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// One outcome per layer, in order.
    pub outcomes: Vec<LayerOutcome>,
    /// Why everything was taken back, if it was.
    pub rolled_back: Option<LearnError>,
}

impl Applied {
    /// Whether any layer stepped.
    pub fn learned(&self) -> bool {
        self.outcomes.iter().any(|outcome| matches!(outcome, LayerOutcome::Stepped(..)))
    }

    /// Whether any layer is another than before.
    pub fn moved(&self) -> bool {
        self.outcomes.iter().any(|outcome| matches!(outcome, LayerOutcome::Stepped(_, step) if step.updates > 0))
    }
}

/// A layer with what it was before the batch, and what it made of it.
struct Turn<'a> {
    layer: &'a mut dyn Layer,
    before: Vec<u8>,
    forward: Result<Forward, LearnError>,
}

/// Hands one batch to every layer and applies all updates or none.
///
/// # Errors
/// As [`learn_each`].
pub fn learn(layers: &mut [&mut dyn Layer], batch: &Batch) -> Result<Applied, LearnError> {
    let mut with_batch: Vec<(&mut dyn Layer, &Batch)> = Vec::with_capacity(layers.len());
    for layer in layers {
        with_batch.push((&mut **layer, batch));
    }
    learn_each(&mut with_batch)
}

/// Hands every layer its batch and applies all updates or none. Batches may differ: the harness learns from what was played,
/// weights from what teaches them.
///
/// # Errors
/// A batch is refused whole ([`LearnError::Batch`]), or a layer could not be restored ([`LearnError::Restore`]): its state is
/// unknown, and nothing may be learned or recorded after that.
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
    // All that must be restored are, so that as few layers as possible are left in an unknown state; the first failure is told.
    let mut broken = None;
    for ((layer, batch), before) in layers.iter_mut().zip(snapshots) {
        let digest = layer.digest();
        let mut forward = layer.forward_backward(batch);
        if layer.digest() != digest {
            broken = broken.or(take_back(&mut **layer, &before).err());
            let (layer, why) = (layer.name().to_owned(), "it changed before its step".to_owned());
            forward = forward.and(Err(LearnError::Layer { layer, why }));
        }
        if forward.is_err() {
            layer.clear_pending();
        }
        turns.push(Turn { layer: &mut **layer, before, forward });
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
            if let Some(broken) = broken {
                return Err(broken);
            }
            let outcome =
                |turn: Turn<'_>| turn.forward.map_or_else(LayerOutcome::LeftOut, |_| LayerOutcome::RolledBack);
            Ok(Applied { outcomes: turns.into_iter().map(outcome).collect(), rolled_back: Some(why) })
        }
    }
}

/// Steps the layers that could make use of the batch, until one cannot.
fn step(turns: &mut [Turn<'_>]) -> Result<Vec<Option<Step>>, LearnError> {
    let step = |turn: &mut Turn<'_>| turn.forward.is_ok().then(|| turn.layer.optim_step()).transpose();
    turns.iter_mut().map(step).collect()
}

/// Brings a layer back to what it was, and makes sure of it.
fn take_back(layer: &mut dyn Layer, before: &[u8]) -> Result<(), LearnError> {
    layer.clear_pending();
    let restored = layer.restore(before).and_then(|()| layer.snapshot());
    let why = match restored {
        Ok(again) if again == before => return Ok(()),
        Ok(_) => "it came back different".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(LearnError::Restore { layer: layer.name().to_owned(), why })
}
