//! The harness layer from a specification.

use crate::AppError;
use crate::events::EventSink;
use crate::session::Session;
use clawhost_learn::budget::BudgetPlan;
use clawhost_learn::harness::{Admission, HarnessSettings, TRIAL_CROWD};
use clawhost_learn::playbook::Playbook;
use clawhost_learning::{Allowance, EvolvePlan, GatePlan, HarnessPlan, HarnessPorts, HarnessStage};
use clawhost_run_config::{Amount, EvolveSpec, HarnessSpec, Key, Price, RunSpec, ScheduleKind, Work};

/// Tasks of the fixed set, on which candidates are compared. On fewer, the best of several candidates is often the luckiest: the standard
/// error of a difference is .14 on 50 tasks, and .32 on ten. Beyond it more tasks add little.
const FIXED_SET: u64 = 50;

/// Episodes of a group while lessons are learned with a budget: every episode has another task, and nothing is compared inside a group.
pub(super) const LESSON_GROUP: u32 = 1;

/// Tokens of a price.
const PRICED: f64 = 1e6;

/// Divides the budget of a run, if it has one, and writes the parts into the specification. Where layers learn in turns, iterations, episodes and
/// groups are those of the other layers.
pub(super) fn divide(spec: &mut RunSpec) -> Result<(), AppError> {
    let Some((Some(budget), alpha)) = spec.harness().map(|harness| (harness.budget, harness.alpha)) else {
        return Ok(());
    };
    let plan = BudgetPlan::new(budget, alpha)?;
    if let Work::Learn(learn) = &mut spec.work
        && learn.schedule == ScheduleKind::Joint
    {
        learn.iterations = plan.batches;
        spec.play.episodes = plan.batch;
        spec.play.group = LESSON_GROUP;
    }
    if let Some(harness) = spec.harness_mut() {
        harness.reflect_every = 1;
        harness.gate_every = plan.batches;
        harness.gate_pairs = plan.pairs;
    }
    Ok(())
}

/// The division of a budget. It was divided before, so it is not too small.
pub(super) fn budget(harness: &HarnessSpec) -> Option<BudgetPlan> {
    harness.budget.and_then(|budget| BudgetPlan::new(budget, harness.alpha).ok())
}

/// What a budget finds after the tested candidates of a playbook. `None`: the run has no budget.
///
/// # Errors
/// It finds nothing.
pub(super) fn budget_after(spec: &RunSpec, candidates: u32) -> Result<Option<BudgetPlan>, AppError> {
    let Some(harness) = spec.harness() else { return Ok(None) };
    Ok(budget(harness).map(|plan| plan.after(candidates, harness.alpha)).transpose()?)
}

/// The plan of the harness layer.
pub(super) fn plan(harness: &HarnessSpec, token_budget: u64, price: Option<Price>) -> HarnessPlan {
    let budget = budget(harness);
    let allowance = harness.allowance.as_ref().map(|allowance| match (allowance.amount, price) {
        (Amount::Money(most), Some(Price { input, output })) => {
            Allowance { most, read: input / PRICED, written: output / PRICED }
        }
        (amount, _) => Allowance { most: amount.number(), read: 1.0, written: 1.0 },
    });
    let evolve = |evolve: &EvolveSpec| EvolvePlan {
        budget: evolve.budget,
        minibatch: u64::from(evolve.minibatch),
        pareto: FIXED_SET,
        section: evolve.section.clone(),
    };
    HarnessPlan {
        settings: HarnessSettings {
            trial_slots: harness.trial_slots as usize,
            trial_crowd: TRIAL_CROWD,
            token_budget,
            admission: if budget.is_some() { Admission::Bundle } else { Admission::Measured },
            forbidden: harness.forbid.clone(),
        },
        budget,
        allowance,
        reflect_every: harness.reflect_every,
        gate: GatePlan { every: harness.gate_every, pairs: harness.gate_pairs, alpha: harness.alpha },
        evolve: harness.evolve.as_ref().map(evolve),
        planted: Vec::new(),
    }
}

/// Loads the reflectors, and writes their identities into the specification.
pub(super) async fn stage(
    session: &mut Session<'_>,
    playbook: &str,
    events: &dyn EventSink,
) -> Result<Option<HarnessStage>, AppError> {
    let Some(mut harness) = session.spec.harness().cloned() else { return Ok(None) };
    let store = session.workspace.store();
    let mut reflectors = Vec::new();
    for spec in &mut harness.reflectors {
        let reflecting = session.plugins(&store, events).reflector(spec, Key::Reflectors).await?;
        spec.plugin = Some(reflecting.reflector.identity().clone());
        reflectors.push(reflecting);
    }
    let evolver = match &mut harness.evolve {
        None => None,
        Some(evolve) => {
            let evolver = session.plugins(&store, events).reflector(&evolve.reflector, Key::EvolveReflector).await?;
            evolve.reflector.plugin = Some(evolver.reflector.identity().clone());
            Some(evolver)
        }
    };
    let plan = plan(&harness, session.spec.token_budget, session.spec.budget.price);
    if let Some(named) = session.spec.harness_mut() {
        *named = harness;
    }
    Ok(Some(HarnessStage::new(
        plan,
        HarnessPorts {
            reflectors,
            evolver,
            // This host has no such model.
            embedder: None,
            playbook: playbook.to_owned(),
            initial: Playbook::default(),
        },
    )))
}
