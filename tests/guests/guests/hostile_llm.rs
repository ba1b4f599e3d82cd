//! Misuses the model that is granted as `judge`, as the action says.

use clawhost_sdk::llm::{LlmError, Request, complete, complete_batch, request};
use clawhost_sdk::{Environment, Next, Result, Signals, ToolSpec, export_environment};

struct Guest;

/// The case of an error, and its text.
fn told(error: LlmError) -> String {
    match error {
        LlmError::Denied(text) => format!("denied: {text}"),
        LlmError::BudgetExhausted(text) => format!("budget-exhausted: {text}"),
        LlmError::InvalidRequest(text) => format!("invalid-request: {text}"),
        LlmError::Unavailable(text) => format!("unavailable: {text}"),
        LlmError::Other(text) => format!("other: {text}"),
    }
}

fn ask(request: Request) -> String {
    complete(&request).map_or_else(told, |response| response.message.plain_text())
}

fn hot(temperature: f32) -> Request {
    Request { temperature: Some(temperature), ..request("judge", "hot?") }
}

fn offering(tools: usize) -> Request {
    let tools = (0..tools).map(|number| ToolSpec::new(number.to_string(), "", "{}")).collect();
    Request { tools, ..request("judge", "tools?") }
}

/// Sends a batch. Returns the number of answers, and the last error.
fn batch(size: usize) -> String {
    match complete_batch(&vec![request("judge", "?"); size]) {
        Err(error) => told(error),
        Ok(answers) => {
            let (good, bad): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.is_ok());
            let last = bad.into_iter().filter_map(|answer| answer.err()).next_back();
            format!("{} answered{}", good.len(), last.map_or(String::new(), |error| format!(", {}", told(error))))
        }
    }
}

impl Environment for Guest {
    const NAME: &'static str = "hostile-llm";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, action: &str, _signals: &mut Signals) -> Result<Next> {
        let said = match action {
            "another alias" => ask(request("../judge", "?")),
            "a hidden alias" => ask(request("\u{202e}egduj\u{1b}[2J", "?")),
            "NaN" => ask(hot(f32::NAN)),
            "infinite" => ask(hot(f32::INFINITY)),
            "negative" => ask(hot(-0.5)),
            "no tokens" => ask(Request { max_tokens: 0, ..request("judge", "?") }),
            "no message" => ask(Request { messages: vec![], ..request("judge", "?") }),
            "17 stops" => ask(Request { stop: vec!["x".into(); 17], ..request("judge", "?") }),
            "a prompt of 10 MiB" => ask(request("judge", &"x".repeat(10 << 20))),
            "a prompt of 1 MiB" => ask(request("judge", &"x".repeat((1 << 20) + 1))),
            "100000 tools" => ask(offering(100_000)),
            "129 tools" => ask(offering(129)),
            "1000 calls" => {
                let answers: Vec<String> = (0..1000).map(|_| ask(request("judge", "?"))).collect();
                let good = answers.iter().take_while(|answer| *answer == "four").count();
                let refused = answers.iter().filter(|answer| answer.starts_with("budget-exhausted")).count();
                format!("{good} answered, {refused} refused, {}", answers.last().map_or("", String::as_str))
            }
            "a batch of 10000" => batch(10_000),
            "a batch of 65" => batch(65),
            "5 batches of 64" => (0..5).map(|_| batch(64)).collect::<Vec<_>>().join("; "),
            _ => ask(request("judge", "?")),
        };
        Ok(Next::Continue(said))
    }
}

export_environment!(Guest);
