//! Names and tags of runs. They are not part of a run's identity: equal runs may have different ones.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Longest name of a run, and longest tag, in characters. Lists have a column for each.
pub const LABEL_CHARACTERS: usize = 64;
/// Largest number of tags of one run. Lists show all of them.
pub const RUN_TAGS: usize = 32;
/// The beginning of every run id. No name begins like this, so a name is never confused with an id.
pub const RUN_ID_PREFIX: &str = "run-";

/// The allowed characters of a name besides letters and digits.
const NAME_SIGNS: &[char] = &['-', '_', '.'];
/// The allowed characters of a tag besides letters and digits: `model=qwen` and `lr:0.1` are tags.
const TAG_SIGNS: &[char] = &['-', '_', '.', ':', '=', '+'];

/// A text that cannot be a name or a tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLabel {
    /// The text is not a name.
    #[error("`{text}` is not a valid name of a run: {expected}", expected = RunName::EXPECTED)]
    Name {
        /// The text, safe to show.
        text: String,
    },
    /// The text is not a tag.
    #[error("`{text}` is not a valid tag: {expected}", expected = RunTag::EXPECTED)]
    Tag {
        /// The text, safe to show.
        text: String,
    },
}

fn is_label(text: &str, signs: &[char]) -> bool {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || signs.contains(&character);
    text.len() <= LABEL_CHARACTERS
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(is_plain)
}

/// The name of a run: unique in a data folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RunName(String);

impl RunName {
    /// What a message says is expected.
    pub const EXPECTED: &'static str = "letters, digits, `-`, `_` and `.`, at most 64, a letter or a digit first; not beginning with `run-`, as ids of runs do";

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunName {
    type Err = InvalidLabel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match is_label(text, NAME_SIGNS) && !text.starts_with(RUN_ID_PREFIX) {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidLabel::Name { text: crate::escaped(text, LABEL_CHARACTERS) }),
        }
    }
}

/// A tag of a run: any number of runs may have it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RunTag(String);

impl RunTag {
    /// What a message says is expected.
    pub const EXPECTED: &'static str =
        "letters, digits, `-`, `_`, `.`, `:`, `=` and `+`, at most 64, a letter or a digit first";

    /// The tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunTag {
    type Err = InvalidLabel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match is_label(text, TAG_SIGNS) {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidLabel::Tag { text: crate::escaped(text, LABEL_CHARACTERS) }),
        }
    }
}

/// The methods that names and tags share.
macro_rules! text {
    ($label:ident) => {
        impl fmt::Display for $label {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<$label> for String {
            fn from(label: $label) -> Self {
                label.0
            }
        }

        impl TryFrom<String> for $label {
            type Error = InvalidLabel;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }
    };
}

text!(RunName);
text!(RunTag);

/// The labels of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLabels {
    /// Its name. `None`: it has only its id.
    pub name: Option<RunName>,
    /// Its tags, at most [`RUN_TAGS`].
    pub tags: BTreeSet<RunTag>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_is_never_taken_for_an_id_a_path_or_a_flag() {
        let check = |text: &str, is_name: bool| assert_eq!(text.parse::<RunName>().is_ok(), is_name, "{text:?}");
        for text in ["a", "7", "sweep-3_b.2", "RUN-1", "running", &"x".repeat(LABEL_CHARACTERS)] {
            check(text, true);
        }
        for text in
            ["", "-a", ".a", "a b", "a/b", "run-1", "run-", "ä", "a\n", "a=b", &"x".repeat(LABEL_CHARACTERS + 1)]
        {
            check(text, false);
        }
        let why = "a\u{1b}b".parse::<RunName>().unwrap_err().to_string();
        assert!(why.contains("\\u{1b}") && why.contains(RunName::EXPECTED), "{why}");
        assert!(RunName::EXPECTED.contains(&LABEL_CHARACTERS.to_string()));
        assert!(RunTag::EXPECTED.contains(&LABEL_CHARACTERS.to_string()));
    }

    #[test]
    fn a_tag_may_hold_a_key_and_a_value() {
        let check = |text: &str, is_tag: bool| assert_eq!(text.parse::<RunTag>().is_ok(), is_tag, "{text:?}");
        for text in ["baseline", "model=qwen", "lr:1e-3", "run-1", "a+b"] {
            check(text, true);
        }
        for text in ["", "=a", "a b", "a,b", "a/b", &"x".repeat(LABEL_CHARACTERS + 1)] {
            check(text, false);
        }
    }
}
