//! Whole steps, from trajectories to gradients.

mod distillation;
mod gradients;
mod pitfalls;
mod published;
mod singles;

use super::*;
use std::num::NonZeroU32;

/// Two groups of two, off-policy.
const NEW: [&[f64]; 4] = [&[-0.1, -2.0, -0.5], &[-1.0, -0.3], &[-0.7], &[-0.2, -1.5]];
const OLD: [&[f64]; 4] = [&[-0.4, -1.2, -0.5], &[-0.2, -0.6], &[-0.7], &[-0.9, -1.1]];
const REFERENCE: [&[f64]; 4] = [&[-0.3, -1.5, -0.6], &[-0.5, -0.5], &[-0.9], &[-0.4, -1.3]];
const REWARDS: [f64; 4] = [1.0, 0.0, 0.25, 0.75];

fn policy(name: &str) -> PolicyGradient {
    PolicyGradient::named(name, NonZeroU32::new(4).unwrap()).unwrap()
}

/// Rewards and a teacher in one objective.
fn combined() -> PolicyGradient {
    PolicyGradient {
        distillation: Some(Distillation::default()),
        surrogate: Surrogate::Clip { low: 0.2, high: 0.2 },
        ..policy("dapo")
    }
}

/// One of the four trajectories, with all columns.
fn recorded(number: usize) -> Recorded {
    Recorded {
        sequence: format!("e{number}"),
        reward: Some(REWARDS[number]),
        rollout: OLD[number].to_vec(),
        reference: Some(REFERENCE[number].to_vec()),
        teacher: Some(REFERENCE[number].to_vec()),
        mask: vec![true; OLD[number].len()],
        ..Recorded::default()
    }
}

/// The four trajectories in two groups, after a change to each.
fn groups(change: impl Fn(usize, &mut Recorded)) -> Vec<TrajectoryGroup> {
    let member = |number| {
        let mut recorded = recorded(number);
        change(number, &mut recorded);
        Trajectory::new(recorded).unwrap()
    };
    let group =
        |task: &str, numbers: [usize; 2]| TrajectoryGroup { task: task.into(), members: numbers.map(member).into() };
    vec![group("a", [0, 1]), group("b", [2, 3])]
}

fn experience(objective: PolicyGradient) -> Experience {
    Experience::new(objective, groups(|_, _| ())).unwrap()
}

fn evaluations<'a>(new: &'a [impl AsRef<[f64]>]) -> Vec<Evaluation<'a>> {
    let evaluation =
        |(sequence, new): (usize, &'a _)| Evaluation { sequence, new: AsRef::as_ref(new), ..Evaluation::default() };
    new.iter().enumerate().map(evaluation).collect()
}

fn close(got: &[f64], expect: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), expect.len(), "{what}");
    for (got, expect) in got.iter().zip(expect) {
        assert!((got - expect).abs() <= tolerance, "{what}: {got} is not {expect}");
    }
}
