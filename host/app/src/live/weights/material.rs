//! What weights learn from a live session.

use crate::AppError;
use crate::live::learning::correction;
use clawhost_core::{
    Episode, RewardRecord, RewardSource, StoreReader, Withheld, effective_reward, standing, verdicts_at,
};
use clawhost_learn::policy::{Generated, LiveSignal};
use std::sync::Arc;

/// Most characters of a correction that is a hint. A longer text is no hint any more, and takes the room of the conversation.
const HINT_CHARACTERS: usize = 2_000;

/// A session that ended, with what the model wrote in it.
#[derive(Debug, Clone)]
pub(crate) struct LiveSession {
    /// As `RUN/EPISODE`.
    pub(crate) name: String,
    /// The class of its task: sessions of one agent are compared with each other.
    pub(crate) class: String,
    /// The reward by its deadline. `None`: there is none.
    pub(crate) reward: Option<f64>,
    /// Corrections with the turns that they are about. `None`: about the whole, so about its last turn.
    pub(crate) hints: Vec<(Option<u32>, String)>,
    /// The tokens that the model sampled.
    pub(crate) generated: Generated,
    /// The digests of the weights that answered.
    pub(crate) weights: Vec<String>,
    pub(crate) episode: Arc<Episode>,
}

/// Why a session is not learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unused {
    /// Its client keeps it out of learning, or it is no conversation of its own.
    Withheld,
    /// It was not completed.
    Incomplete,
    /// Another model answered, or its tokens are not on record.
    OtherModel,
    /// There is no feedback of the kind that is learned from.
    NoFeedback,
}

/// The weights that answered, from the version of a local model: `WEIGHTS+FORMAT`.
fn weights_of(version: &str) -> &str {
    version.split_once('+').map_or(version, |(weights, _)| weights)
}

/// The session of an episode, as weights learn from it.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn session(
    reader: &dyn StoreReader,
    name: &str,
    (model, signal, sources): (&str, LiveSignal, &[RewardSource]),
    deadline_ms: u64,
) -> Result<Result<LiveSession, Unused>, AppError> {
    let Some(episode) = reader.episode(name)? else { return Ok(Err(Unused::Incomplete)) };
    Ok(material(name, episode, (model, signal, sources), deadline_ms))
}

fn material(
    name: &str,
    episode: Episode,
    (model, signal, sources): (&str, LiveSignal, &[RewardSource]),
    deadline_ms: u64,
) -> Result<LiveSession, Unused> {
    let Some(session) = episode.origin.session() else { return Err(Unused::Withheld) };
    let class = session.agent.clone();
    // What was redacted in the record is in its tokens.
    let is_kept_out = matches!(
        episode.origin.withheld(),
        Some(Withheld::NoTrain | Withheld::Ambiguous | Withheld::Repetition | Withheld::SideTurn | Withheld::Redacted)
    );
    if is_kept_out {
        return Err(Unused::Withheld);
    }
    if !episode.ending.is_complete() {
        return Err(Unused::Incomplete);
    }
    let mut weights = Vec::new();
    for turn in &episode.turns {
        let by = turn.answered_by.as_ref().filter(|by| by.model == model).ok_or(Unused::OtherModel)?;
        let version = by.version.as_deref().filter(|_| turn.tokens.is_some()).ok_or(Unused::OtherModel)?;
        weights.push(weights_of(version).to_owned());
    }
    let generated = Generated::of(&episode).ok_or(Unused::OtherModel)?;
    let deadline = episode.created_at.saturating_add(deadline_ms);
    let verdicts: Vec<RewardRecord> = verdicts_at(&episode.verdicts, deadline).cloned().collect();
    let hint = |record: &RewardRecord| Some((turn(record), shortened(correction(record)?)));
    let hints: Vec<_> = if signal.uses_hints() { standing(&verdicts).filter_map(hint).collect() } else { Vec::new() };
    let rewards: Vec<RewardRecord> = verdicts.into_iter().filter(|record| sources.contains(&record.source)).collect();
    let reward = effective_reward(&rewards).filter(|_| signal.uses_rewards());
    if reward.is_none() && hints.is_empty() {
        return Err(Unused::NoFeedback);
    }
    Ok(LiveSession { name: name.to_owned(), class, reward, hints, generated, weights, episode: Arc::new(episode) })
}

/// The turn that a verdict is about, if it is about one.
fn turn(record: &RewardRecord) -> Option<u32> {
    record.options.iter().find(|(name, _)| name == "turn").and_then(|(_, turn)| turn.parse().ok())
}

fn shortened(text: &str) -> String {
    text.chars().take(HINT_CHARACTERS).collect()
}
