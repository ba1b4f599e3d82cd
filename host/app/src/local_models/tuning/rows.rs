//! Reads examples from files: one JSON object per line, in the forms that TRL's trainers read.
//!
//! | objective | line |
//! |---|---|
//! | SFT | `{"messages": [...]}` |
//! | DPO | `{"prompt": ..., "chosen": ..., "rejected": ...}`; without a prompt it is the common beginning of both |
//! | KTO | `{"prompt": ..., "completion": ..., "label": true}` |
//!
//! A prompt, a chosen or rejected answer and a completion are texts or lists of messages. A text becomes a message: of the user,
//! or of the assistant. `tools` of a line are those of the chat dialect. Other fields are ignored.

use super::TuneObjective;
use crate::{AppError, RequestError};
use clawhost_core::{Message, Origin, Role, ToolSpec};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Largest file that is read: data sets of chat are smaller, and all examples are held in memory.
const FILE_BYTES: u64 = 512 << 20;

/// A conversation whose answers from a message on are learned.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dialogue {
    pub(super) messages: Vec<Message>,
    pub(super) tools: Vec<ToolSpec>,
    /// The first message that is not part of the prompt.
    pub(super) from: usize,
}

/// What one example teaches.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lesson {
    /// Answers to imitate.
    Imitate(Dialogue),
    /// Answers of which the first is better.
    Prefer { chosen: Dialogue, rejected: Dialogue },
    /// Answers with a label.
    Label { dialogue: Dialogue, is_desirable: bool },
}

/// An example with its place for messages: `FILE:LINE`, or an episode.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) place: String,
    pub(super) lesson: Lesson,
}

/// The error of a line.
pub(super) fn invalid(place: &str, why: impl std::fmt::Display) -> AppError {
    RequestError::Example { place: place.to_owned(), why: why.to_string() }.into()
}

/// The examples of these files, in order.
pub(super) fn read(objective: TuneObjective, files: &[PathBuf]) -> Result<Vec<Row>, AppError> {
    let mut rows = Vec::new();
    for file in files {
        let shown = file.display().to_string();
        let text = clawhost_files::read_text(file, FILE_BYTES)
            .map_err(|error| RequestError::File { path: shown.clone(), why: error.to_string() })?;
        for (number, line) in (1_u64..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let place = format!("{shown}:{number}");
            let lesson = lesson(objective, line).map_err(|why| invalid(&place, why))?;
            rows.push(Row { place, lesson });
        }
    }
    Ok(rows)
}

fn lesson(objective: TuneObjective, line: &str) -> Result<Lesson, String> {
    let mut fields: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| format!("not a JSON object: {error}"))?;
    let tools = fields.remove("tools").filter(|tools| !tools.is_null()).unwrap_or_else(|| json!([]));
    let dialogue = |prompt: &[Value], answers: Vec<Value>| dialogue(prompt, answers, &tools);
    let lesson = match objective {
        TuneObjective::Sft => {
            let messages = list(&mut fields, "messages")?;
            Lesson::Imitate(dialogue(&[], messages)?)
        }
        TuneObjective::Dpo { .. } => {
            let mut chosen = said(&mut fields, "chosen", "assistant")?;
            let mut rejected = said(&mut fields, "rejected", "assistant")?;
            let prompt = match fields.contains_key("prompt") {
                true => said(&mut fields, "prompt", "user")?,
                false => {
                    let common = chosen.iter().zip(&rejected).take_while(|(one, other)| one == other).count();
                    rejected.drain(..common);
                    chosen.drain(..common).collect()
                }
            };
            if prompt.is_empty() {
                return Err("`prompt` is missing, and `chosen` and `rejected` have no common beginning".to_owned());
            }
            if chosen == rejected {
                return Err("`chosen` and `rejected` are equal, so there is nothing to prefer".to_owned());
            }
            Lesson::Prefer { chosen: dialogue(&prompt, chosen)?, rejected: dialogue(&prompt, rejected)? }
        }
        TuneObjective::Kto(_) => {
            let prompt = said(&mut fields, "prompt", "user")?;
            let completion = said(&mut fields, "completion", "assistant")?;
            let is_desirable = match fields.get("label") {
                Some(Value::Bool(label)) => *label,
                Some(other) => return Err(format!("`label` is {other}; expected true or false")),
                None => return Err("`label` is missing; expected true or false".to_owned()),
            };
            Lesson::Label { dialogue: dialogue(&prompt, completion)?, is_desirable }
        }
    };
    Ok(lesson)
}

/// A list of messages.
fn list(fields: &mut Map<String, Value>, name: &str) -> Result<Vec<Value>, String> {
    match fields.remove(name) {
        Some(Value::Array(messages)) => Ok(messages),
        Some(_) => Err(format!("`{name}` is not a list of messages")),
        None => Err(format!("`{name}` is missing")),
    }
}

/// A text as a message of this role, or a list of messages.
fn said(fields: &mut Map<String, Value>, name: &str, role: &str) -> Result<Vec<Value>, String> {
    match fields.get(name) {
        Some(Value::String(text)) => Ok(vec![json!({ "role": role, "content": text })]),
        Some(Value::Array(_)) => list(fields, name),
        Some(_) => Err(format!("`{name}` is neither a text nor a list of messages")),
        None => Err(format!("`{name}` is missing")),
    }
}

/// Parses messages as those of a client's request.
fn dialogue(prompt: &[Value], answers: Vec<Value>, tools: &Value) -> Result<Dialogue, String> {
    let from = prompt.len();
    let messages: Vec<Value> = prompt.iter().cloned().chain(answers).collect();
    let body = json!({ "model": "-", "messages": messages, "tools": tools }).to_string();
    let request = clawhost_wire::openai::read_request(&body, 1).map_err(|error| error.to_string())?.request;
    let dialogue = Dialogue { messages: request.messages, tools: request.tools, from };
    let answers = dialogue.messages.iter().skip(from).filter(|message| message.role == Role::Assistant);
    match answers.count() {
        0 => Err("there is no message of the assistant to learn from".to_owned()),
        _ => Ok(dialogue),
    }
}

/// A text of the system, as recorded episodes have it.
pub(super) fn system(text: &str) -> Message {
    Message::text(Role::System, Origin::Host, text)
}

#[cfg(test)]
mod tests {
    use super::super::TuneObjective::{Dpo, Kto, Sft};
    use super::*;
    use clawhost_learn::policy::LabelledSettings;

    const KTO: TuneObjective = Kto(LabelledSettings { beta: 0.1, desirable: 1.0, undesirable: 1.0 });

    fn texts(dialogue: &Dialogue) -> (Vec<String>, usize) {
        let text = |message: &Message| format!("{:?} {}", message.role, message.plain_text());
        (dialogue.messages.iter().map(text).collect(), dialogue.from)
    }

    #[test]
    fn lines_in_the_forms_of_trl_are_read() {
        let talk = r#"{"messages": [{"role":"user","content":"1+1="},{"role":"assistant","content":"2"}], "id": 7}"#;
        let Lesson::Imitate(one) = lesson(Sft, talk).unwrap() else { panic!() };
        assert_eq!(texts(&one), (vec!["User 1+1=".to_owned(), "Assistant 2".to_owned()], 0));

        let expect = |told: &Dialogue, answer: &str| {
            assert_eq!(texts(told), (vec!["User 1+1=".to_owned(), format!("Assistant {answer}")], 1));
        };
        let check = |line: &str| {
            let Lesson::Prefer { chosen, rejected } = lesson(Dpo { beta: 0.1 }, line).unwrap() else { panic!() };
            expect(&chosen, "2");
            expect(&rejected, "3");
        };
        check(r#"{"prompt": "1+1=", "chosen": "2", "rejected": "3"}"#);
        check(
            r#"{"prompt": [{"role":"user","content":"1+1="}], "chosen": [{"role":"assistant","content":"2"}], "rejected": "3"}"#,
        );
        check(
            r#"{"chosen": [{"role":"user","content":"1+1="},{"role":"assistant","content":"2"}], "rejected": [{"role":"user","content":"1+1="},{"role":"assistant","content":"3"}]}"#,
        );

        let line = r#"{"prompt": "1+1=", "completion": "2", "label": false}"#;
        let Lesson::Label { dialogue, is_desirable: false } = lesson(KTO, line).unwrap() else { panic!() };
        expect(&dialogue, "2");
    }

    #[test]
    fn a_line_that_is_wrong_is_named_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let good = r#"{"messages": [{"role":"user","content":"1"},{"role":"assistant","content":"2"}]}"#;
        let check = |objective: TuneObjective, line: &str, expect: &str| {
            let first = if objective == Sft { good } else { "" };
            let path = folder.path().join("data.jsonl");
            std::fs::write(&path, format!("{first}\n\n{line}\n")).unwrap();
            let error = read(objective, std::slice::from_ref(&path)).unwrap_err().to_string();
            assert_eq!(error, format!("{}:3: {expect}", path.display()));
        };
        check(Sft, "[1]", "not a JSON object: invalid type: sequence, expected a map at line 1 column 0");
        check(Sft, "{}", "`messages` is missing");
        check(Sft, r#"{"messages": "hi"}"#, "`messages` is not a list of messages");
        check(
            Sft,
            r#"{"messages": [{"role":"user","content":"1"}]}"#,
            "there is no message of the assistant to learn from",
        );
        check(
            Sft,
            r#"{"messages": [{"role":"robot","content":"1"}]}"#,
            "messages[0].role: must be system, developer, user, assistant or tool",
        );
        let dpo = Dpo { beta: 0.1 };
        check(dpo, r#"{"prompt": "1", "chosen": "2"}"#, "`rejected` is missing");
        check(
            dpo,
            r#"{"prompt": 1, "chosen": "2", "rejected": "3"}"#,
            "`prompt` is neither a text nor a list of messages",
        );
        check(
            dpo,
            r#"{"prompt": "1", "chosen": "2", "rejected": "2"}"#,
            "`chosen` and `rejected` are equal, so there is nothing to prefer",
        );
        check(
            dpo,
            r#"{"chosen": "2", "rejected": "3"}"#,
            "`prompt` is missing, and `chosen` and `rejected` have no common beginning",
        );
        check(KTO, r#"{"prompt": "1", "completion": "2"}"#, "`label` is missing; expected true or false");
        check(KTO, r#"{"prompt": "1", "completion": "2", "label": 1}"#, "`label` is 1; expected true or false");
        let missing = read(Sft, &[folder.path().join("none.jsonl")]).unwrap_err();
        assert!(matches!(missing, AppError::Request(RequestError::File { .. })), "{missing}");
    }
}
