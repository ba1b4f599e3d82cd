//! Shadow answers, as the page of the gateway shows them.

use super::budget::DayBudget;
use super::state::{LessonCounts, ShadowState};
use clawhost_gateway::{ShadowDayView, ShadowView};
use clawhost_learn::EntryId;
use std::sync::{Arc, Mutex, PoisonError};

/// What is known of shadow answers, for others. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ShadowPage {
    budget: DayBudget,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    state: ShadowState,
    problem: Option<String>,
}

/// Dollars of millionths.
fn dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}

impl ShadowPage {
    pub(super) fn new(budget: DayBudget) -> Self {
        Self { budget, known: Arc::default() }
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn update(&self, state: &ShadowState) {
        self.change(|known| known.state = state.clone());
    }

    /// Why there are no shadow answers now. `None`: there are.
    pub(super) fn set_problem(&self, problem: Option<String>) {
        self.change(|known| known.problem = problem);
    }

    /// What is known of a lesson. `None`: no pair was asked for.
    pub(crate) fn of_lesson(&self, entry: &EntryId) -> Option<ShadowView> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let LessonCounts { preferred, without_vote, failed } = *known.state.lessons.get(&entry.0)?;
        let estimate = preferred.estimate();
        Some(ShadowView {
            with: preferred.with,
            without: preferred.without,
            neither: preferred.neither,
            without_vote,
            failed,
            preference: estimate.map(|estimate| estimate.preference),
            interval: estimate.map(|estimate| estimate.interval),
            better: estimate.map(|estimate| estimate.better),
            worse: estimate.map(|estimate| estimate.worse),
        })
    }

    /// What the day has cost.
    pub(crate) fn day(&self) -> ShadowDayView {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = known.state.spending.spent;
        let tokens = self.budget.tokens.map(|most| format!("{} of {most} tokens", spent.tokens));
        let money =
            self.budget.micros.map(|most| format!("{:.2} of {:.2} dollars", dollars(spent.micros), dollars(most)));
        let spent = tokens.into_iter().chain(money).collect::<Vec<_>>().join(", ");
        ShadowDayView { spent, problem: known.problem.clone() }
    }
}
