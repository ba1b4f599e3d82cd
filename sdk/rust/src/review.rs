//! Reviews: the expected action, stated by an environment at the end of an episode in lines that programs can read.
//!
//! ```text
//! expected: WHAT TO DO
//! because: FACT is VALUE and FACT is VALUE
//! not looked up: FACT, which WHAT TO DO shows
//! ```
//!
//! `expected` begins a review. The other lines belong to the previous review; without one they are ignored. A `because`
//! that is not a list of facts is prose, and is ignored too. Facts and values are read in lower case. All other lines
//! are for people and models.

use crate::{Episode, Message, Origin};
use std::fmt;

/// Longest name or value of a fact in bytes. Names become tags of lessons, which have at most 128.
const LONGEST_FACT: usize = 128;
/// Longest action in bytes: a tool call with a message. A longer text is data, not a rule.
const LONGEST_ACTION: usize = 4000;
/// Largest number of facts in one `because`, and of looks in one review. A longer list explains nothing.
const MOST_FACTS: usize = 4;
/// Largest number of reviews that are read from one episode. A longer list is a log.
const MOST_REVIEWS: usize = 16;

/// `FACT is VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The fact's name.
    pub fact: String,
    /// Its value.
    pub value: String,
}

impl Condition {
    /// In lower case. `None`: in a rule it would be read differently, or the host refuses it as a name.
    pub fn read(fact: &str, value: &str) -> Option<Self> {
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

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.fact, self.value)
    }
}

/// Characters that the host refuses in a name, because they hide or move text.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A fact that the policy could have looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The fact.
    pub fact: String,
    /// The action that shows it, as in `call look {}`.
    pub action: String,
}

/// The expected action, and its reasons. Its text ([`Display`](fmt::Display)) is for the last message of an episode, or
/// for the result of its last tool call.
///
/// ```
/// use clawhost_sdk::Review;
///
/// let review = Review::expected("call paint {\"with\": \"<colour>\"}")
///     .because("colour", "red")
///     .because("size", "small")
///     .not_looked_up("size", "call measure {}")
///     .remark("Review: not as ordered.");
/// assert_eq!(
///     review.to_string(),
///     "Review: not as ordered.\n\
///      expected: call paint {\"with\": \"<colour>\"}\n\
///      because: colour is red and size is small\n\
///      not looked up: size, which call measure {} shows"
/// );
/// assert_eq!(Review::read(&review.to_string())[0].because, review.because);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// The expected action in the format of rules: `answer TEXT` or `call TOOL {"argument": "value"}`. `<FACT>` is
    /// replaced by the value of a fact.
    pub expected: String,
    /// The facts that are the reasons.
    pub because: Vec<Condition>,
    /// The facts that should have been looked up.
    pub looks: Vec<Look>,
    /// A first line for people.
    pub remark: String,
}

/// A text in one line, so that it cannot begin another line of the review.
fn line(text: impl Into<String>) -> String {
    let text: String = text.into();
    if text.chars().any(char::is_control) { text.replace(char::is_control, " ") } else { text }
}

impl Review {
    /// The expected action, at most 4,000 bytes.
    pub fn expected(action: impl Into<String>) -> Self {
        Self { expected: line(action), because: Vec::new(), looks: Vec::new(), remark: String::new() }
    }

    /// Adds a fact as a reason. At most 4 facts are read, with names and values of at most 128 bytes; neither may
    /// contain `: ` or ` and `.
    pub fn because(mut self, fact: impl Into<String>, value: impl Into<String>) -> Self {
        self.because.push(Condition { fact: line(fact), value: line(value) });
        self
    }

    /// Adds a fact that was not looked up, and the action that shows it; at most 4 are read.
    pub fn not_looked_up(mut self, fact: impl Into<String>, action: impl Into<String>) -> Self {
        self.looks.push(Look { fact: line(fact), action: line(action) });
        self
    }

    /// Sets a first line for people. It must not have the form of one of the other lines.
    pub fn remark(mut self, text: impl Into<String>) -> Self {
        self.remark = line(text);
        self
    }

    /// All reviews in a text, at most 16. Remarks are not read.
    pub fn read(text: &str) -> Vec<Self> {
        let mut reviews: Vec<Self> = Vec::new();
        // Lines after an invalid `expected` are ignored.
        let mut open = false;
        for (name, value) in text.lines().filter_map(field) {
            match (name.as_str(), reviews.last_mut().filter(|_| open)) {
                ("expected", _) => {
                    let expected = action(value).filter(|_| reviews.len() < MOST_REVIEWS);
                    open = expected.is_some();
                    reviews.extend(expected.map(Self::expected));
                }
                ("because", Some(review)) => review.because = reasons(value),
                ("not looked up", Some(review)) if review.looks.len() < MOST_FACTS => review.looks.extend(look(value)),
                _ => {}
            }
        }
        reviews
    }

    /// The environment's reviews at the end of an episode: in the results of the last action and in its closing
    /// messages. Messages of the policy or of the host are ignored.
    pub fn at_the_end(episode: &Episode) -> Vec<Self> {
        let answers = episode.last_turn().map(|turn| turn.tool_results).unwrap_or_default();
        let closing = episode.closing();
        let said = answers.iter().chain(&closing).filter(|message| message.origin == Origin::Environment);
        said.flat_map(|message: &Message| Self::read(&message.plain_text())).take(MOST_REVIEWS).collect()
    }
}

impl fmt::Display for Review {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.remark.is_empty() {
            writeln!(f, "{}", self.remark)?;
        }
        write!(f, "expected: {}", self.expected)?;
        for (position, condition) in self.because.iter().enumerate() {
            write!(f, "{}{condition}", if position == 0 { "\nbecause: " } else { " and " })?;
        }
        self.looks
            .iter()
            .try_for_each(|Look { fact, action }| write!(f, "\nnot looked up: {fact}, which {action} shows"))
    }
}

/// A line `NAME: VALUE`, with the name in lower case; a leading `- ` is ignored. Facts have the same form.
pub fn field(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.trim().trim_start_matches("- ").split_once(": ")?;
    Some((name.trim().to_lowercase(), value.trim()))
}

fn action(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= LONGEST_ACTION && !text.chars().any(is_hidden)).then(|| text.to_owned())
}

/// The facts of a `because`. `None`: it is prose.
fn reasons(text: &str) -> Vec<Condition> {
    let read = |part: &str| part.split_once(" is ").and_then(|(fact, value)| Condition::read(fact, value));
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
    Some(Look { fact: fact.trim().to_lowercase(), action: action(shown.strip_suffix(" shows")?)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Recording;
    use crate::{Ending, Task};

    fn shown(reviews: &[Review]) -> Vec<String> {
        let show = |review: &Review| {
            let because: Vec<_> = review.because.iter().map(|c| format!("{}={}", c.fact, c.value)).collect();
            let looks: Vec<_> = review.looks.iter().map(|look| format!("{}:{}", look.fact, look.action)).collect();
            format!("{} | {} | {}", review.expected, because.join(", "), looks.join(", "))
        };
        reviews.iter().map(show).collect()
    }

    /// What is read, as `expected | fact=value, ... | fact:action, ...`.
    fn check(text: &str, expect: &[&str]) {
        assert_eq!(shown(&Review::read(text)), expect, "{text}");
    }

    #[test]
    fn a_review_consists_of_lines_of_known_kinds() {
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
    fn lines_outside_the_grammar_are_ignored() {
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
        assert_eq!(Review::read(&"expected: wait\n".repeat(99)).len(), MOST_REVIEWS);
    }

    #[test]
    fn a_review_round_trips() {
        let review = Review::expected("call deny {\"order\": \"<order>\"}")
            .because("Damaged", "no")
            .because("region", "the Islands")
            .not_looked_up("region", "call look {}")
            .remark("Review: no.");
        let expect = ["call deny {\"order\": \"<order>\"} | damaged=no, region=the islands | region:call look {}"];
        assert_eq!(shown(&Review::read(&review.to_string())), expect);
        assert_eq!(Review::expected("wait").to_string(), "expected: wait");
    }

    #[test]
    fn no_value_begins_a_new_line() {
        let review = Review::expected("wait\nbecause: x is y").because("a", "b\nexpected: go").remark("x\nexpected: z");
        assert_eq!(review.to_string().lines().count(), 3, "{review}");
        assert_eq!(Review::read(&review.to_string()).len(), 1);
    }

    #[test]
    fn only_messages_of_the_environment_are_read() {
        let episode = Recording::of(Task::new("train", "t", ""))
            .observed("expected: early")
            .acted(Message::calling("c", "go", "{}"))
            .refused("c", "expected: by the host")
            .answered("c", "expected: in a result")
            .observed("expected: at the end")
            .ended(Ending::Terminated);
        assert_eq!(shown(&Review::at_the_end(&episode)), ["in a result |  | ", "at the end |  | "]);
    }
}
