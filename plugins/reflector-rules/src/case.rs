//! What an episode shows for counting: the facts that were known at its end, what the policy did last, and what would have been right.

use crate::opening::Stated;
use clawhost_sdk::review::{Condition, field};
use clawhost_sdk::{Ending, Episode, Message, Origin, Review};
use std::collections::BTreeMap;

/// Largest number of facts of one case. An episode that states more is a log.
const MOST_FACTS: usize = 64;

/// One decision of the policy.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The episode.
    pub(crate) episode: String,
    /// Its last turn.
    pub(crate) turn: Option<u32>,
    /// Known facts, in lower case. Later messages overwrite earlier ones; those of the review come last.
    pub(crate) facts: BTreeMap<String, String>,
    /// What the policy did last: `call TOOL` or `answer TEXT`.
    pub(crate) did: String,
    /// What was right, as its review says. `None`: it has none, so what it did was right.
    pub(crate) expected: Option<String>,
    /// The reasons that its review gives.
    pub(crate) because: Vec<Condition>,
    /// What its review would have looked up: the condition under which to look, and the action.
    pub(crate) looks: Vec<(Condition, String)>,
}

/// Values that mean that a fact is not known yet: no condition for a decision.
pub(crate) fn is_open(value: &str) -> bool {
    value.starts_with("not ") || ["", "unknown", "hidden", "?", "-"].contains(&value)
}

/// The start of an action, without its arguments.
pub(crate) fn kind(deed: &str) -> &str {
    match deed.strip_prefix("call ") {
        Some(call) => {
            let tool = call.trim_start().split([' ', '{']).next().unwrap_or_default();
            deed.get(.."call ".len() + tool.len()).unwrap_or(deed)
        }
        None => deed,
    }
}

fn read(facts: &mut BTreeMap<String, String>, messages: &[Message]) {
    for message in messages.iter().filter(|message| message.origin == Origin::Environment) {
        for (name, value) in message.plain_text().lines().filter_map(field) {
            let Some(known) = Condition::read(&name, value) else { continue };
            if is_open(&known.value) {
                facts.remove(&known.fact);
            } else if facts.len() < MOST_FACTS || facts.contains_key(&known.fact) {
                facts.insert(known.fact, known.value);
            }
        }
    }
}

/// What the policy did in its last turn.
fn deed(action: &Message) -> String {
    match action.tool_calls.last() {
        Some(call) => format!("call {}", call.name),
        None => format!("answer {}", action.plain_text().trim()),
    }
}

/// The cases of an episode: one for each review, or one that was right. None if it was cut off without a review.
pub(crate) fn cases(episode: &Episode) -> Vec<Case> {
    let turns = episode.turns();
    let Some(last) = turns.last() else { return Vec::new() };
    let mut facts = BTreeMap::new();
    for (position, turn) in turns.iter().enumerate() {
        read(&mut facts, &turn.observation);
        // What the last action brought about is no ground for it.
        if position + 1 < turns.len() {
            read(&mut facts, &turn.tool_results);
        }
    }
    let case = Case {
        episode: episode.id(),
        turn: (turns.len() as u32).checked_sub(1),
        facts,
        did: deed(&last.action),
        expected: None,
        because: Vec::new(),
        looks: Vec::new(),
    };
    let reviews = Review::at_the_end(episode);
    if reviews.is_empty() {
        // An episode that was cut off shows nothing about its last action.
        return if matches!(episode.ending(), Ending::Truncated(_)) { Vec::new() } else { vec![case] };
    }
    let stated = Stated::in_opening(episode);
    let told = |review: Review| {
        let mut facts = case.facts.clone();
        for Condition { fact, value } in review.because.iter().cloned() {
            facts.entry(fact).or_insert(value);
        }
        let looks = review.looks.into_iter().filter_map(|look| Some((stated.condition(&look.fact)?, look.action)));
        Case { facts, expected: Some(review.expected), because: review.because, looks: looks.collect(), ..case.clone() }
    };
    reviews.into_iter().map(told).collect()
}
