//! What runs are called: changed later.

use super::find_run;
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{LabelChange, Relabelled, RunId, RunLabelStore as _, RunLabels, RunName, RunTag};
use std::collections::BTreeSet;

/// Gives a run another name, or none; gives the run and what it is called now.
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

/// Gives a run tags and takes others away; gives the run and what it is called now. A tag that is in both is taken away.
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
        // It was removed meanwhile.
        Relabelled::NoRun => Err(RequestError::NoRun { name: run.to_owned() }.into()),
        Relabelled::TooManyTags => Err(RequestError::TooManyTags { run: id.0 }.into()),
    }
}
