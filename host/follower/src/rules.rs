//! Rules (`when FACT is VALUE and ...: answer TEXT | call TOOL {...}`) and their facts.

use crate::Action;
use clawhost_core::{Facts, Message, Role, rule};

fn action(text: &str, facts: &Facts) -> Option<Action> {
    if let Some(answer) = text.strip_prefix("answer ") {
        return Some(Action::Answer(filled(answer.trim(), facts, str::to_owned)));
    }
    let call = text.strip_prefix("call ")?.trim();
    let (tool, arguments) = call.split_once(' ').unwrap_or((call, "{}"));
    // Arguments are JSON: a value is inserted as the inside of a JSON string.
    let quoted = |value: &str| {
        let json = serde_json::Value::from(value).to_string();
        json.get(1..json.len().saturating_sub(1)).unwrap_or_default().to_owned()
    };
    Some(Action::Call { tool: tool.to_owned(), arguments: filled(arguments.trim(), facts, quoted) })
}

/// The text with every known `<FACT>` replaced by its value; unknown ones are left unchanged.
fn filled(text: &str, facts: &Facts, show: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        let known = after.split_once('>').and_then(|(fact, tail)| Some((facts.get(&fact.to_lowercase())?, tail)));
        match known {
            Some((value, tail)) => {
                out.push_str(&show(value));
                rest = tail;
            }
            None => {
                out.push('<');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The facts in the messages to the follower.
fn facts(messages: &[Message]) -> Facts {
    let mut facts = Facts::default();
    messages
        .iter()
        .filter(|message| message.role != Role::Assistant)
        .for_each(|message| facts.read(&message.plain_text()));
    facts
}

/// The action of the applicable rule with the most conditions; ties to the last.
pub(crate) fn apply(messages: &[Message]) -> Option<Action> {
    let facts = facts(messages);
    let mut best: Option<(usize, Action)> = None;
    for message in messages.iter().filter(|message| message.role != Role::Assistant) {
        let text = message.plain_text();
        for rule in text.lines().filter_map(rule) {
            let specific = rule.conditions.len();
            if rule.conditions.iter().all(|condition| facts.hold(condition))
                && best.as_ref().is_none_or(|(known, _)| specific >= *known)
                && let Some(action) = action(rule.action, &facts)
            {
                best = Some((specific, action));
            }
        }
    }
    best.map(|(_, action)| action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Origin;

    fn check(prompt: &str, expected: Option<&str>) {
        let messages = [Message::text(Role::User, Origin::Environment, prompt)];
        let answer = apply(&messages).map(|action| match action {
            Action::Answer(text) => text,
            Action::Call { tool, arguments } => format!("{tool} {arguments}"),
        });
        assert_eq!(answer.as_deref(), expected, "{prompt}");
    }

    #[test]
    fn the_most_specific_applicable_rule_applies() {
        let facts = "size: small\ncolour: red\n";
        check(&format!("{facts}when colour is red: answer stop"), Some("stop"));
        check(&format!("{facts}- When Colour is Red: answer stop"), Some("stop"));
        check(&format!("{facts}when colour is green: answer go"), None);
        check(
            &format!("{facts}when colour is red and size is small: answer creep\nwhen colour is red: answer stop"),
            Some("creep"),
        );
        check(&format!("{facts}when colour is red: answer one\nwhen size is small: answer two"), Some("two"));
        check(&format!("{facts}always: call wait\nwhen colour is blue: answer no"), Some("wait {}"));
        check("colour: red\ncolour: green\nwhen colour is green: answer go", Some("go"));
        check(&format!("{facts}when colour is red: dance"), None);
        check("when nothing: answer x", None);
    }

    #[test]
    fn facts_are_inserted_into_actions() {
        let facts = "Order: A-17\nname: \"Bo\"\n";
        check(&format!("{facts}always: answer About <order> for <name>."), Some("About A-17 for \"Bo\"."));
        check(&format!("{facts}always: call close {{\"id\": \"<Order>\"}}"), Some("close {\"id\": \"A-17\"}"));
        check(&format!("{facts}always: call tell {{\"who\": \"<name>\"}}"), Some("tell {\"who\": \"\\\"Bo\\\"\"}"));
        check(&format!("{facts}always: answer <nobody> < <order"), Some("<nobody> < <order"));
    }
}
