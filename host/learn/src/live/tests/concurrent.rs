//! A new version beside the served one.

use super::world::*;
use crate::live::*;

/// The largest evidence that the version is worse, and that it is better, over the life of a service.
fn largest(effect: f64, share: f64, drift: f64, sessions: usize, seed: u64) -> (f64, f64) {
    let world = World { effects: vec![effect], propensity: 0.1, drift, users: 1_000, ..World::default() };
    let mut service = Service::new(&world, seed);
    let mut random = crate::random::Random(seed + 77);
    let mut comparison = Concurrent::new(Scale::Unit, 1).unwrap();
    let (mut worse, mut better) = (0.0_f64, 0.0_f64);
    for number in 0..sessions {
        let DrawnSession { user, class, features, .. } = service.session(0.5);
        let new = random.uniform() < share;
        let chance = 0.6 + drift * number as f64 / sessions as f64 + if new { effect } else { 0.0 };
        let reward = (random.uniform() < 0.8).then(|| f64::from(u8::from(random.uniform() < chance)));
        let share = Share::new(share).unwrap();
        comparison.observe(&ConcurrentSession { user, class, features, new, share, reward }).unwrap();
        worse = worse.max(comparison.worse(OddsRatio::NONE));
        better = better.max(comparison.better(OddsRatio::NONE));
    }
    (worse, better)
}

pub(super) fn shares(effect: f64, share: f64, drift: f64, sessions: usize) -> (f64, f64) {
    let found: Vec<(f64, f64)> = (0..RUNS).map(|run| largest(effect, share, drift, sessions, run)).collect();
    let share = |least: fn(&(f64, f64)) -> bool| found.iter().filter(|run| least(run)).count() as f64 / RUNS as f64;
    (share(|run| run.0 >= 20.0), share(|run| run.1 >= 20.0))
}

#[test]
fn an_equal_version_is_rarely_found_worse_or_better_while_everything_drifts() {
    for drift in [0.0, -0.4, 0.3] {
        let (worse, better) = shares(0.0, USUAL_SHARE, drift, 2_000);
        assert!(worse <= allowed(0.05) && better <= allowed(0.05), "{drift}: {worse} {better}");
    }
}

#[test]
fn a_version_that_is_much_worse_is_found_within_the_planned_sessions() {
    let plan = Plan { residual_variance: 0.24, ..Plan::of(-0.3, USUAL_SHARE, 20.0) };
    let sessions = (1.5 * plan.sessions(0.8).unwrap().unwrap() as f64) as usize;
    let (worse, better) = shares(-0.3, USUAL_SHARE, 0.0, sessions);
    assert!(worse >= 0.8 && better == 0.0, "{sessions}: {worse} {better}");
}

#[test]
fn findings_need_the_threshold_and_state_goes_on() {
    let session = |user: u64, new: bool, reward: f64| ConcurrentSession {
        user,
        class: "a".into(),
        features: Vec::new(),
        new,
        share: Share::new(0.5).unwrap(),
        reward: Some(reward),
    };
    let mut comparison = Concurrent::new(Scale::Signed, 0).unwrap();
    assert_eq!(comparison.finding(0.05, OddsRatio::NONE), EffectFinding::Undecided);
    assert_eq!(comparison.worse(OddsRatio::NONE), 1.0);
    assert!(comparison.observe(&session(1, true, 1.5)).is_err());
    for user in 0..200 {
        let new = user % 2 == 0;
        comparison.observe(&session(user, new, if new { -1.0 } else { 1.0 })).unwrap();
        if user == 100 {
            comparison = serde_json::from_str(&serde_json::to_string(&comparison).unwrap()).unwrap();
        }
    }
    assert_eq!(comparison.finding(0.05, OddsRatio::USUAL), EffectFinding::Harms);
    assert!(comparison.worse(OddsRatio::USUAL) >= 20.0 && comparison.better(OddsRatio::NONE) < 1.0);
}
