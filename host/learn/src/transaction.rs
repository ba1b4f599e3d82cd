//! The transaction: a batch goes to every layer, and all that could make use of it step, or none.
//!
//! 1. Every layer gets the batch. One that fails is cleared and left out; its digest stays as it was.
//! 2. The others are snapshotted. If one cannot be, nobody steps.
//! 3. They step in order. The first that fails ends it: every snapshotted layer is restored byte for byte, those that had
//!    not stepped too.
//! 4. If a layer does not take back its own snapshot its state is unknown: the run stops.

use crate::{Batch, Forward, Layer, LearnError, Step};

/// What came of a batch in one layer.
#[derive(Debug, Clone, PartialEq)]
pub enum LayerOutcome {
    /// It stepped.
    Stepped(Forward, Step),
    /// It could not make use of the batch, and was left out.
    LeftOut(LearnError),
    /// It is as it was before, because a layer could not step.
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
}

/// Hands a batch to every layer and applies all updates or none.
///
/// # Errors
/// The batch is refused whole ([`LearnError::Batch`]), or a layer could not be restored ([`LearnError::Restore`]): its state is
/// unknown, and nothing may be learned or recorded after that.
pub fn learn(layers: &mut [&mut dyn Layer], batch: &Batch) -> Result<Applied, LearnError> {
    batch.check()?;
    let mut forwards = Vec::with_capacity(layers.len());
    for layer in layers.iter_mut() {
        let before = layer.digest();
        let mut forward = layer.forward_backward(batch);
        if forward.is_ok() && layer.digest() != before {
            let (layer, why) = (layer.name().to_owned(), "it changed before its step".to_owned());
            forward = Err(LearnError::Layer { layer, why });
        }
        if forward.is_err() {
            layer.clear_pending();
        }
        forwards.push(forward);
    }
    match step(layers, &forwards) {
        Ok(steps) => {
            let outcome = |(forward, step): (Result<Forward, LearnError>, Option<Step>)| match (forward, step) {
                (Ok(forward), Some(step)) => LayerOutcome::Stepped(forward, step),
                (Ok(_), None) => LayerOutcome::RolledBack,
                (Err(error), _) => LayerOutcome::LeftOut(error),
            };
            Ok(Applied { outcomes: forwards.into_iter().zip(steps).map(outcome).collect(), rolled_back: None })
        }
        Err(Undone::Cleanly(why)) => {
            let outcome = |forward| match forward {
                Ok(_) => LayerOutcome::RolledBack,
                Err(error) => LayerOutcome::LeftOut(error),
            };
            Ok(Applied { outcomes: forwards.into_iter().map(outcome).collect(), rolled_back: Some(why) })
        }
        Err(Undone::Not(error)) => Err(error),
    }
}

enum Undone {
    /// Everything is as it was.
    Cleanly(LearnError),
    /// Something is not.
    Not(LearnError),
}

/// Steps the layers whose forward pass succeeded: a step for each of those, or everything as it was.
fn step(layers: &mut [&mut dyn Layer], forwards: &[Result<Forward, LearnError>]) -> Result<Vec<Option<Step>>, Undone> {
    let mut snapshots = Vec::with_capacity(layers.len());
    for (layer, forward) in layers.iter().zip(forwards) {
        snapshots.push(if forward.is_ok() { Some(layer.snapshot()) } else { None });
    }
    if let Some(Err(why)) = snapshots.iter().flatten().find(|snapshot| snapshot.is_err()) {
        let why = why.clone();
        layers.iter_mut().for_each(|layer| layer.clear_pending());
        return Err(Undone::Cleanly(why));
    }
    let snapshots: Vec<Option<Vec<u8>>> = snapshots.into_iter().map(|snapshot| snapshot?.ok()).collect();
    let mut steps = Vec::with_capacity(layers.len());
    let mut failed = None;
    for (layer, snapshot) in layers.iter_mut().zip(&snapshots) {
        if snapshot.is_none() {
            steps.push(None);
            continue;
        }
        match layer.optim_step() {
            Ok(step) => steps.push(Some(step)),
            Err(why) => {
                failed = Some(why);
                break;
            }
        }
    }
    let Some(why) = failed else { return Ok(steps) };
    // All of them are tried, so that as few as possible are left in an unknown state; the first failure is told.
    let mut broken = None;
    for (layer, snapshot) in layers.iter_mut().zip(&snapshots) {
        let Some(bytes) = snapshot else { continue };
        layer.clear_pending();
        let restored = layer.restore(bytes).map_err(|error| error.to_string());
        let checked = restored.and_then(|()| match layer.snapshot() {
            Ok(again) if again == *bytes => Ok(()),
            Ok(_) => Err("it came back different".to_owned()),
            Err(error) => Err(error.to_string()),
        });
        if let Err(why) = checked {
            broken.get_or_insert(LearnError::Restore { layer: layer.name().to_owned(), why });
        }
    }
    Err(broken.map_or(Undone::Cleanly(why), Undone::Not))
}
