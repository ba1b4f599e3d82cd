//! The oracle of an environment: an agent that is known to do well.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where the oracle's answers come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Oracle {
    /// The task's reference is the answer, for environments of one turn.
    Reference,
    /// The observations demonstrate the answers.
    Demonstrations,
    /// One script for each task: the file `TASK.txt` in a folder beside the manifest.
    Scripts(String),
    /// A component of the world `environment` beside the manifest that plays the agent: it begins with the task and its reference, gets the
    /// observations as actions, and its observations are the answers, as a test case writes them.
    Component(String),
    /// The rule follower, with the prompt of a file beside the manifest if one is named.
    Follower(Option<String>),
}

/// The text of [`Oracle::Scripts`] before its folder.
const SCRIPTS: &str = "scripts:";
/// The text of [`Oracle::Component`] before its file.
const COMPONENT: &str = "component:";
/// The text of [`Oracle::Follower`] before its file.
const FOLLOWER: &str = "follower:";

/// A text names no oracle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no oracle; available: reference, demonstrations, scripts:FOLDER, component:FOLDER or FILE.wasm, follower, follower:FILE", clawhost_core::escaped(.0, 80))]
pub struct NoOracle(String);

impl FromStr for Oracle {
    type Err = NoOracle;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |prefix: &str| text.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(str::to_owned);
        match text {
            "reference" => Ok(Self::Reference),
            "demonstrations" => Ok(Self::Demonstrations),
            "follower" => Ok(Self::Follower(None)),
            _ => (named(SCRIPTS).map(Self::Scripts))
                .or_else(|| named(COMPONENT).map(Self::Component))
                .or_else(|| named(FOLLOWER).map(|file| Self::Follower(Some(file))))
                .ok_or_else(|| NoOracle(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Oracle {
    type Error = NoOracle;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Oracle> for String {
    fn from(oracle: Oracle) -> Self {
        oracle.to_string()
    }
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference => f.write_str("reference"),
            Self::Demonstrations => f.write_str("demonstrations"),
            Self::Scripts(folder) => write!(f, "{SCRIPTS}{folder}"),
            Self::Component(path) => write!(f, "{COMPONENT}{path}"),
            Self::Follower(None) => f.write_str("follower"),
            Self::Follower(Some(file)) => write!(f, "{FOLLOWER}{file}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oracle_is_read_as_it_is_written() {
        for text in [
            "reference",
            "demonstrations",
            "scripts:tests/oracle",
            "follower",
            "follower:tests/oracle.txt",
            "component:./oracle",
        ] {
            assert_eq!(text.parse::<Oracle>().unwrap().to_string(), text);
        }
        for text in ["", "scripts:", "agent", "Reference"] {
            assert!(text.parse::<Oracle>().unwrap_err().to_string().contains("available: reference"), "{text}");
        }
    }
}
