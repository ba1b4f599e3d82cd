//! Phases: the runs that a learning run is made of, each with a name of its own, recorded and taken up again like any run.

use crate::RuntimeError;
use crate::plan::{Cancel, Plan};
use crate::report::{EpisodeSummary, RunReport};
use crate::run::{Earlier, Observer, Ports, Tasks, begin, play_rest, prepare, take_up};
use clawhost_core::{Episode, LearningStore, PhaseState, RunId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What a phase came to.
pub(crate) struct Phase {
    /// Its run.
    pub(crate) id: RunId,
    /// Its episodes, in order.
    pub(crate) episodes: Vec<Arc<Episode>>,
    /// None: it was over before this process began.
    pub(crate) report: Option<RunReport>,
}

/// The run of a phase: a function of its parent and its name, so that whoever comes back finds it.
pub(crate) fn phase_id(parent: &RunId, name: &str) -> RunId {
    RunId(format!("{parent}.{name}"))
}

/// Plays a phase, or what is missing of it; one that is over is read.
///
/// # Errors
/// Nothing can be played, recorded or read.
pub(crate) async fn play_phase(
    (parent, name): (&RunId, &str),
    plan: Plan,
    ports: Ports,
    tasks: Tasks,
    learning: &dyn LearningStore,
    (cancel, observer): (&Cancel, &dyn Observer),
) -> Result<Phase, RuntimeError> {
    let id = phase_id(parent, name);
    let state = learning.phase(&id).await?;
    let stored = match state {
        PhaseState::Absent => Vec::new(),
        PhaseState::Open | PhaseState::Finished => learning.episodes(&id).await?,
    };
    if state == PhaseState::Finished {
        return Ok(Phase { id, episodes: stored, report: None });
    }
    let config = serde_json::json!({ "phase": name, "plan": plan });
    let mut shared = prepare(id.clone(), plan, ports, Some(tasks), cancel).await?;
    shared.kept = Some(Mutex::default());
    let shared = Arc::new(shared);
    let report = match state {
        PhaseState::Absent => {
            begin(&shared, Some(parent.clone()), config).await?;
            play_rest(&shared, Earlier::default(), cancel, observer).await?
        }
        _ => {
            let earlier = stored.iter().map(|episode| EpisodeSummary::of(episode)).collect();
            take_up(&shared, earlier, cancel, observer).await?
        }
    };
    let mut episodes: BTreeMap<u64, Arc<Episode>> = stored.into_iter().map(|one| (one.index, one)).collect();
    if let Some(kept) = &shared.kept {
        episodes.append(&mut kept.lock().unwrap_or_else(PoisonError::into_inner));
    }
    Ok(Phase { id, episodes: episodes.into_values().collect(), report: Some(report) })
}
