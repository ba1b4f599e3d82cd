//! The course of a comparison.

use super::*;
use crate::LearnError;
use std::num::NonZeroU32;

fn evidence(form: Form, question: Question, budget: u64) -> GateEvidence {
    GateEvidence::new(NonZeroU32::MIN, form, question, ALPHA, budget).unwrap()
}

/// Decisions after each pair.
fn play(evidence: &mut GateEvidence, differences: &[f64]) -> Vec<Decision> {
    differences.iter().map(|d| evidence.observe(*d).unwrap()).collect()
}

#[test]
fn a_candidate_is_promoted_rejected_or_undecided() {
    use Decision::{Continue, Futile, Promote, Undecided};
    let check = |differences: &[f64], budget: u64, expect: Decision| {
        let mut evidence = evidence(Form::Binary, Question::Better, budget);
        play(&mut evidence, differences);
        assert_eq!(evidence.decision(), expect, "{differences:?}: {:?}", evidence.report());
    };
    check(&[], 10, Continue);
    check(&[0.0; 9], 10, Continue);
    check(&[0.0; 10], 10, Undecided);
    // 32.9 against 20: winning seven pairs in a row is not enough, losing seven is.
    check(&[1.0; 7], 10, Continue);
    check(&[1.0; 8], 10, Promote);
    check(&[-1.0; 6], 10, Continue);
    check(&[-1.0; 7], 10, Futile);
    // The last pair of the budget can still decide.
    check(&[1.0; 8], 8, Promote);
    check(&[], 0, Undecided);
}

#[test]
fn a_decision_is_final() {
    let mut promoted = evidence(Form::Binary, Question::Better, 10);
    play(&mut promoted, &[1.0; 8]);
    assert!(play(&mut promoted, &[-1.0; 30]).iter().all(|decision| *decision == Decision::Promote));
    assert_eq!((promoted.report().pairs, promoted.report().losses), (38, 30));
    promoted.extend(10);
    assert_eq!(promoted.decision(), Decision::Promote);
}

#[test]
fn an_undecided_candidate_continues_with_its_evidence() {
    let mut halved = evidence(Form::Binary, Question::Better, 4);
    assert_eq!(play(&mut halved, &[1.0; 4]).last(), Some(&Decision::Undecided));
    let text = serde_json::to_string(&halved).unwrap();
    let mut halved: GateEvidence = serde_json::from_str(&text).unwrap();
    halved.extend(4);
    assert_eq!(play(&mut halved, &[1.0; 3]), [Decision::Continue; 3]);
    assert_eq!(play(&mut halved, &[1.0]), [Decision::Promote]);
    let mut whole = evidence(Form::Binary, Question::Better, 8);
    play(&mut whole, &[1.0; 8]);
    assert_eq!(serde_json::to_string(&whole).unwrap(), serde_json::to_string(&halved).unwrap());
}

#[test]
fn later_candidates_need_more_evidence() {
    let wins = |number: u32| {
        let number = NonZeroU32::new(number).unwrap();
        let mut evidence = GateEvidence::new(number, Form::Binary, Question::Better, ALPHA, 100).unwrap();
        (1..).find(|_| evidence.observe(1.0).unwrap() == Decision::Promote).unwrap()
    };
    assert_eq!([1, 2, 10, 100].map(wins), [8, 10, 15, 23]);
}

#[test]
fn a_shortening_candidate_is_promoted_unless_it_is_worse() {
    let check = |differences: &[f64], expect: Decision| {
        let mut evidence = evidence(Form::Binary, Question::NotWorse, 512);
        let last = *play(&mut evidence, &differences.repeat(512 / differences.len())).last().unwrap();
        assert_eq!(last, expect, "{differences:?}");
    };
    check(&[0.0], Decision::Promote);
    check(&[0.0, 0.0, 0.0, 0.1], Decision::Promote);
    check(&[-0.2, 0.0], Decision::Futile);
    check(&[1.0, -1.0], Decision::Undecided);
}

#[test]
fn invalid_differences_and_probabilities_are_refused() {
    let mut compared = evidence(Form::Binary, Question::Better, 10);
    let before = compared.clone();
    for odd in [1.1, -2.0, f64::NAN, 0.5] {
        assert!(matches!(compared.observe(odd), Err(LearnError::Gate(_))), "{odd}");
    }
    assert_eq!(compared, before);
    for odd in [0.0, 1.0, -0.1, f64::NAN] {
        assert!(GateEvidence::new(NonZeroU32::MIN, Form::Binary, Question::Better, odd, 10).is_err(), "{odd}");
    }
}

#[test]
fn a_report_summarises_the_evidence() {
    let mut compared = evidence(Form::Graded, Question::Better, 100);
    let report = compared.report();
    assert_eq!((report.lift, report.interval, report.smallest_lift, report.martingale), (None, None, None, 1.0));
    assert!((report.threshold - 32.9).abs() < 0.01, "{report:?}");

    play(&mut compared, &[0.5]);
    assert_eq!((compared.report().lift, compared.report().interval), (Some(0.5), None));
    play(&mut compared, &[-0.25, 0.0, 0.5]);
    let report = compared.report();
    assert_eq!((report.pairs, report.wins, report.losses), (4, 2, 1));
    assert_eq!(report.lift, Some(0.1875));
    assert_eq!(report.interval, Some((-1.0, 1.0)), "no difference lies beyond");

    play(&mut compared, &[0.5, -0.25, 0.0, 0.5].repeat(24));
    let (low, high) = compared.report().interval.unwrap();
    // A hundred pairs with a variance of 25 x 0.421875 / 99.
    let expect = crate::normal::interval(0.1875, (25.0 * 0.421_875_f64 / 99.0 / 100.0 + 4.0 / 10_000.0).sqrt());
    assert!((low - expect.0).abs() < 1e-9 && (high - expect.1).abs() < 1e-9, "{low} {high} {expect:?}");
    let report = compared.report();
    assert_eq!(report, serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap());
}

#[test]
fn a_small_lift_is_undecided_after_a_thousand_pairs() {
    for discordant in [2, 5, 10] {
        let mut compared = evidence(Form::Binary, Question::Better, 1_024);
        let pairs: Vec<f64> = (0..100)
            .map(|pair| [1.0, -1.0][pair / discordant % 2] * f64::from(u8::from(pair % discordant == 0)))
            .collect();
        play(&mut compared, &pairs);
        let smallest = compared.report().smallest_lift.unwrap();
        assert!((0.02..0.12).contains(&smallest), "{discordant}: {smallest}");
    }
}

#[test]
fn without_a_detectable_lift_there_is_no_smallest_lift() {
    let check = |differences: &[f64], budget: u64, expect: bool| {
        let mut compared = evidence(Form::Binary, Question::Better, budget);
        play(&mut compared, differences);
        assert_eq!(compared.report().smallest_lift.is_some(), expect, "{differences:?} {budget}");
    };
    check(&[], 512, false);
    check(&[0.0, 0.0], 512, false);
    check(&[1.0, -1.0], 512, true);
    // Seven wins are too few.
    check(&[1.0, -1.0], 7, false);
    check(&[1.0, -1.0], 8, true);
    check(&[1.0, 0.0], 14, false);
    check(&[1.0, 0.0], 16, true);
}

#[test]
fn a_planned_comparison_decides_at_its_looks() {
    use Decision::{Continue, Futile, Promote, Undecided};
    let check = |differences: &[f64], expect: Decision| {
        let mut evidence = GateEvidence::planned(NonZeroU32::MIN, ALPHA, 16).unwrap();
        play(&mut evidence, differences);
        assert_eq!(evidence.decision(), expect, "{differences:?}: {:?}", evidence.report());
        assert_eq!(evidence.report().test, Test::Sign);
    };
    // Eight wins pass at the first look, and not before it.
    check(&[1.0; 7], Continue);
    check(&[1.0; 8], Promote);
    check(&[&[1.0][..], &[0.0; 7], &[1.0; 7]].concat(), Continue);
    // No pair differed at the first look.
    check(&[0.0; 8], Futile);
    check(&[-1.0; 8], Futile);
    check(&[&[1.0, 0.0][..], &[0.0; 14]].concat(), Undecided);
    check(&[&[1.0, 0.0][..], &[0.0; 6], &[1.0; 8]].concat(), Promote);
}
