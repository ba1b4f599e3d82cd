//! The reward of a run that names none and needs one: an episode that its environment ends scores 1, one that is cut off 0.

use crate::RewardFunction;
use clawhost_core::{Ending, Episode, Reward};
use std::sync::Arc;

/// Its name in verdicts. Another definition deserves another name: replays look it up.
const NAME: &str = "finished";

fn value(episode: &Episode) -> Option<f64> {
    match episode.ending {
        Ending::Terminated => Some(1.0),
        Ending::Truncated(_) => Some(0.0),
        Ending::Failed(_) => None,
    }
}

/// The reward. It is part of this program; other rewards are components that are kept beside their verdicts.
pub fn finished_reward() -> Arc<dyn Reward> {
    Arc::new(RewardFunction::new(NAME, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Failure, FailureKind, code};

    #[test]
    fn an_episode_that_its_environment_ends_scores_one_and_a_failure_has_no_score() {
        let golden = include_str!("../../../tests/golden/episode-2.json");
        let episode: Episode = serde_json::from_str(golden).unwrap();
        let check = |ending: Ending, expect| assert_eq!(value(&Episode { ending, ..episode.clone() }), expect);
        check(Ending::Terminated, Some(1.0));
        check(Ending::Truncated("6 guesses".into()), Some(0.0));
        check(Ending::Failed(Failure::new(FailureKind::Trap, code::UNREACHABLE, "gone")), None);
    }
}
