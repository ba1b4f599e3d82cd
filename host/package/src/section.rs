//! A section of the file, asked for its keys one by one.
//!
//! Whatever is asked for is a key that the section knows; what is left over is unknown. So there is no list of keys beside
//! the code that reads them. A value that is wrong is noted and then treated as absent: reading goes on, and all that is
//! wrong is found at once.

use crate::diagnostic::{Diagnostic, Lines};
use clawhost_core::escaped;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// How much of a key or of a text is repeated in a message, in bytes: enough to find it by.
const SHOWN_BYTES: usize = 60;

/// A section, or the keys above all sections.
pub(crate) struct Section<'a, 't> {
    /// Empty: the top.
    pub(crate) name: &'static str,
    /// Of its heading; None where it has none.
    line: Option<usize>,
    is_there: bool,
    table: Option<&'a DeTable<'t>>,
    lines: &'a Lines,
    known: Vec<&'static str>,
    diagnostics: Vec<Diagnostic>,
}

/// A key with its line and value.
struct Entry<'a, 't> {
    line: usize,
    value: &'a Spanned<DeValue<'t>>,
}

impl<'a, 't> Section<'a, 't> {
    /// The keys above all sections.
    pub(crate) fn top(table: &'a DeTable<'t>, lines: &'a Lines) -> Self {
        Self {
            name: "",
            line: None,
            is_there: true,
            table: Some(table),
            lines,
            known: Vec::new(),
            diagnostics: Vec::new(),
        }
    }

    /// A section below this one, empty if it is absent.
    pub(crate) fn section(&mut self, name: &'static str) -> Self {
        let entry = self.entry(name);
        let table = entry.as_ref().and_then(|entry| entry.value.get_ref().as_table());
        let mut section = Self {
            name,
            line: entry.as_ref().map(|entry| entry.line),
            is_there: entry.is_some(),
            table,
            lines: self.lines,
            known: Vec::new(),
            diagnostics: Vec::new(),
        };
        if let Some(entry) = entry.filter(|_| table.is_none()) {
            let found = found(entry.value.get_ref());
            section.refuse_whole(format!("found {found}; expected a section: [{name}] on one line, its keys below it"));
        }
        section
    }

    /// Whether it was written, in whatever form.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there
    }

    /// A key as messages name it.
    pub(crate) fn label(&self, key: &str) -> String {
        let key = escaped(key, SHOWN_BYTES);
        if self.name.is_empty() { key } else { format!("[{}] {key}", self.name) }
    }

    /// Whether a key was written.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Notes that a key's value is wrong. Of a key that is absent the section's heading is the place.
    pub(crate) fn refuse(&mut self, key: &str, message: impl Into<String>) {
        let line = self.find(key).map(|entry| entry.line).or(self.line);
        self.refuse_at(line, key, message);
    }

    /// Notes that the section itself is wrong.
    pub(crate) fn refuse_whole(&mut self, message: impl Into<String>) {
        let key = format!("[{}]", self.name);
        self.diagnostics.push(Diagnostic { line: self.line, key, message: message.into() });
    }

    fn refuse_at(&mut self, line: Option<usize>, key: &str, message: impl Into<String>) {
        let key = self.label(key);
        self.diagnostics.push(Diagnostic { line, key, message: message.into() });
    }

    /// Whether something is wrong with a key by itself.
    pub(crate) fn is_refused(&self, key: &str) -> bool {
        let label = self.label(key);
        self.diagnostics.iter().any(|diagnostic| diagnostic.key == label)
    }

    /// Whether it is no section at all.
    pub(crate) fn is_misshapen(&self) -> bool {
        self.is_there && self.table.is_none()
    }

    /// A text that is not empty.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        let entry = self.entry(key)?;
        let text = full_text(entry.value);
        if text.is_none() {
            self.mismatch(key, &entry, "a text that is not empty");
        }
        text
    }

    /// A text that stands for something else.
    pub(crate) fn parsed<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Option<T> {
        let entry = self.entry(key)?;
        let value = entry.value.get_ref().as_str().and_then(parse);
        if value.is_none() {
            self.mismatch(key, &entry, expected);
        }
        value
    }

    /// A list of texts, each made into something by `item`, which tells what it expected instead.
    pub(crate) fn list<T>(
        &mut self,
        key: &'static str,
        mut item: impl FnMut(&str, &[T]) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let entry = self.entry(key)?;
        let Some(array) = entry.value.get_ref().as_array() else {
            self.mismatch(key, &entry, "a list of texts, as in [\"one\", \"two\"]");
            return None;
        };
        let mut items = Vec::new();
        for element in array.iter() {
            let read = match full_text(element) {
                Some(text) => item(&text, &items),
                None => Err("texts that are not empty".to_owned()),
            };
            match read {
                Ok(item) => items.push(item),
                Err(expected) => {
                    let line = self.lines.at(element.span().start);
                    let found = found(element.get_ref());
                    self.refuse_at(Some(line), key, format!("found {found}; expected {expected}"));
                }
            }
        }
        Some(items)
    }

    /// A whole number.
    pub(crate) fn whole<N>(&mut self, key: &'static str, range: &RangeInclusive<N>) -> Option<N>
    where
        N: TryFrom<u64> + PartialOrd + Display,
    {
        let entry = self.entry(key)?;
        let number = entry.value.get_ref().as_integer();
        let number = number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        let number = number.and_then(|number| N::try_from(number).ok()).filter(|number| range.contains(number));
        if number.is_none() {
            self.mismatch(key, &entry, &format!("a whole number from {} to {}", range.start(), range.end()));
        }
        number
    }

    /// A number, with or without a point.
    pub(crate) fn number<N>(&mut self, key: &'static str, range: &RangeInclusive<N>) -> Option<N>
    where
        N: FromStr + PartialOrd + Display,
    {
        let entry = self.entry(key)?;
        let digits = match entry.value.get_ref() {
            DeValue::Float(number) => Some(number.as_str().to_owned()),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
            }
            _ => None,
        };
        let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| range.contains(number));
        if number.is_none() {
            self.mismatch(key, &entry, &format!("a number from {} to {}", range.start(), range.end()));
        }
        number
    }

    /// True or false.
    pub(crate) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let entry = self.entry(key)?;
        let flag = entry.value.get_ref().as_bool();
        if flag.is_none() {
            self.mismatch(key, &entry, "true or false");
        }
        flag
    }

    /// Keys that this section was asked for.
    pub(crate) fn known(&self) -> &[&'static str] {
        &self.known
    }

    /// Keys that nobody asked for, each with its line and whether a section stands behind it.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = (&str, usize, bool)> {
        let entries = self.table.into_iter().flat_map(|table| table.iter());
        let unknown = entries.filter(|(key, _)| !self.known.contains(&key.get_ref().as_ref()));
        unknown.map(|(key, value)| {
            let is_section = value.get_ref().is_table();
            (key.get_ref().as_ref(), self.lines.at(key.span().start), is_section)
        })
    }

    /// Everything that was noted.
    pub(crate) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }

    fn entry(&mut self, key: &'static str) -> Option<Entry<'a, 't>> {
        self.known.push(key);
        self.find(key)
    }

    fn find(&self, key: &str) -> Option<Entry<'a, 't>> {
        let (key, value) = self.table?.get_key_value(key)?;
        Some(Entry { line: self.lines.at(key.span().start), value })
    }

    fn mismatch(&mut self, key: &str, entry: &Entry<'_, '_>, expected: &str) {
        let found = found(entry.value.get_ref());
        self.refuse_at(Some(entry.line), key, format!("found {found}; expected {expected}"));
    }
}

fn full_text(value: &Spanned<DeValue<'_>>) -> Option<String> {
    value.get_ref().as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A value in the words of a message.
fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.is_empty() => "an empty text".to_owned(),
        DeValue::String(text) => format!("the text \"{}\"", escaped(text, SHOWN_BYTES)),
        DeValue::Integer(number) => escaped(&number.to_string(), SHOWN_BYTES),
        DeValue::Float(number) => escaped(number.as_str(), SHOWN_BYTES),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date or time".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a section".to_owned(),
    }
}
