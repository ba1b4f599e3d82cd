//! Simpler rules, on the same sessions. Those in common use must fail the tests that the estimates pass, so that these are seen to be able to
//! fail; and the exact bet shows what its exactness costs.

use super::world::*;
use crate::gate::{Form, Martingale, Question};
use crate::live::DrawnSession;
use crate::normal::one_sided_e_value;
use std::collections::BTreeMap;

/// A rule that looks at the sessions with feedback, one by one, and may admit the first entry.
pub(super) trait Rule: Default {
    /// Whether the entry is admitted after this session.
    fn admits(&mut self, session: &DrawnSession) -> bool;
}

#[derive(Debug, Default, Clone, Copy)]
struct Mean {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count
    }

    /// Squared standard error, as if values were independent.
    fn variance(&self) -> f64 {
        (self.squares / self.count - self.mean().powi(2)) / (self.count - 1.0)
    }
}

/// The difference of means, with a 95 % interval of a fixed sample at every look.
#[derive(Debug, Default)]
pub(super) struct PeekedDifference([Mean; 2]);

impl Rule for PeekedDifference {
    fn admits(&mut self, session: &DrawnSession) -> bool {
        self.0[usize::from(session.draws[0].shown)].add(session.reward.unwrap());
        let [hidden, shown] = self.0;
        let error = (hidden.variance() + shown.variance()).sqrt();
        hidden.count.min(shown.count) >= 20.0 && shown.mean() - hidden.mean() > 1.96 * error
    }
}

/// The score of a session by inverse propensity alone.
fn inverse_propensity(session: &DrawnSession) -> f64 {
    let (draw, reward) = (&session.draws[0], session.reward.unwrap());
    let p = draw.propensity.value();
    if draw.shown { reward / p } else { -reward / (1.0 - p) }
}

/// Inverse propensity, with sessions taken as independent and a 95 % interval of a fixed sample at every look.
#[derive(Debug, Default)]
pub(super) struct PeekedInversePropensity(Mean);

impl Rule for PeekedInversePropensity {
    fn admits(&mut self, session: &DrawnSession) -> bool {
        self.0.add(inverse_propensity(session));
        self.0.count >= 40.0 && self.0.mean() > 1.96 * self.0.variance().sqrt()
    }
}

/// Inverse propensity, with sessions taken as independent and an e-value that may be looked at any time.
#[derive(Debug, Default)]
pub(super) struct UnclusteredEvidence(Mean);

impl Rule for UnclusteredEvidence {
    fn admits(&mut self, session: &DrawnSession) -> bool {
        self.0.add(inverse_propensity(session));
        let error = self.0.variance().sqrt();
        self.0.count >= 40.0 && one_sided_e_value(self.0.mean() / error, error) >= 10.0
    }
}

/// An exact bet: the mean score of a user's first `SESSIONS` sessions is bet on once, when the last of them is in. Users are independent, and a
/// score is bounded, so by Ville's inequality this needs neither normality nor a least number of users.
#[derive(Debug)]
pub(super) struct Bet<const SESSIONS: usize> {
    users: BTreeMap<u64, Mean>,
    wealth: Martingale,
}

impl<const SESSIONS: usize> Default for Bet<SESSIONS> {
    fn default() -> Self {
        Self { users: BTreeMap::new(), wealth: Martingale::new(Form::Graded, Question::Better) }
    }
}

impl<const SESSIONS: usize> Rule for Bet<SESSIONS> {
    fn admits(&mut self, session: &DrawnSession) -> bool {
        let (draw, reward) = (&session.draws[0], session.reward.unwrap() - 0.5);
        let p = draw.propensity.value();
        let score = if draw.shown { reward / p } else { -reward / (1.0 - p) };
        let bound = 0.5 / p.min(1.0 - p);
        let user = self.users.entry(session.user).or_default();
        user.add(score / bound);
        if user.count == SESSIONS as f64 {
            self.wealth.observe(user.mean()).unwrap();
        }
        self.wealth.value() >= 10.0
    }
}

/// The share of runs in which a rule ever admits.
pub(super) fn admitted<R: Rule>(world: &World, sessions: usize) -> f64 {
    let admits = |run: &u64| {
        let (mut service, mut rule) = (Service::new(world, *run), R::default());
        let session = |number: usize| service.session(number as f64 / sessions as f64);
        (0..sessions).map(session).filter(|session| session.reward.is_some()).any(|session| rule.admits(&session))
    };
    (0..RUNS).filter(admits).count() as f64 / RUNS as f64
}

const SESSIONS: usize = 1_200;

#[test]
fn usual_rules_break_the_promise_where_users_differ() {
    let world = World { decides: 0.3, activity: 1.6, ..World::default() };
    assert!(simulate(&world, 2 * SESSIONS, 0.0).help[0] <= allowed(0.1));
    for (name, share) in [
        ("difference", admitted::<PeekedDifference>(&world, 2 * SESSIONS)),
        ("inverse propensity", admitted::<PeekedInversePropensity>(&world, 2 * SESSIONS)),
        // Nothing but the clusters is missing.
        ("e-value of sessions", admitted::<UnclusteredEvidence>(&world, 2 * SESSIONS)),
    ] {
        assert!(share > 2.0 * allowed(0.1), "{name}: {share}");
    }
}

#[test]
fn usual_rules_break_the_promise_if_one_looks_after_every_session() {
    let world = World::default();
    assert!(simulate(&world, SESSIONS, 0.0).help[0] <= allowed(0.1));
    for (name, share) in [
        ("difference", admitted::<PeekedDifference>(&world, SESSIONS)),
        ("inverse propensity", admitted::<PeekedInversePropensity>(&world, SESSIONS)),
    ] {
        assert!(share > 1.5 * allowed(0.1), "{name}: {share}");
    }
}

#[test]
fn a_difference_of_means_takes_drift_for_an_effect_where_the_propensity_changes() {
    let world = World { drift: 0.6, propensity: 0.1, later: Some(0.5), ..World::default() };
    let share = admitted::<PeekedDifference>(&world, SESSIONS);
    assert!(share > 0.9, "{share}");
}

#[test]
fn the_exact_bet_holds_and_finds_less() {
    let null = World { decides: 0.3, ..World::default() };
    assert!(admitted::<Bet<1>>(&null, SESSIONS) <= allowed(0.1));
    assert!(admitted::<Bet<4>>(&null, SESSIONS) <= allowed(0.1));
    let helps = World { effects: vec![0.2], ..World::default() };
    let ours = simulate(&helps, 300, 0.2).help[0];
    for exact in [admitted::<Bet<1>>(&helps, 300), admitted::<Bet<4>>(&helps, 300)] {
        assert!(ours > exact + 0.1, "{ours} against {exact}");
    }
}
