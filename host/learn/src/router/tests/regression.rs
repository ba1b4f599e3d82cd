//! The regressions: against hand-computed solutions, and against each other.

use super::ridge::{Logistic, Ridge};
use super::world::{World, WorldSettings};
use super::*;
use crate::random::Random;

#[test]
fn the_solution_is_that_of_the_penalised_normal_equations() {
    // Columns 1 and x, with x = -1 and 1: the cross products vanish, and weights are sums / (4 + 0.3).
    let mut ridge = Ridge::new(2);
    for (x, y) in [(-1.0, 0.0), (1.0, 1.0), (-1.0, 0.0), (1.0, 1.0)] {
        ridge.update(&[1.0, x], y, 1.0, 1.0);
    }
    assert!((ridge.predict(&[1.0, 1.0]) - 4.0 / 4.3).abs() < 1e-12);
    assert!(ridge.predict(&[1.0, -1.0]).abs() < 1e-12);
}

#[test]
fn forgetting_follows_a_change() {
    let estimate = |forgetting: f64| {
        let (mut line, mut curve) = (Ridge::new(1), Logistic::new(1));
        for number in 0..6_000 {
            let target = if number < 3_000 { 1.0 } else { 0.0 };
            line.update(&[1.0], target, 1.0, forgetting);
            curve.update(&[1.0], target, forgetting);
        }
        [line.predict(&[1.0]), curve.predict(&[1.0])]
    };
    assert!(estimate(0.999).iter().all(|value| *value < 0.06), "{:?}", estimate(0.999));
    assert!(estimate(1.0).iter().all(|value| *value > 0.1), "{:?}", estimate(1.0));
}

#[test]
fn probabilities_are_found_and_stay_inside_their_range() {
    let mut random = Random(5);
    let mut logistic = Logistic::new(2);
    let truth = |x: f64| ridge::logistic(0.5 - 2.0 * x);
    for _ in 0..4_000 {
        let x = random.normal();
        let right = if random.uniform() < truth(x) { 1.0 } else { 0.0 };
        logistic.update(&[1.0, x], right, 1.0);
    }
    for x in [-1.5, -0.5, 0.0, 0.5, 1.5] {
        assert!((logistic.predict(&[1.0, x]) - truth(x)).abs() < 0.04, "{x}");
    }
    let mut certain = Logistic::new(1);
    (0..10_000).for_each(|_| certain.update(&[1.0], 1.0, 1.0));
    assert!((0.99..1.0).contains(&certain.predict(&[1.0])));
    // Surprises after certainty move it, and leave it finite.
    (0..1_000).for_each(|_| certain.update(&[1.0], 0.0, 0.999));
    assert!((0.0..0.9).contains(&certain.predict(&[1.0])), "{}", certain.predict(&[1.0]));
}

#[test]
fn features_are_standardised_whatever_their_unit() {
    let decisions = |unit: f64, shift: f64| {
        let mut router = router(|_| {});
        let mut random = Random(2);
        for _ in 0..300 {
            let x = random.normal();
            let decision = chosen(&router, unit * x + shift, if random.uniform() < 0.5 { "cheap" } else { "dear" });
            let right = if random.uniform() < ridge::logistic(x) { 1.0 } else { 0.0 };
            router.learn(&[Logged { decision, outcome: outcome(right) }]).unwrap();
        }
        [-1.0, 0.0, 2.0].map(|x| router.expected(&features(unit * x + shift)).unwrap()[0].reward)
    };
    let plain = decisions(1.0, 0.0);
    for (unit, shift) in [(1_000.0, 0.0), (1e-3, 5.0), (1.0, 1e4)] {
        let other = decisions(unit, shift);
        assert!(plain.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-6), "{plain:?} {other:?}");
    }
    // A constant carries nothing, and no prediction is other than finite.
    let constant = decisions(0.0, 7.0);
    assert!(constant.iter().all(|value| *value == constant[0]));
}

#[test]
fn a_line_finds_a_worse_boundary_than_the_logistic_form() {
    // Lost utility per request, by a line and by the logistic form, from the same 2,000 uniform decisions.
    let lost = |seed: u64| {
        let world = World::new(&WorldSettings::default(), seed).unwrap();
        let columns = Features::names_of_requests().len() + 1;
        let mut random = Random(seed);
        let mut scale = Scale::new(Features::names_of_requests());
        let mut lines = [Ridge::new(columns), Ridge::new(columns)];
        let mut curves = [Logistic::new(columns), Logistic::new(columns)];
        let actions = world.table.actions();
        for _ in 0..2_000 {
            let case = world.draw(&mut random).unwrap();
            let at = random.below(2);
            let reward = world.outcome(&case, &actions[at], &mut random).reward;
            scale.observe(&case.features);
            let row = scale.standardised(&case.features);
            lines[at].update(&row, reward, 1.0, 1.0);
            curves[at].update(&row, reward, 1.0);
        }
        let mut lost = [0.0, 0.0];
        for _ in 0..5_000 {
            let case = world.draw(&mut random).unwrap();
            let row = scale.standardised(&case.features);
            let costs = [1.0, 10.0].map(|price| 0.15 * price / 5.5);
            let truth = [0, 1].map(|at| world.truth(&case, &actions[at]).reward - costs[at]);
            let best = truth[0].max(truth[1]);
            let of = |estimates: [f64; 2]| best - truth[usize::from(estimates[1] - costs[1] > estimates[0] - costs[0])];
            lost[0] += of([0, 1].map(|at| lines[at].predict(&row))) / 5_000.0;
            lost[1] += of([0, 1].map(|at| curves[at].predict(&row))) / 5_000.0;
        }
        lost
    };
    let losses: Vec<[f64; 2]> = (0..10).map(lost).collect();
    println!("lost by a line, by the logistic form: {losses:.4?}");
    let sum = |form: usize| losses.iter().map(|lost| lost[form]).sum::<f64>();
    assert!(sum(1) < 0.75 * sum(0), "{losses:?}");
}
