//! The weight of cost that follows a budget.

use super::world::{World, WorldSettings};
use super::*;
use crate::Layer;
use crate::random::Random;

/// Seconds of a day.
const DAY: u64 = 86_400;
const REQUESTS_PER_DAY: u64 = 500;
const DAYS: u64 = 40;
/// Days after which the weight has settled.
const SETTLED: u64 = 20;

fn budgeted(per_day: f64) -> Router {
    router(|settings| settings.cost_weight = CostWeight::Budget(Budget { per_day, start: 0.1, rate: 0.1 }))
}

#[test]
fn the_weight_rises_above_the_budget_and_falls_below_it() {
    let mut router = budgeted(100.0);
    let mut check = |now: u64, cost: f64, expect: f64| {
        router.spend(now, cost).unwrap();
        assert!((router.cost_weight() - expect).abs() < 1e-12, "{now}: {}", router.cost_weight());
    };
    check(0, 100.0, 0.2);
    // A day in which the budget is spent.
    check(DAY, 100.0, 0.2);
    check(2 * DAY, 0.0, 0.1);
    // A pause counts as one day, and a clock that steps back as no time.
    check(9 * DAY, 100.0, 0.1);
    check(DAY, 0.0, 0.1);
    check(9 * DAY, 0.0, 0.1);
    check(20 * DAY, 0.0, 0.0);
    check(20 * DAY, 1e12, 20.0);
    assert!(router.spend(0, f64::NAN).is_err() && router.spend(0, -1.0).is_err());
    let mut fixed = super::router(|_| {});
    let before = fixed.digest();
    fixed.spend(0, 5.0).unwrap();
    assert_eq!(fixed.digest(), before, "without a budget the spend changes nothing");
}

#[test]
fn a_charge_moves_the_weight_and_no_time_passes() {
    let mut router = budgeted(100.0);
    let mut check = |cost: f64, expect: f64| {
        router.charge(cost).unwrap();
        assert!((router.cost_weight() - expect).abs() < 1e-12, "{}", router.cost_weight());
    };
    check(50.0, 0.15);
    check(0.0, 0.15);
    assert!(router.charge(-1.0).is_err() && router.charge(f64::INFINITY).is_err());
    // The first spend afterwards begins the clock, whatever it says.
    router.spend(20 * DAY, 50.0).unwrap();
    assert!((router.cost_weight() - 0.2).abs() < 1e-12, "{}", router.cost_weight());
}

#[test]
fn a_state_takes_over_what_another_one_has_spent_and_nothing_without_a_budget() {
    let (mut one, mut other) = (budgeted(100.0), budgeted(100.0));
    teach(&mut one, "dear", 1.0, 3);
    other.spend(0, 400.0).unwrap();
    one.take_weight_of(&other);
    assert_eq!((one.cost_weight(), one.learned()), (other.cost_weight(), 3));
    let mut fixed = router(|_| {});
    let (before, of_fixed) = (one.digest(), fixed.digest());
    one.take_weight_of(&fixed);
    fixed.take_weight_of(&one);
    assert_eq!((one.digest(), fixed.digest()), (before, of_fixed));
}

#[test]
fn the_spend_of_a_day_stays_near_the_budget() {
    for (seed, share) in [(0, 0.2), (1, 0.4), (2, 0.7)] {
        // This share of the requests can go to the dear model.
        let per_day = REQUESTS_PER_DAY as f64 * (1.0 + 9.0 * share);
        let world = World::new(&WorldSettings::default(), seed).unwrap();
        let incumbent = Fixed::Model("dear".into());
        let weight = CostWeight::Budget(Budget { per_day, start: 0.1, rate: 0.1 });
        let settings = RouterSettings::new(&world.table, incumbent, weight);
        let mut router = Router::new(settings, world.table.clone(), Features::names_of_requests()).unwrap();
        let mut random = Random(seed);
        let (mut spent, mut reward, mut unguided) = (0.0, 0.0, 0.0);
        for number in 0..DAYS * REQUESTS_PER_DAY {
            let case = world.draw(&mut random).unwrap();
            let time = number * DAY / REQUESTS_PER_DAY;
            let request = Request { session: "s", time, features: &case.features, words: &[], seed: random.next() };
            let decision = router.decide(&request).unwrap();
            let action = decision.action().unwrap().clone();
            let outcome = world.outcome(&case, &action, &mut random);
            let cost = router.cost(&action, &outcome).unwrap();
            router.spend(time, cost).unwrap();
            router.learn(&[Logged { decision, outcome }]).unwrap();
            if number >= SETTLED * REQUESTS_PER_DAY {
                spent += cost;
                reward += world.right(&case, &action.model);
                unguided += share * world.right(&case, "dear") + (1.0 - share) * world.right(&case, "cheap");
            }
        }
        let days = (DAYS - SETTLED) as f64;
        let off = spent / days / per_day - 1.0;
        let requests = days * REQUESTS_PER_DAY as f64;
        println!("seed {seed}: {off:+.3} of the budget, {:.3} against {:.3}", reward / requests, unguided / requests);
        assert!(off.abs() < 0.05, "seed {seed}: {off}");
        assert!(reward / requests > unguided / requests + 0.03, "the same money without features gives less");
    }
}
