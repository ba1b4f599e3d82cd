//! Compares a record with its replay: finds the first difference, in chronological order.

use clawhost_core::{Episode, Turn, escaped};
use serde::Serialize;
use serde_json::Value;

/// Characters of a value in a difference.
const SHOWN: usize = 160;
/// Characters before the first differing one.
const BEFORE: usize = 40;

/// The first difference of a replay from its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The turn, from 0; `None`: before the first or after the last.
    pub turn: Option<u64>,
    /// The differing value, as a path in the episode's JSON.
    pub what: String,
    /// The recorded value.
    pub recorded: String,
    /// The replayed value.
    pub replayed: String,
}

/// The path for a different number of turns.
pub(crate) const TURNS: &str = "turns";

/// Fields of a turn in chronological order, before what a model computed for its answer. Usage comes from the record; timing is not compared.
const OF_TURN: [&str; 9] =
    ["observation", "request", "action", "finish", "host_calls", "tool_results", "signals", "fuel", "extra"];

/// What a model computed for an answer. The prompt is in the request, and versions of weights are counted by each run.
fn answer_tokens(turn: &Turn) -> Option<(&[u32], &[f32], &[f32])> {
    turn.tokens.as_deref().map(|record| (&record.tokens[..], &record.logprob_model[..], &record.logprob_sampled[..]))
}

/// The same as JSON, with the names that it has in a record.
fn answer_tokens_json(turn: &Turn) -> Value {
    let tokens = answer_tokens(turn).map(|(tokens, model, sampled)| {
        serde_json::json!({ "tokens": tokens, "logprob_model": model, "logprob_sampled": sampled })
    });
    serde_json::json!({ "tokens": tokens })
}

/// Fields of an episode that are fixed before its first turn.
const BEFORE_TURNS: [&str; 4] = ["environment", "system_hint", "tools", "policy"];

/// Fields that are fixed at its end.
const AFTER_TURNS: [&str; 5] = ["ending", "signals", "artefacts", "log", "journal"];

fn json(value: &impl Serialize) -> Value {
    // A value that cannot be written as JSON cannot have been recorded.
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// Whether the compared fields of two turns are equal. Nearly all are, and writing both as JSON costs more than playing them.
fn are_alike(one: &Turn, other: &Turn) -> bool {
    one.observation == other.observation
        && one.request == other.request
        && one.action == other.action
        && one.finish == other.finish
        && one.host_calls == other.host_calls
        && one.tool_results == other.tool_results
        && one.signals == other.signals
        && one.fuel == other.fuel
        && one.extra == other.extra
        && answer_tokens(one) == answer_tokens(other)
}

/// The first difference of two sequences of turns. A longer sequence differs in its first additional turn.
pub(crate) fn difference(recorded: &[Turn], replayed: &[Turn]) -> Option<Difference> {
    for (index, (recorded, replayed)) in recorded.iter().zip(replayed).enumerate() {
        if are_alike(recorded, replayed) {
            continue;
        }
        let found = first_field(&OF_TURN, &json(recorded), &json(replayed))
            .or_else(|| first_field(&["tokens"], &answer_tokens_json(recorded), &answer_tokens_json(replayed)));
        if let Some((what, recorded, replayed)) = found {
            return Some(Difference { turn: Some(index as u64), what, recorded, replayed });
        }
    }
    let (one, other) = (recorded.len(), replayed.len());
    (one != other).then(|| Difference {
        turn: Some(one.min(other) as u64),
        what: TURNS.into(),
        recorded: one.to_string(),
        replayed: other.to_string(),
    })
}

/// The first difference of two episodes, up to turn `through` and the observation after it; `None` compares everything.
pub(crate) fn first_difference(recorded: &Episode, replayed: &Episode, through: Option<usize>) -> Option<Difference> {
    let outside = |(what, recorded, replayed)| Difference { turn: None, what, recorded, replayed };
    // JSON is written only of what differs.
    let field = |fields: &[&str], are_alike: bool| match are_alike {
        true => None,
        false => first_field(fields, &json(recorded), &json(replayed)),
    };
    let environment = |episode: &Episode| episode.simulated().map(|simulated| simulated.environment.clone());
    let before = environment(recorded) == environment(replayed)
        && recorded.system_hint == replayed.system_hint
        && recorded.tools == replayed.tools
        && recorded.policy == replayed.policy;
    if let Some(found) = field(&BEFORE_TURNS, before) {
        // An episode that never started has no tools.
        if !replayed.turns.is_empty() || !recorded.turns.is_empty() {
            return Some(outside(found));
        }
    }
    let turns = |episode: &Episode| through.unwrap_or(episode.turns.len()).min(episode.turns.len());
    let (first, second) = (recorded.turns.get(..turns(recorded)), replayed.turns.get(..turns(replayed)));
    let found = difference(first.unwrap_or_default(), second.unwrap_or_default());
    // Truncated before it was opened: there is nothing to compare.
    let unopened = through == Some(0) && recorded.closing.is_empty();
    if found.is_some() || unopened {
        return found;
    }
    if let Some(found) = field(&["closing"], recorded.closing == replayed.closing) {
        return Some(outside(found));
    }
    if through.is_some() {
        return None;
    }
    let after = recorded.ending == replayed.ending
        && recorded.signals == replayed.signals
        && recorded.artefacts == replayed.artefacts
        && recorded.log == replayed.log
        && recorded.journal == replayed.journal;
    field(&AFTER_TURNS, after).map(outside)
}

/// The first differing field: path, recorded value, replayed value.
pub(crate) fn first_field(fields: &[&str], one: &Value, other: &Value) -> Option<(String, String, String)> {
    fields.iter().find_map(|field| first_path(field, one.get(field), other.get(field)))
}

fn first_path(path: &str, one: Option<&Value>, other: Option<&Value>) -> Option<(String, String, String)> {
    match (one, other) {
        (one, other) if one == other => None,
        (Some(Value::Object(first)), Some(Value::Object(second))) => {
            // Trap reports are not compared: stack frames and budgets depend on the machine.
            let keys = first.keys().chain(second.keys().filter(|key| !first.contains_key(*key)));
            let mut keys = keys.filter(|key| *key != "report" && *key != "timing");
            keys.find_map(|key| first_path(&format!("{path}.{key}"), first.get(key), second.get(key)))
        }
        (Some(Value::Array(first)), Some(Value::Array(second))) => (0..first.len().max(second.len()))
            .find_map(|index| first_path(&format!("{path}[{index}]"), first.get(index), second.get(index))),
        (one, other) => {
            let (one, other) = (shown(one), shown(other));
            let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
            Some((path.to_owned(), excerpt(&one, same), excerpt(&other, same)))
        }
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "nothing".into(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// The part of a text around the first differing character.
fn excerpt(text: &str, same: usize) -> String {
    let skipped = if text.chars().count() > SHOWN { same.saturating_sub(BEFORE) } else { 0 };
    let part: String = text.chars().skip(skipped).take(SHOWN).collect();
    let dots = if skipped > 0 { "…" } else { "" };
    format!("`{dots}{}`", escaped(&part, 4 * SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> Episode {
        serde_json::from_str(include_str!("../../../tests/golden/episode-2.json")).unwrap()
    }

    /// A changed copy must differ first at this path.
    fn check(change: impl FnOnce(&mut Episode), turn: Option<u64>, what: &str) {
        let recorded = golden();
        let mut replayed = golden();
        change(&mut replayed);
        let found = first_difference(&recorded, &replayed, None).unwrap();
        assert_eq!((found.turn, found.what.as_str()), (turn, what), "{found:?}");
        assert_ne!(found.recorded, found.replayed);
    }

    #[test]
    fn the_first_difference_is_chronological() {
        assert_eq!(first_difference(&golden(), &golden(), None), None);
        check(|e| e.turns[0].observation[0].parts.clear(), Some(0), "observation[0].parts[0]");
        check(|e| e.turns[0].host_calls = clawhost_core::Digest::of(b"x"), Some(0), "host_calls");
        check(|e| e.turns[0].fuel = Some(1), Some(0), "fuel");
        check(|e| e.turns.clear(), Some(0), "turns");
        check(|e| e.closing.clear(), None, "closing");
        check(|e| e.ending = clawhost_core::Ending::Truncated("x".into()), None, "ending");
        check(|e| e.log.push("a line".into()), None, "log");
        // Two differences: the earlier one is reported.
        let both = |e: &mut Episode| {
            e.turns[0].fuel = Some(1);
            e.turns[0].host_calls = clawhost_core::Digest::of(b"x");
        };
        check(both, Some(0), "host_calls");
    }

    #[test]
    fn timing_is_not_compared() {
        let mut later = golden();
        later.turns[0].timing.policy_us += 17;
        later.created_at += 1;
        assert_eq!(first_difference(&golden(), &later, None), None);
    }

    #[test]
    fn an_excerpt_shows_where_a_long_text_differs() {
        let mut other = golden();
        let mut recorded = golden();
        let long = |end: &str| {
            vec![clawhost_core::Message::text(
                clawhost_core::Role::User,
                clawhost_core::Origin::Environment,
                format!("{}{end}", "x".repeat(5000)),
            )]
        };
        recorded.closing = long("one");
        other.closing = long("two");
        let found = first_difference(&recorded, &other, None).unwrap();
        assert!(found.recorded.ends_with("one`") && found.recorded.starts_with("`…x"), "{found:?}");
        assert!(found.recorded.len() < 1000);
    }
}
