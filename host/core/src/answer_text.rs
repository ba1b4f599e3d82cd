//! Answers of a policy as lines of text, for transcripts and scripts.
//!
//! A line is text, or a tool call: `calls NAME {"argument": "value"}`. In text, `\n` is a line end, `\\` a backslash, and `\u{1b}` the
//! character of this number; any other backslash is itself. A text that begins like a call is written `\calls ...`.
//!
//! In a script a line is a turn. A line that ends with a backslash continues on the next one: both belong to one turn, as a text of
//! two lines, or as a text with calls.
//!
//! [`read_script`] parses the output of [`answer_lines`] to the same text, the same names of tools, and equal arguments.

use crate::{Message, Origin, Role, ToolCall, is_hidden};

/// The beginning of a line with a call.
const CALL: &str = "calls ";

/// Why a script cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// A line begins like a call, but is not one.
    #[error(
        "line {line}: a call is a tool's name with a JSON object, as in calls refund {{\"order_id\": \"A1\"}} ({why}); a text that begins so is written \\calls"
    )]
    Call {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The last line continues, and nothing follows.
    #[error("line {line}: ends with a backslash, and no line follows; a backslash at the end is written \\\\")]
    Unfinished {
        /// The line, from 1.
        line: usize,
    },
}

/// An answer as lines: those of its text, then one for each call. They contain no hidden characters, and no line of the text looks like
/// a call.
pub fn answer_lines(answer: &Message) -> Vec<String> {
    let text = answer.plain_text();
    let calls = answer.tool_calls.iter().map(|call| format!("{CALL}{} {}", shown(&call.name), arguments(call)));
    let texts = text.split('\n').map(text_line).filter(|_| !text.is_empty() || answer.tool_calls.is_empty());
    texts.chain(calls).collect()
}

/// An answer as a turn of a script.
pub fn script_turn(answer: &Message) -> String {
    answer_lines(answer).join("\\\n")
}

fn hidden(character: char) -> String {
    format!("\\u{{{:x}}}", u32::from(character))
}

fn shown(text: &str) -> String {
    text.chars().map(|one| if is_hidden(one) { hidden(one) } else { one.to_string() }).collect()
}

/// A line of text. A backslash is doubled if it would otherwise begin an escape.
fn text_line(line: &str) -> String {
    let mut out = String::new();
    if line.starts_with(CALL) {
        out.push('\\');
    }
    for (at, character) in line.char_indices() {
        let rest = line.get(at + character.len_utf8()..).unwrap_or_default();
        // A hidden character is written as an escape.
        let is_escape = |rest: &str| {
            rest.is_empty() || rest.starts_with(['n', '\\']) || rest.starts_with("u{") || rest.starts_with(is_hidden)
        };
        let begins_call = at == 0 && rest.starts_with(CALL);
        match character {
            '\\' if is_escape(rest) || begins_call => out.push_str("\\\\"),
            one if is_hidden(one) => out.push_str(&hidden(one)),
            one => out.push(one),
        }
    }
    out
}

/// The arguments of a call in one line without hidden characters, which are white space of the JSON, or in its strings. Text that is not
/// JSON is shown, but cannot be parsed again.
fn arguments(call: &ToolCall) -> String {
    if serde_json::from_str::<serde_json::Value>(&call.arguments).is_err() {
        return shown(&call.arguments);
    }
    let mut out = String::new();
    for character in call.arguments.trim().chars() {
        match character {
            ' '.. if !is_hidden(character) => out.push(character),
            // Of the control characters below, JSON has only white space, and only between its parts.
            ..' ' => out.push(' '),
            // Other hidden characters are in strings, where they can be written as these escapes.
            _ => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out
}

/// The answers of a script, by turn. The ids of calls are those of their position.
///
/// # Errors
/// The first line that is neither text nor a call.
pub fn read_script(script: &str) -> Result<Vec<Message>, ScriptError> {
    let mut answers = Vec::new();
    let mut turn = Turn::default();
    let mut last = 0;
    for (number, line) in (1..).zip(script.lines()) {
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        let continues = backslashes % 2 == 1;
        let line = if continues { line.get(..line.len() - 1).unwrap_or_default() } else { line };
        turn.read(line, number)?;
        if !continues {
            answers.push(std::mem::take(&mut turn).answer());
        }
        last = number;
    }
    if turn.is_empty() { Ok(answers) } else { Err(ScriptError::Unfinished { line: last }) }
}

/// A turn that is being parsed.
#[derive(Debug, Default)]
struct Turn {
    texts: Vec<String>,
    calls: Vec<ToolCall>,
}

impl Turn {
    fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.calls.is_empty()
    }

    fn read(&mut self, line: &str, number: usize) -> Result<(), ScriptError> {
        let Some(call) = line.strip_prefix(CALL) else {
            self.texts.push(unescaped(line));
            return Ok(());
        };
        let (name, arguments) = call.trim().split_once(char::is_whitespace).unwrap_or((call.trim(), ""));
        let arguments = arguments.trim();
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(arguments)
            .map_err(|error| ScriptError::Call { line: number, why: error.to_string() })?;
        let id = format!("call-{}", self.calls.len());
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        self.calls.push(ToolCall { id, name, arguments, extra: Vec::new() });
        Ok(())
    }

    fn answer(self) -> Message {
        let text = Message::text(Role::Assistant, Origin::Policy, self.texts.join("\n"));
        let parts = if self.texts.is_empty() { Vec::new() } else { text.parts };
        Message { parts, tool_calls: self.calls, ..text }
    }
}

/// Decodes a line of text.
fn unescaped(line: &str) -> String {
    let mut rest = line;
    let mut out = String::new();
    if let Some(text) = line.strip_prefix('\\').filter(|text| text.starts_with(CALL)) {
        rest = text;
    }
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let (character, behind) = escape(after).unwrap_or(('\\', after));
        out.push(character);
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Decodes the text after a backslash: the character, and the rest. `None`: the backslash is literal.
fn escape(text: &str) -> Option<(char, &str)> {
    if let Some(rest) = text.strip_prefix('\\') {
        return Some(('\\', rest));
    }
    if let Some(rest) = text.strip_prefix('n') {
        return Some(('\n', rest));
    }
    let (digits, rest) = text.strip_prefix("u{")?.split_once('}')?;
    let number = u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
    Some((char::from_u32(number)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(text: &str, calls: &[(&str, &str)]) -> Message {
        let call = |(index, (name, arguments)): (usize, &(&str, &str))| ToolCall {
            id: format!("call-{index}"),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
            extra: Vec::new(),
        };
        let tool_calls = calls.iter().enumerate().map(call).collect();
        Message { tool_calls, ..Message::text(Role::Assistant, Origin::Policy, text) }
    }

    /// The text and the calls of every turn.
    fn said(script: &str) -> Vec<(String, Vec<(String, String)>)> {
        let calls = |message: &Message| {
            message.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect()
        };
        read_script(script).unwrap().iter().map(|message| (message.plain_text(), calls(message))).collect()
    }

    fn check(script: &str, expect: &[(&str, &[(&str, &str)])]) {
        let owned = |(text, calls): &(&str, &[(&str, &str)])| {
            let calls = calls.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect();
            ((*text).to_owned(), calls)
        };
        assert_eq!(said(script), expect.iter().map(owned).collect::<Vec<_>>(), "{script}");
    }

    #[test]
    fn a_line_is_a_turn_of_text_or_a_call() {
        check("50\n25\n", &[("50", &[]), ("25", &[])]);
        check("\nafter nothing", &[("", &[]), ("after nothing", &[])]);
        check("two\\nlines", &[("two\nlines", &[])]);
        check("\\boxed{4} \\times \\\\nu", &[("\\boxed{4} \\times \\nu", &[])]);
        check("calls refund {\"order_id\": \"A1\"}", &[("", &[("refund", "{\"order_id\": \"A1\"}")])]);
        check("calls  look   {}  ", &[("", &[("look", "{}")])]);
        check("calls note {\"text\": \"two\\nlines\"}", &[("", &[("note", "{\"text\": \"two\\nlines\"}")])]);
        check("\\calls for help", &[("calls for help", &[])]);
        check("She calls for help", &[("She calls for help", &[])]);
        check("\\u{1b}[31m \\u{zz} \\u{", &[("\u{1b}[31m \\u{zz} \\u{", &[])]);
    }

    #[test]
    fn a_line_that_ends_with_a_backslash_continues() {
        let both = "I look at both.\\\ncalls order {\"id\": 1}\\\ncalls customer {\"id\": 2}\ndone";
        let calls: &[(&str, &str)] = &[("order", "{\"id\": 1}"), ("customer", "{\"id\": 2}")];
        check(both, &[("I look at both.", calls), ("done", &[])]);
        check("one\\\ntwo", &[("one\ntwo", &[])]);
        check("ends so \\\\\nnext", &[("ends so \\", &[]), ("next", &[])]);
        assert_eq!(read_script("one\ntwo\\"), Err(ScriptError::Unfinished { line: 2 }));
    }

    #[test]
    fn a_line_that_is_no_call_is_named() {
        for odd in
            ["calls", "calls refund", "calls refund {\"order_id\": A1}", "calls refund [1]", "calls refund {} {}"]
        {
            let script = format!("fine\n{odd}");
            match read_script(&script) {
                Err(error) => assert!(error.to_string().starts_with("line 2: a call is a tool's name"), "{error}"),
                Ok(answers) => assert_eq!((odd, answers.len()), ("calls", 2), "{odd}"),
            }
        }
    }

    #[test]
    fn a_transcript_shows_texts_then_calls_and_nothing_hidden() {
        let check = |answer: &Message, expect: &[&str]| assert_eq!(answer_lines(answer), expect);
        check(&answer("50", &[]), &["50"]);
        check(&answer("", &[]), &[""]);
        check(&answer("", &[("look", "{\"at\": \"x\"}")]), &["calls look {\"at\": \"x\"}"]);
        check(&answer("calls a\n\\calls b", &[("look", "{}")]), &["\\calls a", "\\\\calls b", "calls look {}"]);
        check(&answer("\u{1b}[31m\t\\nu \\boxed{1} \\", &[]), &["\\u{1b}[31m\\u{9}\\\\nu \\boxed{1} \\\\"]);
        check(
            &answer("", &[("l\u{202e}k", "{\n\t\"a\": \"\u{202e}\"}")]),
            &["calls l\\u{202e}k {  \"a\": \"\\u202e\"}"],
        );
        check(&answer("", &[("look", "{\"order\n")]), &["calls look {\"order\\u{a}"]);
    }

    proptest! {
        #[test]
        fn written_answers_parse_to_themselves(
            turns in proptest::collection::vec(
                (".{0,12}|[\\\\nu{}0-9acls \n]{0,12}|calls .{0,4}", proptest::collection::vec(("[a-z_]{1,8}", ".{0,6}", ".{0,6}"), 0..3)),
                0..4,
            ),
            spaced in any::<bool>(),
        ) {
            let message = |(text, calls): &(String, Vec<(String, String, String)>)| {
                let calls: Vec<(String, String)> = calls.iter().map(|(name, key, value)| {
                    let object = serde_json::json!({ key: value });
                    let arguments = if spaced { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
                    (name.clone(), arguments.unwrap())
                }).collect();
                answer(text, &calls.iter().map(|(name, arguments)| (name.as_str(), arguments.as_str())).collect::<Vec<_>>())
            };
            let answers: Vec<Message> = turns.iter().map(message).collect();
            let script: String = answers.iter().map(|answer| script_turn(answer) + "\n").collect();
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            let compared = |message: &Message| {
                let calls = message.tool_calls.iter().map(|call| (call.name.clone(), value(&call.arguments))).collect::<Vec<_>>();
                (message.plain_text(), calls)
            };
            let read = read_script(&script).unwrap();
            prop_assert_eq!(
                read.iter().map(compared).collect::<Vec<_>>(), answers.iter().map(compared).collect::<Vec<_>>(), "{}", script
            );
        }

        #[test]
        fn any_text_can_be_parsed(script in "(calls |[\\\\\\{}\"n\n ]|.){0,40}") {
            drop(read_script(&script));
        }
    }
}
