//! Secrets: never shown, and scrubbed from every text that comes back from outside.
//!
//! An endpoint may quote the key that it was sent: in an answer, in an error, in any encoding. [`Secrets::scrub`] finds a key as
//! it is and in any case, with the escapes of JSON, URLs and HTML, and as hexadecimal digits and Base64.

mod spelling;
mod stream;
#[cfg(test)]
mod tests;

pub use stream::ScrubbedText;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use spelling::{Found, Spelling};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Shortest key that is scrubbed, in characters. Shorter ones would be found in texts that have nothing to do with them.
pub const SHORTEST_SCRUBBED: usize = 12;
/// Stands where a key was.
pub const SCRUBBED: &str = "[key]";
/// Base64 writes three bytes as four characters, so a key can begin at three places.
const ALIGNMENTS: usize = 3;

/// A key. Its `Debug` output is dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// A key from a text, without surrounding white space; none if it is empty.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The key itself. For a request to the endpoint that it belongs to, and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is scrubbed from texts. Short keys and placeholders (`EMPTY`, `none`) are not: no one keeps them secret, and
    /// they would be found everywhere.
    pub fn is_scrubbed(&self) -> bool {
        let mut characters = self.0.chars();
        let first = characters.next();
        // A row of one character is a placeholder of any length.
        self.0.chars().count() >= SHORTEST_SCRUBBED && characters.any(|one| Some(one) != first)
    }

    fn spellings(&self) -> Vec<Spelling> {
        let bytes = self.0.as_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut spellings = vec![Spelling::any_case(bytes.to_vec()), Spelling::any_case(hex.into_bytes())];
        for before in 0..ALIGNMENTS {
            let within = base64_within(bytes, before);
            let url: Vec<u8> = within.iter().map(|byte| url_safe(*byte)).collect();
            if url != within {
                spellings.push(Spelling::exact(url));
            }
            spellings.push(Spelling::exact(within));
        }
        spellings
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The characters of Base64 that a key alone decides, with so many bytes in front of it.
fn base64_within(key: &[u8], before: usize) -> Vec<u8> {
    let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(key.iter().copied()).collect();
    let written = STANDARD_NO_PAD.encode(&bytes).into_bytes();
    // A character has 6 bits: those that share bits with what stands before or behind are not decided by the key.
    let first = (before * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    written.get(first..last).unwrap_or_default().to_vec()
}

fn url_safe(byte: u8) -> u8 {
    match byte {
        b'+' => b'-',
        b'/' => b'_',
        other => other,
    }
}

/// Secrets to be scrubbed from texts. Cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[Spelling]>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

impl Secrets {
    /// All of them that are scrubbed: see [`Secret::is_scrubbed`].
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        Self(secrets.into_iter().filter(|secret| secret.is_scrubbed()).flat_map(Secret::spellings).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the text spells one.
    pub fn are_in(&self, text: &str) -> bool {
        self.next(text, 0).is_some()
    }

    /// The text with [`SCRUBBED`] where it spells one.
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let (mut clean, mut from) = (String::new(), 0);
        while let Some((start, end)) = self.next(text, from) {
            clean.push_str(text.get(from..start).unwrap_or_default());
            clean.push_str(SCRUBBED);
            from = end;
        }
        match from {
            0 => Cow::Borrowed(text),
            _ => Cow::Owned(clean + text.get(from..).unwrap_or_default()),
        }
    }

    /// Scrubs the text in place.
    pub fn scrub_in(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.scrub(text) {
            *text = clean;
        }
    }

    /// The first secret from a place on: where it begins and ends.
    fn next(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        self.places(text, from).find_map(|(place, found)| match found {
            Found::Whole(end) => Some((place, end)),
            _ => None,
        })
    }

    /// Every place where a secret is, or may begin.
    fn places<'a>(&'a self, text: &'a str, from: usize) -> impl Iterator<Item = (usize, Found)> + 'a {
        let bytes = text.as_bytes();
        let begins = |byte: u8| self.0.iter().any(|spelling| spelling.begins_with(byte));
        let mut first = [false; 256];
        if !self.is_empty() {
            first = std::array::from_fn(|byte| u8::try_from(byte).is_ok_and(begins));
        }
        let is_candidate = move |byte: &u8| first.get(usize::from(*byte)).copied().unwrap_or(false);
        let candidates = bytes.iter().enumerate().skip(from).filter(move |(_, byte)| is_candidate(byte));
        candidates.filter_map(move |(place, _)| {
            let mut best = Found::Nothing;
            for found in self.0.iter().map(|spelling| spelling.at(bytes, place)) {
                best = match (best, found) {
                    (Found::Whole(one), Found::Whole(other)) => Found::Whole(one.max(other)),
                    (whole @ Found::Whole(_), _) | (_, whole @ Found::Whole(_)) => whole,
                    (Found::Beginning, _) | (_, Found::Beginning) => Found::Beginning,
                    _ => Found::Nothing,
                };
            }
            (best != Found::Nothing).then_some((place, best))
        })
    }

    /// What of the text is decided, scrubbed; what is not; and whether a secret was in it.
    fn split(&self, text: &str) -> (String, String, bool) {
        let (mut from, mut clean, mut found) = (0, String::new(), false);
        while let Some((start, end)) = self.next(text, from) {
            clean.push_str(text.get(from..start).unwrap_or_default());
            clean.push_str(SCRUBBED);
            (from, found) = (end, true);
        }
        let open = self.places(text, from).map(|(place, _)| place).next().unwrap_or(text.len());
        clean.push_str(text.get(from..open).unwrap_or_default());
        (clean, text.get(open..).unwrap_or_default().to_owned(), found)
    }
}
