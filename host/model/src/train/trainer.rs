//! Weights that learn: what is accumulated, what a step makes of it, and all of it as bytes.

use super::gradient::{TokenScores, Wanted};
use super::on_device::OnDevice;
use super::optimizer::{OptimizerSettings, StepReport};
use super::processor::Processor;
use super::schedule::Schedule;
use super::sequence::Sequence;
use super::snapshot::Saved;
use crate::{HostDecoder, LocalModelError, ModelConfig, digest, is_adapter};
use burn::tensor::Device;
use clawhost_core::Digest;
use std::sync::{Arc, OnceLock};

/// Which weights are trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trained {
    /// All of them.
    Full,
    /// The adapters alone.
    Adapters,
}

impl Trained {
    /// Whether a weight learns, by its name.
    pub(super) fn learns(self, name: &str) -> bool {
        self == Self::Full || is_adapter(name)
    }
}

/// Where gradients are computed and steps taken.
#[derive(Debug)]
enum Place {
    /// By kernels of our own on this machine's processor.
    Processor(Box<Processor>),
    /// By burn: on a GPU, and in tests to compare with.
    Device(Box<OnDevice>),
}

/// Weights that learn.
#[derive(Debug)]
pub struct Trainer {
    place: Place,
    settings: OptimizerSettings,
    schedule: Schedule,
    /// Steps that the schedule has counted.
    scheduled: u64,
    /// Steps of any kind, from the beginning: the number of the weights.
    ever: u64,
    state_digest: OnceLock<Digest>,
    /// Names what does not learn, where something does not.
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

    /// Trains these weights on a device.
    pub fn on_device(
        config: Arc<ModelConfig>,
        host: &HostDecoder,
        device: &Device,
        trained: Trained,
        settings: OptimizerSettings,
        schedule: Schedule,
    ) -> Self {
        let place = Place::Device(Box::new(OnDevice::new(config, host, device, trained)));
        Self::of(place, frozen(host, trained), settings, schedule)
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

    pub(super) fn saved(&self) -> Result<Saved<'_>, LocalModelError> {
        match &self.place {
            Place::Processor(processor) => Ok(processor.saved()),
            Place::Device(device) => device.saved(),
        }
    }

    /// Takes weights, state and counters over, if they are of this model; and forgets what was added up.
    pub(super) fn resume(&mut self, saved: Saved<'_>, [scheduled, ever]: [u64; 2]) -> Result<(), LocalModelError> {
        match &mut self.place {
            Place::Processor(processor) => processor.resume(saved)?,
            Place::Device(device) => device.resume(saved)?,
        }
        (self.scheduled, self.ever) = (scheduled, ever);
        self.state_digest = OnceLock::new();
        Ok(())
    }

    /// What was added up, by the weight's name, as it lies on the host.
    #[cfg(test)]
    pub(crate) fn pending(&self) -> std::collections::BTreeMap<String, Vec<f32>> {
        match &self.place {
            Place::Processor(processor) => processor.pending(),
            Place::Device(device) => device.pending(),
        }
    }

    /// Steps taken, of any kind, from the beginning.
    pub fn steps_ever(&self) -> u64 {
        self.ever
    }

    /// Another rate from the next step on.
    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// Scores of trained tokens, without learning from them.
    ///
    /// # Errors
    /// The device gives nothing back.
    pub fn scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        match &self.place {
            Place::Processor(processor) => Ok(processor.scores(sequences)),
            Place::Device(device) => device.scores(sequences),
        }
    }

    /// Whether it has an adapter alone to learn, so that what it began with is there.
    pub fn has_reference(&self) -> bool {
        self.frozen.is_some()
    }

    /// The same of the model without its adapters: what an adapter is held near to.
    ///
    /// # Errors
    /// As [`Trainer::scores`].
    pub fn reference_scores(&self, sequences: &[&Sequence]) -> Result<Vec<TokenScores>, LocalModelError> {
        match &self.place {
            Place::Processor(processor) => Ok(processor.reference_scores(sequences)),
            Place::Device(device) => device.reference_scores(sequences),
        }
    }

    /// Adds up what `loss` wants, piece by piece: it is handed the place of the first unit of the piece, and the scores of each
    /// unit's sequences; it gives one derivative per trained token of each unit. A unit stays whole. Pieces are computed at the
    /// same time and added up in an order that depends on nothing but them; what the loss tells is given back in theirs.
    ///
    /// # Errors
    /// Those of the loss, or the device gives nothing back; nothing that was added up is kept then.
    pub fn accumulate<T: Send, E: From<LocalModelError> + Send>(
        &mut self,
        units: &[&[Sequence]],
        loss: &(dyn Fn(usize, &[Vec<TokenScores>]) -> Result<Wanted<T>, E> + Sync),
    ) -> Result<Vec<T>, E> {
        match &mut self.place {
            Place::Processor(processor) => processor.accumulate(units, loss),
            Place::Device(device) => device.accumulate(units, loss),
        }
    }

    /// Takes a step with what was added up, and forgets it. None: nothing was.
    ///
    /// # Errors
    /// A gradient or a new weight is not finite; the weights are as before.
    pub fn step(&mut self) -> Result<Option<StepReport>, LocalModelError> {
        let report = self.step_at(self.schedule.rate(self.scheduled))?;
        self.scheduled += u64::from(report.is_some());
        Ok(report)
    }

    /// The same at a rate of one's own, which the schedule does not count.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn step_at(&mut self, rate: f64) -> Result<Option<StepReport>, LocalModelError> {
        let report = match &mut self.place {
            Place::Processor(processor) => processor.step(rate, &self.settings)?,
            Place::Device(device) => device.step(rate, &self.settings)?,
        };
        if report.is_some() {
            self.ever += 1;
            self.state_digest = OnceLock::new();
        }
        Ok(report)
    }

    /// Forgets the moments of the steps so far.
    pub fn forget_momentum(&mut self) {
        match &mut self.place {
            Place::Processor(processor) => processor.forget_momentum(),
            Place::Device(device) => device.forget_momentum(),
        }
        self.state_digest = OnceLock::new();
    }

    /// Forgets what was added up.
    pub fn clear_pending(&mut self) {
        match &mut self.place {
            Place::Processor(processor) => processor.clear_pending(),
            Place::Device(device) => device.clear_pending(),
        }
    }

    /// The weights as plain numbers.
    ///
    /// # Errors
    /// The device gives nothing back.
    pub fn host(&self) -> Result<HostDecoder, LocalModelError> {
        match &self.place {
            Place::Processor(processor) => Ok(processor.host()),
            Place::Device(device) => device.host(),
        }
    }
}

/// Names the weights beside adapters, and how much those count, where they alone learn.
fn frozen(host: &HostDecoder, trained: Trained) -> Option<Digest> {
    (trained == Trained::Adapters).then(|| {
        let scales = host.scales().into_iter().flat_map(f64::to_le_bytes).collect::<Vec<_>>();
        digest(&host.without_adapters()).extended(&scales)
    })
}

/// Neighbours that are in memory together, with the place of the first: at most `enough` sequences, and no more than are `full`, by
/// their number, tokens and longest; but one unit at least. How they are cut depends on nothing but them, so sums do not depend
/// on the machine.
pub(super) fn pieces<'a, 'b>(
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
