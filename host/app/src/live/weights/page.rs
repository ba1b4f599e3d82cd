//! Weights that learn, as the page of the gateway shows them.

use super::learner::Training;
use crate::AppError;
use clawhost_gateway::{WeightsStepView, WeightsView};
use clawhost_learn::policy::LiveSignal;
use std::sync::{Arc, Mutex, PoisonError};

/// Steps that are shown.
const SHOWN: usize = 50;

/// What the training knows, for others. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<Mutex<Now>>);

/// What happens now.
#[derive(Debug, Clone, Default)]
struct Now {
    waiting: usize,
    trains: bool,
    problem: Option<String>,
}

impl Progress {
    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// So many sessions wait for a step.
    pub(super) fn set_waiting(&self, waiting: usize) {
        self.change(|now| now.waiting = waiting);
    }

    /// A step begins or ends.
    pub(super) fn set_trains(&self, trains: bool) {
        self.change(|now| now.trains = trains);
    }

    /// Why nothing can be learned. `None`: it can.
    pub(super) fn set_problem(&self, problem: Option<String>) {
        self.change(|now| now.problem = problem);
    }
}

/// The training of a gateway, for its page.
pub(crate) struct TrainingPage {
    training: Training,
    progress: Progress,
}

impl TrainingPage {
    pub(super) fn new(training: Training, progress: Progress) -> Self {
        Self { training, progress }
    }

    /// What was learned, and what happens now.
    ///
    /// # Errors
    /// What was learned cannot be read.
    pub(crate) fn view(&self) -> Result<WeightsView, AppError> {
        let Now { waiting, trains, problem } = self.progress.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (serves, steps) = self.training.place.steps()?.unwrap_or_default();
        let plan = &self.training.plan;
        let step = |step: super::WeightsVersion| WeightsStepView {
            number: step.number,
            at: step.at,
            sessions: step.sessions,
            metrics: step.metrics.into_iter().map(|(name, value)| (name, format!("{value:.4}"))).collect(),
            note: step.note,
            is_kept: step.is_kept,
        };
        let signal = match plan.signal {
            LiveSignal::Binary => "rewards",
            LiveSignal::Hint => "corrections",
            LiveSignal::Combined => "rewards and corrections",
        };
        Ok(WeightsView {
            model: plan.model.clone(),
            signal: signal.to_owned(),
            serves,
            batch: plan.batch,
            waiting,
            trains,
            problem,
            steps: steps.into_iter().take(SHOWN).map(step).collect(),
        })
    }
}
