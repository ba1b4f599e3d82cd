//! A reward made from a function, for programs that embed the loop.

use async_trait::async_trait;
use clawhost_core::{
    About, Context, Episode, Failure, FailureKind, PluginIdentity, READS, Reward, RewardDescription, RewardScope,
    RewardSource, ScoreCard, Scoring, Verdict, code,
};
use std::sync::Arc;

/// A reward that is a function of one episode: a value from 0 to 1, or `None` if it does not apply.
pub struct RewardFunction<F> {
    identity: PluginIdentity,
    description: RewardDescription,
    judge: F,
}

impl<F: Fn(&Episode) -> Option<f64> + Send + Sync> RewardFunction<F> {
    /// A reward with this name. A changed function needs another name: replays and resumed runs find the reward by it.
    pub fn new(name: &str, judge: F) -> Self {
        let description = RewardDescription {
            about: About::named(name),
            minimum: 0.0,
            maximum: 1.0,
            source: RewardSource::Outcome,
            scope: RewardScope::Each,
        };
        Self { identity: PluginIdentity::native(name), description, judge }
    }

    /// With what it reads of an episode, in the words of [`clawhost_core::Reads`].
    pub fn reading(mut self, reads: &[&str]) -> Self {
        let pair = |read: &&str| (READS.to_owned(), (*read).to_owned());
        self.description.about.extra.extend(reads.iter().map(pair));
        self
    }

    fn verdict(&self, episode: &Episode) -> Verdict {
        match (self.judge)(episode) {
            Some(value) if (0.0..=1.0).contains(&value) => Verdict::Scored(ScoreCard::plain(value)),
            Some(odd) => {
                let why = format!("{}: a reward of {odd}; it must be between 0 and 1", self.identity.name);
                Verdict::Failed(Failure::new(FailureKind::Plugin, code::PLUGIN_ERROR, why))
            }
            None => Verdict::NotApplicable("nothing to say".to_owned()),
        }
    }
}

#[async_trait]
impl<F: Fn(&Episode) -> Option<f64> + Send + Sync> Reward for RewardFunction<F> {
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
        let verdicts = group.iter().map(|episode| self.verdict(episode)).collect();
        Scoring { verdicts: Ok(verdicts), log: Vec::new(), journal: Vec::new(), fuel: None }
    }
}
