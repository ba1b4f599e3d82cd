//! Which episodes are played again.

use clawhost_core::{RunId, derive_seed};
use serde::Serialize;
use std::collections::HashSet;

/// A sample of the episodes. The verifier draws its seed: the author of a bundle, who can make many, cannot know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Episodes that are wanted; whole groups are drawn.
    pub episodes: u64,
    /// The seed of the draw. The same seed gives the same sample again.
    pub seed: u64,
}

/// The groups that were drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drawn(HashSet<(usize, u64)>);

impl Sample {
    /// Draws groups. `runs`: of each run, its id, its episodes and the size of its groups.
    pub(super) fn draw(self, runs: &[(RunId, u64, u32)]) -> Drawn {
        let mut all: Vec<(u64, usize, u64, u64)> = Vec::new();
        for (place, (run, episodes, size)) in runs.iter().enumerate() {
            let size = u64::from(*size).max(1);
            all.extend((0..episodes.div_ceil(size)).map(|group| {
                let members = size.min(episodes - group * size);
                (derive_seed(self.seed, &run.0, group), place, group, members)
            }));
        }
        all.sort_unstable();
        let (mut drawn, mut episodes) = (HashSet::new(), 0);
        for (_, place, group, members) in all {
            if episodes >= self.episodes {
                break;
            }
            episodes += members;
            drawn.insert((place, group));
        }
        Drawn(drawn)
    }
}

impl Drawn {
    /// Whether a group of the run at this place was drawn.
    pub(super) fn has(&self, place: usize, group: u64) -> bool {
        self.0.contains(&(place, group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_whole_groups_and_follows_from_its_seed() {
        let runs = [(RunId("run-a".into()), 10, 4), (RunId("run-a.test".into()), 100, 2)];
        let of = |seed, episodes| Sample { episodes, seed }.draw(&runs);
        assert_eq!(of(1, 20), of(1, 20));
        assert_ne!(of(1, 20), of(2, 20));
        let sizes = |drawn: &Drawn| -> u64 {
            let size = |(place, group): &(usize, u64)| match (place, group) {
                (0, 2) => 2,
                (0, _) => 4,
                _ => 2,
            };
            drawn.0.iter().map(size).sum()
        };
        assert!((20..24).contains(&sizes(&of(1, 20))));
        assert_eq!(sizes(&of(3, 1_000)), 110, "more are wanted than there are");
        assert_eq!(sizes(&of(3, 0)), 0);
    }
}
