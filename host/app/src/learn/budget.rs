//! Upper bounds for the episodes of a learning run, by purpose.

use super::turns;
use super::weights::{DEMONSTRATIONS, LOOK_EPISODES, LOOK_EVERY};
use crate::EpisodeBudget;
use clawhost_run_config::{Layer, LearnSpec, RunSpec};

/// Upper bounds for the episodes of a run, whose budget is divided. They are 0 if it does not learn.
pub(super) fn episodes(spec: &RunSpec) -> EpisodeBudget {
    let Some(learn) = spec.learn() else { return EpisodeBudget::default() };
    let is_recorded = learn.from.is_some();
    let (iterations, schedule) = (turns::iterations(spec), turns::schedule(spec));
    let training = if is_recorded { 0 } else { schedule.episodes(iterations, spec.play.episodes) };
    let of = |layer: Layer| schedule.iterations_of(layer.name(), iterations);
    let mut budget = EpisodeBudget { training, test: test(learn), ..EpisodeBudget::default() };
    if let Some(harness) = spec.harness() {
        budget.evolution = harness.evolve.as_ref().map_or(0, |evolve| evolve.budget);
        let evolved = u64::from(harness.evolve.is_some());
        let sessions = of(Layer::Harness).div_ceil(harness.gate_every.max(1));
        // Lessons are on trial only while the run plays. With recorded episodes the only candidate is an evolved
        // section, which has at most two sessions.
        let sessions = if is_recorded { sessions.min(evolved) } else { sessions };
        budget.gate_sessions = sessions + evolved;
        budget.gate = budget.gate_sessions.saturating_mul(harness.gate_pairs).saturating_mul(2);
    }
    if let Some(weights) = spec.weights() {
        let own = of(Layer::Weights).saturating_mul(spec.play.episodes);
        budget.refilled = own.saturating_mul(u64::from(weights.refills));
        // The starting weights are looked at, too.
        let looks = of(Layer::Weights).checked_div(weights.evaluate_every).unwrap_or(0);
        let looks = if looks > 0 { looks + 1 } else { 0 };
        budget.validation = looks.saturating_mul(weights.evaluate_episodes);
        if !weights.demonstrations.is_empty() {
            let looks = weights.demonstrations_steps.div_ceil(LOOK_EVERY);
            budget.demonstrations = DEMONSTRATIONS.saturating_add(looks.saturating_mul(LOOK_EPISODES));
        }
    }
    budget
}

/// One episode per arm and pair; an arm is a set of layers.
fn test(learn: &LearnSpec) -> u64 {
    let layers = u32::try_from(learn.layers.len()).unwrap_or(u32::MAX);
    let arms = 1u64.checked_shl(layers).unwrap_or(u64::MAX);
    learn.test_pairs.saturating_mul(arms)
}
