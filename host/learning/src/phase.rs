//! Phases: the runs that a learning run consists of. Each has a name, and is recorded and resumed like any run.

use crate::LearningError;
use clawhost_core::{Episode, LearningStore, PhaseState, RunId, RunKind, RunLabels, SpecDocument};
use clawhost_play::{Cancel, EpisodeSummary, Observer, Plan, Ports, RunReport, RunRequest, Tasks, play_run};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A completed phase.
pub struct Phase {
    /// Its run.
    pub id: RunId,
    /// Its episodes, in order.
    pub episodes: Vec<Arc<Episode>>,
    /// The report; `None` if the phase was complete before this process started.
    pub report: Option<RunReport>,
}

/// The run id of a phase. It follows from parent and name, so that a resumed run finds it.
pub(crate) fn phase_id(parent: &RunId, name: &str) -> RunId {
    RunId(format!("{parent}.{name}"))
}

/// Plays the missing episodes of a phase; reads a completed one.
///
/// # Errors
/// Episodes cannot be played, recorded or read.
pub(crate) async fn play_phase(
    (parent, name): (&RunId, &str),
    plan: Plan,
    ports: Ports,
    tasks: Tasks,
    learning: &dyn LearningStore,
    (cancel, observer): (&Cancel, &dyn Observer),
) -> Result<Phase, LearningError> {
    let id = phase_id(parent, name);
    let state = learning.phase(&id).await?;
    let stored = match state {
        PhaseState::Absent => Vec::new(),
        PhaseState::Open | PhaseState::Finished => learning.episodes(&id).await?,
    };
    if state == PhaseState::Finished {
        return Ok(Phase { id, episodes: stored, report: None });
    }
    let recorded =
        (state == PhaseState::Open).then(|| stored.iter().map(|one| EpisodeSummary::of(&one.as_recorded())).collect());
    let request = RunRequest {
        id: id.clone(),
        parent: Some(parent.clone()),
        kind: RunKind::Phase,
        plan,
        ports,
        tasks: Some(tasks),
        // The parent run has the specification.
        config: SpecDocument::none(),
        labels: RunLabels::default(),
        recorded,
        keeps_episodes: true,
    };
    let played = play_run(request, cancel, observer).await?;
    let mut episodes: BTreeMap<u64, Arc<Episode>> = stored.into_iter().map(|one| (one.index, one)).collect();
    episodes.extend(played.episodes.into_iter().map(|one| (one.index, one)));
    Ok(Phase { id, episodes: episodes.into_values().collect(), report: Some(played.report) })
}
