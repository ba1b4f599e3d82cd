//! A few episodes of an iteration as text, for whoever looks later.

use clawhost_core::{Episode, Message, Turn};
use serde_json::{Value, json};
use std::sync::Arc;

/// So many episodes, evenly spread over those that were played.
pub(super) fn chosen(episodes: &[Arc<Episode>], count: usize) -> Vec<Arc<Episode>> {
    let step = episodes.len().div_ceil(count.max(1)).max(1);
    episodes.iter().step_by(step).take(count).cloned().collect()
}

/// Everything that was said in it, in order, with who said it.
fn conversation(episode: &Episode) -> Vec<Value> {
    let line = |message: &Message| json!({ "role": message.role, "text": message.plain_text() });
    let turn = |turn: &Turn| -> Vec<Value> {
        turn.observation.iter().chain([&turn.action]).chain(&turn.tool_results).map(line).collect()
    };
    episode.turns.iter().flat_map(turn).chain(episode.closing.iter().map(line)).collect()
}

/// An episode as a line of the file.
pub(super) fn line(iteration: u64, episode: &Episode) -> Value {
    json!({
        "iteration": iteration, "episode": episode.id, "group": episode.group, "task": episode.task.id,
        "reward": episode.reward, "ending": episode.ending, "conversation": conversation(episode),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode() -> Episode {
        serde_json::from_str(include_str!("../../../../tests/golden/episode-2.json")).unwrap()
    }

    #[test]
    fn episodes_are_chosen_evenly() {
        let episodes: Vec<Arc<Episode>> = (0..10).map(|index| Arc::new(Episode { index, ..episode() })).collect();
        let check = |count: usize, expect: &[u64]| {
            let found: Vec<u64> = chosen(&episodes, count).iter().map(|one| one.index).collect();
            assert_eq!(found, expect, "{count}");
        };
        check(0, &[]);
        check(1, &[0]);
        check(3, &[0, 4, 8]);
        check(100, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn what_was_said_stands_in_order_with_who_said_it() {
        let episode = episode();
        let written = line(7, &episode);
        let roles: Vec<&str> =
            written["conversation"].as_array().unwrap().iter().map(|line| line["role"].as_str().unwrap()).collect();
        assert_eq!(written["iteration"], 7);
        assert_eq!(roles.iter().filter(|role| **role == "assistant").count(), episode.turns.len());
    }
}
