//! Feedback: a person's verdict about a recorded episode.

use crate::episodes::locate;
use crate::runs::run_id;
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{
    Admission, Episode, EpisodeId, EpisodeState, EpisodeStore as _, FEEDBACK_KEY_BYTES, Feedback, Judged, LeaseMode,
    LeaseSubject, NotAdmitted, RunId, RunState, StoreReader,
};
use serde::Serialize;

/// Feedback about an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedbackRequest {
    /// The episode: its id, or `RUN/ID` if several runs have this id.
    pub episode: String,
    /// The verdict.
    pub feedback: Feedback,
    /// The caller's key: the same feedback with the same key is added once. `None`: it is added unless it equals the
    /// last verdict.
    pub key: Option<String>,
}

/// The result of feedback.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeedbackReport {
    /// The run.
    pub run: RunId,
    /// The episode.
    pub episode: EpisodeId,
    /// Whether it made a revision. If not, it was recorded before.
    pub added: bool,
    /// The newest revision of the episode.
    pub revision: u32,
    /// The effective reward before. `None`: not scored.
    pub reward_before: Option<f64>,
    /// The effective reward now.
    pub reward: Option<f64>,
    /// Whether learners may use the episode now.
    pub state: EpisodeState,
}

/// Adds feedback to an episode as a new revision. Earlier verdicts are unchanged.
///
/// # Errors
/// There is no such episode, several have its id, it has not ended or has failed, the key belongs to other feedback, or
/// the store cannot be written.
pub async fn give_feedback(workspace: &Workspace, request: FeedbackRequest) -> Result<FeedbackReport, AppError> {
    let FeedbackRequest { episode: name, feedback, key } = request;
    if let Some(key) = key.as_ref().filter(|key| key.is_empty() || key.len() > FEEDBACK_KEY_BYTES) {
        return Err(RequestError::FeedbackKey { bytes: key.len() }.into());
    }
    let reader = workspace.reader()?;
    let episode = recorded(workspace, &*reader, &name)?;
    let (run, id, before) = (episode.run, episode.id, episode.reward);
    let judged = Judged {
        run: run.clone(),
        episode: id.clone(),
        record: feedback.record(),
        at: workspace.clock().now_ms(),
        key,
    };
    let admission = workspace.store().judge(vec![judged]).await?.into_iter().next();
    let (added, revision, reward) = match admission {
        Some(Admission::Added { revision, reward }) => (true, revision, reward),
        Some(Admission::Unchanged { revision, reward }) => (false, revision, reward),
        Some(Admission::Refused(why)) => return Err(RequestError::NotAdmitted { episode: name, why }.into()),
        None => {
            return Err(RequestError::NotAdmitted { episode: name, why: NotAdmitted::NoEpisode }.into());
        }
    };
    let now = reader.episode(&format!("{run}/{id}"))?;
    let state = now.map_or(EpisodeState::Decided, |episode| episode.state(workspace.clock().now_ms()));
    Ok(FeedbackReport { run, episode: id, added, revision, reward_before: before, reward, state })
}

/// The recorded episode with a name.
fn recorded(workspace: &Workspace, reader: &dyn StoreReader, name: &str) -> Result<Episode, AppError> {
    let missing = || RequestError::NoEpisode { name: name.to_owned() };
    if let Some((run, id)) = locate(reader, name)? {
        return Ok(reader.episode(&format!("{run}/{id}"))?.ok_or_else(missing)?);
    }
    let Some((run, id)) = name.split_once('/') else {
        return Err(if is_open(reader, None, name)? { still_open(name) } else { missing() }.into());
    };
    let run = run_id(reader, run)?;
    // Phases are played under the lease of their run.
    let owner = RunId(run.0.split_once('.').map_or(run.0.as_str(), |(owner, _)| owner).to_owned());
    let is_unfinished = reader.run(&run)?.is_some_and(|row| row.state == RunState::Open);
    let is_played = is_unfinished && workspace.lease(&LeaseSubject::Run(owner), LeaseMode::Shared)?.is_none();
    Err(if is_played || is_open(reader, Some(&run), id)? { still_open(name) } else { missing() }.into())
}

fn is_open(reader: &dyn StoreReader, run: Option<&RunId>, id: &str) -> Result<bool, AppError> {
    Ok(reader.open_episodes(run)?.iter().any(|open| open.episode.id.0 == id))
}

fn still_open(name: &str) -> RequestError {
    RequestError::EpisodeOpen { name: name.to_owned() }
}
