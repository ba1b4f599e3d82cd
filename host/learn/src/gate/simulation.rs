//! Simulates the gate in thousands of comparisons with known truth.

use super::*;
use crate::random::Random;
use std::num::NonZeroU32;

const RUNS: usize = 2_000;

fn candidate(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

/// An alpha with which the first candidate's threshold is 20.
fn alpha_for_20() -> f64 {
    0.05 / alpha_of(candidate(1), 1.0)
}

/// Pairs of rewards 0 and 1. The share `discordant` differs, and the candidate wins `lift` more often than it loses.
fn differences(discordant: f64, lift: f64) -> impl Fn(&mut Random) -> f64 {
    move |random| match random.uniform() {
        below if below < (discordant + lift) / 2.0 => 1.0,
        below if below < discordant => -1.0,
        _ => 0.0,
    }
}

/// The share of runs that promote within this many pairs.
fn promoted(runs: usize, form: Form, question: Question, pairs: u64, difference: impl Fn(&mut Random) -> f64) -> f64 {
    let promotes = |run: &usize| {
        let mut random = Random(*run as u64);
        let mut evidence = GateEvidence::new(candidate(1), form, question, alpha_for_20(), pairs).unwrap();
        while evidence.decision() == Decision::Continue {
            evidence.observe(difference(&mut random)).unwrap();
        }
        evidence.decision() == Decision::Promote
    };
    (0..runs).filter(promotes).count() as f64 / runs as f64
}

/// Three standard errors of a share of this many runs.
fn tolerance(share: f64, runs: usize) -> f64 {
    3.0 * (share * (1.0 - share) / runs as f64).sqrt()
}

#[test]
fn the_power_matches_the_documented_values() {
    /// Precision to which the expected shares were rounded.
    const ROUNDED: f64 = 0.01;
    let check = |discordant: f64, lift: f64, pairs: u64, expect: f64| {
        let share = promoted(RUNS, Form::Binary, Question::Better, pairs, differences(discordant, lift));
        let off = (share - expect).abs();
        assert!(off <= tolerance(expect, RUNS) + ROUNDED, "{discordant} {lift} {pairs}: {share}, not {expect}");
    };
    check(0.3, 0.1, 512, 0.94);
    check(0.3, 0.1, 256, 0.64);
    check(0.3, 0.2, 128, 0.97);
    check(0.5, 0.2, 128, 0.77);
    check(0.5, 0.1, 512, 0.70);
    check(0.1, 0.05, 512, 0.87);
}

#[test]
fn a_candidate_without_effect_is_rarely_promoted_at_any_number_of_looks() {
    let check = |form: Form, question: Question, lift: f64, pairs: u64| {
        let share = promoted(RUNS, form, question, pairs, differences(0.3, lift));
        assert!(share <= 0.05, "{form:?} {question:?}: {share}");
    };
    check(Form::Binary, Question::Better, 0.0, 1_024);
    check(Form::Graded, Question::Better, 0.0, 1_024);
    check(Form::Graded, Question::NotWorse, -MARGIN, 1_024);
}

#[test]
fn a_candidate_that_fails_where_it_would_lose_is_promoted_no_more_often() {
    // Without an effect, and with a share of the losses as failures. Some failures are those of the endpoint, on either side.
    for failing in [0.3, 0.5, 0.8] {
        let difference = |counts: bool| {
            let differs = differences(0.3, 0.0);
            move |random: &mut Random| {
                let d = differs(random);
                let loses = d < 0.0 && random.uniform() < failing;
                let (served, candidate) = (random.uniform() < 0.02, loses || random.uniform() < 0.02);
                match (served || candidate, counts) {
                    (false, _) => d,
                    (true, true) => difference_of_failed(served, candidate).unwrap_or(0.0),
                    (true, false) => 0.0,
                }
            }
        };
        let promoted = |counts| promoted(RUNS, Form::Binary, Question::Better, 1_024, difference(counts));
        assert!(promoted(true) <= 0.05, "{failing}");
        assert!(promoted(false) > 0.09, "left out, they promote: {failing}");
    }
}

/// The test for a single look, applied after every pair.
#[test]
fn a_single_look_test_used_repeatedly_promotes_one_in_five_without_effect() {
    let difference = differences(0.3, 0.0);
    let promotes = |run: &usize| {
        let mut random = Random(*run as u64);
        let (mut sum, mut squares) = (0.0, 0.0);
        (1..=1_024).any(|pairs| {
            let d = difference(&mut random);
            (sum, squares) = (sum + d, squares + d * d);
            let pairs = f64::from(pairs);
            let mean = sum / pairs;
            pairs > 9.0 && mean > 1.645 * ((squares / pairs - mean * mean) / pairs).sqrt()
        })
    };
    let share = (0..RUNS).filter(promotes).count() as f64 / RUNS as f64;
    assert!(share >= 0.2, "{share}");
}

#[test]
fn all_candidates_of_a_playbook_share_one_error_probability() {
    let total: f64 = (1..=100_000).map(|number| alpha_of(candidate(number), ALPHA)).sum();
    assert!(total < ALPHA && total > ALPHA * 0.999, "{total}");

    let difference = differences(0.5, 0.0);
    let errs = |run: &usize| {
        (1..=20).any(|number| {
            let mut random = Random((*run * 100 + number) as u64);
            let number = candidate(number as u32);
            let mut evidence = GateEvidence::new(number, Form::Binary, Question::Better, ALPHA, 256).unwrap();
            while evidence.decision() == Decision::Continue {
                evidence.observe(difference(&mut random)).unwrap();
            }
            evidence.decision() == Decision::Promote
        })
    };
    let runs = RUNS / 4;
    let share = (0..runs).filter(errs).count() as f64 / runs as f64;
    assert!(share <= ALPHA, "{share}");
}

#[test]
fn fifty_planned_comparisons_of_a_playbook_share_one_error_probability() {
    let difference = differences(0.5, 0.0);
    let errs = |numbers: fn(u32) -> u32, run: u64| {
        (1..=50).any(|number| {
            let mut random = Random(run * 100 + u64::from(number));
            let mut evidence = GateEvidence::planned(candidate(numbers(number)), ALPHA, 51).unwrap();
            while evidence.decision() == Decision::Continue {
                evidence.observe(difference(&mut random)).unwrap();
            }
            evidence.decision() == Decision::Promote
        })
    };
    let runs = RUNS as u64 / 4;
    let share = |numbers| (0..runs).filter(|run| errs(numbers, *run)).count() as f64 / runs as f64;
    let numbered = share(|number| number);
    assert!(numbered <= ALPHA, "{numbered}");
    // What this is for: each run with the whole alpha.
    let anew = share(|_| 1);
    assert!(anew > 0.5, "{anew}");
}

#[test]
fn the_interval_covers_the_truth_at_every_look() {
    let check = |discordant: f64, lift: f64| {
        let difference = differences(discordant, lift);
        let misses = |run: &usize| {
            let mut random = Random(*run as u64);
            let mut evidence =
                GateEvidence::new(candidate(1), Form::Graded, Question::Better, ALPHA, u64::from(u16::MAX)).unwrap();
            (0..512).any(|_| {
                evidence.observe(difference(&mut random)).unwrap();
                evidence.interval().is_some_and(|(low, high)| !(low..=high).contains(&lift))
            })
        };
        let share = (0..RUNS).filter(misses).count() as f64 / RUNS as f64;
        assert!(share <= 0.05, "{discordant} {lift}: {share}");
    };
    check(0.3, 0.0);
    check(0.3, 0.1);
    check(0.05, 0.02);
    check(0.9, -0.2);
}

#[test]
fn the_smallest_lift_is_detected_four_times_in_five() {
    /// The number of pairs that differ deviates from its expectation.
    const APPROXIMATION: f64 = 0.02;
    let check = |form: Form, question: Question, discordant: f64, size: f64, pairs: u64| {
        // The first observations: as many pairs that differ as expected, in balance.
        let mut evidence = GateEvidence::new(candidate(1), form, question, alpha_for_20(), pairs).unwrap();
        let seen = [1.0, -1.0].into_iter().chain(std::iter::repeat(0.0));
        let ours = seen.take((2.0 / discordant).round() as usize);
        ours.for_each(|d| assert!(evidence.observe(d * size).is_ok()));
        let lift = evidence.report().smallest_lift.unwrap();
        let discordant = 2.0 / (2.0 / discordant).round();
        let difference = differences(discordant, lift / size);
        let share = promoted(RUNS / 2, form, question, pairs, |random: &mut Random| size * difference(random));
        let off = (share - 0.8).abs();
        assert!(off <= tolerance(0.8, RUNS / 2) + APPROXIMATION, "{form:?} {question:?} {pairs}: {lift}, {share}");
    };
    check(Form::Binary, Question::Better, 0.5, 1.0, 128);
    check(Form::Binary, Question::Better, 0.1, 1.0, 512);
    check(Form::Binary, Question::Better, 0.5, 1.0, 3_000);
    check(Form::Graded, Question::Better, 0.5, 1.0, 512);
    check(Form::Graded, Question::Better, 1.0, 0.3, 256);
    check(Form::Graded, Question::NotWorse, 0.25, 1.0, 512);
    check(Form::Graded, Question::NotWorse, 0.1, 0.5, 512);
}
