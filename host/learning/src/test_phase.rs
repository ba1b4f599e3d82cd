//! Recorded test episodes: which side of the comparison each of them played for.

use crate::sides::Sides;
use clawhost_play::Conditions;

/// The beginning of the names of test phases.
pub(crate) const TEST: &str = "test";
/// In the name of a phase: a layer that acts in one state at a time acts as before the first reward.
pub(crate) const BEFORE: &str = "-before";
/// In the name of a phase: it acts as it is now.
pub(crate) const AFTER: &str = "-after";

/// A side of the comparison before and after learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestSide {
    /// No layer has learned.
    Before,
    /// All layers act as they are now.
    After,
}

/// A recorded phase of test episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestPhase {
    sides: Sides,
    arms: usize,
    first_group: u64,
    has_before: bool,
    has_after: bool,
}

impl TestPhase {
    /// The test phase with this name, without the id of its run, that was played under these conditions. `None`: the phase is no test.
    pub fn of(name: &str, conditions: &Conditions) -> Option<Self> {
        let layers = name.strip_prefix(TEST).filter(|rest| rest.is_empty() || rest.starts_with('-'))?;
        Some(Self::new(conditions, !layers.contains(AFTER), !layers.contains(BEFORE)))
    }

    /// The episodes of an evaluation of a playbook.
    pub fn of_evaluation(conditions: &Conditions) -> Self {
        Self::new(conditions, true, true)
    }

    fn new(conditions: &Conditions, has_before: bool, has_after: bool) -> Self {
        let arms = (conditions.group / conditions.tries.max(1)) as usize;
        let sides = Sides::new(conditions.seed, arms);
        Self { sides, arms, first_group: conditions.first_group, has_before, has_after }
    }

    /// The side of an episode, by its group and its index in the phase. `None`: it played for another arm.
    pub fn side(&self, group: u64, index: u64) -> Option<TestSide> {
        // The first arm of a phase has the fewest layers that act as they are now, the last one has all.
        let arm = self.sides.of(self.first_group.saturating_add(group), index);
        match arm {
            0 if self.has_before => Some(TestSide::Before),
            last if self.has_after && last + 1 == self.arms.max(1) => Some(TestSide::After),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Attributes, Digest, Grants, StateId};

    fn conditions(group: u32) -> Conditions {
        Conditions {
            environment: Digest::of(b"environment"),
            parts: Vec::new(),
            grants: Grants::default(),
            branch_at: None,
            options: Attributes::new(),
            rewards: Vec::new(),
            state_id: StateId(Digest::of(b"state")),
            seed: 7,
            split: "test".into(),
            group,
            first_group: 5,
            paired: true,
            tries: 1,
            max_turns: 8,
        }
    }

    /// Sides of the arms of a phase, in the order of the arms.
    fn sides(name: &str, group: u32) -> Option<Vec<Option<TestSide>>> {
        let phase = TestPhase::of(name, &conditions(group))?;
        let arms = group as usize;
        let mut of_arms = vec![None; arms];
        for member in 0..u64::from(group) {
            // The third group of the phase is at position 8 of the split.
            of_arms[Sides::new(7, arms).of(8, member)] = phase.side(3, 3 * u64::from(group) + member);
        }
        Some(of_arms)
    }

    #[test]
    fn the_first_arm_is_before_learning_and_the_last_after() {
        let (before, after) = (Some(TestSide::Before), Some(TestSide::After));
        assert_eq!(sides("test", 2), Some(vec![before, after]));
        assert_eq!(sides("test", 4), Some(vec![before, None, None, after]));
        assert_eq!(sides("test-before", 1), Some(vec![before]));
        assert_eq!(sides("test-after", 1), Some(vec![after]));
        assert_eq!(sides("test-weights-before", 2), Some(vec![before, None]));
        assert_eq!(sides("test-weights-after", 2), Some(vec![None, after]));
        let twice = TestPhase::of_evaluation(&Conditions { tries: 2, ..conditions(4) });
        let found: Vec<_> = (0..4).map(|member| twice.side(3, 12 + member)).collect();
        assert!(
            found[0] != found[1] && found[0] == found[2] && found[1] == found[3],
            "each try has both sides: {found:?}"
        );
        for other in ["i00001-train", "testing", "warm-00001"] {
            assert_eq!(sides(other, 2), None, "{other}");
        }
    }
}
