//! Scores stored episodes with other rewards.
//!
//! Existing verdicts are never changed, and their questions are not asked again. A new reward adds a *post hoc* verdict,
//! which is not part of the episode's reward, unless the episode is live or expects a verdict of this source. If a failed
//! verdict succeeds now, it replaces the failed one, and the episode's reward is computed again. Every addition is a
//! revision. A reward that finds itself not applicable adds nothing: it is counted, and the question stays open.

use crate::interval::{Interval, mean_interval};
use crate::plan::Cancel;
use crate::report::StopReason;
use crate::run::ScoringRule;
use crate::unread::{Readings, Unread};
use crate::{PlayError, score};
use clawhost_core::{
    Clock, Episode, EpisodeStore, FailureKind, Judged, PluginIdentity, Question, RewardRecord, RewardScope,
    RewardSource, StoreError, Verdict, code, standing,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Provides stored episodes, group by group.
pub trait EpisodeSource {
    /// The next group, in the run's order; `None` at the end.
    ///
    /// # Errors
    /// The store cannot be read.
    fn next_group(&mut self) -> Result<Option<Vec<Episode>>, StoreError>;
}

/// Settings for scoring stored episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rescoring {
    /// Groups scored at once. Does not change results.
    pub concurrency: usize,
    /// Also ask for existing verdicts, to compare. They are not changed.
    pub again: bool,
    /// Number of failed verdicts after which it stops.
    pub failures_allowed: u64,
}

/// Results of one reward.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rescored {
    /// The reward.
    pub reward: PluginIdentity,
    /// Its source.
    pub source: RewardSource,
    /// New verdicts.
    pub added: u64,
    /// Verdicts that had failed and succeeded now.
    pub made_good: u64,
    /// Verdicts that existed already.
    pub unchanged: u64,
    /// Existing verdicts that would differ now; they are not changed.
    pub differing: u64,
    /// Episodes that the reward does not apply to.
    pub silent: u64,
    /// Episodes that it failed to score.
    pub failed: u64,
    /// Message of the first failure.
    pub failure: Option<String>,
    /// Mean of its values.
    pub mean: Option<f64>,
    /// 95 % interval of the mean, clustered by group.
    pub interval: Option<Interval>,
    /// Mean of the run's own reward over the episodes that have one.
    pub mean_before: Option<f64>,
}

/// Results of scoring a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoreReport {
    /// Complete episodes.
    pub episodes: u64,
    /// Failed episodes, which have no reward.
    pub not_complete: u64,
    /// One entry per reward.
    pub rewards: Vec<Rescored>,
    /// Rewards that found nothing to read in any of the episodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
    /// Why it ended early. Verdicts until then are recorded; the same call continues.
    pub stopped: Option<StopReason>,
}

/// Follows scoring. Groups come in the order in which they were judged.
pub trait ScoringObserver {
    /// What a reward says about an episode: its stored verdict, or the one that it gave now. Called for every complete episode and every
    /// reward, which is named by its position. `group` is the position of the episode's group in the run. `None`: the reward was not
    /// asked, or scoring was stopped before it answered.
    fn answered(&mut self, reward: usize, group: u64, episode: &Episode, record: Option<&RewardRecord>);
    /// This many episodes were judged by every reward.
    fn progress(&mut self, episodes: u64);
}

/// A function that counts.
impl<F: FnMut(u64)> ScoringObserver for F {
    fn answered(&mut self, _: usize, _: u64, _: &Episode, _: Option<&RewardRecord>) {}

    fn progress(&mut self, episodes: u64) {
        self(episodes);
    }
}

/// Results of one reward in one group.
#[derive(Default)]
struct Tally {
    added: u64,
    made_good: u64,
    unchanged: u64,
    differing: u64,
    silent: u64,
    failed: u64,
    failure: Option<String>,
    values: Vec<f64>,
    before: Vec<f64>,
}

/// A group with its new records: per reward the question and one record per episode; `None` where the question was not
/// asked.
type Asked = (u64, Vec<Arc<Episode>>, Vec<(Question, Vec<Option<RewardRecord>>)>);

/// Asks one reward about the episodes of a group whose question is open.
async fn ask(
    rule: &ScoringRule,
    question: &Question,
    group: &[Arc<Episode>],
    again: bool,
    cancel: &Cancel,
) -> Vec<Option<RewardRecord>> {
    let part = group.first().and_then(|first| first.task.part.as_deref());
    if !rule.applies_to(part) {
        return vec![None; group.len()];
    }
    let open = |episode: &Arc<Episode>| {
        again || !episode.verdicts.iter().any(|known| known.question() == *question && !known.failed())
    };
    let asked: Vec<Arc<Episode>> = match rule.reward.description().scope {
        RewardScope::Each => group.iter().filter(|episode| open(episode)).cloned().collect(),
        // A group is scored as a whole.
        RewardScope::Group if group.iter().any(open) => group.to_vec(),
        RewardScope::Group => Vec::new(),
    };
    let records = if asked.is_empty() { Vec::new() } else { score::judge(rule, &asked, cancel).await };
    let mut records = asked.iter().map(|episode| episode.index).zip(records).peekable();
    let of = |episode: &Arc<Episode>| records.next_if(|(index, _)| *index == episode.index).map(|(_, record)| record);
    group.iter().map(of).collect()
}

fn failed_with(record: &RewardRecord, kind: FailureKind, code: &str) -> bool {
    matches!(&record.verdict, Verdict::Failed(failure) if failure.kind == kind && failure.code == code)
}

/// The verdict that counts: an existing one is never changed, unless it failed.
fn counting<'a>(
    episode: &'a Episode,
    question: &Question,
    record: Option<&'a RewardRecord>,
) -> (Option<&'a RewardRecord>, Option<&'a RewardRecord>) {
    let known = standing(&episode.verdicts).find(|known| known.question() == *question);
    (known, known.filter(|known| !known.failed()).or(record))
}

/// The result of one reward for one episode: what is counted, and what is stored.
fn settle(
    episode: &Episode,
    question: &Question,
    record: Option<RewardRecord>,
    at: u64,
    tally: &mut Tally,
) -> Option<Judged> {
    let (known, counted) = counting(episode, question, record.as_ref());
    match &counted?.verdict {
        Verdict::Scored(card) => tally.values.push(card.value),
        Verdict::NotApplicable(_) => tally.silent += 1,
        Verdict::Failed(failure) => {
            tally.failed += 1;
            tally.failure.get_or_insert_with(|| failure.to_string());
        }
    }
    match (known, &record) {
        (Some(known), Some(record)) if !known.failed() => {
            tally.differing += u64::from(known.verdict != record.verdict && !record.failed());
            tally.unchanged += u64::from(known.verdict == record.verdict || record.failed());
            None
        }
        (Some(known), None) if !known.failed() => {
            tally.unchanged += 1;
            None
        }
        // A repeated failure is counted but not stored: the question stays open.
        (_, Some(record)) if record.failed() => None,
        // `NotApplicable` changes nothing, so there is no revision, unless it replaces a failed verdict.
        (None, Some(RewardRecord { verdict: Verdict::NotApplicable(_), .. })) => None,
        (known, Some(record)) => {
            tally.made_good += u64::from(known.is_some());
            tally.added += u64::from(known.is_none());
            let (run, id) = (episode.run.clone(), episode.id.clone());
            Some(Judged { run, episode: id, record: record.clone(), at, key: None })
        }
        (_, None) => None,
    }
}

/// Scores stored episodes, and records every group as soon as it is scored.
///
/// # Errors
/// The store fails. Verdicts recorded before are intact.
pub async fn score_stored<S: EpisodeSource>(
    source: &mut S,
    rules: &[ScoringRule],
    (store, clock): (&dyn EpisodeStore, &dyn Clock),
    how: Rescoring,
    operator: &Cancel,
    mut observer: impl ScoringObserver,
) -> Result<ScoreReport, PlayError> {
    let cancel = Cancel::default();
    let mut judging: JoinSet<Asked> = JoinSet::new();
    // Statistics are summed in the order of groups, independent of which finished first.
    let mut tallies: BTreeMap<u64, Vec<Tally>> = BTreeMap::new();
    let (mut episodes, mut not_complete, mut failures) = (0u64, 0u64, 0u64);
    let (mut next, mut finished) = (0u64, false);
    let mut readings = Readings::of(rules);
    let mut stopped = None;
    loop {
        while !finished && stopped.is_none() && judging.len() < how.concurrency.max(1) {
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
                    let question = score::question(rule, &complete);
                    let of_rule = ask(rule, &question, &complete, how.again, &cancel).await;
                    records.push((question, of_rule));
                }
                (index, complete, records)
            });
        }
        let asked = tokio::select! {
            biased;
            () = operator.requested(), if stopped.is_none() => {
                stopped = Some(StopReason::Cancelled);
                cancel.request();
                continue;
            }
            asked = judging.join_next() => asked,
        };
        let Some(asked) = asked else { break };
        let (index, group, records) = asked.map_err(|error| PlayError::Host(error.to_string()))?;
        episodes += group.len() as u64;
        group.iter().for_each(|episode| readings.add(episode));
        let mut judged = Vec::new();
        let mut of_group = Vec::with_capacity(rules.len());
        for (position, (question, of_rule)) in records.into_iter().enumerate() {
            let mut tally = Tally::default();
            for (episode, record) in group.iter().zip(of_rule) {
                let spent = record.as_ref().is_some_and(|record| failed_with(record, FailureKind::Llm, code::BUDGET));
                if spent && stopped.is_none() {
                    stopped = Some(StopReason::ModelBudget);
                }
                // Cancelled questions stay open.
                let whole = |record: &RewardRecord| !failed_with(record, FailureKind::Cancelled, code::CANCELLED);
                let record = record.filter(|record| whole(record) && !spent);
                tally.before.extend(episode.reward);
                observer.answered(position, index, episode, counting(episode, &question, record.as_ref()).1);
                judged.extend(settle(episode, &question, record, clock.now_ms(), &mut tally));
            }
            failures += tally.failed;
            of_group.push(tally);
        }
        tallies.insert(index, of_group);
        if !judged.is_empty() {
            store.judge(judged).await?;
        }
        if failures > how.failures_allowed && stopped.is_none() {
            stopped = Some(StopReason::FailureBudget { failed: failures, allowed: how.failures_allowed });
        }
        if let Some(reason) = &stopped {
            cancel.request_because(reason.clone());
        }
        observer.progress(episodes);
    }
    // Groups in progress at the stop are counted too.
    if let Some(StopReason::FailureBudget { failed, .. }) = &mut stopped {
        *failed = failures;
    }
    let mut by_rule: Vec<Vec<Tally>> = rules.iter().map(|_| Vec::new()).collect();
    for of_group in tallies.into_values() {
        by_rule.iter_mut().zip(of_group).for_each(|(of_rule, tally)| of_rule.push(tally));
    }
    let rewards = rules.iter().zip(by_rule).map(|(rule, tallies)| report(rule, tallies)).collect();
    Ok(ScoreReport { episodes, not_complete, rewards, unread: readings.unread(), stopped })
}

fn report(rule: &ScoringRule, mut tallies: Vec<Tally>) -> Rescored {
    let groups: Vec<Vec<f64>> = tallies.iter_mut().map(|tally| std::mem::take(&mut tally.values)).collect();
    let (mean, interval) = mean_interval(&groups);
    let description = rule.reward.description();
    let interval = interval.map(|interval| Interval {
        low: interval.low.max(description.minimum),
        high: interval.high.min(description.maximum),
    });
    let before: Vec<f64> = tallies.iter().flat_map(|tally| tally.before.iter().copied()).collect();
    let sum = |count: fn(&Tally) -> u64| tallies.iter().map(count).sum();
    Rescored {
        reward: rule.reward.identity().clone(),
        source: rule.source,
        added: sum(|tally| tally.added),
        made_good: sum(|tally| tally.made_good),
        unchanged: sum(|tally| tally.unchanged),
        differing: sum(|tally| tally.differing),
        silent: sum(|tally| tally.silent),
        failed: sum(|tally| tally.failed),
        failure: tallies.iter().find_map(|tally| tally.failure.clone()),
        mean,
        interval,
        mean_before: (!before.is_empty()).then(|| before.iter().sum::<f64>() / before.len() as f64),
    }
}
