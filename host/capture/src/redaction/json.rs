//! The strings of a JSON text, by their places in it.

use serde::de::IgnoredAny;
use std::ops::Range;

/// The strings of a text, if it is JSON.
#[derive(Debug, Default)]
pub(super) struct Literals(Vec<Literal>);

/// A string, without its quotes.
#[derive(Debug, Clone)]
pub(super) struct Literal {
    place: Range<usize>,
    is_escaped: bool,
}

impl Literals {
    /// Finds them. Text that is not JSON has none.
    pub(super) fn of(text: &str) -> Self {
        let is_likely = text.trim_start().starts_with(['{', '[', '"']);
        if !is_likely || serde_json::from_str::<IgnoredAny>(text).is_err() {
            return Self::default();
        }
        let mut all = Vec::new();
        let mut bytes = text.bytes().enumerate();
        while let Some((at, byte)) = bytes.next() {
            if byte != b'"' {
                continue;
            }
            let mut is_escaped = false;
            while let Some((end, byte)) = bytes.next() {
                match byte {
                    b'\\' => {
                        is_escaped = true;
                        bytes.next();
                    }
                    b'"' => {
                        all.push(Literal { place: at + 1..end, is_escaped });
                        break;
                    }
                    _ => {}
                }
            }
        }
        Self(all)
    }

    /// The strings with escapes, which read otherwise than they are written.
    pub(super) fn escaped(&self) -> impl Iterator<Item = &Literal> {
        self.0.iter().filter(|literal| literal.is_escaped)
    }

    /// What a match in the written text covers. One that begins in a string ends with it, so that the text stays JSON. `None`: the string
    /// has escapes, and is searched as it reads.
    pub(super) fn kept(&self, range: Range<usize>) -> Option<Range<usize>> {
        let after = self.0.partition_point(|literal| literal.place.start <= range.start);
        match after.checked_sub(1).and_then(|at| self.0.get(at)) {
            Some(literal) if range.start < literal.place.end => {
                (!literal.is_escaped).then(|| range.start..range.end.min(literal.place.end))
            }
            _ => Some(range),
        }
    }
}

impl Literal {
    /// The string as it reads, with the place in `text` of each of its bytes and of its end.
    pub(super) fn read(&self, text: &str) -> Option<(String, Vec<usize>)> {
        let written = text.get(self.place.clone())?;
        let read: String = serde_json::from_str(text.get(self.place.start - 1..self.place.end + 1)?).ok()?;
        let mut places = Vec::with_capacity(read.len() + 1);
        let mut at = 0;
        for one in read.chars() {
            places.extend(std::iter::repeat_n(self.place.start + at, one.len_utf8()));
            let mut bytes = written.get(at..)?.bytes();
            at += match (bytes.next(), bytes.next()) {
                // Behind the basic plane, two escapes are one character.
                (Some(b'\\'), Some(b'u')) => 6 * one.len_utf16(),
                (Some(b'\\'), _) => 2,
                _ => one.len_utf8(),
            };
        }
        places.push(self.place.end);
        Some((read, places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_a_string_has_its_place_in_the_text() {
        let text = r#"{"a": "x\n\u00e9ü\ud83d\ude00\"z", "b\\": 1}"#;
        let literals = Literals::of(text);
        let read: Vec<String> = literals.0.iter().map(|literal| literal.read(text).unwrap().0).collect();
        assert_eq!(read, ["a", "x\néü😀\"z", "b\\"]);
        assert_eq!(literals.escaped().count(), 2);
        let (inner, places) = literals.0[1].read(text).unwrap();
        let written = |from: char| &text[places[inner.find(from).unwrap()]..*places.last().unwrap()];
        assert_eq!(written('é'), r#"\u00e9ü\ud83d\ude00\"z"#);
        assert_eq!(written('😀'), r#"\ud83d\ude00\"z"#);
        assert_eq!(written('z'), "z");
    }

    #[test]
    fn a_match_ends_with_the_string_in_which_it_begins() {
        let text = r#"{"a":"secret","b":"x\n"}"#;
        let literals = Literals::of(text);
        assert_eq!(literals.kept(6..text.len()), Some(6..12));
        assert_eq!(literals.kept(5..text.len()), Some(5..text.len()), "it begins at the quote");
        assert_eq!(literals.kept(19..20), None, "this string is searched as it reads");
    }

    #[test]
    fn text_that_is_not_json_has_no_strings() {
        for text in ["", "a \"b\"", "{\"a\"", "{\"a\":1} x"] {
            assert_eq!(Literals::of(text).0.len(), 0, "{text}");
        }
    }
}
