//! Answers of agents as a case writes them: a text as it is, in which a line `calls TOOL {...}` is a call of a tool.

use clawhost_core::{Message, Origin, Role, ToolCall};

/// The beginning of a line that calls a tool.
const CALLS: &str = "calls ";
/// Bytes of a line that a message shows.
const SHOWN: usize = 200;

/// An answer as a message. The ids of calls are those of their position. Arguments are taken as they are written: a case may show what becomes of
/// wrong ones.
///
/// # Errors
/// A line begins as a call, and names no tool.
pub(crate) fn answered(text: &str) -> Result<Message, String> {
    let is_call = |line: &&str| line.starts_with(CALLS);
    if !text.lines().any(|line| is_call(&line)) {
        return Ok(Message::text(Role::Assistant, Origin::Policy, text));
    }
    let said: Vec<&str> = text.lines().filter(|line| !is_call(line)).collect();
    let mut answer = Message::text(Role::Assistant, Origin::Policy, said.join("\n"));
    for line in text.lines().filter_map(|line| line.strip_prefix(CALLS)) {
        let (name, arguments) = line.split_once(' ').unwrap_or((line, ""));
        if name.is_empty() {
            return Err(format!("`{}` names no tool", clawhost_core::escaped(&format!("{CALLS}{line}"), SHOWN)));
        }
        let id = format!("call-{}", answer.tool_calls.len());
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        answer.tool_calls.push(ToolCall { id, name, arguments, extra: Vec::new() });
    }
    Ok(answer)
}

/// A message as a case writes it. `None`: it cannot be written, because a line of its text looks like a call, or its arguments have several
/// lines.
pub(crate) fn written(message: &Message) -> Option<String> {
    let text = message.plain_text();
    let calls = message.tool_calls.iter().map(|call| format!("{CALLS}{} {}", call.name, call.arguments));
    let said = (!text.is_empty() || message.tool_calls.is_empty()).then_some(text);
    let written = said.into_iter().chain(calls).collect::<Vec<_>>().join("\n");
    let read = answered(&written).ok()?;
    let is_equal = read.plain_text() == message.plain_text()
        && read.tool_calls.len() == message.tool_calls.len()
        && read
            .tool_calls
            .iter()
            .zip(&message.tool_calls)
            .all(|(one, other)| one.name == other.name && one.arguments == other.arguments);
    is_equal.then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_text_as_it_is_or_calls_of_tools() {
        let check = |text: &str, said: &str, calls: &[(&str, &str)]| {
            let read = answered(text).unwrap();
            assert_eq!(read.plain_text(), said, "{text}");
            let found: Vec<(&str, &str)> =
                read.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            assert_eq!(found, calls, "{text}");
            assert_eq!(written(&read).as_deref(), Some(text));
        };
        check("", "", &[]);
        check("two\nlines \\", "two\nlines \\", &[]);
        check("- a\n- b\n", "- a\n- b\n", &[]);
        check("calls send {}", "", &[("send", "{}")]);
        check("I do.\ncalls send {\"to\": 1}\ncalls stop {}", "I do.", &[("send", "{\"to\": 1}"), ("stop", "{}")]);
        check("calls send {broken", "", &[("send", "{broken")]);
        assert_eq!(answered("calls  {}").unwrap_err(), "`calls  {}` names no tool");
    }

    #[test]
    fn a_text_that_looks_like_a_call_cannot_be_written() {
        assert_eq!(written(&Message::text(Role::Assistant, Origin::Policy, "calls for help")), None);
        let mut lines = answered("calls send {}").unwrap();
        lines.tool_calls[0].arguments = "{\n}".to_owned();
        assert_eq!(written(&lines), None);
    }
}
