//! Where experience comes from: rollouts from an environment ([`Rollouts`](crate::rollouts::Rollouts)), or a pool of decided
//! episodes ([`EpisodePool`](crate::pool::EpisodePool)).

use crate::Staged;
use crate::experience::Experience;
use crate::stage::StageContext;
use crate::weights::Curriculum;
use async_trait::async_trait;
use clawhost_play::ChatPolicy;
use serde_json::Value;

/// What an iteration asks for.
pub struct ExperienceRequest<'a> {
    /// The policy as all layers shape it for training.
    pub policy: ChatPolicy,
    /// Which tasks are worth playing, where a layer says so.
    pub curriculum: Option<&'a mut Curriculum>,
}

/// Gives the experience of one iteration after the other.
#[async_trait]
pub trait ExperienceSource: Send {
    /// Everything that decides what it gives, for the run's digest.
    fn plan(&self) -> Value;

    /// Where it stands, for a checkpoint.
    fn save(&self) -> Value;

    /// Goes on from where a checkpoint left it.
    ///
    /// # Errors
    /// The state is not one of this source.
    fn restore(&mut self, state: Value) -> Staged<()>;

    /// The experience of the next iteration. None: there is no more, and the run ends here.
    ///
    /// # Errors
    /// It was stopped, or failed.
    async fn next(&mut self, request: ExperienceRequest<'_>, context: &StageContext<'_>) -> Staged<Option<Experience>>;
}
