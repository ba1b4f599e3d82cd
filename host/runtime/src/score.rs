//! Scoring: the complete episodes of a group, handed to every reward.

use crate::play::cancelled;
use crate::run::{Cancel, ScoringRule};
use clawhost_core::{Context, Digest, Episode, RewardRecord, RewardScope, Verdict, effective_reward};
use std::sync::Arc;

/// Adds verdicts and the effective reward to the episodes of a group. Failed episodes are not judged: they have no reward.
pub(crate) async fn score(
    rules: &[ScoringRule],
    seed: u64,
    episodes: Vec<Episode>,
    cancel: &Cancel,
) -> Vec<Arc<Episode>> {
    let mut episodes: Vec<Arc<Episode>> = episodes.into_iter().map(Arc::new).collect();
    let complete: Vec<Arc<Episode>> = episodes.iter().filter(|episode| episode.ending.is_complete()).cloned().collect();
    if complete.is_empty() || rules.is_empty() {
        return episodes;
    }
    let mut records: Vec<Vec<RewardRecord>> = vec![Vec::new(); complete.len()];
    for rule in rules {
        let context = Context { seed, options: rule.options.clone() };
        let judged = tokio::select! {
            biased;
            judged = rule.reward.score(&context, &complete) => judged,
            // A judge may think for minutes: whoever stops the run does not wait for it.
            () = cancel.requested() => Err(cancelled()),
        };
        let verdicts = match judged {
            Ok(verdicts) => verdicts,
            // The call failed: so does every verdict. None becomes a number.
            Err(failure) => vec![Verdict::Failed(failure); complete.len()],
        };
        let options_digest = Digest::of_json(&serde_json::json!(rule.options));
        let group_digest = (rule.reward.description().scope == RewardScope::Group).then(|| group_digest(&complete));
        for (of_episode, verdict) in records.iter_mut().zip(verdicts) {
            of_episode.push(RewardRecord {
                reward: rule.reward.identity().clone(),
                options_digest,
                judge: rule.reward.judge(),
                group_digest,
                verdict,
            });
        }
    }
    // The rewards are done with the group: its episodes have one owner again, so this copies nothing.
    drop(complete);
    let mut records = records.into_iter();
    for episode in episodes.iter_mut().filter(|episode| episode.ending.is_complete()) {
        let episode = Arc::make_mut(episode);
        episode.verdicts = records.next().unwrap_or_default();
        episode.reward = effective_reward(&episode.verdicts);
    }
    episodes
}

/// Digest of an ordered group: what a verdict of scope `group` depends on.
fn group_digest(group: &[Arc<Episode>]) -> Digest {
    group.iter().fold(Digest::of(b"group"), |digest, episode| {
        digest.extended(episode.run.0.as_bytes()).extended(episode.id.0.as_bytes())
    })
}
