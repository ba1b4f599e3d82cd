//! The report of a check: what a consumer of a plugin asks for, readable by programs.

use clawhost_package::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format of reports.
pub const CHECK_FORMAT: u32 = 1;

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is as promised.
    Passed,
    /// It is not.
    Failed,
    /// Nothing was promised, or it does not apply.
    Skipped,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// Its stable name.
    pub check: String,
    /// Its result.
    pub outcome: Outcome,
    /// What was found.
    pub says: String,
    /// What would help, if it failed or was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Figures, by name. Units are part of the names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

impl Checked {
    pub(super) fn passed(check: &str, says: impl Into<String>) -> Self {
        let (outcome, says) = (Outcome::Passed, says.into());
        Self { check: check.to_owned(), outcome, says, remedy: None, figures: BTreeMap::new() }
    }

    pub(super) fn failed(check: &str, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed, remedy: Some(remedy.into()), ..Self::passed(check, says) }
    }

    pub(super) fn skipped(check: &str, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { outcome: Outcome::Skipped, remedy: Some(remedy.into()), ..Self::passed(check, says) }
    }

    #[must_use]
    pub(super) fn with(mut self, figures: impl IntoIterator<Item = (&'static str, f64)>) -> Self {
        self.figures.extend(figures.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self
    }
}

/// The checked plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedPlugin {
    /// Its name, as the component says.
    pub name: String,
    /// Its version, as the component says.
    pub version: String,
    /// Its kind.
    pub kind: Kind,
    /// Digest of the component.
    pub digest: String,
    /// Length of the component in bytes.
    pub bytes: u64,
}

/// The report of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// The format of the report.
    pub format: u32,
    /// Version of the program that checked.
    pub host: String,
    /// The plugin.
    pub plugin: CheckedPlugin,
    /// The seed from which everything was drawn.
    pub seed: u64,
    /// Whether no check failed.
    pub passed: bool,
    /// The checks, in order.
    pub checks: Vec<Checked>,
}
