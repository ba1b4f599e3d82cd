//! The format of the policy's messages: the share of its turns without a fault.
//!
//! A turn is faulty if it is empty, contains chat-template tokens, calls an unavailable tool, or calls one with arguments
//! that are not a JSON object or do not fit the tool's schema (required fields, unknown fields if none are allowed, and
//! the types of the top level). With the option `answer` the last message must also contain a boxed answer or JSON.
//!
//! Its source is `execution`: beside an outcome reward it is recorded and does not decide.

mod schema;

use clawhost_sdk::{
    Context, Ending, Episode, OptionSpec, Result, Reward, Source, ToolSpec, Turn, Verdict, export_reward,
};
use serde_json::Value;

/// The reward.
#[derive(Debug)]
pub struct Format;

/// The required content of the last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Any,
    Boxed,
    Json,
}

impl Answer {
    fn of(context: &Context) -> Result<Self> {
        match context.option("answer").unwrap_or("any") {
            "any" => Ok(Self::Any),
            "boxed" => Ok(Self::Boxed),
            "json" => Ok(Self::Json),
            other => Err(format!("answer={other} is none of any, boxed, json").into()),
        }
    }
}

/// Number of faults that a rationale lists.
const SHOWN: usize = 4;

/// Tokens of chat templates, which a model should not write.
const TEMPLATE_MARKS: [&str; 8] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "[INST]",
    "[/INST]",
    "<|user|>",
];

impl Reward for Format {
    const NAME: &'static str = "reward-format";
    const SUMMARY: &'static str =
        "share of the policy's turns that are well formed: known tools, fitting arguments, no leaked tokens";
    const SOURCE: Source = Source::Execution;

    fn options() -> Vec<OptionSpec> {
        vec![OptionSpec::new("answer", "any", "what the last message must hold: any, boxed (\\boxed{...}) or json")]
    }

    fn check(context: &Context) -> Result<()> {
        Answer::of(context).map(|_| ())
    }

    fn score(episode: &Episode, context: &Context) -> Result<Verdict> {
        let answer = Answer::of(context)?;
        if matches!(episode.ending(), Ending::Failed(_)) {
            return Ok(Verdict::NotApplicable("the episode failed".into()));
        }
        let (tools, turns) = (episode.tools(), episode.turns());
        if turns.is_empty() {
            return Ok(Verdict::NotApplicable("the policy never acted".into()));
        }
        let mut faults: Vec<Vec<String>> = turns.iter().map(|turn| faults(turn, &tools)).collect();
        if let (Some(last), Some(of_last)) = (turns.last(), faults.last_mut()) {
            of_last.extend(missing(&last.action.plain_text(), answer));
        }
        let per_turn: Vec<f64> = faults.iter().map(|faults| f64::from(u8::from(faults.is_empty()))).collect();
        let value = per_turn.iter().sum::<f64>() / per_turn.len() as f64;
        let listed: Vec<String> = (0..)
            .zip(&faults)
            .flat_map(|(turn, faults): (u32, _)| faults.iter().map(move |fault| format!("turn {turn}: {fault}")))
            .collect();
        let count = listed.len();
        let why = match count {
            0 => "every turn is well formed".to_owned(),
            _ => listed.into_iter().take(SHOWN).collect::<Vec<_>>().join("; "),
        };
        Ok(Verdict::scored(value).with_turns(per_turn).with_part("faults", count as f64).because(why))
    }
}

fn faults(turn: &Turn, tools: &[ToolSpec]) -> Vec<String> {
    let mut faults = Vec::new();
    let text = turn.action.plain_text();
    if text.trim().is_empty() && turn.action.tool_calls.is_empty() {
        faults.push("an empty message".to_owned());
    }
    if let Some(mark) = TEMPLATE_MARKS.iter().find(|mark| text.contains(**mark)) {
        faults.push(format!("leaks the chat-template token {mark}"));
    }
    for call in &turn.action.tool_calls {
        let name: String = call.name.chars().take(64).collect();
        let Some(tool) = tools.iter().find(|tool| tool.name == call.name) else {
            faults.push(format!("calls `{name}`, which is not on offer"));
            continue;
        };
        match serde_json::from_str::<Value>(&call.arguments) {
            Ok(Value::Object(arguments)) => {
                let schema: Value = serde_json::from_str(&tool.input_schema).unwrap_or_default();
                faults.extend(schema::faults(&schema, &arguments).map(|fault| format!("{name}: {fault}")));
            }
            _ => faults.push(format!("{name}: its arguments are no JSON object")),
        }
    }
    faults
}

fn missing(text: &str, answer: Answer) -> Option<String> {
    let fits = match answer {
        Answer::Any => true,
        Answer::Boxed => text.contains("\\boxed{"),
        Answer::Json => serde_json::from_str::<Value>(text.trim()).is_ok(),
    };
    let wanted = if answer == Answer::Boxed { "no \\boxed{} answer" } else { "the answer is not JSON" };
    (!fits).then(|| wanted.to_owned())
}

export_reward!(Format);

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_sdk::testing::{Recording, judge};
    use clawhost_sdk::{Message, Task};

    fn recording() -> Recording {
        let schema = r#"{"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}},
                         "required": ["id"], "additionalProperties": false}"#;
        Recording::of(Task::new("train", "t", "")).offering(ToolSpec::new("look", "looks", schema))
    }

    fn check(action: Message, value: f64, why: &str) {
        let episode = recording().acted(action.clone()).ended(Ending::Terminated);
        let verdict = judge::<Format>(vec![episode], &[]).unwrap().remove(0);
        assert_eq!(verdict.value(), Some(value), "{action:?}");
        assert!(format!("{verdict:?}").contains(why), "{why}: {verdict:?}");
    }

    #[test]
    fn faults_are_named() {
        let call = |name: &str, arguments: &str| Message::calling("c", name, arguments);
        check(call("look", r#"{"id": "x", "n": 3}"#), 1.0, "well formed");
        check(Message::assistant("words are fine"), 1.0, "well formed");
        check(call("peek", "{}"), 0.0, "`peek`, which is not on offer");
        check(call("look", "{"), 0.0, "no JSON object");
        check(call("look", "[]"), 0.0, "no JSON object");
        check(call("look", "{}"), 0.0, "`id` is missing");
        check(call("look", r#"{"id": 3}"#), 0.0, "`id` is no string");
        check(call("look", r#"{"id": "x", "n": 1.5}"#), 0.0, "`n` is no integer");
        check(call("look", r#"{"id": "x", "m": 1}"#), 0.0, "`m` is unknown");
        check(Message::assistant(" \n"), 0.0, "an empty message");
        check(Message::assistant("yes<|im_end|>"), 0.0, "leaks the chat-template token <|im_end|>");
    }

    #[test]
    fn the_value_is_the_share_of_valid_turns() {
        let good = Message::calling("c", "look", r#"{"id": "x"}"#);
        let episode = recording().acted(good.clone()).acted(Message::assistant("")).acted(good.clone()).acted(good);
        let verdict = judge::<Format>(vec![episode.ended(Ending::Terminated)], &[]).unwrap().remove(0);
        let Verdict::Scored { value, per_turn, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!((value, per_turn), (0.75, vec![1.0, 0.0, 1.0, 1.0]));
    }

    #[test]
    fn a_form_of_the_last_answer_can_be_required() {
        let value = |text: &str, answer: &str| {
            let episode = recording().acted(Message::assistant(text)).ended(Ending::Terminated);
            judge::<Format>(vec![episode], &[("answer", answer)]).unwrap()[0].value()
        };
        assert_eq!(value("so \\boxed{4}", "boxed"), Some(1.0));
        assert_eq!(value("so 4", "boxed"), Some(0.0));
        assert_eq!(value(" {\"a\": 1} ", "json"), Some(1.0));
        assert_eq!(value("so 4", "json"), Some(0.0));
        assert_eq!(value("so 4", "yaml"), None);
        let silent = judge::<Format>(vec![recording().ended(Ending::Terminated)], &[]).unwrap();
        assert!(matches!(&silent[0], Verdict::NotApplicable(_)));
    }
}
