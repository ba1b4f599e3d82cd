//! The facts in the opening of an episode: lines `FACT: VALUE` of the environment.

use clawhost_sdk::review::{Condition, field};
use clawhost_sdk::{Episode, Message, Origin};
use std::collections::BTreeMap;

fn of_environment(message: &&Message) -> bool {
    message.origin == Origin::Environment
}

/// The facts of the opening, by name.
#[derive(Debug, Default)]
pub(crate) struct Stated(BTreeMap<String, String>);

impl Stated {
    /// Of several lines about one fact the last one counts.
    pub(crate) fn in_opening(episode: &Episode) -> Self {
        let opening = episode.turns_from(0, 1).pop().map(|turn| turn.observation).unwrap_or_default();
        let texts: Vec<String> = opening.iter().filter(of_environment).map(Message::plain_text).collect();
        let lines = texts.iter().flat_map(|text| text.lines());
        Self(lines.filter_map(field).map(|(fact, value)| (fact, value.to_owned())).collect())
    }

    /// `FACT is VALUE`, as the opening states it.
    pub(crate) fn condition(&self, fact: &str) -> Option<Condition> {
        Condition::read(fact, self.0.get(fact)?)
    }
}
