//! Changes the name and tags of runs.

use super::find_run;
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{LabelChange, Relabelled, RunId, RunLabelStore as _, RunLabels, RunName, RunTag};
use std::collections::BTreeSet;

/// Sets or removes the name of a run. Returns the run and its labels.
///
/// # Errors
/// There is no such run, another run has the name, or the store cannot be written.
pub async fn rename_run(
    workspace: &Workspace,
    run: &str,
    name: Option<RunName>,
) -> Result<(RunId, RunLabels), AppError> {
    relabel(workspace, run, LabelChange::Name(name)).await
}

/// Adds and removes tags of a run. Returns the run and its labels. A tag in both lists is removed.
///
/// # Errors
/// There is no such run, it would have too many tags, or the store cannot be written.
pub async fn tag_run(
    workspace: &Workspace,
    run: &str,
    added: BTreeSet<RunTag>,
    removed: BTreeSet<RunTag>,
) -> Result<(RunId, RunLabels), AppError> {
    relabel(workspace, run, LabelChange::Tags { added, removed }).await
}

async fn relabel(workspace: &Workspace, run: &str, change: LabelChange) -> Result<(RunId, RunLabels), AppError> {
    let id = find_run(&*workspace.reader()?, run)?.id;
    match workspace.store().relabel(&id, change).await? {
        Relabelled::Now(labels) => Ok((id, labels)),
        // The run was removed meanwhile.
        Relabelled::NoRun => Err(RequestError::NoRun { name: run.to_owned() }.into()),
        Relabelled::TooManyTags => Err(RequestError::TooManyTags { run: id.0 }.into()),
    }
}
