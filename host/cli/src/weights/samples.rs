//! A few episodes of an iteration as a table: the task, the conversation, and the reward.

use clawhost_core::{Episode, Message, escaped};
use comfy_table::{ContentArrangement, Table};
use std::sync::Arc;

/// Characters of a cell that are shown.
const SHOWN: usize = 160;

/// A row: the task, the reward, and the conversation, with the model's text in brackets.
fn row(episode: &Episode) -> [String; 3] {
    let heard = |messages: &[Message]| messages.iter().map(Message::plain_text).collect::<Vec<_>>().join(" ");
    let turns = episode.turns.iter().map(|turn| {
        let (heard, said) = (heard(&turn.observation), turn.action.plain_text());
        format!("{heard} [{said}]")
    });
    let said = turns.chain([heard(&episode.closing)]).collect::<Vec<_>>().join(" ");
    let reward = episode.reward.map_or("-".to_owned(), |reward| format!("{reward:.2}"));
    [escaped(&episode.task.key(), 40), reward, escaped(said.trim(), SHOWN)]
}

/// The table.
pub(super) fn table(episodes: &[Arc<Episode>]) -> Table {
    let mut table = crate::episodes::table(&["task", "reward", "[text of the model]"]);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    episodes.iter().for_each(|episode| {
        table.add_row(row(episode));
    });
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_conversation_and_the_reward() {
        let golden = include_str!("../../../../tests/golden/episode-2.json");
        let [_, reward, said] = row(&serde_json::from_str(golden).unwrap());
        assert!(reward.parse::<f64>().is_ok() || reward == "-", "{reward}");
        assert!(said.contains('[') && said.chars().count() <= SHOWN + 1, "{said}");
    }
}
