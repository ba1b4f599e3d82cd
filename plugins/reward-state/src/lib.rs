//! 1 if the final state is the expected one and the user was told what they should know, else 0: the scoring of
//! tau-bench (Yao et al. 2024).
//!
//! The environment leaves its final records as the artefact `state.json`; the task's `reference` has the expected ones:
//! `{"state": ..., "communicate": ["text", ...]}`. States are compared completely: numbers by value, objects by their
//! fields in any order. The communicated text is that of the policy's messages and of the argument `message` of its
//! tool calls that were executed (not of calls that the host refused or whose result begins with `error`). A text
//! counts as communicated if it occurs there, ignoring case and thousands separators.

use clawhost_sdk::{
    Context, Ending, Episode, Message, OptionSpec, Origin, Reads, Result, Reward, ToolCall, Verdict, export_reward,
};
use serde_json::Value;

/// The reward.
#[derive(Debug)]
pub struct State;

/// Default name of the artefact with the final records.
const ARTEFACT: &str = "state.json";
/// Default argument of tool calls with text for the user.
const ARGUMENT: &str = "message";
/// Number of differences that a rationale lists.
const SHOWN: usize = 4;

impl Reward for State {
    const NAME: &'static str = "reward-state";
    const SUMMARY: &'static str =
        "1 if the final records and what the user was told are as the task's reference says, else 0";

    fn options() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("artefact", ARTEFACT, "name of the artefact that holds the final records as JSON"),
            OptionSpec::new("argument", ARGUMENT, "argument of tool calls that the user reads; empty: none"),
        ]
    }

    fn reads() -> Vec<Reads> {
        vec![Reads::reference_field("state"), Reads::artefact("<artefact>")]
    }

    fn score(episode: &Episode, context: &Context) -> Result<Verdict> {
        let silent = |why: &str| Ok(Verdict::NotApplicable(why.to_owned()));
        if matches!(episode.ending(), Ending::Failed(_)) {
            return silent("the episode failed");
        }
        let Some(reference) = episode.task().reference else { return silent("the task has no reference") };
        let reference: Value = serde_json::from_str(&reference)?;
        let Some(should) = reference.get("state") else { return silent("the reference names no `state`") };
        let name = context.option("artefact").unwrap_or(ARTEFACT);
        let Some(artefact) = episode.artefact(name) else {
            return silent(&format!("the environment left no `{name}`"));
        };
        let is: Value = serde_json::from_slice(&artefact.bytes).map_err(|error| {
            format!("`{name}` is not JSON ({error}): the environment must leave its records as JSON")
        })?;
        let mut differences = Vec::new();
        compare("", should, &is, &mut differences);

        let told = told(episode, context.option("argument").unwrap_or(ARGUMENT));
        let wanted: Vec<&str> = match reference.get("communicate") {
            None => Vec::new(),
            Some(texts) => {
                let texts = texts.as_array().and_then(|texts| texts.iter().map(Value::as_str).collect::<Option<_>>());
                texts.ok_or("the reference's `communicate` is no list of texts: mend the task")?
            }
        };
        let untold: Vec<&str> = wanted.iter().copied().filter(|text| !told.contains(&plain(text))).collect();

        let state = f64::from(u8::from(differences.is_empty()));
        let share = if wanted.is_empty() { 1.0 } else { 1.0 - untold.len() as f64 / wanted.len() as f64 };
        let good = differences.is_empty() && untold.is_empty();
        let verdict =
            Verdict::scored(f64::from(u8::from(good))).with_part("state", state).with_part("communicated", share);
        Ok(verdict.because(rationale(&differences, &untold)))
    }
}

fn rationale(differences: &[String], untold: &[&str]) -> String {
    let mut text = match differences {
        [] => "the records are as they should be".to_owned(),
        some => {
            let more = if some.len() > SHOWN { format!(" and {} more", some.len() - SHOWN) } else { String::new() };
            format!("the records differ: {}{more}", some.get(..SHOWN.min(some.len())).unwrap_or_default().join("; "))
        }
    };
    if !untold.is_empty() {
        text.push_str(&format!("; the user was not told {}", untold.join(", ")));
    }
    text
}

/// Collects the differences of two values.
fn compare(path: &str, should: &Value, is: &Value, differences: &mut Vec<String>) {
    let short = |value: &Value| value.to_string().chars().take(60).collect::<String>();
    match (should, is) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (field, value) in wanted {
                match found.get(field) {
                    Some(other) => compare(&format!("{path}/{field}"), value, other, differences),
                    None => differences.push(format!("{path}/{field} is missing")),
                }
            }
            for field in found.keys().filter(|field| !wanted.contains_key(*field)) {
                differences.push(format!("{path}/{field} should not be there"));
            }
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            for (position, (value, other)) in wanted.iter().zip(found).enumerate() {
                compare(&format!("{path}/{position}"), value, other, differences);
            }
        }
        (wanted, found) if wanted == found => {}
        // 1 and 1.0 are equal; large integers are compared exactly, above.
        (Value::Number(wanted), Value::Number(found))
            if (wanted.is_f64() || found.is_f64()) && wanted.as_f64() == found.as_f64() => {}
        (wanted, found) => {
            let place = if path.is_empty() { "/" } else { path };
            differences.push(format!("{place} is {} and should be {}", short(found), short(wanted)));
        }
    }
}

/// All text that the policy communicated to the user.
fn told(episode: &Episode, argument: &str) -> String {
    let mut told = String::new();
    for turn in episode.turns() {
        told.push_str(&plain(&turn.action.plain_text()));
        told.push('\n');
        let ran = |call: &&ToolCall| {
            let answers = |result: &&Message| result.tool_call_id.as_deref() == Some(call.id.as_str());
            turn.tool_results.iter().find(answers).is_none_or(|result| {
                result.origin != Origin::Host && !result.plain_text().trim_start().to_lowercase().starts_with("error")
            })
        };
        for call in turn.action.tool_calls.iter().filter(ran) {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            if let Some(text) = arguments.get(argument).and_then(Value::as_str) {
                told.push_str(&plain(text));
                told.push('\n');
            }
        }
    }
    told
}

/// A text, normalised for comparison.
fn plain(text: &str) -> String {
    text.to_lowercase().replace(',', "")
}

export_reward!(State);

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_sdk::Task;
    use clawhost_sdk::testing::{Recording, judge};

    fn recorded(reference: &str, state: Option<&str>, said: &str, told: &str) -> Episode {
        let arguments = serde_json::json!({ "message": told }).to_string();
        let recording = Recording::of(Task::new("train", "t", "").with_reference(reference))
            .acted(Message::assistant(said))
            .acted(Message::calling("c", "close", arguments));
        match state {
            Some(state) => recording.left("state.json", state).ended(Ending::Terminated),
            None => recording.ended(Ending::Terminated),
        }
    }

    fn check(reference: &str, state: &str, told: &str, expected: f64, why: &str) {
        let verdicts = judge::<State>(vec![recorded(reference, Some(state), "", told)], &[]).unwrap();
        let Verdict::Scored { value, rationale, .. } = &verdicts[0] else { panic!("{:?}", verdicts[0]) };
        assert_eq!(*value, expected, "{reference} | {state} | {told}");
        assert!(rationale.contains(why), "{why}: {rationale}");
    }

    #[test]
    fn the_whole_state_is_compared() {
        check(r#"{"state": {"a": 1, "b": [1, 2]}}"#, r#"{"b": [1.0, 2], "a": 1}"#, "", 1.0, "as they should be");
        check(r#"{"state": {"a": 1}}"#, r#"{"a": 2}"#, "", 0.0, "/a is 2 and should be 1");
        check(r#"{"state": {"a": 1}}"#, r#"{"a": 1, "b": 2}"#, "", 0.0, "/b should not be there");
        check(r#"{"state": {"a": {"b": null}}}"#, r#"{"a": {}}"#, "", 0.0, "/a/b is missing");
        check(r#"{"state": 9007199254740993}"#, "9007199254740992", "", 0.0, "/ is 9007199254740992");
        check(r#"{"state": [1, 2]}"#, "[1]", "", 0.0, "/ is [1] and should be [1,2]");
        check(r#"{"state": 1}"#, "\"1\"", "", 0.0, "/ is \"1\"");
        check(r#"{"state": [1,2,3,4,5,6]}"#, "[0,0,0,0,0,0]", "", 0.0, "and 2 more");
    }

    #[test]
    fn the_required_texts_must_be_communicated() {
        let reference = r#"{"state": 1, "communicate": ["A17", "1234.50"]}"#;
        check(reference, "1", "order a17: 1,234.50", 1.0, "as they should be");
        check(reference, "1", "order A17", 0.0, "was not told 1234.50");
        let said = recorded(reference, Some("1"), "A17 and 1234.50", "");
        assert_eq!(judge::<State>(vec![said], &[]).unwrap()[0].value(), Some(1.0), "in words counts too");
        let elsewhere = recorded(reference, Some("1"), "", "A17 1234.50");
        assert_eq!(judge::<State>(vec![elsewhere], &[("argument", "note")]).unwrap()[0].value(), Some(0.0));
    }

    #[test]
    fn texts_in_calls_that_were_not_executed_do_not_count() {
        let reference = r#"{"state": 1, "communicate": ["A17"]}"#;
        let recording = || {
            Recording::of(Task::new("train", "t", "").with_reference(reference))
                .acted(Message::calling("c", "shout", r#"{"message": "A17"}"#))
                .left("state.json", "1")
        };
        let value =
            |recording: Recording| judge::<State>(vec![recording.ended(Ending::Terminated)], &[]).unwrap()[0].value();
        assert_eq!(value(recording().answered("c", "done")), Some(1.0));
        assert_eq!(value(recording().refused("c", "there is no tool `shout`")), Some(0.0));
        assert_eq!(value(recording().answered("c", "Error: closed already")), Some(0.0));
    }

    #[test]
    fn incomparable_states_give_no_value() {
        let check = |episode, silent: bool, why: &str| {
            let verdict = judge::<State>(vec![episode], &[]).unwrap().remove(0);
            assert_eq!((verdict.value(), matches!(verdict, Verdict::NotApplicable(_))), (None, silent), "{verdict:?}");
            assert!(format!("{verdict:?}").contains(why), "{why}: {verdict:?}");
        };
        let bare = Recording::of(Task::new("train", "t", "")).ended(Ending::Terminated);
        check(bare, true, "no reference");
        check(recorded(r#"{"state": 1, "communicate": "A17"}"#, Some("1"), "", ""), false, "no list of texts");
        check(recorded(r#"{"state": 1, "communicate": [17]}"#, Some("1"), "", ""), false, "no list of texts");
        check(recorded(r#"{"answer": 4}"#, Some("1"), "", ""), true, "names no `state`");
        check(recorded(r#"{"state": 1}"#, None, "", ""), true, "left no `state.json`");
        check(recorded(r#"{"state": 1}"#, Some("{"), "", ""), false, "is not JSON");
        let failed = Recording::of(Task::new("train", "t", "").with_reference("{}")).ended(Ending::Failed("x".into()));
        check(failed, true, "the episode failed");
    }
}
