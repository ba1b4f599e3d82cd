//! The trainer: accumulates gradients, takes steps, and serialises its state.

use super::accelerated::{AcceleratedTrainer, LossError};
use super::optimizer::{OptimizerSettings, StepReport};
use super::processor::Processor;
use super::schedule::Schedule;
use super::scores::{TokenScores, Wanted};
use super::sequence::Sequence;
use super::snapshot::TrainerState;
use crate::{HostDecoder, LocalModelError, ModelConfig, digest, is_adapter};
use clawhost_core::Digest;
use clawhost_learn::Interrupt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Which weights are trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trained {
    /// All of them.
    Full,
    /// Only the adapters.
    Adapters,
}

impl Trained {
    /// Whether the weight of this name is trained.
    pub fn learns(self, name: &str) -> bool {
        self == Self::Full || is_adapter(name)
    }
}

/// Where gradients and steps are computed.
#[derive(Debug)]
enum Place {
    /// On this machine's processor, with the kernels of this crate.
    Processor(Box<Processor>),
    /// On an accelerator.
    Accelerator(Box<dyn AcceleratedTrainer>),
}

/// Weights and the state of their training.
#[derive(Debug)]
pub struct Trainer {
    place: Place,
    settings: OptimizerSettings,
    schedule: Schedule,
    /// Steps that the schedule has counted.
    scheduled: u64,
    /// All updates since the beginning: the version of the weights.
    ever: u64,
    state_digest: OnceLock<Digest>,
    /// The digest of the frozen weights, if there are any.
    frozen: Option<Digest>,
}

impl Trainer {
    /// Trains these weights on this machine's processor.
    pub fn on_processor(
        config: Arc<ModelConfig>,
        host: &HostDecoder,
        trained: Trained,
        settings: OptimizerSettings,
        schedule: Schedule,
    ) -> Self {
        Self::of(
            Place::Processor(Box::new(Processor::new(config, host, trained))),
            frozen(host, trained),
            settings,
            schedule,
        )
    }

    /// Trains the weights from which `accelerated` was made; they equal those of `host`.
    pub fn accelerated(
        accelerated: Box<dyn AcceleratedTrainer>,
        host: &HostDecoder,
        trained: Trained,
        settings: OptimizerSettings,
        schedule: Schedule,
    ) -> Self {
        Self::of(Place::Accelerator(accelerated), frozen(host, trained), settings, schedule)
    }

    fn of(place: Place, frozen: Option<Digest>, settings: OptimizerSettings, schedule: Schedule) -> Self {
        Self { place, settings, schedule, scheduled: 0, ever: 0, state_digest: OnceLock::new(), frozen }
    }

    pub(super) fn frozen(&self) -> Option<Digest> {
        self.frozen
    }

    pub(super) fn counters(&self) -> [u64; 2] {
        [self.scheduled, self.ever]
    }

    pub(super) fn known_digest(&self) -> &OnceLock<Digest> {
        &self.state_digest
    }

    pub(super) fn saved(&self) -> Result<TrainerState<'_>, LocalModelError> {
        match &self.place {
            Place::Processor(processor) => Ok(processor.saved()),
            Place::Accelerator(device) => device.state(),
        }
    }

    /// Restores weights, moments and counters if they belong to this model, and drops accumulated gradients.
    pub(super) fn resume(
        &mut self,
        saved: TrainerState<'_>,
        [scheduled, ever]: [u64; 2],
    ) -> Result<(), LocalModelError> {
        match &mut self.place {
            Place::Processor(processor) => processor.resume(saved)?,
            Place::Accelerator(device) => device.resume(saved)?,
        }
        (self.scheduled, self.ever) = (scheduled, ever);
        self.state_digest = OnceLock::new();
        Ok(())
    }

    /// The accumulated gradients, by the weight's name, laid out as on the host. For tests and diagnosis.
    ///
    /// # Errors
    /// The device returns no data.
    pub fn pending(&self) -> Result<BTreeMap<String, Vec<f32>>, LocalModelError> {
        match &self.place {
            Place::Processor(processor) => Ok(processor.pending()),
            Place::Accelerator(device) => device.pending(),
        }
    }

    /// All updates since the beginning.
    pub fn updates_ever(&self) -> u64 {
        self.ever
    }

    /// Sets the schedule from the next step on.
    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// Sets the optimiser from the next step on.
    pub fn set_optimizer(&mut self, settings: OptimizerSettings) {
        self.settings = settings;
    }

    /// Sets what passes on the processor ask between layers. If it is to stop, they fail with [`LocalModelError::Interrupted`]. A pass on a device is short
    /// enough to end.
    pub fn stop_when(&mut self, interrupt: Interrupt) {
        match &mut self.place {
            Place::Processor(processor) => processor.stop_when(interrupt),
            Place::Accelerator(_) => {}
        }
    }

    /// Scores of trained tokens. Nothing is accumulated.
    ///
    /// # Errors
    /// The pass was stopped, or the device returns no data.
    pub fn scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        match &self.place {
            Place::Processor(processor) => processor.scores(sequences),
            Place::Accelerator(device) => device.scores(sequences),
        }
    }

    /// Whether it trains only an adapter, so that the initial model is available.
    pub fn has_reference(&self) -> bool {
        self.frozen.is_some()
    }

    /// Scores by the model without its adapters: the reference of an adapter.
    ///
    /// # Errors
    /// As [`Trainer::scores`].
    pub fn reference_scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        match &self.place {
            Place::Processor(processor) => processor.reference_scores(sequences),
            Place::Accelerator(device) => device.reference_scores(sequences),
        }
    }

    /// Accumulates gradients of `loss`, piece by piece. The loss gets the index of the piece's first unit and the
    /// scores of each unit's sequences; it returns one derivative per trained token of each unit. A unit is never
    /// divided. Pieces are computed concurrently and added in a fixed order. The values that the loss returns come back
    /// in the order of the pieces.
    ///
    /// # Errors
    /// Those of the loss, the pass was stopped, or the device returns no data. Everything accumulated is dropped.
    pub fn accumulate<T: Send, E: From<LocalModelError> + Send>(
        &mut self,
        units: &[&[Sequence]],
        loss: &(dyn Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<T>, E> + Sync),
    ) -> Result<Vec<T>, E> {
        match &mut self.place {
            Place::Processor(processor) => processor.accumulate(units, loss),
            Place::Accelerator(device) => accumulate(device.as_mut(), units, loss),
        }
    }

    /// Takes a step with the accumulated gradients, and drops them. `None`: there are none.
    ///
    /// # Errors
    /// A gradient or a new weight is not finite. The weights are unchanged.
    pub fn step(&mut self) -> Result<Option<StepReport>, LocalModelError> {
        let report = self.step_further()?;
        self.ever += u64::from(report.is_some());
        Ok(report)
    }

    /// The same as a further step of one update: the schedule counts it, the version of the weights does not.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn step_further(&mut self) -> Result<Option<StepReport>, LocalModelError> {
        let report = self.take_step(self.schedule.rate(self.scheduled))?;
        self.scheduled += u64::from(report.is_some());
        Ok(report)
    }

    /// The same at a given rate. The schedule does not count this step.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn step_at(&mut self, rate: f64) -> Result<Option<StepReport>, LocalModelError> {
        let report = self.take_step(rate)?;
        self.ever += u64::from(report.is_some());
        Ok(report)
    }

    fn take_step(&mut self, rate: f64) -> Result<Option<StepReport>, LocalModelError> {
        let report = match &mut self.place {
            Place::Processor(processor) => processor.step(rate, &self.settings)?,
            Place::Accelerator(device) => device.step(rate, &self.settings)?,
        };
        if report.is_some() {
            self.state_digest = OnceLock::new();
        }
        Ok(report)
    }

    /// Resets the moments.
    pub fn forget_momentum(&mut self) {
        match &mut self.place {
            Place::Processor(processor) => processor.forget_momentum(),
            Place::Accelerator(device) => device.forget_momentum(),
        }
        self.state_digest = OnceLock::new();
    }

    /// Drops accumulated gradients.
    pub fn clear_pending(&mut self) {
        match &mut self.place {
            Place::Processor(processor) => processor.clear_pending(),
            Place::Accelerator(device) => device.clear_pending(),
        }
    }

    /// The weights as plain numbers.
    ///
    /// # Errors
    /// The device returns no data.
    pub fn host(&self) -> Result<HostDecoder, LocalModelError> {
        match &self.place {
            Place::Processor(processor) => Ok(processor.host()),
            Place::Accelerator(device) => device.host(),
        }
    }
}

/// Accumulates on an accelerator. Its interface knows neither the type of the loss's value nor that of its error: both
/// are kept here, by piece. A piece that was computed again because memory was short keeps its last value.
fn accumulate<T: Send, E: From<LocalModelError> + Send>(
    device: &mut dyn AcceleratedTrainer,
    units: &[&[Sequence]],
    loss: &(dyn Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<T>, E> + Sync),
) -> Result<Vec<T>, E> {
    let values: Mutex<BTreeMap<usize, T>> = Mutex::default();
    let refusals: Mutex<BTreeMap<usize, E>> = Mutex::default();
    let by_piece = |first: usize, scores: &[Vec<TokenScores>]| match loss(first, scores) {
        Ok((wanted, value)) => {
            values.lock().unwrap_or_else(PoisonError::into_inner).insert(first, value);
            Ok(wanted)
        }
        Err(error) => {
            refusals.lock().unwrap_or_else(PoisonError::into_inner).insert(first, error);
            Err(LossError::Refused { first })
        }
    };
    let added = device.accumulate(units, &by_piece);
    let mut values = values.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut refusals = refusals.into_inner().unwrap_or_else(PoisonError::into_inner);
    match added {
        Ok(pieces) => Ok(pieces.iter().filter_map(|first| values.remove(first)).collect()),
        Err(LossError::Device(error)) => Err(error.into()),
        Err(LossError::Refused { first }) => Err(match refusals.remove(&first) {
            Some(error) => error,
            None => LocalModelError::Samples(format!("the loss of unit {first} was refused without a reason")).into(),
        }),
    }
}

/// The digest of the base weights and of the adapters' scales, if only adapters are trained.
fn frozen(host: &HostDecoder, trained: Trained) -> Option<Digest> {
    (trained == Trained::Adapters).then(|| {
        let scales = host.scales().into_iter().flat_map(f64::to_le_bytes).collect::<Vec<_>>();
        digest(&host.without_adapters()).extended(&scales)
    })
}

/// Divides units into pieces that are in memory together. Each piece has the index of its first unit. A piece ends at
/// `enough` sequences, or before `full` is true for its number of sequences, its tokens and its longest sequence. It
/// has at least one unit. The division depends on the units alone, so that sums do not depend on the machine.
pub fn pieces<'a, 'b>(
    units: &'a [&'b [Sequence]],
    enough: usize,
    full: impl Fn(usize, usize, usize) -> bool,
) -> Vec<(usize, &'a [&'b [Sequence]])> {
    let mut pieces = Vec::new();
    let (mut start, mut rows, mut tokens, mut longest) = (0, 0, 0, 0);
    for (place, unit) in units.iter().enumerate() {
        let lengths = unit.iter().map(|sequence| sequence.tokens().len());
        let (more, length) = (lengths.clone().sum::<usize>(), lengths.max().unwrap_or(0));
        let over = rows >= enough || full(rows + unit.len(), tokens + more, longest.max(length));
        if place > start && over {
            pieces.extend(units.get(start..place).map(|piece| (start, piece)));
            (start, rows, tokens, longest) = (place, 0, 0, 0);
        }
        rows += unit.len();
        tokens += more;
        longest = longest.max(length);
    }
    pieces.extend(units.get(start..).filter(|rest| !rest.is_empty()).map(|piece| (start, piece)));
    pieces
}
