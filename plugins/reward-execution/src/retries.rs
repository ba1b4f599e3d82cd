//! Calls that an agent makes again in vain.

use crate::{REFUSED, judge};
use clawhost_sdk::{Message, ToolCall, Turn};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How often the same call may be made, with nothing else that worked in between, before the same result is no news.
const TIMES: usize = 2;

/// A call by its name and its arguments; their spaces and the order of their fields do not matter.
type Same = (String, String);

/// What is known of a call since another one worked.
#[derive(Default)]
struct Known {
    times: usize,
    failed: bool,
    result: String,
}

fn same(call: &ToolCall) -> Same {
    let sorted = |mut value: Value| {
        value.sort_all_objects();
        value.to_string()
    };
    let arguments = serde_json::from_str(&call.arguments).map(sorted);
    (call.name.clone(), arguments.unwrap_or_else(|_| call.arguments.trim().to_owned()))
}

/// The calls of a turn with their results.
fn answered(turn: &Turn) -> impl Iterator<Item = (Same, &Message)> {
    let result = |call: &ToolCall| {
        turn.tool_results.iter().find(|result| result.tool_call_id.as_deref() == Some(call.id.as_str()))
    };
    turn.action.tool_calls.iter().filter_map(move |call| Some((same(call), result(call)?)))
}

/// How often a call with the same name and equal arguments is made again in vain: right after its own failure it fails again, or it is made for the
/// third time or more and says the same as before.
///
/// - "Right after" means that no other call has worked meanwhile: after a change, the same call is a new question.
/// - A second try that works is none: the failure was of the moment.
/// - A call that says something new each time is none: it waits for something, or turns pages.
/// - Equal calls of one answer are one: the agent had seen none of their results.
pub(crate) fn retried(turns: &[Turn]) -> usize {
    let mut known: BTreeMap<Same, Known> = BTreeMap::new();
    let mut retries = 0;
    for turn in turns {
        let mut made = BTreeSet::new();
        let mut worked = BTreeSet::new();
        for (call, result) in answered(turn) {
            let value = judge(result).value;
            if value > 0.0 {
                worked.insert(call.clone());
            }
            if !made.insert(call.clone()) {
                continue;
            }
            // An empty result is no failure.
            let (failed, result) = (value <= REFUSED.value, result.plain_text());
            let before = known.entry(call).or_default();
            let fails_again = before.failed && failed;
            let says_the_same = before.times >= TIMES && before.result == result;
            retries += usize::from(fails_again || says_the_same);
            *before = Known { times: before.times + 1, failed, result };
        }
        known.retain(|call, _| worked.iter().all(|other| other == call));
    }
    retries
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_sdk::testing::Recording;
    use clawhost_sdk::{Ending, Task};

    const FAILED: &str = "error: no such file";

    /// Each turn has calls: name, arguments, result.
    fn check(turns: &[&[(&str, &str, &str)]], expect: usize) {
        let turn = |recording: Recording, calls: &&[(&str, &str, &str)]| {
            let call = |(at, (name, arguments, _)): (usize, &(&str, &str, &str))| {
                ToolCall::new(format!("c{at}"), *name, *arguments)
            };
            let tool_calls = calls.iter().enumerate().map(call).collect();
            let acted = recording.acted(Message { tool_calls, ..Message::assistant("") });
            calls
                .iter()
                .enumerate()
                .fold(acted, |acted, (at, (_, _, result))| acted.answered(&format!("c{at}"), *result))
        };
        let begun = Recording::of(Task::new("live", "s", ""));
        let episode = turns.iter().fold(begun, turn).ended(Ending::Terminated);
        assert_eq!(retried(&episode.turns()), expect, "{turns:?}");
    }

    #[test]
    fn the_same_call_right_after_its_failure_is_in_vain_if_it_fails_again() {
        let failed = ("read", r#"{"a": 1, "b": 2}"#, FAILED);
        check(&[&[failed], &[failed]], 1);
        check(&[&[failed], &[("read", r#"{"b":2,"a":1}"#, FAILED)], &[failed]], 2);
        check(&[&[failed], &[("read", r#"{"a": 1, "b": 3}"#, FAILED)]], 0);
        check(&[&[failed], &[("list", r#"{"a": 1, "b": 2}"#, FAILED)]], 0);
        check(&[&[("run", "no json ", FAILED)], &[("run", "no json", FAILED)]], 1);
        check(&[&[failed], &[("read", r#"{"a": 1, "b": 2}"#, "the text")]], 0);
        check(&[&[("make", "{}", "")], &[("make", "{}", "")]], 0);
    }

    #[test]
    fn after_another_call_that_worked_the_same_call_is_a_new_question() {
        let (test, edit) = (("test", "{}", "exit code: 1"), ("edit", "{}", r#"{"ok": true}"#));
        check(&[&[test], &[edit], &[test], &[edit], &[test]], 0);
        check(&[&[test, edit], &[test]], 0);
        check(&[&[test], &[("edit", "{}", FAILED)], &[test]], 1);
    }

    #[test]
    fn the_same_call_for_the_third_time_is_in_vain_if_it_says_the_same() {
        let list = ("list", "{}", "a, b");
        check(&[&[list], &[list]], 0);
        check(&[&[list], &[list], &[list], &[list]], 2);
        check(&[&[list], &[list], &[("read", "{}", "text")], &[list]], 0);
        let state = |result| ("state", "{}", result);
        check(&[&[state("1 of 3")], &[state("2 of 3")], &[state("3 of 3")]], 0);
    }

    #[test]
    fn equal_calls_of_one_answer_are_one() {
        let failed = ("read", "{}", FAILED);
        check(&[&[failed, failed, failed]], 0);
        check(&[&[failed, failed], &[failed, failed]], 1);
    }

    #[test]
    fn a_call_without_a_result_is_no_retry() {
        let turn = Recording::of(Task::new("live", "s", "")).acted(Message::calling("c", "read", "{}"));
        let twice = turn.acted(Message::calling("c", "read", "{}")).ended(Ending::Terminated);
        assert_eq!(retried(&twice.turns()), 0);
    }
}
