//! What is wrong with a file, and where.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The line, from 1. None: of something that is not there.
    pub line: Option<usize>,
    /// The key with its section, as in `[learn] iterations`; a section alone as `[learn]`; empty where the text is no TOML.
    pub key: String,
    /// What was found, and what is allowed.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with a file, by line; what is missing comes first. Shown with one line for each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(.0))]
pub struct Diagnostics(Vec<Diagnostic>);

fn listed(all: &[Diagnostic]) -> String {
    all.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n")
}

impl Diagnostics {
    /// None if there is nothing wrong.
    pub(crate) fn of(mut all: Vec<Diagnostic>) -> Option<Self> {
        // Stable: what was found first on a line stays first.
        all.sort_by_key(|diagnostic| diagnostic.line);
        (!all.is_empty()).then_some(Self(all))
    }

    /// Each of them; there is at least one.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Where the lines of a text begin.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    /// The line, from 1, that holds a byte.
    pub(crate) fn at(&self, byte: usize) -> usize {
        1 + self.0.partition_point(|begin| *begin <= byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_belongs_to_the_line_that_its_line_end_closes() {
        let lines = Lines::of("ab\n\ncd");
        let at: Vec<usize> = (0..=6).map(|byte| lines.at(byte)).collect();
        assert_eq!(at, [1, 1, 1, 2, 3, 3, 3]);
        assert_eq!(Lines::of("").at(0), 1);
    }

    #[test]
    fn a_diagnostic_says_line_key_and_message_where_it_has_them() {
        let shown = |line, key: &str| Diagnostic { line, key: key.into(), message: "odd".into() }.to_string();
        assert_eq!(shown(Some(12), "[learn] group"), "line 12: [learn] group: odd");
        assert_eq!(shown(None, "plugin"), "plugin: odd");
        assert_eq!(shown(Some(1), ""), "line 1: odd");
    }
}
