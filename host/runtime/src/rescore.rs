//! Scoring episodes that are stored: yesterday's experience under today's reward.
//!
//! A verdict that was given stays as it is. A reward that was not asked before adds a verdict *afterwards*, which is no part
//! of the episode's reward. A verdict that failed then and succeeds now takes the failed one's place, and the episode's reward is
//! worked out anew: a judge that was down costs nothing but the time to ask again.

use crate::interval::{Interval, mean_interval};
use crate::run::{Cancel, ScoringRule};
use crate::{RuntimeError, score};
use clawhost_core::{
    Episode, EpisodeStore, Judged, PluginIdentity, RewardRecord, RewardSource, StoreError, Verdict, effective_reward,
};
use serde::Serialize;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Gives stored episodes, group by group.
pub trait EpisodeSource {
    /// The next group, in the run's order; none: the end.
    ///
    /// # Errors
    /// The store cannot be read.
    fn next_group(&mut self) -> Result<Option<Vec<Episode>>, StoreError>;
}

/// What came of one reward.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rescored {
    /// The reward.
    pub reward: PluginIdentity,
    /// Its source.
    pub source: RewardSource,
    /// Verdicts that are new.
    pub added: u64,
    /// Verdicts that failed in the run and are there now.
    pub made_good: u64,
    /// Verdicts that say what they said before.
    pub unchanged: u64,
    /// Verdicts that would differ now; the old ones stay.
    pub differing: u64,
    /// Episodes about which it has nothing to say.
    pub silent: u64,
    /// Episodes that it could not judge.
    pub failed: u64,
    /// The first failure, in words.
    pub failure: Option<String>,
    /// Mean of its values now.
    pub mean: Option<f64>,
    /// 95 % interval of the mean, with groups as the unit.
    pub interval: Option<Interval>,
    /// Mean reward of the same episodes as the run left them; none if it scored none of them.
    pub mean_before: Option<f64>,
}

/// What came of scoring a run again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreReport {
    /// Complete episodes that were judged.
    pub episodes: u64,
    /// Episodes that had failed: they have no reward.
    pub not_complete: u64,
    /// One entry per reward.
    pub rewards: Vec<Rescored>,
    /// Whether the operator stopped it; what was judged until then is recorded.
    pub cancelled: bool,
}

#[derive(Default)]
struct Tally {
    added: u64,
    made_good: u64,
    unchanged: u64,
    differing: u64,
    silent: u64,
    failed: u64,
    failure: Option<String>,
    groups: Vec<Vec<f64>>,
    before: Vec<f64>,
}

/// A verdict of the same question: same reward, options, judge and group.
fn same_question(one: &RewardRecord, other: &RewardRecord) -> bool {
    one.reward.digest == other.reward.digest
        && one.options_digest == other.options_digest
        && one.judge == other.judge
        && one.group_digest == other.group_digest
}

/// What is to be stored about one new verdict, if anything.
fn settle(episode: &mut Episode, mut record: RewardRecord, tally: &mut Tally, values: &mut Vec<f64>) -> Option<Judged> {
    match &record.verdict {
        Verdict::Scored(card) => {
            values.push(card.value);
            tally.before.extend(episode.reward);
        }
        Verdict::NotApplicable(_) => tally.silent += 1,
        Verdict::Failed(failure) => {
            tally.failed += 1;
            tally.failure.get_or_insert_with(|| failure.to_string());
        }
    }
    let failed = matches!(record.verdict, Verdict::Failed(_));
    let reward = match episode.verdicts.iter().position(|known| same_question(known, &record)) {
        None => {
            record.afterwards = true;
            tally.added += u64::from(!failed);
            episode.reward
        }
        Some(at) => {
            let known = episode.verdicts.get(at)?;
            match &known.verdict {
                Verdict::Failed(_) if failed => return None,
                Verdict::Failed(_) => {
                    tally.made_good += 1;
                    // It takes the place of the old one, with what the run decided about it.
                    (record.afterwards, record.weight, record.source) = (known.afterwards, known.weight, known.source);
                    if let Some(place) = episode.verdicts.get_mut(at) {
                        *place = record.clone();
                    }
                    effective_reward(&episode.verdicts)
                }
                same if *same == record.verdict => {
                    tally.unchanged += 1;
                    return None;
                }
                _ => {
                    tally.differing += u64::from(!failed);
                    return None;
                }
            }
        }
    };
    // The next reward sees what this one made good.
    episode.reward = reward;
    Some(Judged { run: episode.run.clone(), episode: episode.id.clone(), record, reward })
}

/// Scores stored episodes, at most `concurrency` groups at once, and records what is new after every group.
///
/// # Errors
/// The store cannot be read or written; what was recorded before is safe.
pub async fn score_stored(
    source: &mut dyn EpisodeSource,
    rules: &[ScoringRule],
    store: &dyn EpisodeStore,
    concurrency: usize,
    cancel: &Cancel,
    mut progress: impl FnMut(u64),
) -> Result<ScoreReport, RuntimeError> {
    let mut tallies: Vec<Tally> = rules.iter().map(|_| Tally::default()).collect();
    let (mut episodes, mut not_complete) = (0u64, 0u64);
    let mut judging: JoinSet<(u64, Vec<Arc<Episode>>, Vec<Vec<RewardRecord>>)> = JoinSet::new();
    let (mut next, mut finished) = (0u64, false);
    // Groups are tallied in their order, whoever was judged first.
    let mut waiting = std::collections::BTreeMap::new();
    let mut tallied = 0u64;
    loop {
        while !finished && !cancel.is_requested() && judging.len() < concurrency.max(1) {
            let Some(group) = source.next_group()? else {
                finished = true;
                break;
            };
            let (complete, failed): (Vec<_>, Vec<_>) =
                group.into_iter().partition(|episode| episode.ending.is_complete());
            not_complete += failed.len() as u64;
            if complete.is_empty() {
                continue;
            }
            let complete: Vec<Arc<Episode>> = complete.into_iter().map(Arc::new).collect();
            let (rules, cancel, index) = (rules.to_vec(), cancel.clone(), next);
            next += 1;
            judging.spawn(async move {
                let mut records = Vec::with_capacity(rules.len());
                for rule in &rules {
                    records.push(score::judge(rule, &complete, &cancel).await);
                }
                (index, complete, records)
            });
        }
        let Some(judged) = judging.join_next().await else { break };
        let (index, group, records) = judged.map_err(|error| RuntimeError::Host(error.to_string()))?;
        if cancel.is_requested() {
            // What is under way may have been cut short: it is asked again another time.
            continue;
        }
        waiting.insert(index, (group, records));
        while let Some((mut group, records)) = waiting.remove(&tallied) {
            tallied += 1;
            episodes += group.len() as u64;
            let mut judged = Vec::new();
            for (tally, of_rule) in tallies.iter_mut().zip(records) {
                let mut values = Vec::new();
                for (episode, record) in group.iter_mut().zip(of_rule) {
                    judged.extend(settle(Arc::make_mut(episode), record, tally, &mut values));
                }
                tally.groups.push(values);
            }
            if !judged.is_empty() {
                store.judge(judged).await?;
            }
            progress(episodes);
        }
    }
    let rewards = rules.iter().zip(tallies).map(|(rule, tally)| tally.report(rule)).collect();
    Ok(ScoreReport { episodes, not_complete, rewards, cancelled: cancel.is_requested() })
}

impl Tally {
    fn report(self, rule: &ScoringRule) -> Rescored {
        let (mean, interval) = mean_interval(&self.groups);
        let description = rule.reward.description();
        let interval = interval.map(|interval| Interval {
            low: interval.low.max(description.minimum),
            high: interval.high.min(description.maximum),
        });
        let count = self.before.len() as f64;
        Rescored {
            reward: rule.reward.identity().clone(),
            source: rule.source,
            added: self.added,
            made_good: self.made_good,
            unchanged: self.unchanged,
            differing: self.differing,
            silent: self.silent,
            failed: self.failed,
            failure: self.failure,
            mean,
            interval,
            mean_before: (count > 0.0).then(|| self.before.iter().sum::<f64>() / count),
        }
    }
}
