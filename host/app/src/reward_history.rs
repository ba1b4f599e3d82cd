//! The history of a reward in a data folder.

use crate::AppError;
use crate::error_words::did_you_mean;
use crate::runs::{RunChoice, choose_runs, damaged_runs};
use crate::stored::StoredEpisodes;
use clawhost_core::{DamagedRecord, Hint, StoreReader, nearest};
use clawhost_play::{EpisodeSource as _, RewardHistory, RewardUse};
use serde::Serialize;

/// No verdict is of a reward of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no stored verdict is of a reward `{name}`{}", did_you_mean(nearest.as_deref()))]
pub struct NoHistory {
    /// The name.
    pub name: String,
    /// The nearest name of a reward with verdicts.
    pub nearest: Option<String>,
}

impl NoHistory {
    /// Suggested remedies.
    pub(crate) fn hints() -> Vec<Hint> {
        vec![Hint::command("score", "judges stored episodes")]
    }
}

/// The components of a reward that have judged stored episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RewardUses {
    /// Name of the reward.
    pub name: String,
    /// Its components and options, in the order of their last verdicts: the newest is the last one.
    pub uses: Vec<RewardUse>,
    /// Records that could not be read, and were passed over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedRecord>,
}

/// Finds the components with this name that have judged episodes of runs. Reads every episode of them.
///
/// # Errors
/// There is no such run, no verdict is of such a reward, or the store cannot be read.
pub fn reward_history(reader: &dyn StoreReader, name: &str, runs: &RunChoice) -> Result<RewardUses, AppError> {
    let mut history = RewardHistory::of(name);
    let mut damaged = damaged_runs(reader, runs)?;
    for run in choose_runs(reader, runs)? {
        let mut source = StoredEpisodes::of_run(reader, &run.id)?;
        while let Some(group) = source.next_group()? {
            group.iter().for_each(|episode| history.add(episode));
        }
        damaged.extend(source.take_damaged());
    }
    let nearest = nearest(name, history.names()).map(str::to_owned);
    let uses = history.uses();
    if uses.is_empty() {
        return Err(NoHistory { name: name.to_owned(), nearest }.into());
    }
    Ok(RewardUses { name: name.to_owned(), uses, damaged })
}
