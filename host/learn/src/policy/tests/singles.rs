//! Trajectories that were played once, as those of live sessions.

use super::*;
use crate::LearnError;

/// A session: its class, its reward, and whether somebody corrected it.
type Session = (&'static str, Option<f64>, bool);

fn learned(signal: LiveSignal, sessions: &[Session]) -> Result<Experience, LearnError> {
    let group = |(number, (class, reward, is_corrected)): (usize, &Session)| {
        let teacher = is_corrected.then(|| vec![-0.1, -0.2]);
        let likely = if *is_corrected { vec![vec![(1, -0.1)], vec![(2, -0.2)]] } else { Vec::new() };
        let recorded = Recorded {
            sequence: format!("e{number}"),
            reward: *reward,
            rollout: vec![-0.5, -1.0],
            teacher,
            likely,
            mask: vec![true; 2],
            ..Recorded::default()
        };
        TrajectoryGroup { task: (*class).into(), members: vec![Trajectory::new(recorded).unwrap()] }
    };
    Experience::new(PolicyGradient::live(signal), sessions.iter().enumerate().map(group).collect())
}

fn check(signal: LiveSignal, sessions: &[Session], expect: &[(&str, f64)]) {
    let experience = learned(signal, sessions).unwrap();
    let found: Vec<(&str, f64)> = experience
        .trained()
        .iter()
        .map(|one| (one.trajectory().recorded().sequence.as_str(), one.advantages()[1]))
        .collect();
    assert_eq!(found.len(), expect.len(), "{found:?}");
    for ((name, advantage), (expect_name, expect)) in found.iter().zip(expect) {
        assert!(name == expect_name && (advantage - expect).abs() < 5e-6, "{found:?}");
    }
}

#[test]
fn sessions_are_compared_with_others_of_their_class_and_normalised_over_the_batch() {
    use LiveSignal::{Binary, Combined};
    let sessions =
        [("a", Some(1.0), false), ("b", Some(-1.0), false), ("a", Some(-1.0), true), ("b", Some(-1.0), false)];
    // Within a: 2 and -2, within b: 0 twice; the sample deviation is sqrt(8/3).
    let scale = 2.0 / ((8.0_f64 / 3.0).sqrt() + 1e-4);
    let expect = [("e0", scale), ("e1", 0.0), ("e2", -scale), ("e3", 0.0)];
    check(Binary, &sessions, &expect);
    check(Combined, &sessions, &expect);
}

#[test]
fn corrected_sessions_are_learned_from_where_rewards_say_nothing() {
    use LiveSignal::{Binary, Combined};
    let equal = [("a", Some(-1.0), true), ("a", Some(-1.0), false), ("a", None, true), ("a", None, false)];
    check(Binary, &equal, &[]);
    check(Combined, &equal, &[("e0", 0.0), ("e2", 0.0)]);
    let report = learned(Combined, &equal).unwrap();
    let report = report.report();
    assert_eq!((report.failed, report.zero_variance.len(), report.comparable()), (1, 1, 1));
    let alone = [("a", Some(1.0), false), ("a", None, true)];
    check(Combined, &alone, &[("e1", 0.0)]);
    assert_eq!(learned(Combined, &alone).unwrap().report().too_small, 1);
}

#[test]
fn one_without_a_reward_takes_its_place_among_the_others() {
    let sessions = [("a", None, true), ("a", Some(1.0), false), ("a", Some(-1.0), false)];
    let scale = 2.0 / (8.0_f64.sqrt() + 1e-4);
    check(LiveSignal::Combined, &sessions, &[("e0", 0.0), ("e1", scale), ("e2", -scale)]);
}

#[test]
fn hints_alone_need_a_teacher_for_every_session() {
    check(LiveSignal::Hint, &[("a", None, true), ("a", Some(1.0), true)], &[("e0", 0.0), ("e1", 0.0)]);
    let error = learned(LiveSignal::Hint, &[("a", Some(1.0), false)]).unwrap_err().to_string();
    assert!(error.contains("has no teacher log-probs"), "{error}");
}
