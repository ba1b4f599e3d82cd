//! Findings about this machine: what works, what is missing, the consequences, and the remedies.

use crate::hints::listed;
use crate::{folder, machine, toolchain};
use clawhost_core::Hint;
use serde::Serialize;
use std::path::Path;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It works.
    Good,
    /// Something optional is missing.
    Missing,
    /// Something necessary does not work.
    Broken,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked, in one or two words.
    pub topic: String,
    /// The severity.
    pub state: State,
    /// What was found.
    pub says: String,
    /// The consequences. `None`: it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<String>,
    /// The remedy, as text that names no command-line option of this project. `None`: it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Other remedies, as structured hints.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "listed")]
    pub hints: Vec<Hint>,
}

impl Finding {
    /// A finding that something works.
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

    /// A finding that something optional is missing.
    pub fn missing(topic: &str, says: impl Into<String>, costs: &str, remedy: impl Into<String>) -> Self {
        let (costs, remedy) = (Some(costs.to_owned()), Some(remedy.into()));
        Self { state: State::Missing, costs, remedy, ..Self::good(topic, says) }
    }

    /// A finding that something necessary does not work.
    pub fn broken(topic: &str, says: impl Into<String>, costs: &str, remedy: impl Into<String>) -> Self {
        Self { state: State::Broken, ..Self::missing(topic, says, costs, remedy) }
    }

    /// Adds structured remedies.
    #[must_use]
    pub fn with_hints(self, hints: impl IntoIterator<Item = Hint>) -> Self {
        Self { hints: hints.into_iter().collect(), ..self }
    }
}

/// Runs all checks. Changes and sends nothing.
pub fn examine(data: &Path) -> Vec<Finding> {
    [machine::examine(), folder::examine(data), toolchain::rust(), toolchain::other_languages()].concat()
}
