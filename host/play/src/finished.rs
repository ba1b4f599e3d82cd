//! The default reward: 1 for an episode that its environment terminates, 0 for a truncated one.

use crate::RewardFunction;
use clawhost_core::{Ending, Episode, Reward};
use std::sync::Arc;

/// Name in verdicts. A changed definition needs another name, because replays find the reward by it.
const NAME: &str = "finished";

fn value(episode: &Episode) -> Option<f64> {
    match episode.ending {
        Ending::Terminated => Some(1.0),
        Ending::Truncated(_) => Some(0.0),
        Ending::Failed(_) => None,
    }
}

/// The built-in reward. Other rewards are components, which are stored with their verdicts.
pub fn finished_reward() -> Arc<dyn Reward> {
    Arc::new(RewardFunction::new(NAME, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Failure, FailureKind, code};

    #[test]
    fn a_terminated_episode_scores_one_and_a_failed_one_is_unscored() {
        let golden = include_str!("../../../tests/golden/episode-2.json");
        let episode: Episode = serde_json::from_str(golden).unwrap();
        let check = |ending: Ending, expect| assert_eq!(value(&Episode { ending, ..episode.clone() }), expect);
        check(Ending::Terminated, Some(1.0));
        check(Ending::Truncated("6 guesses".into()), Some(0.0));
        check(Ending::Failed(Failure::new(FailureKind::Trap, code::UNREACHABLE, "gone")), None);
    }
}
