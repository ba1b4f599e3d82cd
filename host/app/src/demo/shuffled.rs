//! Rewards without a signal: verdicts are permuted at random among the members of a group.

use async_trait::async_trait;
use clawhost_core::{
    Context, Episode, PluginIdentity, Reward, RewardDescription, RewardScope, Scoring, Verdict, derive_seed,
};
use clawhost_play::ScoringRule;
use std::sync::Arc;

/// A reward that shuffles the verdicts of another one within each group.
struct Shuffled {
    inner: Arc<dyn Reward>,
    description: RewardDescription,
    seed: u64,
}

/// The same scoring rule with verdicts shuffled within groups by a seed.
pub(super) fn shuffle(rule: &ScoringRule, seed: u64) -> ScoringRule {
    let description = RewardDescription { scope: RewardScope::Group, ..rule.reward.description().clone() };
    let reward = Arc::new(Shuffled { inner: rule.reward.clone(), description, seed });
    ScoringRule { reward, ..rule.clone() }
}

#[async_trait]
impl Reward for Shuffled {
    fn identity(&self) -> &PluginIdentity {
        self.inner.identity()
    }

    fn description(&self) -> &RewardDescription {
        &self.description
    }

    fn judge(&self) -> Option<String> {
        self.inner.judge()
    }

    async fn score(&self, context: &Context, group: &[Arc<Episode>]) -> Scoring {
        let mut verdicts: Vec<Verdict> = Vec::with_capacity(group.len());
        for episode in group {
            let scoring = self.inner.score(context, std::slice::from_ref(episode)).await;
            match scoring.verdicts {
                Ok(own) => verdicts.extend(own),
                Err(_) => return scoring,
            }
        }
        // Fisher-Yates shuffle. The draws depend on the seed and on the index of the group's first episode.
        let first = group.first().map_or(0, |episode| episode.index);
        for last in (1..verdicts.len()).rev() {
            let drawn = derive_seed(self.seed ^ first, "shuffle", last as u64) % (last as u64 + 1);
            verdicts.swap(last, usize::try_from(drawn).unwrap_or(0));
        }
        Scoring { verdicts: Ok(verdicts), log: Vec::new(), journal: Vec::new(), fuel: None }
    }
}
