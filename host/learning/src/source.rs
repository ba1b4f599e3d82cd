//! Sources of experience: rollouts of an environment ([`Rollouts`](crate::rollouts::Rollouts)), or a pool of decided
//! episodes ([`EpisodePool`](crate::pool::EpisodePool)).

use crate::Staged;
use crate::experience::Experience;
use crate::stage::StageContext;
use crate::weights::Curriculum;
use async_trait::async_trait;
use clawhost_play::ChatPolicy;
use serde_json::Value;

/// A request for the experience of one iteration.
pub struct ExperienceRequest<'a> {
    /// The training policy, with every layer's contribution.
    pub policy: ChatPolicy,
    /// The task selection, if a layer has one.
    pub curriculum: Option<&'a mut Curriculum>,
}

/// Provides experience, iteration by iteration.
#[async_trait]
pub trait ExperienceSource: Send {
    /// Everything that determines the experience, for the run's digest.
    fn plan(&self) -> Value;

    /// The state, for a checkpoint.
    fn save(&self) -> Value;

    /// Restores the state of a checkpoint.
    ///
    /// # Errors
    /// The state is not one of this source.
    fn restore(&mut self, state: Value) -> Staged<()>;

    /// The experience of the next iteration; `None` ends the run.
    ///
    /// # Errors
    /// The source was stopped, or failed.
    async fn next(&mut self, request: ExperienceRequest<'_>, context: &StageContext<'_>) -> Staged<Option<Experience>>;
}
