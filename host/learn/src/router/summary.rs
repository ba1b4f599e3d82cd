//! The summary of a conversation: what a router may know about a request, counted without asking a model.

use super::RequestSummary;
use super::likeness::word_buckets;
use clawhost_core::{Digest, Message, Role, derive_seed};

/// Characters of the latest question that are searched for code, markers and terms, so that a long one costs microseconds.
const SEARCHED: usize = 8_000;
/// What a block of code begins with.
const CODE: &str = "```";
/// Beginnings of a tool's answer that report a failure.
const FAILURES: [&str; 4] = ["error", "failed", "failure", "traceback"];
/// Phrases that ask for reasoning.
const REASONING: [&str; 8] =
    ["step by step", "prove ", "derive ", "explain why", "reason about", "think carefully", "compare ", "trade-off"];
/// Technical terms.
const TERMS: [&str; 20] = [
    "algorithm",
    "api",
    "async",
    "cache",
    "class",
    "compile",
    "database",
    "deadlock",
    "debug",
    "function",
    "index",
    "kernel",
    "latency",
    "memory",
    "protocol",
    "query",
    "refactor",
    "regex",
    "schema",
    "thread",
];

impl RequestSummary {
    /// The summary of a conversation that asks a model with this many tools on offer. Counts of words come from the latest message
    /// of the user: a system prompt is the same for easy and hard requests. `likeness` stays 0 ([`super::Router::request`] sets it).
    pub fn of(messages: &[Message], tools: usize) -> Self {
        let question = latest_question(messages);
        let searched = beginning(&question);
        let lower = searched.to_lowercase();
        let count = |found: usize| u32::try_from(found).unwrap_or(u32::MAX);
        let characters = searched.chars().count();
        let foreign = searched.chars().filter(|character| !character.is_ascii()).count();
        let is_term = |word: &&str| TERMS.contains(word);
        Self {
            characters: messages.iter().map(|message| message.plain_text().chars().count() as u64).sum(),
            turns: count(messages.iter().filter(|message| message.role != Role::System).count()),
            tools: count(tools),
            has_code: searched.contains(CODE),
            non_ascii_share: if characters > 0 { foreign as f64 / characters as f64 } else { 0.0 },
            reasoning_markers: count(REASONING.iter().filter(|phrase| lower.contains(*phrase)).count()),
            technical_terms: count(lower.split(|one: char| !one.is_alphanumeric()).filter(is_term).count()),
            class: None,
            failures: failures(messages),
            likeness: 0.0,
        }
    }
}

/// The messages before the first answer of a model.
pub fn opening(messages: &[Message]) -> &[Message] {
    let end = messages.iter().position(|message| message.role == Role::Assistant).unwrap_or(messages.len());
    messages.get(..end).unwrap_or_default()
}

/// A seed for a session that has none: equal openings are treated equally.
pub fn seed_of(opening: &[Message]) -> u64 {
    let text = serde_json::to_vec(opening).unwrap_or_default();
    derive_seed(0, &Digest::of(&text).to_string(), 0)
}

/// Answers of tools that report a failure.
pub fn failures(messages: &[Message]) -> u32 {
    u32::try_from(messages.iter().filter(|message| is_failure(message)).count()).unwrap_or(u32::MAX)
}

/// Buckets of the words of the latest message of the user, for [`super::Likeness`].
pub(super) fn buckets(messages: &[Message]) -> Vec<u16> {
    word_buckets(&latest_question(messages))
}

fn latest_question(messages: &[Message]) -> String {
    messages.iter().rev().find(|message| message.role == Role::User).map(Message::plain_text).unwrap_or_default()
}

fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(SEARCHED).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default()
}

/// Whether a message is a tool's report of a failure. Clients have no common mark for it, so its first word decides.
fn is_failure(message: &Message) -> bool {
    if message.role != Role::Tool {
        return false;
    }
    let text = message.plain_text();
    let begins = text.trim_start().chars().take(16).collect::<String>().to_lowercase();
    FAILURES.iter().any(|word| begins.starts_with(word))
}
