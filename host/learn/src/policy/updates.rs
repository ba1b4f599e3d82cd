//! The division of an iteration's experience into optimiser steps: epochs of minibatches.
//!
//! With one epoch of one minibatch, each iteration takes one on-policy step: every importance ratio is 1, and the bounds of a
//! [`super::Surrogate`] never act. Every later step is off-policy by the steps before it, which is what the ratios and their
//! bounds are for (PPO: Schulman et al. 2017).

use super::experience::Experience;
use clawhost_core::derive_seed;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// How often an iteration's experience is learned from, and in how many parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updates {
    /// Passes over the experience.
    pub epochs: NonZeroU32,
    /// Most parts of a pass, of one optimiser step each. Groups are not divided, so there are at most as many as groups.
    pub minibatches: NonZeroU32,
}

impl Default for Updates {
    /// One on-policy step.
    fn default() -> Self {
        Self { epochs: NonZeroU32::MIN, minibatches: NonZeroU32::MIN }
    }
}

impl Updates {
    /// The most optimiser steps of an iteration.
    pub fn steps(self) -> u64 {
        u64::from(self.epochs.get()) * u64::from(self.minibatches.get())
    }

    /// The trajectories of every optimiser step, by their indices in [`Experience::trained`], in the order of the steps. Each
    /// epoch has every trajectory once. Groups are kept whole, because advantages compare their members, and are dealt to the
    /// minibatches in a new order in every epoch, which `seed` determines.
    pub fn divide(self, experience: &Experience, seed: u64) -> Vec<Vec<usize>> {
        let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
        for (number, trained) in experience.trained().iter().enumerate() {
            match groups.last_mut().filter(|(group, _)| *group == trained.group()) {
                Some((_, members)) => members.push(number),
                None => groups.push((trained.group(), vec![number])),
            }
        }
        let parts = (self.minibatches.get() as usize).min(groups.len()).max(1);
        let mut steps = Vec::new();
        for epoch in 0..u64::from(self.epochs.get()) {
            if parts > 1 {
                let order = derive_seed(seed, "epoch", epoch);
                groups.sort_by_cached_key(|(group, _)| (derive_seed(order, "group", *group as u64), *group));
            }
            for part in 0..parts {
                let mut step: Vec<usize> =
                    groups.iter().skip(part).step_by(parts).flat_map(|(_, members)| members).copied().collect();
                // The order inside of a step has no meaning; a fixed one gives fixed sums.
                step.sort_unstable();
                steps.push(step);
            }
        }
        steps.retain(|step| !step.is_empty());
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{PolicyGradient, Recorded, Trajectory, TrajectoryGroup};
    use std::collections::BTreeSet;

    /// Groups of two; the group of every third task has no variance and is left out.
    fn experience(groups: usize) -> Experience {
        let member = |reward: f64| {
            let recorded =
                Recorded { reward: Some(reward), rollout: vec![-1.0], mask: vec![true], ..Recorded::default() };
            Trajectory::new(recorded).unwrap()
        };
        let group = |number: usize| TrajectoryGroup {
            task: number.to_string(),
            members: vec![member(0.0), member(if number % 3 == 2 { 0.0 } else { 1.0 })],
        };
        let objective = PolicyGradient::named("grpo", NonZeroU32::MIN).unwrap();
        Experience::new(objective, (0..groups).map(group).collect()).unwrap()
    }

    fn divided(groups: usize, epochs: u32, minibatches: u32, seed: u64) -> Vec<Vec<usize>> {
        let number = |number| NonZeroU32::new(number).unwrap();
        Updates { epochs: number(epochs), minibatches: number(minibatches) }.divide(&experience(groups), seed)
    }

    #[test]
    fn one_epoch_of_one_minibatch_is_one_step_over_everything() {
        assert_eq!(Updates::default().steps(), 1);
        assert_eq!(divided(3, 1, 1, 7), [[0, 1, 2, 3]]);
        assert_eq!(divided(3, 2, 1, 7), [[0, 1, 2, 3], [0, 1, 2, 3]]);
        assert!(divided(0, 4, 4, 7).is_empty(), "nothing to learn from");
    }

    #[test]
    fn every_epoch_has_every_trajectory_once_and_keeps_groups_whole() {
        for (groups, minibatches, expect_parts) in [(12, 4, 4), (12, 3, 3), (11, 4, 4), (3, 8, 2)] {
            let steps = divided(groups, 3, minibatches, 1);
            assert_eq!(steps.len(), 3 * expect_parts, "{groups} groups, {minibatches} minibatches");
            let all: Vec<usize> = (0..experience(groups).trained().len()).collect();
            for epoch in steps.chunks(expect_parts) {
                let mut met = epoch.concat();
                met.sort_unstable();
                assert_eq!(met, all);
                let sizes: BTreeSet<usize> = epoch.iter().map(Vec::len).collect();
                assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 2, "equal up to one group");
                assert!(epoch.iter().all(|step| step.chunks(2).all(|pair| pair[0] % 2 == 0 && pair[1] == pair[0] + 1)));
            }
        }
    }

    #[test]
    fn the_order_depends_on_the_seed_and_the_epoch_alone() {
        let steps = divided(24, 2, 4, 5);
        assert_eq!(steps, divided(24, 2, 4, 5));
        assert_ne!(steps, divided(24, 2, 4, 6));
        assert_ne!(steps[..4], steps[4..], "another order in the second epoch");
    }
}
