//! Traces of forgotten sessions in files beside the database: decisions in the logs of routers, and the logs of gateways in the background.

use crate::AppError;
use crate::background::background_logs;
use crate::routers::{LogChange, change_logs};
use std::collections::BTreeSet;
use std::path::Path;

/// The number of decisions about these sessions (`RUN/EPISODE`) in the logs of routers.
pub(super) fn decisions(folder: &Path, episodes: &BTreeSet<String>) -> Result<u64, AppError> {
    change_logs(folder, episodes, LogChange::Rehearse)
}

/// Removes these decisions. Returns how many.
pub(super) fn remove_decisions(folder: &Path, episodes: &BTreeSet<String>) -> Result<u64, AppError> {
    change_logs(folder, episodes, LogChange::Remove)
}

/// The number of logs of gateways. Their lines quote lessons, and names of sessions.
pub(super) fn logs(folder: &Path) -> u64 {
    background_logs(folder).len() as u64
}

/// Removes the logs of gateways, none of which runs. Returns how many.
pub(super) fn remove_logs(folder: &Path) -> Result<u64, AppError> {
    let logs = background_logs(folder);
    for log in &logs {
        let unusable = |error| AppError::Io { path: log.display().to_string(), error };
        std::fs::remove_file(log).map_err(unusable)?;
    }
    Ok(logs.len() as u64)
}
