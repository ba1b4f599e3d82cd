//! The small-budget curve: what a few hundred episodes of training and gate teach, beside the same budgets with placebos.

use super::halted::Part;
use super::harness_arms::HarnessArms;
use super::step::{DemoStep, HarnessArm};
use crate::{AppError, Event, EventSink};
use clawhost_learn::budget::BudgetPlan;
use clawhost_learn::gate::{ALPHA, Decision};
use clawhost_learning::{LearnReport, Mean, PlayedEpisodes};
use serde::Serialize;

/// The budgets, in episodes.
pub const BUDGETS: [u64; 3] = [100, 150, 300];

/// What one arm learned with a budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetArm {
    /// Mean reward on test tasks before.
    pub before: Option<Mean>,
    /// Mean reward on test tasks after.
    pub after: Option<Mean>,
    /// Difference, pair by pair.
    pub lift: Option<Mean>,
    /// Whether the gate let the lessons pass. If not, nothing has changed.
    pub passed: bool,
    /// Episodes that were played.
    pub episodes: PlayedEpisodes,
}

impl BudgetArm {
    fn of(report: &LearnReport) -> Self {
        let evaluation = report.evaluation.as_ref();
        let sessions = report.iterations.iter().filter_map(|iteration| iteration.gate());
        Self {
            before: evaluation.and_then(|evaluation| evaluation.before),
            after: evaluation.and_then(|evaluation| evaluation.after),
            lift: evaluation.and_then(|evaluation| evaluation.lift),
            passed: sessions.into_iter().any(|gate| gate.decision == Decision::Promote),
            episodes: report.episodes(),
        }
    }
}

/// A point of the curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetPoint {
    /// How the budget was divided.
    pub plan: BudgetPlan,
    /// The reflector.
    pub rules: BudgetArm,
    /// A reflector that proposes nothing.
    pub silent: BudgetArm,
    /// The same reflector; its lessons advise the wrong action.
    pub shuffled: BudgetArm,
}

/// Plays the curve.
pub(super) async fn curve(arms: &HarnessArms<'_>, events: &dyn EventSink) -> Part<Vec<BudgetPoint>> {
    let mut points = Vec::new();
    for budget in BUDGETS {
        let plan = BudgetPlan::new(budget, ALPHA).map_err(AppError::from)?;
        let learn = async |arm: HarnessArm| {
            events.event(Event::Demo(DemoStep::Budget { budget, arm }));
            Part::Ok(BudgetArm::of(&arms.learn_with(arm, plan).await?))
        };
        // The arms of `HarnessArm::SMALL`, in its order.
        let rules = learn(HarnessArm::Full).await?;
        let silent = learn(HarnessArm::SilentReflector).await?;
        let shuffled = learn(HarnessArm::ShuffledProposals).await?;
        points.push(BudgetPoint { plan, rules, silent, shuffled });
    }
    Ok(points)
}
