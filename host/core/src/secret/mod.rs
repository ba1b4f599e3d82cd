//! Secrets: never shown, and scrubbed from every text that is received from outside.
//!
//! An endpoint may quote the key that it received: in an answer or an error, and in any encoding. [`Secrets::scrub`] finds a key
//! in upper and lower case, with the escapes of JSON, URLs and HTML, and as hexadecimal digits and Base64.

mod known;
mod spelling;
mod stream;
#[cfg(test)]
mod tests;

pub use known::{KeptSecret, KnownSecrets};
pub use stream::ScrubbedText;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use spelling::{Found, Spelling};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Shortest key that is scrubbed, in characters. Shorter ones could occur in unrelated texts.
pub const SHORTEST_SCRUBBED: usize = 12;
/// The replacement of a key.
pub const SCRUBBED: &str = "[key]";
/// Base64 encodes three bytes as four characters, so a key has three possible alignments.
const ALIGNMENTS: usize = 3;

/// A key. Its `Debug` output does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// A key from a text, without surrounding white space. `None`: the text is empty.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The key itself. Only for requests to its endpoint.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is scrubbed from texts. Short keys and placeholders (`EMPTY`, `none`) are not, because they are not secret and
    /// occur in unrelated texts.
    pub fn is_scrubbed(&self) -> bool {
        let mut characters = self.0.chars();
        let first = characters.next();
        // A repeated character is a placeholder, at any length.
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

/// The characters of Base64 that depend only on the key, with `before` other bytes before it.
fn base64_within(key: &[u8], before: usize) -> Vec<u8> {
    let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(key.iter().copied()).collect();
    let written = STANDARD_NO_PAD.encode(&bytes).into_bytes();
    // A character has 6 bits. Characters that share bits with other bytes before or after the key are left out.
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

/// Secrets that are scrubbed from texts. Cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[Spelling]>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

impl Secrets {
    /// Those of the secrets that are scrubbed: see [`Secret::is_scrubbed`].
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        Self(secrets.into_iter().filter(|secret| secret.is_scrubbed()).flat_map(Secret::spellings).collect())
    }

    /// Whether there are no secrets to scrub.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the text contains one, in any supported encoding.
    pub fn are_in(&self, text: &str) -> bool {
        self.next(text, 0).is_some()
    }

    /// The text with [`SCRUBBED`] in place of each secret.
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

    /// The start and end of the first secret at or after a position.
    fn next(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        self.places(text, from).find_map(|(place, found)| match found {
            Found::Whole(end) => Some((place, end)),
            _ => None,
        })
    }

    /// Every position at which a secret occurs, or may begin.
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

    /// Splits a text into the scrubbed part that later text cannot change, and the undecided rest. Also returns whether a secret was found.
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
