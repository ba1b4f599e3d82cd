//! Weights that learn, as the page of the gateway shows them.

use super::learner::Training;
use super::versions::{Learned, LearnedPlace, WeightsVersion};
use crate::AppError;
use clawhost_gateway::{WeightsStepView, WeightsView};
use clawhost_learn::memory::Scope;
use clawhost_learn::policy::LiveSignal;
use std::sync::{Arc, Mutex, PoisonError};

/// The newest steps that are shown.
const SHOWN: usize = 50;
/// Steps of which those are shown that can be served again: a page of some hundred kilobytes.
const MOST_SHOWN: usize = 1000;

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

    /// Serves an earlier version again.
    ///
    /// # Errors
    /// As [`super::serve_live_weights`].
    pub(crate) fn serve(&self, scope: Option<&Scope>, number: u64) -> Result<(), AppError> {
        self.training.serve(scope, number)
    }

    /// What was learned, and what happens now.
    ///
    /// # Errors
    /// What was learned cannot be read.
    pub(crate) fn view(&self) -> Result<WeightsView, AppError> {
        let Now { waiting, trains, problem } = self.progress.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let places = match self.training.plan.adapters {
            Some(_) => self.training.place.scopes(),
            None => vec![self.training.place.clone()],
        };
        let mut steps = Vec::new();
        for place in places {
            // One that cannot be read is named when its next step is due.
            let Ok(Some(learned)) = place.known() else { continue };
            steps.extend(
                learned.versions.iter().filter(|step| step.number > 0).map(|step| shown(&place, &learned, step)),
            );
        }
        steps.sort_by_key(|step| std::cmp::Reverse((step.at, step.number)));
        // What can be served again is offered, however many steps came after it.
        let mut place = 0;
        steps.retain(|step| {
            place += 1;
            place <= SHOWN || (place <= MOST_SHOWN && step.is_on_disk)
        });
        let serves = match self.training.plan.adapters {
            Some(_) => None,
            None => Some(self.training.place.known()?.map_or(0, |learned| learned.serves)),
        };
        let plan = &self.training.plan;
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
            steps,
        })
    }
}

fn shown(place: &LearnedPlace, learned: &Learned, step: &WeightsVersion) -> WeightsStepView {
    let number = |(name, value): &(String, f64)| (name.clone(), format!("{value:.4}"));
    WeightsStepView {
        scope: learned.scope.as_ref().map(ToString::to_string),
        number: step.number,
        at: step.at,
        sessions: step.sessions,
        metrics: step.metrics.iter().map(number).collect(),
        note: step.note.clone(),
        is_kept: step.is_kept,
        is_on_disk: place.is_on_disk(step),
        serves: step.is_kept && step.number == learned.serves,
        is_withdrawn: step.is_withdrawn,
    }
}
