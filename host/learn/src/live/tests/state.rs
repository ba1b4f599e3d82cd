//! Validation, decisions over many entries, and state that can stop and go on.

use super::super::baseline::fold_of;
use super::world::*;
use crate::live::*;

fn session(user: u64, shown: bool, reward: Option<f64>) -> DrawnSession {
    let draws = vec![EntryDraw { entry: entry(0), shown, propensity: Propensity::new(0.5).unwrap() }];
    DrawnSession { user, class: "a".into(), features: vec![0.0], draws, reward }
}

#[test]
fn a_state_that_was_saved_goes_on_with_equal_bytes() {
    let mut service = Service::new(&World { effects: vec![0.2, 0.0], ..World::default() }, 5);
    let sessions: Vec<DrawnSession> = (0..300).map(|_| service.session(0.5)).collect();
    let (mut whole, mut resumed) = (credit(), credit());
    for (number, session) in sessions.iter().enumerate() {
        whole.observe(session).unwrap();
        resumed.observe(session).unwrap();
        if number % 50 == 17 {
            resumed = serde_json::from_str(&serde_json::to_string(&resumed).unwrap()).unwrap();
        }
    }
    assert_eq!(serde_json::to_string(&whole).unwrap(), serde_json::to_string(&resumed).unwrap());
    let estimate = whole.estimate(&entry(0)).unwrap();
    assert_eq!(serde_json::from_str::<LiveEstimate>(&serde_json::to_string(&estimate).unwrap()).unwrap(), estimate);
}

#[test]
fn a_trial_that_ends_early_can_be_saved() {
    let mut credit = credit();
    credit.observe(&session(1, true, Some(1.0))).unwrap();
    let ended = credit.end(&entry(0)).unwrap();
    assert_eq!(ended.interval, (-1.0, 1.0), "nothing is known, and an effect is never larger");
    assert_eq!(serde_json::from_str::<LiveCredit>(&serde_json::to_string(&credit).unwrap()).unwrap(), credit);
}

/// Users of one fold. Regressions leave the user's own fold out, so none of them has data: they predict the middle of the reward range.
fn alike(count: usize) -> Vec<u64> {
    (0..).filter(|user| fold_of(*user) == 0).take(count).collect()
}

#[test]
fn effect_and_standard_error_equal_those_computed_by_hand() {
    let mut credit = credit();
    let users = alike(3);
    for (user, shown, reward) in [(0, true, 1.0), (0, false, 0.0), (1, true, 0.0), (2, false, 1.0)] {
        credit.observe(&session(users[user], shown, Some(reward))).unwrap();
    }
    // Mean scores of the users: (1 + 1)/2, -1 and -1; weights 2/1.1, 1 and 1.
    let weights = [2.0 / 1.1, 1.0, 1.0];
    let total: f64 = weights.iter().sum();
    let effect = (weights[0] - 2.0) / total;
    let squares: f64 =
        weights.iter().zip([1.0, -1.0, -1.0]).map(|(weight, score)| (weight * (score - effect)).powi(2)).sum();
    let alike = total * total / weights.iter().map(|weight| weight * weight).sum::<f64>();
    // The floor: one reward of two users.
    let error = (squares / (total * total) * alike / (alike - 1.0) + 0.25).sqrt();
    let estimate = credit.estimate(&entry(0)).unwrap();
    assert!((estimate.effect - effect).abs() < 1e-12 && (effect + 0.047_619).abs() < 1e-6, "{estimate:?}");
    assert!((estimate.standard_error - error).abs() < 1e-12 && (error - 0.914_823).abs() < 1e-6, "{estimate:?}");
    assert_eq!((estimate.shown.users, estimate.hidden.users), (2.0, 2.0));
}

#[test]
fn a_decision_has_to_survive_the_bias_that_the_settings_name() {
    let finding = |odds_ratio: OddsRatio| {
        let mut credit = trusting(odds_ratio);
        let mut service = Service::new(&World { effects: vec![0.12], ..World::default() }, 8);
        (0..2_000).for_each(|_| credit.observe(&service.session(0.5)).unwrap());
        credit.findings(0.1)[&entry(0)]
    };
    assert_eq!(finding(OddsRatio::NONE), EffectFinding::Helps);
    assert_eq!(finding(OddsRatio::USUAL), EffectFinding::Undecided);
}

#[test]
fn invalid_sessions_are_refused_and_change_nothing() {
    let mut credit = credit();
    credit.observe(&session(1, true, Some(1.0))).unwrap();
    let before = credit.clone();
    let valid = session(2, true, Some(1.0));
    let twice = [valid.draws.clone(), valid.draws.clone()].concat();
    for invalid in [
        DrawnSession { reward: Some(-0.1), ..valid.clone() },
        DrawnSession { reward: Some(f64::NAN), ..valid.clone() },
        DrawnSession { features: vec![], ..valid.clone() },
        DrawnSession { features: vec![f64::INFINITY], ..valid.clone() },
        DrawnSession { features: vec![1e4], ..valid.clone() },
        DrawnSession { draws: twice, ..valid.clone() },
    ] {
        assert!(credit.observe(&invalid).is_err(), "{invalid:?}");
        assert_eq!(credit, before);
    }
    let many = |from: usize, to: usize| -> Vec<EntryDraw> {
        (from..to).map(|number| EntryDraw { entry: entry(number), ..valid.draws[0].clone() }).collect()
    };
    assert!(credit.observe(&DrawnSession { draws: many(1, 70), ..valid.clone() }).is_err(), "too many draws");
    for from in (0..MOST_TRIALS).step_by(64) {
        credit.observe(&DrawnSession { draws: many(from, from + 64), ..valid.clone() }).unwrap();
    }
    assert!(credit.observe(&DrawnSession { draws: many(900, 901), ..valid.clone() }).is_err(), "too many trials");
    let features = MOST_FEATURES + 1;
    assert!(LiveCredit::new(LiveSettings { scale: Scale::Unit, features, odds_ratio: OddsRatio::USUAL }).is_err());
    assert!(Concurrent::new(Scale::Unit, features).is_err());
}

#[test]
fn few_users_are_never_certain() {
    let mut credit = credit();
    // Three users with a thousand sessions each, all of which the entry decides.
    for number in 0..3_000 {
        let shown = number % 2 == 0;
        credit.observe(&session(number % 3, shown, Some(f64::from(u8::from(shown))))).unwrap();
    }
    let estimate = credit.estimate(&entry(0)).unwrap();
    assert!(!estimate.decidable() && estimate.help == 1.0 && estimate.shown.users < 3.1, "{estimate:?}");
    // Two sessions each of a few dozen users say more.
    for number in 0..96 {
        let shown = number % 2 == 0;
        credit.observe(&session(10 + number / 2, shown, Some(f64::from(u8::from(shown))))).unwrap();
    }
    assert!(credit.estimate(&entry(0)).unwrap().decidable());
}

#[test]
fn sessions_without_feedback_are_counted_by_arm_and_enter_no_effect() {
    let mut credit = credit();
    assert!(credit.estimate(&entry(0)).is_none());
    credit.observe(&session(1, true, None)).unwrap();
    assert!(credit.estimate(&entry(0)).is_none(), "nothing is known without feedback");
    credit.observe(&session(1, false, Some(1.0))).unwrap();
    let before = credit.estimate(&entry(0)).unwrap();
    (0..5).for_each(|user| credit.observe(&session(user, false, None)).unwrap());
    let after = credit.estimate(&entry(0)).unwrap();
    assert_eq!((after.hidden.sessions, after.hidden.rewarded, after.shown.sessions), (6, 1, 1));
    assert_eq!((after.effect, after.standard_error), (before.effect, before.standard_error));
    assert!(after.feedback.hidden > 0.16 && after.feedback.hidden < 0.17);
}

#[test]
fn all_trials_count_in_a_decision_also_those_that_ended() {
    let mut service = Service::new(&World { effects: vec![0.25, -0.3, 0.0], base: 0.55, ..World::default() }, 3);
    let mut credit = credit();
    (0..1_500).for_each(|_| credit.observe(&service.session(0.5)).unwrap());
    let findings = credit.findings(0.1);
    assert_eq!(findings[&entry(0)], EffectFinding::Helps);
    assert_eq!(findings[&entry(1)], EffectFinding::Harms);
    assert_eq!(findings[&entry(2)], EffectFinding::Undecided);
    let ended = credit.end(&entry(0)).unwrap();
    assert!(ended.help > 30.0 && credit.end(&entry(0)).is_none());
    assert!(!credit.findings(0.1).contains_key(&entry(0)) && credit.estimate(&entry(0)).is_none());
    assert_eq!(credit.findings(0.1)[&entry(1)], EffectFinding::Harms);
    // Failures of the past raise what a new entry needs: evidence of 10 is enough alone, and not after many.
    let fresh = |failures: usize| {
        let mut credit = self::credit();
        let mut service = Service::new(&World { effects: vec![0.0; failures + 1], ..World::default() }, 9);
        (0..60).for_each(|_| credit.observe(&service.session(0.5)).unwrap());
        (1..=failures).for_each(|number| assert!(credit.end(&entry(number)).is_some()));
        credit.end(&entry(0));
        let mut service = Service::new(&World { effects: vec![0.25], ..World::default() }, 2);
        (0..).find(|_| {
            credit.observe(&service.session(0.5)).unwrap();
            credit.findings(0.1)[&entry(0)] == EffectFinding::Helps
        })
    };
    assert!(fresh(40) > fresh(0));
}

#[test]
fn a_finding_of_an_arm_that_loses_feedback_is_blocked() {
    let mut credit = credit();
    for number in 0..2_000 {
        let shown = number % 2 == 0;
        let told = !shown || number % 4 == 0;
        credit.observe(&session(number / 4, shown, told.then_some(f64::from(u8::from(shown))))).unwrap();
    }
    let estimate = credit.estimate(&entry(0)).unwrap();
    assert!(estimate.feedback.blocks() && !estimate.decidable() && estimate.help == 1.0);
    assert_eq!(credit.findings(0.1)[&entry(0)], EffectFinding::Blocked);
}

#[test]
fn rewards_from_minus_one_to_one_have_twice_the_effect_of_the_same_outcomes() {
    let mut service = Service::new(&World { effects: vec![0.2], ..World::default() }, 4);
    let mut unit = credit();
    let settings = LiveSettings { scale: Scale::Signed, features: 1, odds_ratio: OddsRatio::NONE };
    let mut signed = LiveCredit::new(settings).unwrap();
    for _ in 0..800 {
        let session = service.session(0.5);
        unit.observe(&session).unwrap();
        signed.observe(&DrawnSession { reward: session.reward.map(|reward| 2.0 * reward - 1.0), ..session }).unwrap();
    }
    let (unit, signed) = (unit.estimate(&entry(0)).unwrap(), signed.estimate(&entry(0)).unwrap());
    assert!((signed.effect - 2.0 * unit.effect).abs() < 1e-9, "{} {}", signed.effect, unit.effect);
    assert!((signed.standard_error - 2.0 * unit.standard_error).abs() < 1e-9);
}

#[test]
fn the_prediction_of_a_user_is_free_of_the_users_own_rewards() {
    // A draw per user would be known from them. One user's sessions: every prediction stays in the middle.
    let mut credit = credit();
    (0..50).for_each(|_| credit.observe(&session(1, true, Some(1.0))).unwrap());
    let estimate = credit.estimate(&entry(0)).unwrap();
    // 1/2 + (1 - 1/2)/(1/2), and 1/2.
    assert!(
        (estimate.shown.reward - 1.5).abs() < 1e-12 && (estimate.hidden.reward - 0.5).abs() < 1e-12,
        "{estimate:?}"
    );
}
