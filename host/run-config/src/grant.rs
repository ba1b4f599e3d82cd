//! Permissions of plugins, in the format of the option `grants`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One permission of plugins beyond computing and logging.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Grant {
    /// Keep notes.
    Kv,
    /// Ask a model.
    Model {
        /// The alias that plugins use: letters, digits, `-` and `_`.
        alias: String,
        /// The model, in the format of the option `policy`.
        spec: String,
    },
}

impl fmt::Display for Grant {
    /// In the format of the option.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kv => f.write_str("kv"),
            Self::Model { alias, spec } => write!(f, "llm:{alias}={spec}"),
        }
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

impl TryFrom<String> for Grant {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl Grant {
    /// The permission without the model behind an alias. No two grants of a run share it.
    pub fn name(&self) -> &str {
        match self {
            Self::Kv => "kv",
            Self::Model { alias, .. } => alias,
        }
    }

    /// Whether both grants allow the same thing, so that a run can have only one of them.
    pub(crate) fn is_rival(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Kv, Self::Kv) => true,
            (Self::Model { alias: one, .. }, Self::Model { alias: other, .. }) => one == other,
            _ => false,
        }
    }
}

impl FromStr for Grant {
    /// The expected format.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "kv" {
            return Ok(Self::Kv);
        }
        let Some((alias, spec)) = text.strip_prefix("llm:").and_then(|rest| rest.split_once('=')) else {
            return Err("kv, or llm:ALIAS=SPEC as in llm:judge=follower");
        };
        if !is_plain_name(alias) {
            return Err("an alias of letters, digits, `-` and `_`, as in llm:judge=follower");
        }
        if spec.is_empty() {
            return Err("a model behind the alias, as in llm:judge=follower");
        }
        Ok(Self::Model { alias: alias.to_owned(), spec: spec.to_owned() })
    }
}

/// Whether a name consists of letters, digits, `-` and `_`, so that it needs no escaping in a list, a path or an
/// address.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_kv_or_a_model_behind_an_alias() {
        let check = |text: &str, expected: Result<(&str, &str), &str>| match (text.parse::<Grant>(), expected) {
            (Ok(Grant::Model { alias, spec }), Ok(pair)) => {
                assert_eq!((alias.as_str(), spec.as_str()), pair, "{text}");
            }
            (Err(message), Err(part)) => assert!(message.contains(part), "{text}: {message}"),
            (got, _) => panic!("{text}: {got:?}"),
        };
        assert_eq!("kv".parse(), Ok(Grant::Kv));
        check("llm:judge=follower", Ok(("judge", "follower")));
        check("llm:a-b_1=openai:m@http://h/v1?k=v", Ok(("a-b_1", "openai:m@http://h/v1?k=v")));
        check("llm:a b=follower", Err("letters, digits"));
        check("llm:=follower", Err("letters, digits"));
        check("llm:judge=", Err("a model behind"));
        check("llm:judge", Err("kv, or llm:ALIAS=SPEC"));
        check("KV", Err("kv, or llm:ALIAS=SPEC"));
    }
}
