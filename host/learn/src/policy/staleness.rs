//! What is too old to learn from, and what was sampled from an unknown distribution.

use super::sample::{Trajectory, TrajectoryGroup};
use serde::{Deserialize, Serialize};

/// Generations of the playbook after which a sample is dropped. One stays: it is on-policy in the weights, and the log-probs are
/// taken on the prompt that was recorded.
const LARGEST_PROMPT_LAG: u64 = 1;

/// How old a sample may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staleness {
    /// Updates of the weights since sampling. 0 are on-policy; others up to here are trained with truncated importance sampling.
    pub max_version_lag: u64,
}

impl Default for Staleness {
    /// Rollouts and updates alternate: samples are at most of the version before.
    fn default() -> Self {
        Self { max_version_lag: 1 }
    }
}

/// Trajectories that were dropped, by why; each is counted once, under the first that holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Sampled with top-p, top-k, min-p or a repetition penalty, and nobody recorded which tokens were kept.
    pub unknown_distribution: u64,
    /// Of weights that are too old.
    pub old_weights: u64,
    /// Of a playbook that is too old.
    pub old_playbook: u64,
}

impl Staleness {
    /// Takes out what cannot be trained on. Groups stay, with fewer members or none: what is left is compared with each other.
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
    fn what_is_too_old_is_dropped_and_counted() {
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
    fn what_was_sampled_from_an_unknown_distribution_is_dropped_and_counted() {
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
