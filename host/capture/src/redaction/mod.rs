//! Replaces keys, tokens, e-mail addresses and what the operator names in everything that is recorded. What is forwarded stays as it is.
//!
//! A match becomes `[redacted:KIND]`. Texts that are JSON are searched as they read, so that escapes hide nothing, and stay JSON.

mod json;
mod patterns;
mod record;
#[cfg(test)]
mod tests;

use crate::CaptureError;
use json::Literals;
use patterns::{EMAILS, KEYS};
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use std::ops::Range;

pub use record::Redacted;

/// Most patterns of an operator. Each text is searched for all of them at once.
pub const PATTERNS: usize = 64;
/// Longest pattern in bytes: a list of some hundred names.
pub const PATTERN_BYTES: usize = 4096;
/// Most bytes of one compiled pattern: repetitions inside of repetitions multiply.
const COMPILED_BYTES: usize = 1 << 20;
/// Most bytes of all of them together.
const SET_BYTES: usize = 16 << 20;
/// Most searches of one text. A replacement can make a new match beside it; two searches are nearly always enough.
const ROUNDS: usize = 8;
/// JSON inside of texts of JSON is searched up to this depth.
const DEPTH: usize = 4;

/// What is redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactionSettings {
    /// Keys and tokens of well-known forms, and private keys.
    pub keys: bool,
    /// E-mail addresses.
    pub emails: bool,
    /// The operator's own regular expressions. `^` and `$` are the ends of a whole text.
    pub patterns: Vec<String>,
}

impl Default for RedactionSettings {
    fn default() -> Self {
        Self { keys: true, emails: false, patterns: Vec::new() }
    }
}

/// What was found, in the words of the replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Key,
    Token,
    PrivateKey,
    Email,
    Pattern,
}

impl Kind {
    fn replacement(self) -> &'static str {
        match self {
            Self::Key => "[redacted:key]",
            Self::Token => "[redacted:token]",
            Self::PrivateKey => "[redacted:private-key]",
            Self::Email => "[redacted:email]",
            Self::Pattern => "[redacted:pattern]",
        }
    }

    const ALL: [Self; 5] = [Self::Key, Self::Token, Self::PrivateKey, Self::Email, Self::Pattern];
}

/// A part of a text that is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    range: Range<usize>,
    kind: Kind,
}

/// Compiled patterns. The time of a search grows with the length of the text alone.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    /// All patterns: nearly every text has no match, and is searched once.
    any: RegexSet,
    each: Vec<(Kind, Regex)>,
}

impl Redaction {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// A pattern cannot be read, or there are too many, or one is too large.
    pub fn new(settings: &RedactionSettings) -> Result<Self, CaptureError> {
        let wrong = |at: usize, why: String| CaptureError::Pattern { at, why };
        if settings.patterns.len() > PATTERNS {
            return Err(wrong(PATTERNS, format!("there may be {PATTERNS}")));
        }
        let keys = KEYS.iter().filter(|_| settings.keys).map(|(kind, pattern)| (*kind, *pattern));
        let emails = settings.emails.then_some((Kind::Email, EMAILS));
        let mut all: Vec<(Kind, &str)> = keys.chain(emails).collect();
        let built_in = all.len();
        all.extend(settings.patterns.iter().map(|pattern| (Kind::Pattern, pattern.as_str())));
        let mut each = Vec::with_capacity(all.len());
        for (at, (kind, pattern)) in all.iter().enumerate() {
            let at = at.saturating_sub(built_in);
            if pattern.len() > PATTERN_BYTES {
                return Err(wrong(at, format!("it is longer than {PATTERN_BYTES} bytes")));
            }
            let compiled = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES).build();
            each.push((*kind, compiled.map_err(|error| wrong(at, error.to_string()))?));
        }
        let set = RegexSetBuilder::new(all.iter().map(|(_, pattern)| pattern)).size_limit(SET_BYTES).build();
        let any = set.map_err(|error| wrong(settings.patterns.len().saturating_sub(1), error.to_string()))?;
        Ok(Self { any, each })
    }

    /// Whether it redacts nothing.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// The redacted text. `None`: there is nothing to redact. In the result nothing matches outside of replacements.
    pub fn text(&self, text: &str) -> Option<String> {
        let mut redacted: Option<String> = None;
        for _ in 0..ROUNDS {
            let now = redacted.as_deref().unwrap_or(text);
            let spans = self.spans(now);
            if spans.is_empty() {
                return redacted;
            }
            redacted = Some(replaced(now, &spans));
        }
        // Patterns that match beside every replacement: nothing of the text is kept.
        Some(Kind::Pattern.replacement().to_owned())
    }

    /// What is replaced in a text: in order, and apart from each other.
    fn spans(&self, text: &str) -> Vec<Span> {
        if self.is_empty() {
            return Vec::new();
        }
        let found = self.found(text, 0);
        if found.is_empty() { found } else { joined(text, found) }
    }

    /// The matches in a text, in any order.
    fn found(&self, text: &str, depth: usize) -> Vec<Span> {
        let is_found = self.any.is_match(text);
        if !is_found && !text.contains('\\') {
            return Vec::new();
        }
        let literals = if depth < DEPTH { Literals::of(text) } else { Literals::default() };
        let mut spans = Vec::new();
        if is_found {
            let matches = self.matches(text).into_iter().filter_map(|Span { range, kind }| {
                let range = literals.kept(range)?;
                Some(Span { range, kind })
            });
            spans.extend(matches);
        }
        for literal in literals.escaped() {
            let Some((inner, places)) = literal.read(text) else { continue };
            let within = self.found(&inner, depth + 1).into_iter().filter_map(|Span { range, kind }| {
                let range = *places.get(range.start)?..*places.get(range.end)?;
                Some(Span { range, kind })
            });
            spans.extend(within);
        }
        spans
    }

    fn matches(&self, text: &str) -> Vec<Span> {
        let matching = self.any.matches(text);
        let each = matching.iter().filter_map(|at| self.each.get(at));
        let span = |kind: Kind, found: regex::Match<'_>| Span { range: found.range(), kind };
        let all = each.flat_map(|(kind, pattern)| pattern.find_iter(text).map(|found| span(*kind, found)));
        all.filter(|span| !span.range.is_empty()).collect()
    }
}

/// The places of replacements in a text.
fn replacements(text: &str) -> Vec<Range<usize>> {
    let begins = text.match_indices("[redacted:").map(|(at, _)| at);
    let whole = |at: usize| {
        let rest = text.get(at..)?;
        let kind = Kind::ALL.into_iter().find(|kind| rest.starts_with(kind.replacement()))?;
        Some(at..at + kind.replacement().len())
    };
    begins.filter_map(whole).collect()
}

/// Spans in order. Those that touch become one. One inside of a replacement is none, and one that overlaps a replacement takes it in.
fn joined(text: &str, mut spans: Vec<Span>) -> Vec<Span> {
    for known in replacements(text) {
        spans.retain(|Span { range, .. }| range.start < known.start || range.end > known.end);
        for Span { range, .. } in &mut spans {
            if range.start < known.end && known.start < range.end {
                *range = range.start.min(known.start)..range.end.max(known.end);
            }
        }
    }
    spans.sort_by_key(|span| (span.range.start, std::cmp::Reverse(span.range.end)));
    let mut all: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match all.last_mut() {
            Some(last) if span.range.start <= last.range.end => last.range.end = last.range.end.max(span.range.end),
            _ => all.push(span),
        }
    }
    all
}

fn replaced(text: &str, spans: &[Span]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for Span { range, kind } in spans {
        out.push_str(text.get(at..range.start).unwrap_or_default());
        out.push_str(kind.replacement());
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}
