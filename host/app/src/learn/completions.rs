//! Writes a few episodes of each iteration as text.

use clawhost_core::{Episode, Message, Turn};
use serde_json::{Value, json};
use std::sync::Arc;

/// Chooses `count` episodes, evenly spread.
pub(super) fn chosen(episodes: &[Arc<Episode>], count: usize) -> Vec<Arc<Episode>> {
    let step = episodes.len().div_ceil(count.max(1)).max(1);
    episodes.iter().step_by(step).take(count).cloned().collect()
}

/// All messages in order, with their roles.
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
        "iteration": iteration, "episode": episode.id, "group": episode.group(), "task": episode.task.key(),
        "reward": episode.reward, "ending": episode.ending, "conversation": conversation(episode),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Origin, Role};

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
    fn the_conversation_lists_every_message_in_order_with_its_role() {
        let mut episode = episode();
        let said = |role, text: &str| Message::text(role, Origin::Policy, text);
        let turn = |turn: &Turn, number: u64| {
            let mut turn = turn.clone();
            turn.observation =
                vec![said(Role::System, &format!("rule {number}")), said(Role::User, &format!("ask {number}"))];
            turn.action = said(Role::Assistant, &format!("call {number}"));
            turn.tool_results = vec![said(Role::Tool, &format!("result {number}"))];
            turn
        };
        episode.turns = vec![turn(&episode.turns[0], 1), turn(&episode.turns[0], 2)];
        episode.closing = vec![said(Role::User, "thanks")];
        let expected = [
            ("system", "rule 1"),
            ("user", "ask 1"),
            ("assistant", "call 1"),
            ("tool", "result 1"),
            ("system", "rule 2"),
            ("user", "ask 2"),
            ("assistant", "call 2"),
            ("tool", "result 2"),
            ("user", "thanks"),
        ]
        .map(|(role, text)| json!({ "role": role, "text": text }));
        let written = line(7, &episode);
        assert_eq!((&written["iteration"], &written["conversation"]), (&7.into(), &Value::from(expected.to_vec())));
    }
}
