//! The follower (floor 1): the built-in model. It needs no key, no server and no weights.
//!
//! It follows rules and is not a language model. It knows no environment, rule or fact beyond its prompt, so everything it
//! achieves comes from the prompt. That makes it a plain test instrument: a higher reward means that the prompt improved.
//!
//! It understands the following, in this order; anything else is answered with [`NO_INSTRUCTION`]:
//!
//! 1. **Rules**, one per line, anywhere in the prompt:
//!    `when FACT is VALUE and FACT is VALUE: answer TEXT`, `when ...: call TOOL {"argument": "value"}`, or `always: answer
//!    TEXT`. Facts are lines `FACT: VALUE` in the messages it received; the latest value counts. The applicable rule with
//!    the most conditions applies, ties to the last. `<FACT>` in the action is replaced by the value.
//! 2. **Orders** in the latest message: `calculate EXPRESSION` (integers, `+ - * /` and brackets), `a whole number between A
//!    and B`, `one of: a, b, c`. If an order leaves a choice, it is drawn from the request's seed; at temperature 0 it is
//!    independent of the seed.
//!
//! If the latest message mentions `\boxed{}`, the answer is put into one.
//!
//! Beside it is the [`RandomPlayer`], a baseline that draws its actions at random.
//!
//! Invariant: pure. Equal requests give equal answers.

mod arithmetic;
mod orders;
mod random;
mod rules;

pub use random::{NOTHING_LISTED, RandomPlayer};

use async_trait::async_trait;
use clawhost_core::{
    Digest, IgnoredRequest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, ToolCall,
    Usage,
};

/// The answer if the prompt contains no applicable rule or order.
pub const NO_INSTRUCTION: &str = "I was not told what to do.";

/// Increased when equal prompts may be answered differently. Part of the state id.
const VERSION: &str = "2";

/// The follower.
#[derive(Debug, Clone, Copy, Default)]
pub struct Follower;

/// The chosen action.
enum Action {
    Answer(String),
    Call { tool: String, arguments: String },
}

fn decide(request: &ModelRequest) -> Action {
    if let Some(action) = rules::apply(&request.messages) {
        return action;
    }
    let Some(latest) = request.messages.iter().rev().find(|message| message.role != Role::Assistant) else {
        return Action::Answer(NO_INSTRUCTION.to_owned());
    };
    let text = latest.plain_text();
    let conversation = request.messages.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n");
    let seed =
        if request.temperature.is_none_or(|temperature| temperature > 0.0) { request.seed.unwrap_or(0) } else { 0 };
    let chance = Digest::of(conversation.as_bytes()).extended(&seed.to_be_bytes()).prefix_u64();
    match orders::obey(&text, chance) {
        Some(answer) if text.contains("\\boxed{}") => Action::Answer(format!("\\boxed{{{answer}}}")),
        Some(answer) => Action::Answer(answer),
        None => Action::Answer(NO_INSTRUCTION.to_owned()),
    }
}

/// Word count, reported instead of tokens: the follower has no tokenizer.
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
        let usage = Usage { prompt_tokens: read, completion_tokens: words(&message.plain_text()), ..Usage::default() };
        let ignored = IgnoredRequest::without_sampling(request);
        Ok(ModelResponse { ignored, ..ModelResponse::new(message, usage, finish) })
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
        // The follower is pure, so its future is ready at once.
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
    fn it_follows_orders_and_answers_nothing_else() {
        check("Calculate 17 + 25.", "42");
        check("Please calculate 3 * (4 + 5) now. Put the answer in \\boxed{}.", "\\boxed{27}");
        check("What is 17 + 25?", NO_INSTRUCTION);
        check("A train leaves at noon.", NO_INSTRUCTION);
        check("Reply with a whole number between 5 and 5.", "5");
        check("", NO_INSTRUCTION);
        check("always: answer yes", "yes");
    }

    #[test]
    fn choices_depend_on_the_seed_except_at_temperature_zero() {
        let prompt = [(Role::User, "Reply with a whole number between 0 and 99999.")];
        let text = |seed, temperature| ask(&prompt, seed, temperature).message.plain_text();
        assert_eq!(text(1, 1.0), text(1, 1.0));
        assert_ne!(text(1, 1.0), text(2, 1.0));
        assert_eq!(text(1, 0.0), text(2, 0.0));
    }

    #[test]
    fn it_says_that_it_restricts_no_distribution() {
        let ignored = |top_p| IgnoredRequest::without_sampling(&ModelRequest { top_p, ..ModelRequest::default() });
        assert_eq!(ignored(Some(0.9)), [IgnoredRequest::TopP]);
        assert_eq!((ignored(Some(1.0)), ignored(None)), (Vec::new(), Vec::new()));
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
