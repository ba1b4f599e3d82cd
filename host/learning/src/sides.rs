//! Which member of a group plays for which side.
//!
//! Members of a group begin in the order of their index. If one side always began first, everything that depends on that order
//! (a cache of the endpoint, a rate limit, a drift within seconds) would look like an effect.

use clawhost_core::derive_seed;

/// Assigns the members of each group to sides, drawn by the seed and the group's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sides {
    seed: u64,
    count: u64,
}

impl Sides {
    /// For groups with a member per side. 0 sides are taken as 1.
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        Self { seed, count: (count as u64).max(1) }
    }

    /// Digest input of the assignment.
    pub(crate) fn bytes(self) -> [u8; 8] {
        self.seed.to_be_bytes()
    }

    /// The side, from 0, of a member of the group at a position of its split. Each side has one member of a group.
    pub(crate) fn of(self, position: u64, member: u64) -> usize {
        // A rotation: over many groups, every side has every index equally often.
        let turn = derive_seed(self.seed, "sides", position) % self.count;
        usize::try_from((member % self.count + turn) % self.count).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_has_one_member_of_a_group_and_every_index_equally_often() {
        for count in [1, 2, 4] {
            let sides = Sides::new(7, count);
            let mut firsts = vec![0; count];
            for position in 0..1_000 {
                let mut of: Vec<usize> = (0..count as u64).map(|member| sides.of(position, member)).collect();
                firsts[of[0]] += 1;
                of.sort_unstable();
                assert_eq!(of, (0..count).collect::<Vec<_>>());
            }
            let expect = 1_000 / count;
            assert!(firsts.iter().all(|firsts| expect.abs_diff(*firsts) < 80), "{firsts:?}");
        }
    }

    #[test]
    fn the_assignment_follows_from_the_seed() {
        let of = |seed| (0..64).map(|position| Sides::new(seed, 2).of(position, 0)).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert_eq!(Sides::new(1, 0).of(0, 3), 0);
    }
}
