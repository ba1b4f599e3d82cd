//! Values from a front end, and their sources.

use clawhost_core::escaped;

/// Longest part of a text that a message repeats, in bytes.
pub(crate) const SHOWN_BYTES: usize = 60;

/// A raw value: its shape is valid, its range is not checked yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// A number with or without a fraction.
    Number(f64),
    /// A text.
    Text(String),
    /// True or false.
    Flag(bool),
    /// A list of texts.
    Texts(Vec<String>),
}

impl Value {
    /// The value in a message, safe for a terminal.
    pub(crate) fn found(&self) -> String {
        match self {
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => found_text(text),
            Self::Flag(flag) => flag.to_string(),
            Self::Texts(texts) if texts.is_empty() => "an empty list".to_owned(),
            Self::Texts(_) => "a list".to_owned(),
        }
    }
}

/// A text in a message, safe for a terminal.
pub(crate) fn found_text(text: &str) -> String {
    if text.is_empty() { "an empty text".to_owned() } else { format!("the text \"{}\"", escaped(text, SHOWN_BYTES)) }
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A file, and the line from 1 if it is known.
    File {
        /// The line of the key.
        line: Option<usize>,
    },
    /// An option of the command line.
    Flag,
}

impl Source {
    /// The line, if the source is a file.
    pub fn line(self) -> Option<usize> {
        match self {
            Self::File { line } => line,
            Self::Flag => None,
        }
    }
}
