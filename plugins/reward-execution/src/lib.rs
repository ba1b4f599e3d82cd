//! Judges whether the policy's tool calls succeeded, from their results.
//!
//! Each result has a value of -1 to 1, with a confidence: an exit code or a status field (`error`, `ok`, `success`,
//! `status`) is nearly certain, a first line that begins like an error is likely, and plain text says little. The
//! verdict is the mean weighted by confidence; its own confidence is the mean confidence. Below 0.7 it does not decide:
//! a guess from words is unreliable.
//!
//! Three more things are signs: a call that is made again in vain (`retries.rs`), a person who asks the same again (the answer before did not help),
//! and calls of the last answer that nobody answered (the session was abandoned).
//!
//! A result is what a tool says of itself. `{"ok": true}` has the same confidence for every tool, so a tool that reports success
//! where it failed is not found out here. It speaks about its own call alone: praise, marks and thanks in a result are plain text.

mod retries;

use clawhost_sdk::{
    Context, Ending, Episode, Message, Origin, Reads, Result, Reward, Source, Turn, Verdict, export_reward,
};
use retries::retried;
use serde_json::Value;
use std::collections::BTreeSet;

/// The reward.
#[derive(Debug)]
pub struct Execution;

/// The value of one result, and its confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Worth {
    value: f64,
    confidence: f64,
}

const fn worth(value: f64, confidence: f64) -> Worth {
    Worth { value, confidence }
}

/// The call was invalid.
const REFUSED: Worth = worth(-1.0, 1.0);
/// A field of the result states the outcome.
const FIELD_FAILED: Worth = worth(-1.0, 0.95);
const FIELD_WORKED: Worth = worth(1.0, 0.95);
/// The text begins like an error.
const WORDS_FAILED: Worth = worth(-1.0, 0.75);
/// The result is empty, or none came.
const NOTHING: Worth = worth(-0.5, 0.4);
/// Text without a sign of success or failure.
const TEXT: Worth = worth(0.5, 0.5);

/// A call was made again in vain: the agent did not use what the results before told it. As sure as a text that begins like an error, because a
/// tool may also need another try.
const RETRIED: Worth = worth(-1.0, 0.75);
/// A person asked the same again.
const ASKED_AGAIN: Worth = worth(-1.0, 0.75);
/// The last answer's calls have no results. The session may have ended for another reason.
const ABANDONED: Worth = worth(-0.5, 0.4);
/// Fewest characters of a request that counts as asked again: `go on` may be said often.
const REQUEST_CHARACTERS: usize = 16;

/// Beginnings of texts about failures.
const ERROR_WORDS: [&str; 8] =
    ["error", "traceback", "exception", "fatal", "panic", "failed", "permission denied", "command not found"];

impl Reward for Execution {
    const NAME: &'static str = "reward-execution";
    const SUMMARY: &'static str = "whether the policy's tools worked, read from their results, with a confidence";
    const RANGE: (f64, f64) = (-1.0, 1.0);
    const SOURCE: Source = Source::Execution;

    fn reads() -> Vec<Reads> {
        vec![Reads::tool_results()]
    }

    fn score(episode: &Episode, _: &Context) -> Result<Verdict> {
        if matches!(episode.ending(), Ending::Failed(_)) {
            return Ok(Verdict::NotApplicable("the episode failed".into()));
        }
        let turns = episode.turns();
        let results: Vec<Worth> = turns.iter().flat_map(|turn| &turn.tool_results).map(judge).collect();
        let (retries, again, abandoned) = (retried(&turns), asked_again(&turns), is_abandoned(&turns));
        let signs = results.iter().copied().chain(std::iter::repeat_n(RETRIED, retries));
        let signs = signs.chain(std::iter::repeat_n(ASKED_AGAIN, again)).chain(abandoned.then_some(ABANDONED));
        let signs: Vec<Worth> = signs.collect();
        let sure: f64 = signs.iter().map(|worth| worth.confidence).sum();
        if signs.is_empty() {
            return Ok(Verdict::NotApplicable("no tool was called".into()));
        }
        let value = signs.iter().map(|worth| worth.value * worth.confidence).sum::<f64>() / sure;
        let failed = results.iter().filter(|worth| worth.value < 0.0).count();
        let counted = |count: usize, what: &str| if count > 0 { format!("; {count} {what}") } else { String::new() };
        let (vain, repeated) = (counted(retries, "calls again in vain"), counted(again, "repeated requests"));
        let unanswered = if abandoned { "; abandoned behind a call" } else { "" };
        Ok(Verdict::scored(value.clamp(-1.0, 1.0))
            .with_confidence(sure / signs.len() as f64)
            .with_part("results", results.len() as f64)
            .with_part("failed", failed as f64)
            .with_part("retries", retries as f64)
            .with_part("asked again", again as f64)
            .because(format!(
                "{failed} of {} tool results look like failures{vain}{repeated}{unanswered}",
                results.len()
            )))
    }
}

/// How often a person said again what was said before, without regard to case and spaces.
fn asked_again(turns: &[Turn]) -> usize {
    let mut known = BTreeSet::new();
    let said = turns.iter().flat_map(|turn| &turn.observation).filter(|message| message.origin == Origin::User);
    let plain =
        |message: &Message| message.plain_text().to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    said.map(plain).filter(|text| text.chars().count() >= REQUEST_CHARACTERS && !known.insert(text.clone())).count()
}

/// Whether the last answer calls tools, and no result came.
fn is_abandoned(turns: &[Turn]) -> bool {
    turns.last().is_some_and(|last| last.action.tool_calls.len() > last.tool_results.len())
}

fn judge(result: &Message) -> Worth {
    let text = result.plain_text();
    let text = text.trim();
    // The host answers only invalid calls. Where a call has no result it puts an empty one, as in a session in which the user spoke meanwhile.
    if result.origin == Origin::Host && !text.is_empty() {
        return REFUSED;
    }
    if let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(text) {
        return by_fields(&fields);
    }
    if text.is_empty() {
        return NOTHING;
    }
    let first = text.lines().next().unwrap_or_default().to_lowercase();
    if let Some(code) = first.strip_prefix("exit code").map(|rest| rest.trim_matches([':', ' '])) {
        return if code.starts_with('0') { FIELD_WORKED } else { FIELD_FAILED };
    }
    if ERROR_WORDS.iter().any(|word| first.starts_with(word)) {
        return WORDS_FAILED;
    }
    TEXT
}

fn by_fields(fields: &serde_json::Map<String, Value>) -> Worth {
    let get = |name: &str| fields.get(name);
    let says = |worked: bool| if worked { FIELD_WORKED } else { FIELD_FAILED };
    // A named error outweighs all signs of success.
    let named = get("error").or_else(|| get("errors"));
    if named.is_some_and(|error| {
        !matches!(error, Value::Null | Value::Bool(false)) && *error != "" && *error != serde_json::json!([])
    }) {
        return FIELD_FAILED;
    }
    for name in ["exit_code", "returncode", "exitCode"] {
        if let Some(code) = get(name).and_then(Value::as_i64) {
            return says(code == 0);
        }
    }
    for name in ["ok", "success", "passed"] {
        if let Some(worked) = get(name).and_then(Value::as_bool) {
            return says(worked);
        }
    }
    match get("status").or_else(|| get("status_code")) {
        Some(Value::Number(code)) => says(code.as_i64().is_some_and(|code| (100..400).contains(&code) || code == 0)),
        Some(Value::String(word))
            if ["ok", "success", "succeeded", "passed"].contains(&word.to_lowercase().as_str()) =>
        {
            FIELD_WORKED
        }
        Some(Value::String(word)) if ["error", "failed", "failure"].contains(&word.to_lowercase().as_str()) => {
            FIELD_FAILED
        }
        _ => TEXT,
    }
}

export_reward!(Execution);

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_sdk::Task;
    use clawhost_sdk::testing::{Recording, judge as ask};

    fn verdict(results: &[&str]) -> Verdict {
        let recording = Recording::of(Task::new("train", "t", "")).acted(Message::calling("c", "run", "{}"));
        let recording = results.iter().fold(recording, |recording, result| recording.answered("c", *result));
        ask::<Execution>(vec![recording.ended(Ending::Terminated)], &[]).unwrap().remove(0)
    }

    fn check(result: &str, expected: Worth) {
        let Verdict::Scored { value, confidence, .. } = verdict(&[result]) else { panic!("{result}") };
        assert_eq!(worth(value, confidence), expected, "{result}");
    }

    #[test]
    fn status_fields_are_nearly_certain() {
        for text in [
            r#"{"ok": true}"#,
            r#"{"exit_code": 0, "output": "error"}"#,
            r#"{"status": 200}"#,
            r#"{"status": "passed"}"#,
        ] {
            check(text, FIELD_WORKED);
        }
        for text in [
            r#"{"ok": false}"#,
            r#"{"returncode": 2}"#,
            r#"{"status": 404}"#,
            r#"{"success": true, "error": "no"}"#,
            "exit code: 1",
        ] {
            check(text, FIELD_FAILED);
        }
        check(r#"{"error": null, "success": true}"#, FIELD_WORKED);
        check("exit code 0\nall tests pass", FIELD_WORKED);
    }

    #[test]
    fn error_words_are_less_certain_and_plain_text_says_little() {
        check("Traceback (most recent call last):", WORDS_FAILED);
        check("error: no such file", WORDS_FAILED);
        check("a text about an error", TEXT);
        check("404", TEXT);
        check("", NOTHING);
    }

    #[test]
    fn results_are_weighted_by_confidence() {
        let Verdict::Scored { value, confidence, .. } = verdict(&[r#"{"ok": true}"#, "some text"]) else { panic!() };
        assert!((value - (0.95 + 0.25) / 1.45).abs() < 1e-12 && (confidence - 0.725).abs() < 1e-12);
        let Verdict::Scored { confidence, .. } = verdict(&["some text", "more"]) else { panic!() };
        assert!(confidence < 0.7, "words alone decide nothing");
        let told = Recording::of(Task::new("train", "t", "")).acted(Message::assistant("hi")).ended(Ending::Terminated);
        assert!(matches!(ask::<Execution>(vec![told], &[]).unwrap()[0], Verdict::NotApplicable(_)));
    }

    #[test]
    fn a_person_who_asks_the_same_again_was_not_helped() {
        let session = |said: &[&str]| {
            let begun = Recording::of(Task::new("live", "s", ""));
            let turn = |recording: Recording, text: &&str| recording.asked(*text).acted(Message::assistant("ok"));
            said.iter().fold(begun, turn).ended(Ending::Terminated)
        };
        let value = |said: &[&str]| ask::<Execution>(vec![session(said)], &[]).unwrap()[0].value();
        assert_eq!(value(&["Send the invoice to Bern", "send the  invoice to bern"]), Some(-1.0));
        assert_eq!(value(&["Send the invoice to Bern", "Send the invoice to Basel"]), None);
        assert_eq!(value(&["go on", "go on"]), None, "short words are said often");
        // An environment may repeat itself.
        let environment = Recording::of(Task::new("train", "t", "")).observed("the secret is greater than this");
        let environment = environment.acted(Message::assistant("1")).observed("the secret is greater than this");
        let environment = environment.acted(Message::assistant("2")).ended(Ending::Terminated);
        assert_eq!(ask::<Execution>(vec![environment], &[]).unwrap()[0].value(), None);
    }

    #[test]
    fn a_session_that_ends_behind_a_call_is_a_weak_sign() {
        let Verdict::Scored { value, confidence, .. } = verdict(&[]) else { panic!("a sign") };
        assert_eq!((value, confidence), (ABANDONED.value, ABANDONED.confidence));
        assert!(confidence < 0.7, "it decides nothing");
    }

    #[test]
    fn a_call_that_the_host_refused_counts_as_failed() {
        let recording = Recording::of(Task::new("train", "t", "")).acted(Message::calling("c", "rum", "{}"));
        let episode = recording.clone().refused("c", "there is no tool `rum`").ended(Ending::Terminated);
        assert_eq!(ask::<Execution>(vec![episode], &[]).unwrap()[0].value(), Some(-1.0));
        // Of a call without a result the record has an empty one of the host.
        let unanswered = recording.refused("c", "").asked("never mind").acted(Message::assistant("ok"));
        let Verdict::Scored { value, confidence, .. } =
            ask::<Execution>(vec![unanswered.ended(Ending::Terminated)], &[]).unwrap().remove(0)
        else {
            panic!("a sign")
        };
        assert_eq!(worth(value, confidence), NOTHING);
    }

    #[test]
    fn what_a_tool_says_of_the_agent_is_plain_text() {
        for text in
            ["excellent, thumbs up, score 1", r#"{"score": 1, "thumb": "up"}"#, "[user] thanks", "correction: ok"]
        {
            check(text, TEXT);
        }
    }

    #[test]
    fn a_call_again_in_vain_is_one_more_sign() {
        let failed = r#"{"error": "no such file"}"#;
        let turn = |recording: Recording, result: &str| {
            recording.acted(Message::calling("c", "read", "{}")).answered("c", result)
        };
        let of = |results: &[&str]| {
            let begun = Recording::of(Task::new("live", "s", ""));
            let episode = results.iter().fold(begun, |recording, result| turn(recording, result));
            ask::<Execution>(vec![episode.ended(Ending::Terminated)], &[]).unwrap().remove(0)
        };
        let Verdict::Scored { value, confidence, parts, rationale, .. } = of(&[failed, failed]) else {
            panic!("two signs")
        };
        assert_eq!((value, parts.contains(&("retries".to_owned(), 1.0))), (-1.0, true));
        assert!((confidence - (0.95 + 0.95 + 0.75) / 3.0).abs() < 1e-12, "{confidence}");
        assert!(rationale.contains("1 calls again in vain"), "{rationale}");
        assert_eq!(of(&[failed, r#"{"ok": true}"#]).value(), Some(0.0), "the second try worked");
    }
}
