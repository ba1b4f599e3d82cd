//! Lists of runs.

use crate::AppError;
use clawhost_core::{Listed, RunFilter, RunLabels, RunRow, SpecDocument, StoreError, StoreReader};
use clawhost_run_config::{PluginSpec, RunSpec};
use serde::Serialize;

/// Default number of rows.
pub const LIST_LIMIT: u64 = 20;

/// A query for runs. All conditions that are set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Conditions on their rows.
    pub filter: RunFilter,
    /// The environment: its name, or a beginning of its digest (hex, with or without `sha256:`).
    pub environment: Option<String>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedRun {
    /// Its row. The specification is the published one: without paths.
    #[serde(flatten)]
    pub row: RunRow,
    /// Its name and tags.
    #[serde(flatten)]
    pub labels: RunLabels,
    /// The policy model. `None`: the specification cannot be read.
    pub model: Option<String>,
}

impl ListedRun {
    pub(super) fn of(mut row: RunRow, labels: RunLabels) -> Self {
        // An unreadable specification is shown as it is stored.
        let Ok(spec) = RunSpec::from_document(row.config.0.clone()) else { return Self { row, labels, model: None } };
        row.config = SpecDocument(spec.published());
        let model = spec.policy.identity.map_or(spec.policy.model, |identity| identity.model);
        Self { row, labels, model: Some(model) }
    }
}

/// Runs that match a query, newest first, up to the limit of its filter, and those that cannot be read.
///
/// # Errors
/// The store cannot be read.
pub fn list_runs(reader: &dyn StoreReader, query: &RunQuery) -> Result<Listed<ListedRun>, AppError> {
    let RunQuery { filter, environment } = query;
    let listed = |row: RunRow| -> Result<ListedRun, StoreError> {
        let labels = reader.labels(&row.id)?;
        Ok(ListedRun::of(row, labels))
    };
    let Some(environment) = environment else {
        let Listed { rows, damaged } = reader.select_runs(filter)?;
        return Ok(Listed { rows: rows.into_iter().map(listed).collect::<Result<_, StoreError>>()?, damaged });
    };
    // The component of a run is part of its specification, which is read anyway. The limit applies to the remaining
    // runs.
    let Listed { rows, damaged } = reader.select_runs(&RunFilter { limit: None, ..filter.clone() })?;
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
    Ok(Listed { rows: runs, damaged })
}

/// Whether a run played the environment with this name or beginning of its digest.
fn played(row: &RunRow, environment: &str) -> bool {
    if row.environment == environment {
        return true;
    }
    let digits = environment.strip_prefix("sha256:").unwrap_or(environment).to_ascii_lowercase();
    let Ok(spec) = RunSpec::from_document(row.config.0.clone()) else { return false };
    if !spec.mix.is_empty() && spec.part_names().iter().any(|name| name == environment) {
        return true;
    }
    let is_it = |plugin: &PluginSpec| {
        plugin
            .plugin
            .as_ref()
            .is_some_and(|plugin| plugin.name == environment || plugin.digest.hex().starts_with(&digits))
    };
    !digits.is_empty() && spec.environments().any(|(plugin, _)| is_it(plugin))
}
