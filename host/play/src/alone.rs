//! One episode by itself: played, judged and returned, recorded nowhere. For tools that try a plugin out.

use crate::guidance::GroupSlot;
use crate::plan::Cancel;
use crate::play::{Assignment, OnTurn, Player, play};
use crate::policy::ChatPolicy;
use crate::run::ScoringRule;
use crate::score;
use clawhost_core::{Attributes, Clock, Environment, Episode, EpisodeId, ModelCallSource, RunId, Task, derive_seed};
use std::sync::Arc;

/// What is played.
#[derive(Debug, Clone)]
pub struct Alone {
    /// The task, with its reference: rewards see it, the environment does not.
    pub task: Task,
    /// The environment's seed.
    pub seed: u64,
    /// The policy's seed. `None`: it is derived from the environment's.
    pub policy_seed: Option<u64>,
    /// Options of the environment.
    pub options: Attributes,
    /// The episode is truncated after this number of turns.
    pub max_turns: u32,
    /// Bytes of its record.
    pub episode_bytes: usize,
}

/// Plays an episode and judges it. A failure is an ending of the episode, or a verdict.
pub async fn play_alone(
    environment: &dyn Environment,
    policy: &ChatPolicy,
    rules: &[ScoringRule],
    alone: Alone,
    around: (&dyn Clock, &Cancel),
) -> Arc<Episode> {
    play_watched(environment, policy, rules, alone, around, None).await
}

/// The same, with somebody who looks at every turn when it is recorded.
pub async fn play_watched(
    environment: &dyn Environment,
    policy: &ChatPolicy,
    rules: &[ScoringRule],
    alone: Alone,
    (clock, cancel): (&dyn Clock, &Cancel),
    watch: Option<&OnTurn<'_>>,
) -> Arc<Episode> {
    let Alone { task, seed, policy_seed, options, max_turns, episode_bytes } = alone;
    let player = Player { environment, policy, clock, cancel, watch };
    let assignment = Assignment {
        run: RunId("alone".to_owned()),
        id: EpisodeId(format!("ep-{seed:016x}")),
        index: 0,
        group: 0,
        seat: GroupSlot::default(),
        task_hash: task.digest(),
        task: Arc::new(task),
        environment_seed: seed,
        policy_seed: policy_seed.unwrap_or_else(|| derive_seed(seed, "policy", 0)),
        options,
        max_turns,
        episode_bytes,
        expects: Vec::new(),
        state_id: policy.state_at(GroupSlot::default()),
        answers: ModelCallSource::Live,
    };
    let episode = play(player, assignment).await.episode;
    let judged = score::judged(rules, vec![episode.clone()], cancel).await;
    // One episode was given.
    judged.into_iter().next().unwrap_or_else(|| Arc::new(episode))
}
