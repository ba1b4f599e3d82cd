//! The random player: a baseline that calls random tools and makes random choices.
//!
//! It calls one of the offered tools with arguments drawn from the tool's schema (see [`arguments`]), or answers with one of the
//! choices in the latest message that lists some (`one of: a, b`, `a whole number between A and B`). If there are both tools and
//! choices, an answer is as likely as each of the tools. If there are neither, it answers [`NOTHING_LISTED`].
//!
//! Its draws depend only on the seed of the request and the conversation. The temperature has no effect.

mod arguments;
mod chance;

use crate::orders;
use arguments::Drawing;
use async_trait::async_trait;
use chance::Chance;
use clawhost_core::{
    Facts, IgnoredRequest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, ToolCall,
    ToolChoice, ToolSpec, Usage,
};

/// The answer if there is nothing to choose from.
pub const NOTHING_LISTED: &str = "I see nothing to choose from.";

/// Increased when equal requests may be answered differently. Part of the state id.
const VERSION: &str = "1";

/// The random player.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomPlayer;

/// The tools that may be called.
fn allowed(request: &ModelRequest) -> Vec<&ToolSpec> {
    let may = |tool: &&ToolSpec| match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::Required => true,
        ToolChoice::None => false,
        ToolChoice::Tool(name) => tool.name == *name,
    };
    request.tools.iter().filter(may).collect()
}

/// The texts of the environment's messages and tool results, in order.
fn shown(messages: &[Message]) -> impl DoubleEndedIterator<Item = String> {
    messages.iter().filter(|message| matches!(message.role, Role::User | Role::Tool)).map(Message::plain_text)
}

/// One of the choices in the latest message that lists some.
fn choice(messages: &[Message], chance: &mut Chance) -> Option<String> {
    let bits = chance.bits();
    shown(messages).rev().find_map(|text| {
        let chosen = orders::choice(&text, bits)?;
        Some(if text.contains("\\boxed{}") { format!("\\boxed{{{chosen}}}") } else { chosen })
    })
}

fn act(request: &ModelRequest) -> Message {
    let messages = &request.messages;
    let mut chance = Chance::new(request.seed.unwrap_or(0), messages);
    let tools = allowed(request);
    let answer = match request.tool_choice {
        ToolChoice::Required | ToolChoice::Tool(_) if !tools.is_empty() => None,
        _ => choice(messages, &mut chance),
    };
    let position = chance.below(tools.len() + usize::from(answer.is_some()));
    let Some(tool) = tools.get(position) else {
        let text = answer.unwrap_or_else(|| NOTHING_LISTED.to_owned());
        return Message::text(Role::Assistant, Origin::Policy, text);
    };
    let mut facts = Facts::default();
    shown(messages).for_each(|text| facts.read(&text));
    let arguments = Drawing { facts: &facts, chance: &mut chance }.arguments(&tool.input_schema);
    let call =
        ToolCall { id: format!("call-{}", messages.len()), name: tool.name.clone(), arguments, extra: Vec::new() };
    let nothing = Message::text(Role::Assistant, Origin::Policy, "");
    Message { parts: Vec::new(), tool_calls: vec![call], ..nothing }
}

#[async_trait]
impl Llm for RandomPlayer {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "random".to_owned(), model: "random".to_owned(), version: VERSION.to_owned() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let message = act(request);
        let finish = if message.tool_calls.is_empty() { "stop" } else { "tool_calls" };
        let usage = Usage {
            prompt_tokens: request.messages.iter().map(|message| crate::words(&message.plain_text())).sum(),
            completion_tokens: crate::words(&message.plain_text()),
            ..Usage::default()
        };
        let ignored = IgnoredRequest::without_sampling(request);
        Ok(ModelResponse { ignored, ..ModelResponse::new(message, usage, finish) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn request(seed: u64, messages: &[(Role, &str)], tools: &[&str]) -> ModelRequest {
        let schema = r#"{"properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}"#;
        let tool = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            input_schema: schema.to_owned(),
            extra: Vec::new(),
        };
        ModelRequest {
            messages: messages.iter().map(|(role, text)| Message::text(*role, Origin::Environment, *text)).collect(),
            tools: tools.iter().map(tool).collect(),
            seed: Some(seed),
            ..ModelRequest::default()
        }
    }

    /// The results of a hundred seeds.
    fn check(messages: &[(Role, &str)], tools: &[&str], expect: &[&str]) {
        let said = |seed| {
            let message = act(&request(seed, messages, tools));
            let calls = message.tool_calls.iter().map(|call| format!("{} {}", call.name, call.arguments));
            calls.chain(Some(message.plain_text()).filter(|text| !text.is_empty())).collect::<Vec<_>>().join(", ")
        };
        let all: BTreeSet<String> = (0..100).map(said).collect();
        assert_eq!(all, expect.iter().map(|&text| text.to_owned()).collect(), "{messages:?}");
    }

    #[test]
    fn it_chooses_only_among_listed_tools_and_choices() {
        use Role::{Assistant, System, Tool, User};
        check(&[(User, "Reply with one of: left, right.")], &[], &["left", "right"]);
        check(
            &[(User, "A whole number between 1 and 3, in \\boxed{}")],
            &[],
            &["\\boxed{1}", "\\boxed{2}", "\\boxed{3}"],
        );
        check(&[(User, "Calculate 2 + 2.")], &[], &[NOTHING_LISTED]);
        check(&[(System, "one of: a, b"), (Assistant, "one of: c, d")], &[], &[NOTHING_LISTED]);
        check(&[(User, "one of: a, b"), (Assistant, "a"), (User, "No.")], &[], &["a", "b"]);
        check(&[], &[], &[NOTHING_LISTED]);
        let calls = ["deny {\"order_id\":\"A1\"}", "refund {\"order_id\":\"A1\"}"];
        check(&[(User, "order: A1")], &["refund", "deny"], &calls);
        check(&[(User, "order: A1\none of: stop"), (Tool, "tier: gold")], &["deny"], &[calls[0], "stop"]);
    }

    #[test]
    fn its_draws_depend_on_the_seed_and_the_conversation() {
        let text = "Reply with a whole number between 0 and 99999999.";
        let said = |seed, again: &[(Role, &str)]| {
            let messages = [&[(Role::User, text)], again].concat();
            act(&request(seed, &messages, &[])).plain_text()
        };
        assert_eq!(said(1, &[]), said(1, &[]));
        assert_ne!(said(1, &[]), said(2, &[]));
        assert_ne!(said(1, &[]), said(1, &[(Role::Assistant, ""), (Role::User, "")]), "another turn, another draw");
    }

    #[test]
    fn tool_choice_is_respected() {
        let asked = |tool_choice| ModelRequest { tool_choice, ..request(1, &[(Role::User, "one of: a")], &["x", "y"]) };
        assert!((0..20).all(|seed| {
            let request = ModelRequest { seed: Some(seed), ..asked(ToolChoice::Tool("y".into())) };
            act(&request).tool_calls[0].name == "y"
        }));
        assert_eq!(act(&asked(ToolChoice::None)).plain_text(), "a");
        assert_eq!(act(&asked(ToolChoice::Required)).tool_calls.len(), 1);
    }
}
