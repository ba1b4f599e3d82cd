//! The feedback that can be read: a few kinds of lines, whoever writes them.
//!
//! ```text
//! expected: WHAT TO DO
//! because: FACT is VALUE and FACT is VALUE
//! not looked up: FACT, which WHAT TO DO shows
//! ```
//!
//! `expected` opens a piece of feedback; the other two belong to the one before them, and without one they say nothing. A
//! `because` that is no list of facts is prose, and not understood. Case does not matter in facts and values: they are
//! read in lower case. Only the environment is believed: what a policy wrote is no feedback.

use clawhost_sdk::{Episode, Message, Origin};
use std::collections::BTreeMap;

/// Bytes of a fact's name or value: names become tags, which the host allows 128.
const LONGEST_FACT: usize = 128;
/// Bytes of what is to be done: a tool call with a message. What is longer is data, not a rule.
const LONGEST_DEED: usize = 4000;
/// Facts of one `because`, and looks of one piece: more name everything there is, and explain nothing.
const MOST_FACTS: usize = 4;
/// Pieces of feedback read from one episode: a longer list is a log.
const MOST_PIECES: usize = 16;

/// `FACT is VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The fact's name.
    pub(crate) fact: String,
    /// What it must be.
    pub(crate) value: String,
}

impl Condition {
    /// None: written into a rule it would be read back as something else, or it is no name that the host takes.
    fn new(fact: &str, value: &str) -> Option<Self> {
        let (fact, value) = (fact.trim().to_lowercase(), value.trim().to_lowercase());
        let plain = |text: &str| {
            !text.is_empty()
                && text.len() <= LONGEST_FACT
                && !text.contains(": ")
                && !text.contains(" and ")
                && !text.chars().any(is_hidden)
        };
        (plain(&fact) && plain(&value) && !fact.contains(" is ")).then_some(Self { fact, value })
    }
}

/// Characters that the host refuses in a name, because they hide or move text.
pub(crate) fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A fact that would have been known after a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// The fact, in lower case.
    pub(crate) fact: String,
    /// What shows it.
    pub(crate) deed: String,
}

/// One piece of feedback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Feedback {
    /// What should have been done.
    pub(crate) expected: String,
    /// The facts that it names as reasons; none where it gives no reason that can be read.
    pub(crate) because: Vec<Condition>,
    /// What should have been looked up.
    pub(crate) looks: Vec<Look>,
}

/// A line `NAME: VALUE`, the name in lower case.
fn field(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.trim().trim_start_matches("- ").split_once(": ")?;
    Some((name.trim().to_lowercase(), value.trim()))
}

fn deed(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= LONGEST_DEED && !text.chars().any(is_hidden)).then(|| text.to_owned())
}

/// The facts of a `because`; none: it is prose.
fn reasons(text: &str) -> Vec<Condition> {
    let read = |part: &str| part.split_once(" is ").and_then(|(fact, value)| Condition::new(fact, value));
    let all: Option<Vec<Condition>> = text.to_lowercase().split(" and ").map(read).collect();
    let mut distinct: Vec<Condition> = Vec::new();
    for condition in all.unwrap_or_default() {
        if !distinct.contains(&condition) {
            distinct.push(condition);
        }
    }
    if distinct.len() > MOST_FACTS { Vec::new() } else { distinct }
}

fn look(text: &str) -> Option<Look> {
    let (fact, shown) = text.split_once(", which ")?;
    Some(Look { fact: fact.trim().to_lowercase(), deed: deed(shown.strip_suffix(" shows")?)? })
}

/// Every piece of feedback in a text.
pub(crate) fn read(text: &str) -> Vec<Feedback> {
    let mut pieces: Vec<Feedback> = Vec::new();
    // Lines behind an `expected` that cannot be used belong to nothing.
    let mut open = false;
    for (name, value) in text.lines().filter_map(field) {
        match (name.as_str(), pieces.last_mut().filter(|_| open)) {
            ("expected", _) => {
                let expected = deed(value);
                open = expected.is_some();
                let piece = |expected| Feedback { expected, because: Vec::new(), looks: Vec::new() };
                pieces.extend(expected.map(piece));
            }
            ("because", Some(piece)) => piece.because = reasons(value),
            ("not looked up", Some(piece)) if piece.looks.len() < MOST_FACTS => piece.looks.extend(look(value)),
            _ => {}
        }
    }
    pieces
}

fn of_environment(message: &&Message) -> bool {
    message.origin == Origin::Environment
}

/// What the environment said in the end: the answers to the last action, and its closing messages.
pub(crate) fn at_the_end(episode: &Episode) -> Vec<Feedback> {
    let answers = episode.last_turn().map(|turn| turn.tool_results).unwrap_or_default();
    let closing = episode.closing();
    let said = answers.iter().chain(&closing).filter(of_environment);
    said.flat_map(|message| read(&message.plain_text())).take(MOST_PIECES).collect()
}

/// What the opening states, by the fact's name.
#[derive(Debug, Default)]
pub(crate) struct Stated(BTreeMap<String, String>);

impl Stated {
    /// Of several lines about one fact the last counts.
    pub(crate) fn in_opening(episode: &Episode) -> Self {
        let opening = episode.turns_from(0, 1).pop().map(|turn| turn.observation).unwrap_or_default();
        let texts: Vec<String> = opening.iter().filter(of_environment).map(Message::plain_text).collect();
        let lines = texts.iter().flat_map(|text| text.lines());
        Self(lines.filter_map(field).map(|(fact, value)| (fact, value.to_owned())).collect())
    }

    /// `FACT is VALUE`, as the opening says it.
    pub(crate) fn condition(&self, fact: &str) -> Option<Condition> {
        Condition::new(fact, self.0.get(fact)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read, as `expected | fact=value, ... | fact:deed, ...`.
    fn check(text: &str, expect: &[&str]) {
        let show = |piece: &Feedback| {
            let because: Vec<_> = piece.because.iter().map(|c| format!("{}={}", c.fact, c.value)).collect();
            let looks: Vec<_> = piece.looks.iter().map(|look| format!("{}:{}", look.fact, look.deed)).collect();
            format!("{} | {} | {}", piece.expected, because.join(", "), looks.join(", "))
        };
        assert_eq!(read(text).iter().map(show).collect::<Vec<_>>(), expect, "{text}");
    }

    #[test]
    fn feedback_is_lines_of_a_known_kind() {
        check("Not good.\nexpected: answer red\nbecause: Shape is Round", &["answer red | shape=round | "]);
        check(
            "- Expected: call paint {\"with\": \"<colour>\"}\n- Because: colour is red and size is very small",
            &["call paint {\"with\": \"<colour>\"} | colour=red, size=very small | "],
        );
        check(
            "expected: wait\nbecause: a is b\nnot looked up: a, which call look {\"at\": \"<c>\"} shows",
            &["wait | a=b | a:call look {\"at\": \"<c>\"}"],
        );
        check("expected: one\nbecause: a is b\nexpected: two", &["one | a=b | ", "two |  | "]);
    }

    #[test]
    fn what_is_not_in_the_grammar_says_nothing() {
        check("Well done.", &[]);
        check("because: a is b\nnot looked up: a, which x shows", &[]);
        check("expected:\nbecause: a is b", &[]);
        check("expected: wait\nbecause: it was late", &["wait |  | "]);
        check("expected: wait\nbecause: colour is black and white", &["wait |  | "]);
        check("expected: wait\nbecause: note is see: below", &["wait |  | "]);
        check("expected: wait\nbecause: a\u{200b} is b", &["wait |  | "]);
        check("expected: wait\nbecause: a is b and a is b", &["wait | a=b | "]);
        check(
            "expected: wait\nnot looked up: a\nnot looked up: a, which x\nnot looked up: , which  shows",
            &["wait |  | "],
        );
        check("expected: hide\u{202e}\nbecause: a is b", &[]);
        check(&format!("expected: fine\nexpected: {}\nbecause: a is b", "x".repeat(4001)), &["fine |  | "]);
        check(&format!("expected: wait\nbecause: {} is b", "x".repeat(129)), &["wait |  | "]);
        check("expected: wait\nbecause: a is 1 and b is 2 and c is 3 and d is 4 and e is 5", &["wait |  | "]);
        let looks = "not looked up: a, which b shows\n".repeat(9);
        check(&format!("expected: wait\n{looks}"), &["wait |  | a:b, a:b, a:b, a:b"]);
    }
}
