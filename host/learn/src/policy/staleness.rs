//! Drops samples that are too old, or whose sampling distribution is unknown.

use super::sample::{Trajectory, TrajectoryGroup};
use serde::{Deserialize, Serialize};

/// Largest playbook lag of a sample. A lag of 1 is allowed: log-probs are computed for the recorded prompt.
const LARGEST_PROMPT_LAG: u64 = 1;

/// How old a sample may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staleness {
    /// Largest version lag. 0 is on-policy; larger lags are corrected by truncated importance sampling.
    pub max_version_lag: u64,
}

impl Default for Staleness {
    /// Rollouts and updates alternate, so samples are at most one version old.
    fn default() -> Self {
        Self { max_version_lag: 1 }
    }
}

/// Dropped trajectories, by the first reason that applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Sampled with top-p, top-k, min-p or a repetition penalty, without a record of the kept tokens.
    pub unknown_distribution: u64,
    /// The weights are too old.
    pub old_weights: u64,
    /// The playbook is too old.
    pub old_playbook: u64,
}

impl Staleness {
    /// Removes the samples that cannot be trained on. Groups are kept, with fewer members or none; advantages compare the
    /// remaining members.
    pub fn keep(&self, groups: Vec<TrajectoryGroup>) -> (Vec<TrajectoryGroup>, Dropped) {
        let mut dropped = Dropped::default();
        let mut is_fresh = |member: &Trajectory| {
            let recorded = member.recorded();
            let count = if !recorded.sampling.is_trainable() {
                &mut dropped.unknown_distribution
            } else if recorded.version_lag > self.max_version_lag {
                &mut dropped.old_weights
            } else if recorded.prompt_lag > LARGEST_PROMPT_LAG {
                &mut dropped.old_playbook
            } else {
                return true;
            };
            *count += 1;
            false
        };
        let keep = |group: TrajectoryGroup| {
            let members = group.members.into_iter().filter(&mut is_fresh).collect();
            TrajectoryGroup { task: group.task, members }
        };
        (groups.into_iter().map(keep).collect(), dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Recorded, Sampling};

    fn dropped(recorded: Recorded) -> Dropped {
        let trajectory = Trajectory::new(Recorded { rollout: vec![-1.0], mask: vec![true], ..recorded }).unwrap();
        let group = TrajectoryGroup { task: "t".into(), members: vec![trajectory] };
        let (kept, dropped) = Staleness { max_version_lag: 4 }.keep(vec![group]);
        assert_eq!(kept[0].members.is_empty(), dropped != Dropped::default());
        dropped
    }

    #[test]
    fn stale_samples_are_dropped_and_counted() {
        let check = |version_lag, prompt_lag, old_weights, old_playbook| {
            let expect = Dropped { old_weights, old_playbook, ..Dropped::default() };
            assert_eq!(dropped(Recorded { version_lag, prompt_lag, ..Recorded::default() }), expect);
        };
        check(0, 0, 0, 0);
        check(4, 1, 0, 0);
        check(5, 1, 1, 0);
        check(4, 2, 0, 1);
        check(5, 2, 1, 0);
    }

    #[test]
    fn samples_of_an_unknown_distribution_are_dropped_and_counted() {
        let check = |sampling: Sampling, expect: u64| {
            let dropped = dropped(Recorded { sampling, ..Recorded::default() });
            assert_eq!(dropped, Dropped { unknown_distribution: expect, ..Dropped::default() }, "{sampling:?}");
        };
        let all = Sampling::default();
        check(all, 0);
        for cut in [
            Sampling { top_p: 0.9, ..all },
            Sampling { top_p: f64::NAN, ..all },
            Sampling { top_k: 40, ..all },
            Sampling { min_p: 0.05, ..all },
            Sampling { repetition_penalty: 1.1, ..all },
        ] {
            check(cut, 1);
            check(Sampling { kept_set_recorded: true, ..cut }, 0);
        }
    }
}
