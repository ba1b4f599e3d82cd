//! The reward of whoever names none: an episode that its environment brings to an end earns 1, one that is cut off earns 0.

use clawhost_core::{Ending, Episode, Reward};
use clawhost_runtime::ScoringRule;
use clawhost_runtime::learn::RewardFunction;
use std::sync::Arc;

/// What it is called in verdicts.
const NAME: &str = "finished";

fn value(episode: &Episode) -> Option<f64> {
    match episode.ending {
        Ending::Terminated => Some(1.0),
        Ending::Truncated(_) => Some(0.0),
        Ending::Failed(_) => None,
    }
}

/// The reward: part of this program, where others are components that are kept beside their verdicts.
pub(crate) fn reward() -> Arc<dyn Reward> {
    Arc::new(RewardFunction::new(NAME, value))
}

/// The rule.
pub(super) fn finished() -> ScoringRule {
    ScoringRule::new(reward(), Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Failure, FailureKind, code};

    #[test]
    fn only_an_end_of_its_own_earns_anything_and_a_failure_is_no_number() {
        let golden = include_str!("../../../../tests/golden/episode-2.json");
        let episode: Episode = serde_json::from_str(golden).unwrap();
        let check = |ending: Ending, expect| assert_eq!(value(&Episode { ending, ..episode.clone() }), expect);
        check(Ending::Terminated, Some(1.0));
        check(Ending::Truncated("6 guesses".into()), Some(0.0));
        check(Ending::Failed(Failure::new(FailureKind::Trap, code::UNREACHABLE, "gone")), None);
    }
}
