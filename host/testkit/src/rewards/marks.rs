//! A reward that is computed by a function of the episode.

use crate::environments::is_right;
use crate::identity::{about, identity};
use async_trait::async_trait;
use clawhost_core::{
    Context, Episode, PluginIdentity, Reward, RewardDescription, RewardScope, RewardSource, ScoreCard, Scoring, Verdict,
};
use std::sync::Arc;

type Gives = Box<dyn Fn(&Episode) -> Option<f64> + Send + Sync>;

/// Gives values between 0 and 1. `None` from its function: not applicable.
pub struct Marks {
    identity: PluginIdentity,
    /// Its description.
    pub description: RewardDescription,
    give: Gives,
}

impl Marks {
    /// A reward with the values of this function.
    pub fn by(give: impl Fn(&Episode) -> Option<f64> + Send + Sync + 'static) -> Self {
        let description = RewardDescription {
            about: about("marks"),
            minimum: 0.0,
            maximum: 1.0,
            source: RewardSource::Outcome,
            scope: RewardScope::Each,
        };
        Self { identity: identity("marks"), description, give: Box::new(give) }
    }

    /// The same under another name.
    pub fn named(self, name: &str) -> Self {
        Self { identity: identity(name), ..self }
    }
}

impl Default for Marks {
    /// 1 for the right answer to the light, otherwise 0.
    fn default() -> Self {
        Self::by(|episode| Some(f64::from(u8::from(is_right(episode)))))
    }
}

#[async_trait]
impl Reward for Marks {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &RewardDescription {
        &self.description
    }

    fn judge(&self) -> Option<String> {
        None
    }

    async fn score(&self, _: &Context, group: &[Arc<Episode>]) -> Scoring {
        let verdict = |episode: &Arc<Episode>| match (self.give)(episode) {
            Some(value) => Verdict::Scored(ScoreCard::plain(value)),
            None => Verdict::NotApplicable("no opinion".into()),
        };
        Scoring { verdicts: Ok(group.iter().map(verdict).collect()), log: vec![], journal: vec![], fuel: None }
    }
}
