//! When each layer of a run learns.

use super::harness::{self, LESSON_GROUP};
use clawhost_learning::{Schedule, Turn};
use clawhost_run_config::{Layer, LearnSpec, RunSpec, ScheduleKind};

/// Iterations of the weights in a turn. A step of weights moves less than a lesson or a decision.
const WEIGHTS: u64 = 4;
/// Iterations of every other layer in a turn.
const OTHERS: u64 = 1;

/// The iterations of a layer in a round of turns.
fn iterations_of(layer: Layer) -> u64 {
    if layer == Layer::Weights { WEIGHTS } else { OTHERS }
}

/// The schedule of a run. The harness is the first that learns: lessons change what the other layers see. With a budget it learns all of its
/// lessons before the others begin, in episodes of its own.
pub(super) fn schedule(spec: &RunSpec) -> Schedule {
    let Some(LearnSpec { schedule: ScheduleKind::Turns, layers, iterations, .. }) = spec.learn() else {
        return Schedule::Joint;
    };
    let (episodes, group) = (spec.play.episodes, spec.play.group);
    let turn = |layer: Layer, iterations: u64| Turn { layer: layer.name(), iterations, episodes, group };
    let layers: Vec<Layer> = layers.iter().map(|layer| layer.layer()).collect();
    let Some(plan) = spec.harness().and_then(harness::budget) else {
        return Schedule::Turns(layers.into_iter().map(|layer| turn(layer, iterations_of(layer))).collect());
    };
    let lessons = Turn { episodes: plan.batch, group: LESSON_GROUP, ..turn(Layer::Harness, plan.batches) };
    let others: Vec<Layer> = layers.into_iter().filter(|layer| *layer != Layer::Harness).collect();
    let round: u64 = others.iter().map(|layer| iterations_of(*layer)).sum();
    let share = |layer: Layer| (iterations.saturating_mul(iterations_of(layer)) / round.max(1)).max(1);
    Schedule::Turns(std::iter::once(lessons).chain(others.into_iter().map(|layer| turn(layer, share(layer)))).collect())
}

/// All iterations of a learning run, those of lessons with a budget included. `spec`: with its budget divided.
pub fn iterations(spec: &RunSpec) -> u64 {
    let named = spec.learn().map_or(0, |learn| learn.iterations);
    match (schedule(spec), spec.harness().and_then(harness::budget)) {
        (Schedule::Turns(turns), Some(_)) => turns.iter().map(|turn| turn.iterations).sum(),
        _ => named,
    }
}
