//! Names of plugins.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Longest name in bytes: it is part of paths and of addresses.
const NAME_BYTES: usize = 64;

/// The name of a plugin: small letters, digits and single hyphens, from a letter on. Two names that look alike would be
/// different plugins, so that other spellings (capitals, underscores, letters of other alphabets) are no names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PluginName(String);

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no name of a plugin: small letters (a to z), digits and single hyphens, from a letter on, at most {NAME_BYTES} bytes{}",
    clawhost_core::escaped(.written, NAME_BYTES), meant(.written))]
pub struct PluginNameError {
    written: String,
}

/// The name that is nearest, if the text differs only by what names do not have.
fn meant(written: &str) -> String {
    let small: String =
        written.trim().to_lowercase().chars().map(|one| if one == '_' || one == ' ' { '-' } else { one }).collect();
    match is_name(&small) {
        true => format!("; did you mean `{small}`?"),
        false => String::new(),
    }
}

fn is_name(text: &str) -> bool {
    let parts_are_full = text.split('-').all(|part| !part.is_empty());
    text.len() <= NAME_BYTES
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-')
        && parts_are_full
}

impl PluginName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as types are named: `env-shop` becomes `EnvShop`.
    pub fn as_type(&self) -> String {
        let part = |part: &str| {
            let mut letters = part.chars();
            let first = letters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        };
        self.0.split('-').map(part).collect()
    }
}

impl FromStr for PluginName {
    type Err = PluginNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_name(text) { Ok(Self(text.to_owned())) } else { Err(PluginNameError { written: text.to_owned() }) }
    }
}

impl TryFrom<String> for PluginName {
    type Error = PluginNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PluginName> for String {
    fn from(name: PluginName) -> Self {
        name.0
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_spelling() {
        let check = |text: &str, expect: Result<(), &str>| match (text.parse::<PluginName>(), expect) {
            (Ok(name), Ok(())) => assert_eq!(name.as_str(), text),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{text}: {error}"),
            (found, _) => panic!("{text}: {found:?}"),
        };
        check("tower", Ok(()));
        check("env-shop2", Ok(()));
        check(&"a".repeat(64), Ok(()));
        check(&"a".repeat(65), Err("at most 64 bytes"));
        check("Env_Shop", Err("did you mean `env-shop`?"));
        check("my tower", Err("did you mean `my-tower`?"));
        check("", Err("is no name"));
        check("2towers", Err("is no name"));
        check("a--b", Err("is no name"));
        check("-a", Err("is no name"));
        check("a-", Err("is no name"));
        check("а-cyrillic", Err("is no name"));
        check("a/b", Err("is no name"));
        check("..", Err("is no name"));
        check("\u{202e}a", Err("\\u{202e}"));
    }

    #[test]
    fn languages_write_names_in_their_own_way() {
        let name: PluginName = "env-shop2".parse().unwrap();
        assert_eq!(name.as_type(), "EnvShop2");
    }
}
