//! Sessions of agents for commands that read or judge what a gateway has recorded.

use crate::runs::{RunChoice, choose_runs};
use crate::serve::settle_live;
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{EpisodeProgress, LiveReader as _, RunId, SpoolPlace};
use clawhost_gateway::spool_end;
use clawhost_store::Reader;
use std::path::Path;
use std::time::Duration;

/// Longest wait for a running gateway. It takes exchanges over within about 50 ms; if its database is locked, that can take any time.
const CATCH_UP: Duration = Duration::from_secs(2);
/// How often the database is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until the running gateway of a data folder has taken over into the database what it recorded before this call.
pub(crate) async fn caught_up(folder: &Path, spool: &Path) {
    let Some(end) = spool_end(spool) else { return };
    let is_taken = || {
        let taken = Reader::open(folder).and_then(|reader| reader.spool_place());
        taken.is_ok_and(|taken: SpoolPlace| taken >= end)
    };
    wait_until(is_taken).await;
}

/// Looks until it is so, for [`CATCH_UP`] at most.
async fn wait_until(mut is_so: impl FnMut() -> bool) {
    let looking = async {
        while !is_so() {
            tokio::time::sleep(LOOK).await;
        }
    };
    // Readers show what there is then.
    let _ = tokio::time::timeout(CATCH_UP, looking).await;
}

/// Sessions that were ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedSessions {
    /// The number of sessions, each an episode now. `None`: a gateway runs, and ends them itself.
    pub closed: Option<u64>,
    /// The runs that were chosen.
    pub runs: RunChoice,
    /// Episodes among the closed ones that are in other runs.
    pub elsewhere: u64,
    /// The number of these runs.
    pub other_runs: u64,
}

/// Ends all open sessions, and chooses runs as if they were still open: the default covers the runs that they are in.
///
/// # Errors
/// The database cannot be read or written, or a run that is named is unknown.
pub async fn close_sessions(workspace: &Workspace, choice: &RunChoice) -> Result<ClosedSessions, AppError> {
    settle_live(workspace, false).await?;
    let (runs, open) = {
        let reader = workspace.reader()?;
        let runs = match choice {
            RunChoice::All => None,
            some => match choose_runs(&*reader, some) {
                Ok(rows) => Some(rows.into_iter().map(|row| row.id).collect::<Vec<RunId>>()),
                Err(AppError::Request(RequestError::NoRuns)) => None,
                Err(error) => return Err(error),
            },
        };
        (runs, reader.open_episodes(None)?)
    };
    let closed = settle_live(workspace, true).await?;
    let is_elsewhere = |run: &RunId| runs.as_ref().is_some_and(|runs| !runs.contains(run));
    let others = open.into_iter().map(|EpisodeProgress { episode, .. }| episode.run).filter(is_elsewhere);
    let mut others: Vec<RunId> = others.collect();
    let elsewhere = if closed.is_some() { others.len() as u64 } else { 0 };
    others.sort_by(|one, other| one.0.cmp(&other.0));
    others.dedup();
    let other_runs = if closed.is_some() { others.len() as u64 } else { 0 };
    let runs = match (choice, runs) {
        (RunChoice::Newest, Some(runs)) => RunChoice::These(runs),
        _ => choice.clone(),
    };
    Ok(ClosedSessions { closed, runs, elsewhere, other_runs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_waits_until_the_gateway_has_caught_up_and_not_for_ever() {
        let looks = async |at: u32| {
            let mut looked = 0;
            let began = tokio::time::Instant::now();
            wait_until(|| {
                looked += 1;
                looked == at
            })
            .await;
            (looked, began.elapsed() <= CATCH_UP + LOOK)
        };
        assert_eq!(looks(1).await, (1, true));
        assert_eq!(looks(7).await, (7, true));
        let (looked, is_bounded) = looks(u32::MAX).await;
        assert!(looked > 7 && is_bounded, "{looked}");
    }
}
