//! Findings: what is there, what is missing, what that costs, and how to get it.

use crate::hints::listed;
use crate::{folder, machine, toolchain};
use clawhost_core::Hint;
use serde::Serialize;
use std::path::Path;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All is well.
    Good,
    /// Something optional is missing.
    Missing,
    /// Something that is needed does not work.
    Broken,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub topic: String,
    /// How bad it is.
    pub state: State,
    /// What was found.
    pub says: String,
    /// What it costs that it is so; none where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<String>,
    /// How to mend it, in words that name no option of a program of ours; none where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// What else may mend it, structured.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "listed")]
    pub hints: Vec<Hint>,
}

impl Finding {
    /// All is well.
    pub fn good(topic: &str, says: impl Into<String>) -> Self {
        Self {
            topic: topic.to_owned(),
            state: State::Good,
            says: says.into(),
            costs: None,
            remedy: None,
            hints: Vec::new(),
        }
    }

    /// Something optional is missing.
    pub fn missing(topic: &str, says: impl Into<String>, costs: &str, remedy: impl Into<String>) -> Self {
        let (costs, remedy) = (Some(costs.to_owned()), Some(remedy.into()));
        Self { state: State::Missing, costs, remedy, ..Self::good(topic, says) }
    }

    /// Something that is needed does not work.
    pub fn broken(topic: &str, says: impl Into<String>, costs: &str, remedy: impl Into<String>) -> Self {
        Self { state: State::Broken, ..Self::missing(topic, says, costs, remedy) }
    }

    /// The same, with what else may mend it.
    #[must_use]
    pub fn with_hints(self, hints: impl IntoIterator<Item = Hint>) -> Self {
        Self { hints: hints.into_iter().collect(), ..self }
    }
}

/// Looks at everything. Nothing is changed, made or sent.
pub fn examine(data: &Path) -> Vec<Finding> {
    [machine::examine(), folder::examine(data), toolchain::rust(), toolchain::other_languages()].concat()
}
