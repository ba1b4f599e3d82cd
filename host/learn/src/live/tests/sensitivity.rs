//! Feedback that is missing depending on arm and outcome.

use super::super::sensitivity::tilted;
use super::world::*;
use crate::live::*;
use proptest::prelude::*;

/// Sessions of which two in five give feedback.
const SESSIONS: usize = 3_000;

fn biased(ratio: f64) -> World {
    World { feedback: Feedback::Biased { share: 0.4, ratio }, ..World::default() }
}

#[test]
fn an_entry_that_only_makes_good_outcomes_be_told_is_admitted_unless_findings_must_survive_that() {
    // In the shown arm, a session with a good outcome gets feedback 1.5 times as often as one with a bad outcome. Both arms get feedback on
    // the same share of their sessions.
    let found = simulate(&biased(1.5), SESSIONS, 0.0);
    assert!(found.help[0] > 0.3, "the check has to matter: {found:?}");
    assert!(found.survived <= allowed(0.1), "{found:?}");
    // A smaller bias is covered too.
    let found = simulate(&biased(1.25), SESSIONS, 0.0);
    assert!(found.survived <= allowed(0.05), "{found:?}");
    // A larger one is outside of the model.
    let found = simulate(&biased(3.0), SESSIONS, 0.0);
    assert!(found.survived > 0.3, "{found:?}");
}

#[test]
fn bias_is_covered_at_the_propensity_of_live_trials_too() {
    let found = simulate(&World { propensity: 0.1, ..biased(1.5) }, 3 * SESSIONS, 0.0);
    assert!(found.help[0] > 0.2, "the check has to matter: {found:?}");
    assert!(found.survived <= allowed(0.1), "{found:?}");
}

#[test]
fn a_bias_hides_among_users_who_differ_and_is_covered_there_too() {
    let world = World { decides: 0.3, spread: 0.2, ..biased(1.5) };
    let found = simulate(&world, SESSIONS, 0.0);
    assert!(found.survived <= allowed(0.1), "{found:?}");
}

#[test]
fn a_large_effect_survives() {
    let world = World { effects: vec![0.3], activity: 0.5, ..World::default() };
    let planned = Plan::of(0.3, 0.5, 10.0).surviving(OddsRatio::USUAL, Direction::Helps, 0.35);
    let planned = planned.rewarded_sessions().unwrap().unwrap() as f64;
    let found = simulate(&world, (1.5 * planned) as usize, 0.3);
    assert!(found.survived >= 0.8, "{planned}: {found:?}");
}

#[test]
fn arms_that_give_feedback_differently_often_block_a_decision() {
    let found = simulate(&World { feedback: Feedback::ByArm(0.5), ..World::default() }, 1_500, 0.0);
    assert!(found.blocked > 0.99, "{found:?}");
    let found = simulate(&World { feedback: Feedback::ByUser, ..World::default() }, 1_500, 0.0);
    assert!(found.blocked <= 0.02, "{found:?}");
}

/// The estimate after this many sessions of a service.
fn estimate(effect: f64, seed: u64, sessions: u32) -> LiveEstimate {
    let (mut service, mut credit) =
        (Service::new(&World { effects: vec![effect], ..World::default() }, seed), credit());
    (0..sessions).for_each(|_| credit.observe(&service.session(0.5)).unwrap());
    credit.estimate(&entry(0)).unwrap()
}

#[test]
fn the_flip_point_is_where_a_finding_no_longer_passes() {
    let found = estimate(0.3, 1, 600);
    let at = |ratio: f64| found.evidence(Direction::Helps, OddsRatio::new(ratio).unwrap());
    let flip = found.flip_point(Direction::Helps, 10.0).unwrap().value();
    assert!(flip > 1.5, "{flip}");
    assert!(at(flip - 2e-4) >= 10.0 && at(flip + 2e-4) < 10.0, "{flip}");
    assert_eq!(at(1.0), found.help);
    assert_eq!(found.flip_point(Direction::Harms, 10.0), None);
    // Harm mirrors help.
    let harmful = estimate(-0.3, 1, 600);
    assert!(harmful.flip_point(Direction::Harms, 10.0).is_some());
    assert_eq!(harmful.flip_point(Direction::Helps, 10.0), None);
    // A threshold that everything reaches is never failed.
    let never = found.flip_point(Direction::Helps, 0.0).unwrap();
    assert_eq!(never.value(), LARGEST_ODDS_RATIO);
}

#[test]
fn only_numbers_of_the_range_are_odds_ratios() {
    for (value, expect) in [(1.0, true), (1.5, true), (20.0, true), (0.99, false), (20.1, false), (f64::NAN, false)] {
        assert_eq!(OddsRatio::new(value).is_ok(), expect, "{value}");
        assert_eq!(serde_json::from_value::<OddsRatio>(value.into()).is_ok(), expect, "{value}");
    }
    assert_eq!(OddsRatio::default(), OddsRatio::USUAL);
}

/// What is observed of these users' success rates if feedback depends on the outcome: over all their sessions, and as the mean over users.
fn told(rates: &[f64], ratio: f64) -> [f64; 2] {
    let (good, bad) = rates.iter().fold((0.0, 0.0), |(good, bad), rate| (good + rate * ratio, bad + 1.0 - rate));
    let of_users: f64 = rates.iter().map(|rate| rate * ratio / (rate * ratio + 1.0 - rate)).sum();
    [good / (good + bad), of_users / rates.len() as f64]
}

proptest! {
    #[test]
    fn bias_of_the_feedback_explains_at_most_what_the_bound_says(
        rates in prop::collection::vec(0.01..0.99_f64, 1..8),
        ratio in 1.0..10.0_f64,
        split in 0.0..1.0_f64,
    ) {
        // Nothing helps on average: the arms have equal rates, or only equal means. Together they are biased by the ratio.
        let even = vec![rates.iter().sum::<f64>() / rates.len() as f64; rates.len()];
        for (with, without) in [(&rates, &rates), (&rates, &even), (&even, &rates)] {
            let shown = told(with, ratio.powf(split));
            let hidden = told(without, ratio.powf(split - 1.0));
            for (shown, hidden) in shown.into_iter().zip(hidden) {
                let (most, _) = tilted(hidden, ratio);
                prop_assert!(shown <= most + 1e-12, "help: {} > {}", shown, most);
                // Mirrored, for harm.
                let (least, _) = tilted(1.0 - hidden, 1.0 / ratio);
                prop_assert!(1.0 - shown >= least - 1e-12, "harm: {} < {}", 1.0 - shown, least);
            }
        }
    }

    #[test]
    fn evidence_falls_with_the_bias(effect in -0.4..0.4_f64, seed in 0..50_u64, low in 1.0..19.0_f64, step in 0.01..1.0_f64) {
        let found = estimate(effect, seed, 200);
        for direction in [Direction::Helps, Direction::Harms] {
            let at = |ratio: f64| found.evidence(direction, OddsRatio::new(ratio).unwrap());
            // Only evidence that could decide matters.
            prop_assert!(at(low) <= 1.0 || at(low + step) <= at(low), "{:?} at {}: {} {}", direction, low, at(low), at(low + step));
        }
    }
}
