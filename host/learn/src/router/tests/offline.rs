//! Offline evaluation and promotion, on logs whose truth is known.

use super::promotion::{Verdict, judge};
use super::world::{Case, World, WorldSettings};
use super::*;
use crate::random::Random;
use crate::router::offline::{LEAST_EFFECTIVE_SAMPLE, Refusal, Target, evaluate};
use std::num::NonZeroU32;

const ALPHA: f64 = 0.05;

/// A log that a policy wrote while its router learned, and the requests in it.
struct Played {
    world: World,
    router: Router,
    log: Vec<Logged>,
    cases: Vec<Case>,
}

fn play(settings: &WorldSettings, policy: Policy, decisions: usize, seed: u64) -> Played {
    let world = World::new(settings, seed).unwrap();
    let weight = CostWeight::Fixed(settings.cost_weight);
    let own = RouterSettings { policy, ..RouterSettings::new(&world.table, Fixed::Model("dear".into()), weight) };
    let mut router = Router::new(own, world.table.clone(), Features::names_of_requests()).unwrap();
    let mut random = Random(seed);
    let (mut log, mut cases) = (Vec::new(), Vec::new());
    for number in 0..decisions {
        let case = world.draw(&mut random).unwrap();
        let request =
            Request { session: "s", time: number as u64, features: &case.features, words: &[], seed: random.next() };
        let decision = router.decide(&request).unwrap();
        let outcome = world.outcome(&case, decision.action().unwrap(), &mut random);
        let logged = Logged { decision, outcome };
        router.learn(std::slice::from_ref(&logged)).unwrap();
        log.push(logged);
        cases.push(case);
    }
    Played { world, router, log, cases }
}

impl Played {
    /// The true utility of a policy on the judged requests: all but the first fifth.
    fn truth(&self, policy: &Policy) -> f64 {
        let cases = &self.cases[self.cases.len().div_ceil(5)..];
        let one = |case: &Case| {
            let shares = self.router.propensities(policy, &case.features).unwrap();
            let actions = self.world.table.actions();
            let utility = |(action, share): (&Action, f64)| {
                let truth = self.world.truth(case, action);
                share * self.router.utility(truth.reward, truth.cost)
            };
            actions.iter().zip(shares).map(utility).sum::<f64>()
        };
        cases.iter().map(one).sum::<f64>() / cases.len() as f64
    }

    fn target<'a>(&'a self, policy: &'a Policy) -> Target<'a> {
        Target { router: &self.router, policy }
    }
}

fn always(model: &str) -> Policy {
    Policy::Fixed(Fixed::Model(model.into()))
}

#[test]
fn the_estimate_is_unbiased_and_its_interval_covers_the_truth() {
    const LOGS: u64 = 20;
    let (mut off, mut within) = (0.0_f64, 0);
    for seed in 0..LOGS {
        let played = play(&WorldSettings::default(), Policy::Learned, 4_000, seed);
        // A policy that the log was not written by.
        let (candidate, served) = (always("cheap"), always("dear"));
        let evaluation = evaluate(&played.log, played.target(&candidate), played.target(&served), ALPHA).unwrap();
        let truth = played.truth(&candidate) - played.truth(&served);
        let gain = evaluation.gain;
        assert!(gain.interval.0 <= truth && truth <= gain.interval.1, "seed {seed}: {truth} {gain:?}");
        off += (gain.value - truth) / gain.standard_error / LOGS as f64;
        within += u32::from((gain.value - truth).abs() < 2.0 * gain.standard_error);
        assert_eq!((evaluation.judged, evaluation.left_out), (3_200, 0));
    }
    println!("mean {off:+.2} standard errors off, {within} of {LOGS} within two");
    assert!(off.abs() < 0.7, "the mean of 20 has a standard error of 0.22: {off}");
    assert!(within >= 16, "{within}");
}

#[test]
fn the_correction_by_a_model_narrows_the_estimate() {
    let played = play(&WorldSettings::default(), Policy::Random, 4_000, 3);
    let (candidate, served) = (always("cheap"), always("dear"));
    let evaluation = evaluate(&played.log, played.target(&candidate), played.target(&served), ALPHA).unwrap();
    let of_model = evaluation.candidate.utility.standard_error;
    // Without a model: weights 2 or 0, reward 0 or 1 with a mean of 0.6, so a deviation of sqrt(2 * 0.6 - 0.36) = 0.92.
    assert!(of_model < 0.75 * 0.92 / 3_200_f64.sqrt(), "{of_model}");
}

#[test]
fn a_log_with_too_little_about_the_policy_is_refused() {
    let check = |logging: Policy, decisions: usize, candidate: Policy, expect: fn(&Refusal) -> bool| {
        let played = play(&WorldSettings::default(), logging, decisions, 1);
        let served = always("dear");
        let evaluation = evaluate(&played.log, played.target(&candidate), played.target(&served), ALPHA).unwrap();
        let refusal = evaluation.candidate.refusal.expect("it is refused");
        assert!(expect(&refusal), "{refusal:?}");
        let number = NonZeroU32::MIN;
        let (verdict, _) = judge(&played.log, played.target(&candidate), played.target(&served), number).unwrap();
        assert_eq!(verdict, Verdict::Refused(refusal));
    };
    let small =
        |refusal: &Refusal| matches!(refusal, Refusal::EffectiveSample { found } if *found < LEAST_EFFECTIVE_SAMPLE);
    check(Policy::Random, 300, always("cheap"), small);
    check(Policy::Random, 0, always("cheap"), small);
    check(Policy::Random, 1, always("cheap"), small);
    // Half of the choices were never possible.
    check(
        always("dear"),
        2_000,
        Policy::Random,
        |refusal| matches!(refusal, Refusal::Unsupported { share } if (share - 0.5).abs() < 1e-9),
    );
}

#[test]
fn a_log_with_wrong_propensities_is_refused() {
    let mut played = play(&WorldSettings::default(), Policy::Learned, 6_000, 2);
    let candidate = Policy::Greedy;
    let served = always("dear");
    let refusal = |played: &Played| {
        evaluate(&played.log, played.target(&candidate), played.target(&served), ALPHA).unwrap().candidate.refusal
    };
    assert_eq!(refusal(&played), None);
    // The log claims that rare actions were common and the other way round.
    for logged in &mut played.log {
        for choice in &mut logged.decision.choices {
            choice.propensity = 1.0 - choice.propensity;
        }
    }
    assert!(matches!(refusal(&played), Some(Refusal::Disagreement { .. })), "{:?}", refusal(&played));
}

#[test]
fn a_better_policy_is_promoted_and_one_that_is_no_better_is_not() {
    let check = |candidate: Policy, served: Policy, expect: Verdict| {
        let played = play(&WorldSettings::default(), Policy::Learned, 8_000, 4);
        let number = NonZeroU32::MIN;
        let (verdict, evaluation) =
            judge(&played.log, played.target(&candidate), played.target(&served), number).unwrap();
        println!("{candidate:?} over {served:?}: {verdict:?} {:?}", evaluation.gain);
        assert_eq!(verdict, expect, "{evaluation:?}");
    };
    check(Policy::Greedy, always("dear"), Verdict::Better);
    check(always("dear"), Policy::Greedy, Verdict::Keep);
    check(Policy::Greedy, Policy::Greedy, Verdict::Keep);
}

#[test]
fn a_cheaper_policy_of_equal_reward_is_promoted() {
    let mut settings = WorldSettings { cost_weight: 0.0, auc: 0.5, ..WorldSettings::default() };
    settings.models[0].right = 0.9;
    let judged = |settings: &WorldSettings| {
        let played = play(settings, Policy::Random, 30_000, 5);
        let (candidate, served) = (always("cheap"), always("dear"));
        judge(&played.log, played.target(&candidate), played.target(&served), NonZeroU32::MIN).unwrap()
    };
    let (verdict, evaluation) = judged(&settings);
    assert_eq!(verdict, Verdict::Cheaper, "{evaluation:?}");
    settings.models[0].right = 0.87;
    assert_eq!(judged(&settings).0, Verdict::Keep, "three points of reward are more than the margin");
}

#[test]
fn a_policy_that_is_no_better_is_rarely_promoted() {
    // Both models are equal in utility: 0.6 - 0.15 / 5.5 and 0.8455 - 10 * 0.15 / 5.5.
    let mut settings = WorldSettings { auc: 0.5, ..WorldSettings::default() };
    settings.models[1].right = 0.6 + 9.0 * 0.15 / 5.5;
    for seed in 0..40 {
        let played = play(&settings, Policy::Random, 2_000, seed);
        let (candidate, served) = (always("dear"), always("cheap"));
        let verdict = judge(&played.log, played.target(&candidate), played.target(&served), NonZeroU32::MIN).unwrap().0;
        assert_eq!(verdict, Verdict::Keep, "seed {seed}");
    }
}

#[test]
fn a_refusal_for_want_of_decisions_says_how_many_and_is_no_judgement() {
    let check = |decisions: usize, expect: std::ops::RangeInclusive<u64>| {
        let played = play(&WorldSettings::default(), Policy::Random, decisions, 1);
        let (candidate, served) = (always("cheap"), always("dear"));
        let (verdict, evaluation) =
            judge(&played.log, played.target(&candidate), played.target(&served), NonZeroU32::MIN).unwrap();
        let missing = evaluation.missing(decisions);
        assert!(expect.contains(&missing), "{decisions}: {missing}");
        assert_eq!(verdict.counts(), missing == 0, "{verdict:?}");
    };
    // Half of the decisions are those of either model, and a fifth only trains: 500 are about as many as needed.
    check(0, 250..=250);
    check(300, 150..=250);
    check(600, 0..=0);
    let counts = |refusal: Refusal| Verdict::Refused(refusal).counts();
    assert!(counts(Refusal::Disagreement { doubly_robust: 0.5, snips: 0.1 }), "it follows from the rewards");
    assert!(!counts(Refusal::Unsupported { share: 0.5 }));
    assert!(Verdict::Keep.counts() && Verdict::Better.counts() && Verdict::Cheaper.counts());
}

#[test]
fn outcomes_of_models_that_left_are_left_out() {
    let mut played = play(&WorldSettings::default(), Policy::Random, 3_000, 6);
    let cheap = played.log.iter().filter(|logged| logged.decision.action().unwrap().model == "cheap").count();
    played.router.replace_table(table(&[("cheap", 1.0), ("new", 2.0)])).unwrap();
    let policy = always("cheap");
    let evaluation = evaluate(&played.log, played.target(&policy), played.target(&policy), ALPHA).unwrap();
    assert_eq!(evaluation.left_out, 3_000 - cheap);
    assert_eq!(evaluation.gain.value, 0.0);
    let other = router(|_| {});
    let other = Target { router: &other, policy: &policy };
    assert!(evaluate(&played.log, other, played.target(&policy), ALPHA).is_err(), "tables differ");
    assert!(evaluate(&played.log, played.target(&policy), played.target(&policy), f64::NAN).is_err());
}
