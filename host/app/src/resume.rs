//! Begins a run, or resumes an interrupted one. A resumed run must equal the requested one; differences are listed.

use crate::events::{Event, EventSink, Warning};
use crate::models::ModelFactory;
use crate::runs::run_id;
use crate::stored::StoredEpisodes;
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{
    Digest, Episode, EpisodeFilter, JournalEntry, Lease, LeaseMode, LeaseSubject, RunId, RunKind, RunRow, RunState,
    StoreError, StoreReader, Usage,
};
use clawhost_play::{EpisodeSource as _, EpisodeSummary};
use clawhost_run_config::{Difference, RunSpec, Work};

/// How a run begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Start {
    /// As a new run.
    #[default]
    New,
    /// By resuming the interrupted run: the one with this id, name or beginning of an id, or the newest of this
    /// specification.
    Resume(Option<String>),
}

/// A run that this process plays.
pub(crate) struct Begun {
    pub(crate) run: RunId,
    pub(crate) lease: Box<dyn Lease>,
    pub(crate) is_resumed: bool,
}

fn kind(spec: &RunSpec) -> RunKind {
    match spec.work {
        Work::Play => RunKind::Play,
        Work::Learn(_) => RunKind::Learn,
        Work::Evaluate(_) => RunKind::Evaluate,
    }
}

/// The decisive differences between a stored run and the requested one.
fn differences(row: &RunRow, now: &RunSpec) -> Result<Vec<Difference>, AppError> {
    let then = RunSpec::from_document(row.config.0.clone())
        .map_err(|error| AppError::Document { run: row.id.to_string(), error })?;
    Ok(then.decisive_diff(now))
}

/// Begins a run, or resumes an interrupted one. Earlier cost counts towards the current budget.
///
/// # Errors
/// The named run cannot be resumed, the newest similar run was interrupted and differs or is complete, or another process plays it.
pub(crate) fn begin(
    workspace: &Workspace,
    spec: &RunSpec,
    digest: &Digest,
    start: &Start,
    models: &ModelFactory,
    events: &dyn EventSink,
) -> Result<Begun, AppError> {
    let begin_new = || {
        check_name(workspace, spec)?;
        let (run, lease) = workspace.new_run()?;
        Ok(Begun { run, lease, is_resumed: false })
    };
    let Start::Resume(wanted) = start else { return begin_new() };
    let reader = workspace.reader()?;
    let wanted = wanted.as_ref().map(|wanted| run_id(&*reader, wanted)).transpose()?;
    let is_wanted = |row: &RunRow| wanted.as_ref().is_none_or(|wanted| row.id == *wanted);
    if let Some(row) = reader.resumable(digest)?.into_iter().find(is_wanted) {
        let lease = workspace.lease(&LeaseSubject::Run(row.id.clone()), LeaseMode::Exclusive)?;
        let lease = lease.ok_or_else(|| RequestError::RunBusy(row.id.to_string()))?;
        models.paid(row.spent);
        if models.limits_plugins() {
            models.paid_by_plugins(used_by_plugins(&*reader, &row.id)?);
        }
        return Ok(Begun { run: row.id, lease, is_resumed: true });
    }
    match wanted {
        Some(wanted) => Err(refusal(workspace, reader.as_ref(), &wanted.0, spec)?),
        None => {
            let environment = spec.environment_name().unwrap_or_default();
            let is_like = |row: &RunRow| row.kind == kind(spec) && row.environment == environment;
            let newest = reader.runs(None)?.into_iter().find(is_like);
            if let Some(row) = newest.filter(|row| row.state != RunState::Finished)
                && is_idle(workspace, &row.id)?
            {
                let all = differences(&row, spec)?;
                if !all.is_empty() {
                    return Err(RequestError::ResumeDiffers { run: row.id.to_string(), all }.into());
                }
            }
            // Another run would cost as much again, and is not what was asked for.
            if let Some(run) = reader.finished_run(digest)? {
                return Err(RequestError::RunComplete(run.0).into());
            }
            events.event(Event::Warning(Warning::NothingToResume));
            begin_new()
        }
    }
}

/// What plugins used of granted models, in the recorded episodes of a run.
fn used_by_plugins(reader: &dyn StoreReader, run: &RunId) -> Result<Usage, AppError> {
    let mut used = Usage::default();
    let mut stored = StoredEpisodes::of_run(reader, run)?;
    while let Some(group) = stored.next_group()? {
        let journals = group.iter().flat_map(|episode| {
            let of_verdicts = episode.verdicts.iter().flat_map(|record| &record.journal);
            episode.journal.iter().chain(of_verdicts)
        });
        let answers = journals.filter_map(JournalEntry::answer).flatten();
        answers.for_each(|answer| used += answer.usage);
    }
    Ok(used)
}

/// Refuses a name that another run has, before anything is played. A resumed run keeps its labels.
///
/// # Errors
/// Another run has the name.
pub(crate) fn check_name(workspace: &Workspace, spec: &RunSpec) -> Result<(), AppError> {
    let Some(name) = &spec.name else { return Ok(()) };
    match workspace.reader()?.run_named(name)? {
        Some(run) => Err(StoreError::NameTaken { name: name.clone(), run }.into()),
        None => Ok(()),
    }
}

/// Whether no process plays a run.
fn is_idle(workspace: &Workspace, run: &RunId) -> Result<bool, AppError> {
    Ok(workspace.lease(&LeaseSubject::Run(run.clone()), LeaseMode::Shared)?.is_some())
}

/// Why a named run is not resumed.
fn refusal(
    workspace: &Workspace,
    reader: &dyn StoreReader,
    wanted: &str,
    spec: &RunSpec,
) -> Result<AppError, AppError> {
    let run = RunId(wanted.to_owned());
    let Some(row) = reader.run(&run)? else {
        return Ok(RequestError::NoRun { name: wanted.to_owned() }.into());
    };
    let cannot = |why: &str| RequestError::CannotResume { run: wanted.to_owned(), why: why.to_owned() }.into();
    if row.state == RunState::Finished {
        return Ok(cannot("it has finished"));
    }
    if !is_idle(workspace, &run)? {
        return Ok(RequestError::RunBusy(wanted.to_owned()).into());
    }
    let all = differences(&row, spec)?;
    if all.is_empty() {
        return Ok(cannot("its playbook or its model has changed since"));
    }
    Ok(RequestError::ResumeDiffers { run: wanted.to_owned(), all }.into())
}

/// The recorded episodes of a run, in order.
pub(crate) fn recorded(reader: &dyn StoreReader, run: &RunId) -> Result<Vec<EpisodeSummary>, AppError> {
    let mut recorded = Vec::new();
    for row in reader.episodes(&EpisodeFilter::of(run))? {
        let episode: Option<Episode> = reader.episode(&format!("{}/{}", row.run, row.id))?;
        recorded.extend(episode.map(|episode| EpisodeSummary::of(&episode.as_recorded())));
    }
    Ok(recorded)
}
