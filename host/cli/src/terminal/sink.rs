//! The one way to standard output and standard error.
//!
//! Texts from outside are escaped where they are shown, so that they keep their place. This sink is the last door behind that: whatever
//! reaches it, a name, a path, an option, an error of a library, no hidden character passes, except for line ends, tabs and the styles
//! of this program.

use clawhost_core::{is_hidden, json_escaped};
use std::io::{self, Write};

/// The styles that this program uses. All other escape sequences are shown as text.
const STYLES: [&str; 11] = [
    "\x1b[0m",
    "\x1b[1m",
    "\x1b[2m",
    "\x1b[3m",
    "\x1b[4m",
    "\x1b[31m",
    "\x1b[32m",
    "\x1b[33m",
    "\x1b[36m",
    "\x1b[1;31m",
    "\x1b[1;33m",
];

/// Writes text without hidden characters.
pub(crate) struct Sink<W> {
    out: W,
    /// The beginning of a character whose end was not written yet.
    begun: Vec<u8>,
}

/// Standard output. Styles are removed if it is not a terminal.
pub(crate) fn stdout() -> Sink<anstream::Stdout> {
    Sink::new(anstream::stdout())
}

/// Standard error, likewise.
pub(crate) fn stderr() -> Sink<anstream::Stderr> {
    Sink::new(anstream::stderr())
}

/// Prints a JSON document on standard output, with hidden characters as escapes of JSON.
pub(crate) fn json(document: &serde_json::Value) -> io::Result<()> {
    let mut out = anstream::stdout();
    writeln!(out, "{}", json_escaped(&format!("{document:#}")))
}

/// Prints a JSON document on one line.
pub(crate) fn json_line(document: &serde_json::Value) -> io::Result<()> {
    let mut out = anstream::stdout();
    writeln!(out, "{}", json_escaped(&document.to_string()))
}

impl<W: Write> Sink<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, begun: Vec::new() }
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(|one| is_hidden(one) && !matches!(one, '\n' | '\t')) {
            let (plain, hidden) = rest.split_at(at);
            self.out.write_all(plain.as_bytes())?;
            if let Some(style) = STYLES.iter().find(|style| hidden.starts_with(**style)) {
                self.out.write_all(style.as_bytes())?;
                rest = hidden.get(style.len()..).unwrap_or_default();
                continue;
            }
            let mut characters = hidden.chars();
            if let Some(character) = characters.next() {
                write!(self.out, "{}", character.escape_default())?;
            }
            rest = characters.as_str();
        }
        self.out.write_all(rest.as_bytes())
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        for chunk in all.utf8_chunks() {
            self.text(chunk.valid())?;
            // What is left at the end may be the beginning of a character.
            match chunk.invalid() {
                [] => {}
                begun if all.ends_with(begun) && begun.len() < 4 => self.begun = begun.to_vec(),
                _ => self.text("\u{fffd}")?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_styles_of_this_program_pass() {
        let check = |pieces: &[&[u8]], expect: &str| {
            let mut out = Vec::new();
            let mut sink = Sink::new(&mut out);
            pieces.iter().for_each(|piece| sink.write_all(piece).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), expect, "{pieces:?}");
        };
        check(&[b"plain\n\ttext"], "plain\n\ttext");
        check(&[b"\x1b[1;31merror:\x1b[0m x"], "\x1b[1;31merror:\x1b[0m x");
        check(&[b"\x1b[2J\x1b[8mhidden\x1b]0;title\x07"], "\\u{1b}[2J\\u{1b}[8mhidden\\u{1b}]0;title\\u{7}");
        check(&[b"a\rb\x7f"], "a\\rb\\u{7f}");
        check(&["a\u{202e}b\u{9b}c\u{e0041}".as_bytes()], "a\\u{202e}b\\u{9b}c\\u{e0041}");
        check(&[b"caf\xc3", b"\xa9 \xe2\x80", b"\xae!"], "caf\u{e9} \\u{202e}!");
        check(&[b"a\xff\xfeb"], "a\u{fffd}\u{fffd}b");
    }
}
