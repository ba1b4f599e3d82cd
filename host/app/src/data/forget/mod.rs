//! Forgets what somebody said: removes it from every record and file of a data folder.
//!
//! [`request`] says whose, [`select`] finds the sessions, [`lessons`] what was learned from them, [`draws`] what trials keep, [`traces`] what files beside the database have. The
//! records go in one transaction of the store, which notes the episodes; then the files go, and the note last. A process that is killed in between
//! leaves the note, and the next forgetting does the rest, or the next gateway before it serves.

mod draws;
mod lessons;
mod request;
mod select;
#[cfg(test)]
mod tests;
mod traces;

pub use lessons::CitedLesson;
pub use request::{ForgetError, ForgetRequest, ForgetScope};

use crate::live::{WithdrawnWeights, remove_adapters, withdraw_weights};
use crate::serve::{capture_store, settle_live, spool_of};
use crate::workspace::{hold_folder, ledger_key_of};
use crate::{AppError, Workspace, WorkspaceSettings};
use clawhost_core::{
    Clock, Forgetting, ForgettingStore as _, Forgotten, LeaseMode, LeaseSubject, Leases as _, Retention as _,
    StoreError,
};
use clawhost_gateway::{clear_spool, settle};
use clawhost_learn::live::trials::ForgottenLessons;
use clawhost_store::{FILE, FileLeases, Reader, Store, StoreOptions};
use select::Selection;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A completed forgetting, or a rehearsal of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForgetReport {
    /// The data folder.
    pub folder: String,
    /// Whether this is a rehearsal: nothing was removed.
    #[serde(rename = "dry_run")]
    pub is_rehearsal: bool,
    /// What was asked for.
    pub what: String,
    /// The episodes, as `RUN/EPISODE`, the sessions in progress among them.
    pub episodes: Vec<String>,
    /// What is removed from the records, by kind.
    pub removed: Forgotten,
    /// Lessons that came from these sessions alone and go.
    pub lessons: ForgottenLessons,
    /// Lessons of playbooks that cite these sessions. They stay.
    pub cited: Vec<CitedLesson>,
    /// Weights that learned from these sessions. They no longer answer.
    pub weights: Vec<WithdrawnWeights>,
    /// Decisions that are removed from the logs of routers.
    pub logged_decisions: u64,
    /// Logs of gateways that are removed: they may quote lessons and names.
    pub logs: u64,
    /// Episodes that cannot be read, so that nobody knows whose they are. They stay.
    pub unreadable: Vec<String>,
    /// Episodes of an earlier forgetting that was interrupted. `None`: there is none.
    pub interrupted: Option<Vec<String>>,
    /// Bytes of records and their blobs before.
    pub bytes_before: u64,
    /// Bytes of records and their blobs afterwards. `None`: nothing was removed.
    pub bytes_after: Option<u64>,
}

/// Forgets what somebody said, or rehearses it. A rehearsal may run beside a gateway.
///
/// # Errors
/// There is no database, nothing of it is there, a name means several, a gateway or another process uses the folder, or the folder cannot be
/// written. What was removed until then is gone, and the next forgetting does the rest.
pub async fn forget(folder: &Path, request: &ForgetRequest, clock: Arc<dyn Clock>) -> Result<ForgetReport, AppError> {
    request.check()?;
    drop(Workspace::read(folder)?);
    if request.is_rehearsal {
        let settings = WorkspaceSettings { clock: Some(clock), ..WorkspaceSettings::new(folder) };
        let workspace = Workspace::open(settings)?;
        settle_live(&workspace, false).await?;
        return rehearse(folder, request, &workspace.store()).await;
    }
    refuse_gateway(folder)?;
    let _held = hold_folder(folder, LeaseMode::Exclusive)?;
    let store = settled(folder, clock).await?;
    let (selection, mut report) = planned(folder, request, &store).await?;
    let is_known = is_known(&selection, &report, &store).await?;
    if !is_known && report.interrupted.is_none() && !request.is_whole() {
        return Err(request.not_found(folder).into());
    }
    report.removed = store.forget(selection.forgetting).await?;
    finish(folder, &store, &mut report).await?;
    if !is_known && report.interrupted.is_none() && report.weights.is_empty() {
        return Err(request.only_cleaned(folder).into());
    }
    Ok(report)
}

/// Finishes a forgetting that was interrupted, before a gateway serves what is left of it. Returns the number of its episodes. `None`: none was interrupted.
///
/// # Errors
/// A gateway or another process uses the folder, or it cannot be read or written.
pub async fn finish_forgetting(folder: &Path, clock: Arc<dyn Clock>) -> Result<Option<u64>, AppError> {
    // What is wrong with a database is said when it is opened for writing.
    let unfinished = || Reader::open(folder).and_then(|reader| reader.unfinished_forgetting());
    if !folder.join(FILE).exists() || unfinished().ok().flatten().is_none() {
        return Ok(None);
    }
    refuse_gateway(folder)?;
    let _held = hold_folder(folder, LeaseMode::Exclusive)?;
    let store = settled(folder, clock).await?;
    let names = store.unfinished_forgetting().await?.unwrap_or_default();
    remove_traces(folder, &store, &names.iter().cloned().collect()).await?;
    Ok(Some(episodes_of(names).len() as u64))
}

/// The store of a folder that nobody else uses, with what a killed gateway left.
async fn settled(folder: &Path, clock: Arc<dyn Clock>) -> Result<Arc<Store>, AppError> {
    let options = StoreOptions { ledger_key: ledger_key_of(folder)?, ..StoreOptions::default() };
    let store = Arc::new(Store::open(folder, options)?);
    settle(capture_store(&store, folder), &spool_of(folder), clock, false).await?;
    Ok(store)
}

/// Those of the noted names that are episodes.
fn episodes_of(names: Vec<String>) -> Vec<String> {
    names.into_iter().filter(|name| name.contains('/')).collect()
}

/// Whether something of what is forgotten is there, beside what weights learned from it.
async fn is_known(selection: &Selection, report: &ForgetReport, store: &Store) -> Result<bool, AppError> {
    if !selection.is_empty() || !report.weights.is_empty() {
        return Ok(true);
    }
    let submitters = selection.forgetting.submitters.clone();
    if submitters.is_empty() {
        return Ok(false);
    }
    Ok(store.rehearse_forgetting(Forgetting { submitters, ..Forgetting::default() }).await?.trajectories > 0)
}

async fn rehearse(folder: &Path, request: &ForgetRequest, store: &Store) -> Result<ForgetReport, AppError> {
    let (selection, mut report) = planned(folder, request, store).await?;
    let mut names: BTreeSet<String> = store.unfinished_forgetting().await?.unwrap_or_default().into_iter().collect();
    names.extend(selection.episodes());
    names.extend(selection.forgetting.traces.iter().cloned());
    report.weights = remove_adapters(folder, &names, true)?;
    let goes: BTreeSet<_> = report.weights.iter().map(|one| (one.model.clone(), one.scope.clone())).collect();
    let stays = |one: &WithdrawnWeights| !goes.contains(&(one.model.clone(), one.scope.clone()));
    report.weights.extend(withdraw_weights(folder, &names, true)?.into_iter().filter(stays));
    if report.interrupted.is_none() && !is_known(&selection, &report, store).await? {
        return Err(request.not_found(folder).into());
    }
    report.removed = store.rehearse_forgetting(selection.forgetting).await?;
    report.logged_decisions = traces::decisions(folder, &names)?;
    report.logs = traces::logs(folder);
    Ok(report)
}

/// What would be forgotten, and the report before anything is.
async fn planned(folder: &Path, request: &ForgetRequest, store: &Store) -> Result<(Selection, ForgetReport), AppError> {
    let interrupted = store.unfinished_forgetting().await?.map(episodes_of);
    let holdings = store.holdings().await?;
    let reader = Workspace::read(folder)?;
    let selection = Selection::of(&*reader, request)?;
    let episodes: BTreeSet<String> = selection.episodes();
    let report = ForgetReport {
        folder: folder.display().to_string(),
        is_rehearsal: request.is_rehearsal,
        what: request.to_string(),
        cited: lessons::cited(&*reader, &episodes)?,
        episodes: episodes.into_iter().collect(),
        removed: Forgotten::default(),
        lessons: selection.lessons,
        weights: Vec::new(),
        logged_decisions: 0,
        logs: 0,
        unreadable: selection.unreadable.clone(),
        interrupted,
        bytes_before: holdings.database_bytes + holdings.blobs.1,
        bytes_after: None,
    };
    Ok((selection, report))
}

/// What was removed from files.
struct Traces {
    weights: Vec<WithdrawnWeights>,
    logged_decisions: u64,
    logs: u64,
    blobs: u64,
}

/// Removes what files have of noted episodes and scopes, everywhere it can, and then the note.
async fn remove_traces(folder: &Path, store: &Store, names: &BTreeSet<String>) -> Result<Traces, AppError> {
    // One place that cannot be changed keeps no other from being cleaned. The note stays then, so that it is tried again.
    let spool = clear_spool(&spool_of(folder));
    let blobs = store.clean_forgotten().await;
    let adapters = remove_adapters(folder, names, false);
    let weights = withdraw_weights(folder, names, false);
    let counts = lessons::remove_counts(folder);
    let logged_decisions = traces::remove_decisions(folder, names);
    let logs = traces::remove_logs(folder);
    spool?;
    counts?;
    let weights = weights?.into_iter().chain(adapters?).collect();
    let traces = Traces { weights, logged_decisions: logged_decisions?, logs: logs?, blobs: blobs? };
    store.end_forgetting().await?;
    Ok(traces)
}

/// Removes the traces in files: of this forgetting, and of those that were interrupted.
async fn finish(folder: &Path, store: &Store, report: &mut ForgetReport) -> Result<(), AppError> {
    let names = store.unfinished_forgetting().await?.unwrap_or_default().into_iter().collect();
    let Traces { weights, logged_decisions, logs, blobs } = remove_traces(folder, store, &names).await?;
    (report.weights, report.logged_decisions, report.logs) = (weights, logged_decisions, logs);
    report.removed.blobs = blobs;
    let holdings = store.holdings().await?;
    report.bytes_after = Some(holdings.database_bytes + holdings.blobs.1);
    Ok(())
}

/// A gateway remembers sessions, responses and lessons in memory, and would write them again.
fn refuse_gateway(folder: &Path) -> Result<(), AppError> {
    let lease = FileLeases::new(folder).acquire(&LeaseSubject::Gateway, LeaseMode::Shared);
    match lease {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(ForgetError::GatewayRuns { folder: folder.display().to_string() }.into()),
        Err(error) => Err(StoreError::into(error)),
    }
}
