//! The follower (floor 1): the model inside clawhost that needs no key, no server and no weights.
//!
//! It is a rule follower, not a language model. It does what its prompt tells it and nothing else: it knows no
//! environment, no rule of its own and no fact that its prompt does not state, so whatever it achieves comes from the
//! prompt. That makes it honest test equipment: if the reward rises, somebody put the reason into the prompt.
//!
//! What it understands, in this order (anything else is answered with [`NOT_TOLD`]):
//!
//! 1. **Rules**, one per line, anywhere in the prompt:
//!    `when FACT is VALUE and FACT is VALUE: answer TEXT`, `when ...: call TOOL {"argument": "value"}`, or
//!    `always: answer TEXT`. Facts are lines `FACT: VALUE` in what it was shown; of several the latest counts. The
//!    applicable rule with most conditions wins, of equals the last. `<FACT>` in what is to be done stands for the value.
//! 2. **Orders** in the latest message: `calculate EXPRESSION` (whole numbers, `+ - * /` and brackets),
//!    `a whole number between A and B`, `one of: a, b, c`. Where an order leaves a choice, it is drawn from the
//!    request's seed; at temperature 0 it does not depend on the seed.
//!
//! If the latest message mentions `\boxed{}`, the answer is put into one.
//!
//! Invariant: pure. Equal requests, equal answers.

mod arithmetic;
mod orders;
mod rules;

use async_trait::async_trait;
use clawhost_core::{
    Digest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, ToolCall, Usage,
};

/// What it says when its prompt holds nothing that it can follow.
pub const NOT_TOLD: &str = "I was not told what to do.";

/// Raised when equal prompts may be answered differently: it is part of the state id.
const VERSION: &str = "2";

/// The follower.
#[derive(Debug, Clone, Copy, Default)]
pub struct Follower;

/// What it decided to do.
enum Action {
    Answer(String),
    Call { tool: String, arguments: String },
}

fn decide(request: &ModelRequest) -> Action {
    if let Some(action) = rules::apply(&request.messages) {
        return action;
    }
    let Some(latest) = request.messages.iter().rev().find(|message| message.role != Role::Assistant) else {
        return Action::Answer(NOT_TOLD.to_owned());
    };
    let text = latest.plain_text();
    let conversation = request.messages.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n");
    let seed =
        if request.temperature.is_none_or(|temperature| temperature > 0.0) { request.seed.unwrap_or(0) } else { 0 };
    let chance = Digest::of(conversation.as_bytes()).extended(&seed.to_be_bytes()).prefix_u64();
    match orders::obey(&text, chance) {
        Some(answer) if text.contains("\\boxed{}") => Action::Answer(format!("\\boxed{{{answer}}}")),
        Some(answer) => Action::Answer(answer),
        None => Action::Answer(NOT_TOLD.to_owned()),
    }
}

/// Words, as a stand-in for tokens: it has no tokenizer.
fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

#[async_trait]
impl Llm for Follower {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "follower".to_owned(), model: "follower".to_owned(), version: VERSION.to_owned() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let read = request.messages.iter().map(|message| words(&message.plain_text())).sum();
        let (message, finish) = match decide(request) {
            Action::Answer(text) => (Message::text(Role::Assistant, Origin::Policy, text), "stop"),
            Action::Call { tool, arguments } => {
                let id = format!("call-{}", request.messages.len());
                let call = ToolCall { id, name: tool, arguments, extra: Vec::new() };
                let message = Message {
                    parts: Vec::new(),
                    tool_calls: vec![call],
                    ..Message::text(Role::Assistant, Origin::Policy, "")
                };
                (message, "tool_calls")
            }
        };
        let usage = Usage { prompt_tokens: read, completion_tokens: words(&message.plain_text()), cached_tokens: 0 };
        Ok(ModelResponse::new(message, usage, finish))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(messages: &[(Role, &str)], seed: u64, temperature: f32) -> ModelResponse {
        let messages = messages.iter().map(|(role, text)| Message::text(*role, Origin::Environment, *text)).collect();
        let request = ModelRequest {
            messages,
            tools: vec![],
            max_tokens: 100,
            temperature: Some(temperature),
            seed: Some(seed),
            stop: vec![],
            ..ModelRequest::default()
        };
        let future = Follower.complete(&request);
        // Pure: it never waits.
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(answer) => answer.unwrap(),
            std::task::Poll::Pending => panic!("the follower waited"),
        }
    }

    fn check(prompt: &str, expected: &str) {
        assert_eq!(ask(&[(Role::User, prompt)], 1, 1.0).message.plain_text(), expected, "{prompt}");
    }

    #[test]
    fn it_does_what_it_is_told_and_nothing_else() {
        check("Calculate 17 + 25.", "42");
        check("Please calculate 3 * (4 + 5) now. Put the answer in \\boxed{}.", "\\boxed{27}");
        check("What is 17 + 25?", NOT_TOLD);
        check("A train leaves at noon.", NOT_TOLD);
        check("Reply with a whole number between 5 and 5.", "5");
        check("", NOT_TOLD);
        check("always: answer yes", "yes");
    }

    #[test]
    fn choices_follow_the_seed_and_at_temperature_zero_do_not() {
        let prompt = [(Role::User, "Reply with a whole number between 0 and 99999.")];
        let text = |seed, temperature| ask(&prompt, seed, temperature).message.plain_text();
        assert_eq!(text(1, 1.0), text(1, 1.0));
        assert_ne!(text(1, 1.0), text(2, 1.0));
        assert_eq!(text(1, 0.0), text(2, 0.0));
    }

    #[test]
    fn a_rule_can_call_a_tool() {
        let prompt = "colour: red\nwhen colour is red: call paint {\"with\": \"brush\"}";
        let answer = ask(&[(Role::System, prompt)], 1, 1.0);
        assert_eq!(answer.finish, "tool_calls");
        assert_eq!(answer.message.tool_calls[0].name, "paint");
        assert_eq!(answer.message.tool_calls[0].arguments, "{\"with\": \"brush\"}");
    }
}
