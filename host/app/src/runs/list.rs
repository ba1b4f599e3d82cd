//! Lists of runs.

use crate::AppError;
use clawhost_core::{RunFilter, RunLabels, RunRow, SpecDocument, StoreError, StoreReader};
use clawhost_run_config::RunSpec;
use serde::Serialize;

/// Lines of a list, unless chosen otherwise.
pub const LIST_LIMIT: u64 = 20;

/// Which runs are listed. Everything that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// By what their rows have.
    pub filter: RunFilter,
    /// Of the environment of this name, or of one whose digest begins so (hex, with `sha256:` or without).
    pub environment: Option<String>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedRun {
    /// What is stored about it. Its specification is the published one: without paths.
    #[serde(flatten)]
    pub row: RunRow,
    /// What it is called.
    #[serde(flatten)]
    pub labels: RunLabels,
    /// The model that acted; none: its specification cannot be read here.
    pub model: Option<String>,
}

impl ListedRun {
    pub(super) fn of(mut row: RunRow, labels: RunLabels) -> Self {
        // A specification that this program cannot read is shown as it is stored.
        let Ok(spec) = RunSpec::from_document(row.config.0.clone()) else { return Self { row, labels, model: None } };
        row.config = SpecDocument(spec.published());
        let model = spec.policy.identity.map_or(spec.policy.model, |identity| identity.model);
        Self { row, labels, model: Some(model) }
    }
}

/// Runs that a query selects, newest first; at most as many as its filter says.
///
/// # Errors
/// The store cannot be read.
pub fn list_runs(reader: &dyn StoreReader, query: &RunQuery) -> Result<Vec<ListedRun>, AppError> {
    let RunQuery { filter, environment } = query;
    let listed = |row: RunRow| -> Result<ListedRun, StoreError> {
        let labels = reader.labels(&row.id)?;
        Ok(ListedRun::of(row, labels))
    };
    let Some(environment) = environment else {
        let runs = reader.select_runs(filter)?.into_iter().map(listed);
        return Ok(runs.collect::<Result<_, StoreError>>()?);
    };
    // Which component a run played stands in its specification, which is read anyway; the limit counts what is left.
    let rows = reader.select_runs(&RunFilter { limit: None, ..filter.clone() })?;
    let most = filter.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut runs = Vec::new();
    for row in rows {
        if runs.len() >= most {
            break;
        }
        if played(&row, environment) {
            runs.push(listed(row)?);
        }
    }
    Ok(runs)
}

/// Whether a run played the environment of this name, or of a digest that begins so.
fn played(row: &RunRow, environment: &str) -> bool {
    if row.environment == environment {
        return true;
    }
    let digits = environment.strip_prefix("sha256:").unwrap_or(environment).to_ascii_lowercase();
    let Ok(spec) = RunSpec::from_document(row.config.0.clone()) else { return false };
    !digits.is_empty() && spec.environment.plugin.is_some_and(|plugin| plugin.digest.hex().starts_with(&digits))
}
