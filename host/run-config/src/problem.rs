//! Problems in the description of a run, and their places.

use crate::{Key, Scope, Source};
use std::fmt;

/// A part of a message. A front end renders each key with its own name: a file as `adapter_rank`, a command line as its
/// flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// The name of another option.
    Key(Key),
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Key> for Part {
    fn from(key: Key) -> Self {
        Self::Key(key)
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The option. `None`: the layers of a run, or something that is not an option.
    pub key: Option<Key>,
    /// The place in a file: `[[learn]] harness, gate_every`, `plugin`, `[[learn]]`. Empty if the text is not TOML.
    pub label: String,
    /// The source of the value. `None`: the value is missing, or is a default.
    pub source: Option<Source>,
    /// The found value, and the expected one.
    pub message: Vec<Part>,
}

impl Problem {
    /// A problem of an option.
    pub(crate) fn of(key: Key, source: Option<Source>, message: impl IntoIterator<Item = Part>) -> Self {
        let label = label(key.scope(), key.name());
        Self { key: Some(key), label, source, message: message.into_iter().collect() }
    }

    /// A problem of something that is not an option.
    pub(crate) fn at(label: impl Into<String>, source: Option<Source>, message: impl Into<String>) -> Self {
        Self { key: None, label: label.into(), source, message: vec![Part::Text(message.into())] }
    }

    /// The line from 1, if the problem is in a file.
    pub fn line(&self) -> Option<usize> {
        self.source.and_then(Source::line)
    }

    /// The message, with the names of options from `name`.
    pub fn render(&self, name: impl Fn(Key) -> String) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Key(key) => name(*key),
        };
        self.message.iter().map(part).collect()
    }
}

/// A key with its table, in a file's notation: a table `[[learn]]` with the name of its layer.
pub(crate) fn label(scope: Scope, name: &str) -> String {
    match scope {
        Scope::Layer(layer) => format!("[[learn]] {layer}, {name}"),
        Scope::Run | Scope::Evaluate => name.to_owned(),
    }
}

impl fmt::Display for Problem {
    /// In a file's notation: `line 3: [[learn]] harness, gate_every: found 0; expected ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line() {
            write!(f, "line {line}: ")?;
        }
        if !self.label.is_empty() {
            write!(f, "{}: ", self.label)?;
        }
        f.write_str(&self.render(|key| key.name().to_owned()))
    }
}

/// All problems by line; problems without a line come first. Never empty. The display has one line per problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(.0))]
pub struct Problems(Vec<Problem>);

fn listed(all: &[Problem]) -> String {
    all.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

impl Problems {
    /// `None` if there is no problem.
    pub(crate) fn of(mut all: Vec<Problem>) -> Option<Self> {
        // Stable: problems of one line stay in the order in which they were found.
        all.sort_by_key(Problem::line);
        (!all.is_empty()).then_some(Self(all))
    }

    /// All problems; there is at least one.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_its_line_label_and_message() {
        let shown = |source, label: &str| Problem::at(label, source, "odd").to_string();
        assert_eq!(shown(Some(Source::File { line: Some(12) }), "[[learn]]"), "line 12: [[learn]]: odd");
        assert_eq!(shown(None, "plugin"), "plugin: odd");
        assert_eq!(shown(Some(Source::Flag), "plugin"), "plugin: odd");
        assert_eq!(shown(Some(Source::File { line: Some(1) }), ""), "line 1: odd");
    }

    #[test]
    fn a_front_end_renders_its_own_names_of_options() {
        let problem = Problem::of(Key::AdapterAlpha, Some(Source::Flag), ["needs ".into(), Key::AdapterRank.into()]);
        assert_eq!(problem.to_string(), "[[learn]] weights, adapter_alpha: needs adapter_rank");
        assert_eq!(problem.render(|key| format!("<{}>", key.name())), "needs <adapter_rank>");
    }

    #[test]
    fn problems_are_sorted_by_line_and_those_without_one_come_first() {
        let at = |line| Problem::at("x", Some(Source::File { line }), "odd");
        let all = Problems::of(vec![at(Some(3)), at(None), at(Some(1))]).unwrap();
        assert_eq!(all.iter().map(Problem::line).collect::<Vec<_>>(), [None, Some(1), Some(3)]);
        assert_eq!(Problems::of(Vec::new()), None);
    }
}
