//! Scoring: every reward gets the complete episodes of a group.
//!
//! A reward of scope `each` judges every episode in a separate instance: a failure affects only that episode's verdict, and
//! the verdict does not depend on the rest of the group. A reward of scope `group` is called once.

use crate::plan::Cancel;
use crate::play::cancelled;
use crate::run::ScoringRule;
use clawhost_core::{
    Context, Digest, Episode, JournalEntry, Question, RewardRecord, RewardScope, Verdict, derive_seed, effective_reward,
};
use std::sync::Arc;
use tokio::task::JoinSet;

/// The episodes of a group with verdicts and the effective reward, for programs that record them elsewhere or not at all. Failed episodes
/// are not scored.
pub async fn judged(rules: &[ScoringRule], episodes: Vec<Episode>, cancel: &Cancel) -> Vec<Arc<Episode>> {
    score(rules, episodes, cancel).await
}

/// Adds verdicts and the effective reward to the episodes of a group. Failed episodes are not scored.
pub(crate) async fn score(rules: &[ScoringRule], episodes: Vec<Episode>, cancel: &Cancel) -> Vec<Arc<Episode>> {
    let mut episodes: Vec<Arc<Episode>> = episodes.into_iter().map(Arc::new).collect();
    let complete: Vec<Arc<Episode>> = episodes.iter().filter(|episode| episode.ending.is_complete()).cloned().collect();
    if complete.is_empty() || rules.is_empty() {
        return episodes;
    }
    let mut records: Vec<Vec<RewardRecord>> = vec![Vec::new(); complete.len()];
    // The members of a group have one task.
    let part = complete.first().and_then(|first| first.task.part.clone());
    for rule in rules.iter().filter(|rule| rule.applies_to(part.as_deref())) {
        for (of_episode, record) in records.iter_mut().zip(judge(rule, &complete, cancel).await) {
            of_episode.push(record);
        }
    }
    // After this each episode has one owner again, so `Arc` unwrapping does not copy.
    drop(complete);
    let mut records = records.into_iter();
    for episode in episodes.iter_mut().filter(|episode| episode.ending.is_complete()) {
        let episode = Arc::make_mut(episode);
        episode.verdicts = records.next().unwrap_or_default();
        episode.reward = effective_reward(&episode.verdicts);
    }
    episodes
}

/// One record per complete episode of a group, in order.
pub(crate) async fn judge(rule: &ScoringRule, group: &[Arc<Episode>], cancel: &Cancel) -> Vec<RewardRecord> {
    match rule.reward.description().scope {
        RewardScope::Group => ask(rule, group, cancel).await,
        RewardScope::Each => match group {
            [alone] => ask(rule, std::slice::from_ref(alone), cancel).await,
            many => each(rule, many, cancel).await,
        },
    }
}

async fn each(rule: &ScoringRule, group: &[Arc<Episode>], cancel: &Cancel) -> Vec<RewardRecord> {
    let mut asking = JoinSet::new();
    for (position, episode) in group.iter().cloned().enumerate() {
        let (rule, cancel) = (rule.clone(), cancel.clone());
        asking.spawn(async move { (position, ask(&rule, std::slice::from_ref(&episode), &cancel).await) });
    }
    let mut judged = asking.join_all().await;
    judged.sort_by_key(|(position, _)| *position);
    judged.into_iter().flat_map(|(_, records)| records).collect()
}

/// The question that scoring these episodes answers.
pub(crate) fn question(rule: &ScoringRule, group: &[Arc<Episode>]) -> Question {
    Question {
        reward: rule.reward.identity().digest,
        options: Digest::of_json(&serde_json::json!(rule.options)),
        judge: rule.reward.judge(),
        group: (rule.reward.description().scope == RewardScope::Group).then(|| group_digest(group)),
    }
}

/// Calls the reward once for these episodes.
async fn ask(rule: &ScoringRule, episodes: &[Arc<Episode>], cancel: &Cancel) -> Vec<RewardRecord> {
    let seed = episodes.first().map_or(0, |first| derive_seed(first.seed(), "reward", first.index));
    let context = Context { seed, options: rule.options.clone() };
    let (verdicts, mut log, mut journal) = tokio::select! {
        biased;
        scoring = rule.reward.score(&context, episodes) => (scoring.verdicts, scoring.log, scoring.journal),
        // A reward's model may take minutes; a cancelled run does not wait for it.
        () = cancel.requested_for_scoring() => (Err(cancelled(cancel)), Vec::new(), Vec::new()),
    };
    let verdicts = match verdicts {
        Ok(verdicts) => verdicts,
        // A failed call fails every verdict. No failure becomes a number.
        Err(failure) => vec![Verdict::Failed(failure); episodes.len()],
    };
    let Question { options: options_digest, judge, group: group_digest, .. } = question(rule, episodes);
    let record = |verdict| RewardRecord {
        reward: rule.reward.identity().clone(),
        options: rule.options.clone(),
        options_digest,
        judge: judge.clone(),
        grants: rule.reward.grants(),
        group_digest,
        seed,
        source: rule.source,
        weight: rule.weight,
        post_hoc: false,
        verdict,
        later: None,
        // The first record of the group has the log and the journal of the call.
        log: std::mem::take(&mut log),
        journal: std::mem::take::<Vec<JournalEntry>>(&mut journal),
    };
    verdicts.into_iter().map(record).collect()
}

/// Digest of an ordered group: part of the question for scope `group`.
pub fn group_digest(group: &[Arc<Episode>]) -> Digest {
    group.iter().fold(Digest::of(b"group"), |digest, episode| {
        digest.extended(episode.run.0.as_bytes()).extended(episode.id.0.as_bytes())
    })
}
