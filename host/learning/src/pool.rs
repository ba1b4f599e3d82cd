//! A pool of decided episodes: learning from recorded episodes without playing. Groups are complete, as in rollouts: pending
//! and unscored episodes are removed from the batch and counted.
//!
//! Episodes of validation and test tasks are excluded.
//!
//! A pool is pinned to a point in time. Later verdicts create revisions that this run does not use, so that a resumed run
//! sees the same rewards. A run that starts later uses them.

use crate::experience::{Experience, Groups, by_group};
use crate::source::{ExperienceRequest, ExperienceSource};
use crate::stage::StageContext;
use crate::{Halt, LearningError, Staged};
use async_trait::async_trait;
use clawhost_core::{Episode, RunId};
use clawhost_play::StopReason;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The decided episodes of a recorded run, group by group, in recorded order.
pub struct EpisodePool {
    run: RunId,
    /// Groups per iteration.
    groups: u64,
    position: Position,
    /// Groups with at least one decided, scored episode; read once.
    episodes: Option<Groups>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// Groups already used.
    taken: u64,
    /// Verdicts up to this time are used: Unix time in milliseconds.
    as_of: u64,
}

impl EpisodePool {
    /// The decided episodes of a run at a point in time (Unix time in milliseconds), with this many groups per iteration.
    /// Phases of the run are runs of their own and not included.
    pub fn of_run(run: RunId, groups: u64, as_of: u64) -> Self {
        Self { run, groups: groups.max(1), position: Position { taken: 0, as_of }, episodes: None }
    }
}

fn has_reward(episode: &Arc<Episode>) -> bool {
    episode.reward.is_some()
}

#[async_trait]
impl ExperienceSource for EpisodePool {
    fn plan(&self) -> Value {
        serde_json::json!({ "pool": self.run, "groups": self.groups })
    }

    fn save(&self) -> Value {
        serde_json::json!(self.position)
    }

    fn restore(&mut self, state: Value) -> Staged<()> {
        let damaged = |error: serde_json::Error| {
            Halt::Failed(LearningError::Checkpoint { run: self.run.clone(), why: error.to_string() })
        };
        self.position = serde_json::from_value(state).map_err(damaged)?;
        Ok(())
    }

    async fn next(&mut self, request: ExperienceRequest<'_>, context: &StageContext<'_>) -> Staged<Option<Experience>> {
        let episodes = match &mut self.episodes {
            Some(episodes) => episodes,
            None => {
                let as_of = self.position.as_of;
                let then = |episode: Arc<Episode>| episode.as_of(as_of).map_or(episode, Arc::new);
                let episodes = context.learning.episodes(&self.run).await?;
                let splits = context.splits;
                let is_held_out = |split: &String| *split == splits.val.split || *split == splits.test.split;
                let episodes = episodes.into_iter().filter(|episode| !is_held_out(&episode.task.split));
                let episodes = episodes.filter(|episode| episode.origin.withheld().is_none());
                let episodes: Vec<Arc<Episode>> = episodes.map(then).collect();
                let mut groups = by_group(&episodes);
                groups.retain(|_, members| members.iter().any(has_reward));
                self.episodes.insert(groups)
            }
        };
        if episodes.is_empty() {
            return Err(StopReason::Unscored {
                why: format!("{} holds no decided episode of a training task with a reward", self.run),
            }
            .into());
        }
        let (skip, take) = (self.position.taken, self.groups);
        let places = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let played: Groups = episodes
            .iter()
            .skip(places(skip))
            .take(places(take))
            .map(|(group, members)| (*group, members.clone()))
            .collect();
        let Some(first) = played.values().flatten().next() else { return Ok(None) };
        self.position.taken = skip.saturating_add(played.len() as u64);
        let state_id = first.state_id;
        if let Some(curriculum) = request.curriculum {
            curriculum.note(&played);
        }
        Ok(Some(Experience {
            id: self.run.clone(),
            number: context.iteration,
            state_id,
            selected: played.clone(),
            played,
            refilled: 0,
        }))
    }
}
