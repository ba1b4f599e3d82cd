//! Tool calls: which of them reach the environment, and how each is answered.
//!
//! Models call unknown tools, send arguments that are not JSON, or reuse an id. The host answers such calls with an error
//! text that helps the model recover; the environment is informed and does not run them. A call that the environment leaves
//! unanswered gets an empty result, because endpoints reject conversations with unanswered calls.

use clawhost_core::{Message, Origin, Role, ToolCall, ToolSpec, escaped};

/// Most bytes of the model's text that an error quotes.
const QUOTED: usize = 120;
/// Most tool names that an error lists.
const LISTED: usize = 20;

/// A policy's message, divided into valid and invalid calls.
pub(crate) struct Sorted {
    /// The message with the valid calls.
    pub(crate) message: Message,
    /// The host's answers to the invalid calls.
    pub(crate) answered: Vec<Message>,
}

/// Why a call is invalid, as a text for the model.
fn fault(call: &ToolCall, tools: &[ToolSpec]) -> Option<String> {
    if !tools.iter().any(|tool| tool.name == call.name) {
        let name = escaped(&call.name, QUOTED);
        if tools.is_empty() {
            return Some(format!("error: there is no tool `{name}`; there are no tools here, answer in words"));
        }
        let known: Vec<&str> = tools.iter().take(LISTED).map(|tool| tool.name.as_str()).collect();
        return Some(format!("error: there is no tool `{name}`; there are {}", known.join(", ")));
    }
    // Many endpoints send an empty text if there are no arguments.
    if call.arguments.trim().is_empty() {
        return None;
    }
    match serde_json::from_str::<serde_json::Value>(&call.arguments) {
        Ok(serde_json::Value::Object(_)) => None,
        Ok(_) => Some(format!(
            "error: the arguments of {} must be a JSON object, not `{}`",
            call.name,
            escaped(&call.arguments, QUOTED)
        )),
        Err(error) => Some(format!("error: the arguments of {} are not JSON ({error}); send a JSON object", call.name)),
    }
}

fn answer(call: &ToolCall, text: impl Into<String>) -> Message {
    Message { tool_call_id: Some(call.id.clone()), ..Message::text(Role::Tool, Origin::Host, text) }
}

/// Makes call ids unique: results refer to ids, and endpoints reject duplicates.
pub(crate) fn with_distinct_ids(message: &mut Message) {
    let mut seen = std::collections::BTreeSet::new();
    for position in 0..message.tool_calls.len() {
        let Some(call) = message.tool_calls.get_mut(position) else { return };
        let mut id = if call.id.is_empty() { format!("call-{position}") } else { call.id.clone() };
        let mut twin = 1;
        while !seen.insert(id.clone()) {
            twin += 1;
            id = format!("{}-{twin}", call.id);
        }
        call.id = id;
    }
}

/// Divides a policy's message.
pub(crate) fn sort(message: &Message, tools: &[ToolSpec]) -> Sorted {
    let mut sorted = Sorted { message: message.clone(), answered: Vec::new() };
    if message.tool_calls.is_empty() {
        return sorted;
    }
    sorted.message.tool_calls.clear();
    for call in &message.tool_calls {
        match fault(call, tools) {
            Some(text) => sorted.answered.push(answer(call, text)),
            None => {
                let mut call = call.clone();
                if call.arguments.trim().is_empty() {
                    call.arguments = "{}".to_owned();
                }
                sorted.message.tool_calls.push(call);
            }
        }
    }
    sorted
}

/// The environment's messages in conversation order: one answer per call in the order of the calls, then other messages.
pub(crate) struct Settled {
    /// One answer per call.
    pub(crate) results: Vec<Message>,
    /// Other messages.
    pub(crate) observation: Vec<Message>,
}

/// Orders answers. A second answer to a call, or one to an unknown call, becomes an ordinary message.
pub(crate) fn settle(calls: &[ToolCall], answered: Vec<Message>, observation: Vec<Message>) -> Settled {
    let mut results: Vec<Option<Message>> = vec![None; calls.len()];
    let mut rest = Vec::new();
    for mut message in answered.into_iter().chain(observation) {
        let place = match (&message.role, &message.tool_call_id) {
            (Role::Tool, Some(id)) => calls.iter().position(|call| call.id == *id),
            _ => None,
        };
        match place.and_then(|place| results.get_mut(place)) {
            Some(slot @ None) => *slot = Some(message),
            _ => {
                if message.role == Role::Tool {
                    message.role = Role::User;
                    message.tool_call_id = None;
                }
                rest.push(message);
            }
        }
    }
    // An empty answer means that the environment did not respond to the call.
    let silence = |call: &ToolCall| Message { origin: Origin::Environment, parts: Vec::new(), ..answer(call, "") };
    let results = results.into_iter().zip(calls).map(|(result, call)| result.unwrap_or_else(|| silence(call)));
    Settled { results: results.collect(), observation: rest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tool(name: &str) -> ToolSpec {
        ToolSpec { name: name.into(), description: String::new(), input_schema: "{}".into(), extra: vec![] }
    }

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), extra: vec![] }
    }

    fn asked(calls: &[ToolCall]) -> Message {
        Message { tool_calls: calls.to_vec(), parts: vec![], ..Message::text(Role::Assistant, Origin::Policy, "") }
    }

    fn result(id: &str, text: &str) -> Message {
        Message { tool_call_id: Some(id.into()), ..Message::text(Role::Tool, Origin::Environment, text) }
    }

    fn check(faulty: &ToolCall, says: &str) {
        let sorted = sort(&asked(std::slice::from_ref(faulty)), &[tool("look"), tool("go")]);
        assert!(sorted.message.tool_calls.is_empty(), "{faulty:?}");
        assert_eq!(sorted.answered[0].tool_call_id.as_deref(), Some("a"));
        let text = sorted.answered[0].plain_text();
        assert!(text.contains(says), "{says}: {text}");
    }

    #[test]
    fn invalid_calls_are_answered_with_helpful_errors() {
        check(&call("a", "loook", "{}"), "there is no tool `loook`; there are look, go");
        check(&call("a", "look", "{"), "are not JSON");
        check(&call("a", "look", "[1]"), "must be a JSON object, not `[1]`");
        check(&call("a", "\u{1b}[31m", "{}"), "\\u{1b}[31m");
        let sorted = sort(&asked(&[call("a", "look", "{}")]), &[]);
        assert!(sorted.answered[0].plain_text().contains("there are no tools here"));
    }

    #[test]
    fn valid_calls_are_kept_beside_invalid_ones() {
        let calls = [call("a", "look", "{}"), call("b", "nothing", "{}"), call("c", "go", "{\"to\": 1}")];
        let sorted = sort(&asked(&calls), &[tool("look"), tool("go")]);
        assert_eq!(sorted.message.tool_calls, [calls[0].clone(), calls[2].clone()]);
        let settled = settle(&calls, sorted.answered, vec![result("c", "gone"), result("a", "seen")]);
        let texts: Vec<_> = settled.results.iter().map(Message::plain_text).collect();
        assert_eq!(texts[0], "seen");
        assert!(texts[1].contains("no tool `nothing`"));
        assert_eq!(texts[2], "gone");
    }

    #[test]
    fn every_call_has_one_answer_and_stray_answers_are_ordinary_messages() {
        let calls = [call("a", "look", "{}"), call("b", "look", "{}")];
        let said = vec![result("b", "first"), result("b", "again"), result("z", "to nobody")];
        let settled = settle(&calls, vec![], said);
        assert_eq!(settled.results.iter().map(Message::plain_text).collect::<Vec<_>>(), ["", "first"]);
        assert_eq!(settled.results[0].origin, Origin::Environment, "a missing answer is not an error");
        assert!(settled.observation.iter().all(|message| message.role == Role::User && message.tool_call_id.is_none()));
        assert_eq!(settled.observation.len(), 2);
    }

    #[test]
    fn empty_arguments_are_accepted() {
        let sorted = sort(&asked(&[call("a", "look", " ")]), &[tool("look")]);
        assert_eq!(sorted.message.tool_calls[0].arguments, "{}");
        assert!(sorted.answered.is_empty());
    }

    #[test]
    fn duplicate_ids_are_made_unique() {
        let mut message = asked(&[call("a", "x", ""), call("a", "x", ""), call("", "x", ""), call("a-2", "x", "")]);
        with_distinct_ids(&mut message);
        let ids: Vec<_> = message.tool_calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["a", "a-2", "call-2", "a-2-2"]);
    }

    proptest! {
        #[test]
        fn each_call_is_answered_once_and_no_message_is_lost(
            ids in proptest::collection::vec("[abc]{0,2}", 0..6),
            answers in proptest::collection::vec(("[abcd]{0,2}", any::<bool>()), 0..8),
        ) {
            let mut message = asked(&ids.iter().map(|id| call(id, "look", "{}")).collect::<Vec<_>>());
            with_distinct_ids(&mut message);
            let said: Vec<Message> = answers.iter().map(|(id, is_tool)| {
                if *is_tool { result(id, "x") } else { Message::text(Role::User, Origin::Environment, "y") }
            }).collect();
            let count = said.len();
            let settled = settle(&message.tool_calls, vec![], said);
            let answered: Vec<_> = settled.results.iter().map(|m| m.tool_call_id.clone().unwrap()).collect();
            let called: Vec<_> = message.tool_calls.iter().map(|call| call.id.clone()).collect();
            prop_assert_eq!(&answered, &called);
            let distinct: std::collections::BTreeSet<_> = called.iter().collect();
            prop_assert_eq!(distinct.len(), called.len());
            let silences = settled.results.iter().filter(|m| m.parts.is_empty()).count();
            prop_assert_eq!(settled.results.len() - silences + settled.observation.len(), count);
            prop_assert!(settled.observation.iter().all(|m| m.role != Role::Tool));
        }
    }
}
