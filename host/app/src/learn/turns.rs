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
    let Some(harness) = spec.harness().filter(|harness| harness.divides()) else {
        return Schedule::Turns(layers.into_iter().map(|layer| turn(layer, iterations_of(layer))).collect());
    };
    // An allowance is converted when everything is loaded. Until then its lessons have no iterations; those of the others are known.
    let (batches, episodes) = harness::budget(harness).map_or((0, 1), |plan| (plan.batches, plan.batch));
    let lessons = Turn { episodes, group: LESSON_GROUP, ..turn(Layer::Harness, batches) };
    let others: Vec<Layer> = layers.into_iter().filter(|layer| *layer != Layer::Harness).collect();
    let shares = shares(&others, *iterations);
    let others = others.into_iter().zip(shares).map(|(layer, share)| turn(layer, share));
    Schedule::Turns(std::iter::once(lessons).chain(others).collect())
}

/// How many of these iterations each layer has: in the proportions of a round, at least one, and the first has the rest.
fn shares(layers: &[Layer], iterations: u64) -> Vec<u64> {
    let round: u64 = layers.iter().map(|layer| iterations_of(*layer)).sum();
    let share = |layer: &Layer| (iterations.saturating_mul(iterations_of(*layer)) / round.max(1)).max(1);
    let mut shares: Vec<u64> = layers.iter().map(share).collect();
    let rest = iterations.saturating_sub(shares.iter().skip(1).sum());
    if let Some(first) = shares.first_mut() {
        *first = rest.max(1);
    }
    shares
}

/// All iterations of a learning run, those of lessons with a budget included. `spec`: with its budget divided.
pub fn iterations(spec: &RunSpec) -> u64 {
    let named = spec.learn().map_or(0, |learn| learn.iterations);
    match (schedule(spec), spec.harness().is_some_and(|harness| harness.divides())) {
        (Schedule::Turns(turns), true) => turns.iter().map(|turn| turn.iterations).sum(),
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_run_config::{Key, RunSpecPatch, Source, Value, Verb};

    #[test]
    fn the_iterations_of_weights_are_known_before_an_allowance_is_converted() {
        let mut patch = RunSpecPatch::new();
        let mut set = |key, value| patch.set(key, value, Source::Flag);
        set(Key::Plugin, Value::Text("p.wasm".to_owned()));
        set(Key::Model, Value::Text("tiny".to_owned()));
        set(Key::Rewards, Value::Texts(vec!["r.wasm".to_owned()]));
        set(Key::Reflectors, Value::Texts(vec!["reflector.wasm".to_owned()]));
        set(Key::Iterations, Value::Whole(80));
        set(Key::BudgetTokens, Value::Whole(100_000));
        patch.set_layers(vec!["harness".to_owned(), "weights".to_owned()], Source::Flag);
        let mut spec = patch.resolve(Verb::Learn).unwrap();
        let of_weights = |spec: &RunSpec| schedule(spec).iterations_of(Layer::Weights.name(), iterations(spec));
        assert_eq!((of_weights(&spec), iterations(&spec)), (80, 80), "the schedule of the learning rate depends on it");
        if let Some(harness) = spec.harness_mut() {
            harness.budget = Some(300);
        }
        assert_eq!((of_weights(&spec), iterations(&spec)), (80, 86), "six batches of lessons come first");
    }

    #[test]
    fn the_other_layers_share_all_iterations() {
        let check = |layers: &[Layer], iterations: u64, expect: &[u64]| {
            assert_eq!(shares(layers, iterations), expect, "{layers:?} {iterations}");
        };
        let both = [Layer::Weights, Layer::Router];
        check(&both, 80, &[64, 16]);
        check(&both, 7, &[6, 1]);
        check(&both, 1, &[1, 1]);
        check(&[Layer::Weights], 7, &[7]);
        check(&[Layer::Router], 7, &[7]);
    }
}
