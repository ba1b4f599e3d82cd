//! When each layer of a run learns.

use clawhost_learning::{Schedule, Turn};
use clawhost_run_config::{Layer, LearnSpec, RunSpec, ScheduleKind};

/// Iterations of the weights in a turn. A step of weights moves less than a lesson or a decision.
const WEIGHTS: u64 = 4;
/// Iterations of every other layer in a turn.
const OTHERS: u64 = 1;

/// The schedule of a run. The harness is the first that learns: lessons change what the other layers see.
pub(super) fn schedule(spec: &RunSpec) -> Schedule {
    let Some(LearnSpec { schedule: ScheduleKind::Turns, layers, .. }) = spec.learn() else { return Schedule::Joint };
    let (episodes, group) = (spec.play.episodes, spec.play.group);
    let turn = |layer: Layer| {
        let iterations = if layer == Layer::Weights { WEIGHTS } else { OTHERS };
        Turn { layer: layer.name(), iterations, episodes, group }
    };
    Schedule::Turns(layers.iter().map(|layer| turn(layer.layer())).collect())
}
