//! Reports of runs.

use crate::interval::{Interval, mean_interval};
use crate::run::ScoringRule;
use crate::tries::{GroupTries, TriesMeasure, tries_measures};
use crate::unread::Unread;
use clawhost_core::{
    Branch, BranchWay, Digest, Ending, Episode, EpisodeId, Failure, FailureKind, StateId, Usage, Verdict, code,
    content_digest, content_root, standing,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One episode in a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeSummary {
    /// The episode.
    pub id: EpisodeId,
    /// Its task id; in a mixture, behind the part and a slash.
    pub task: String,
    /// The part of a mixture that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The effective reward; `None` if it was not scored, which is different from 0.
    pub reward: Option<f64>,
    /// The ending: `terminated`, `truncated`, or `failed: ...`.
    pub ending: String,
    /// Number of turns.
    pub turns: u64,
    /// Position in the run.
    #[serde(skip)]
    pub index: u64,
    /// Group in the run.
    #[serde(skip)]
    pub group: u64,
    /// Tokens used.
    #[serde(skip)]
    pub usage: Usage,
    /// The value of each reward, in the order of the rewards; `None` without a value. Empty if the episode was not scored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Option<f64>>,
    /// The first failure of the episode or of a reward, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// All failures, with their sources.
    #[serde(skip)]
    pub failures: Vec<FailedBy>,
    /// How it shares turns with its group, if branching was planned.
    #[serde(skip)]
    pub branch: Option<Branch>,
    /// Whether the operator or the end of the run cancelled it, which does not count as a failure.
    #[serde(skip)]
    pub cancelled: bool,
    /// Whether the token or cost budget ended it, which does not count as a failure.
    #[serde(skip)]
    pub out_of_budget: bool,
    /// Largest fuel consumption of one step.
    #[serde(skip)]
    pub peak_step_fuel: Option<u64>,
    /// Digest of its content.
    #[serde(skip)]
    pub content: Digest,
}

impl EpisodeSummary {
    /// Summarises an episode in its current state.
    pub fn of(episode: &Episode) -> Self {
        let mut usage = Usage::default();
        // Shared turns are paid for once.
        let shared = episode.branch().filter(|branch| !branch.pays).map_or(0, |branch| branch.at as usize);
        episode.turns.iter().skip(shared).for_each(|turn| usage += turn.usage);
        episode.untaken.iter().for_each(|answer| usage += answer.usage);
        let judged = || standing(&episode.verdicts).filter(|record| !record.post_hoc);
        let own = match &episode.ending {
            Ending::Failed(failure) => Some(FailedBy::of(episode.origin.name(), failure)),
            _ => None,
        };
        let refused = judged().filter_map(|record| match &record.verdict {
            Verdict::Failed(failure) => Some(FailedBy::of(&record.reward.name, failure)),
            _ => None,
        });
        let failures: Vec<FailedBy> = own.into_iter().chain(refused).collect();
        let spent = |failure: &Failure| failure.kind == FailureKind::Llm && failure.code == code::BUDGET;
        let value = |record: &clawhost_core::RewardRecord| match &record.verdict {
            Verdict::Scored(card) => Some(card.value),
            _ => None,
        };
        Self {
            verdicts: judged().map(value).collect(),
            id: episode.id.clone(),
            task: episode.task.key(),
            part: episode.task.part.clone(),
            reward: episode.reward,
            ending: episode.ending.label(),
            turns: episode.turns.len() as u64,
            index: episode.index,
            group: episode.group(),
            usage,
            cancelled: was_cancelled(episode),
            out_of_budget: matches!(&episode.ending, Ending::Failed(failure) if spent(failure))
                || judged().any(|record| matches!(&record.verdict, Verdict::Failed(failure) if spent(failure))),
            peak_step_fuel: episode.turns.iter().filter_map(|turn| turn.fuel).max(),
            failure: failures.first().map(|first| first.message.clone()),
            failures,
            branch: episode.branch().cloned(),
            content: content_digest(episode),
        }
    }

    /// Whether it counts against the failure budget: playing or scoring it failed.
    pub fn failed(&self) -> bool {
        self.failure.is_some() && !self.cancelled && !self.out_of_budget
    }
}

/// Whether playing or scoring it was cancelled.
fn was_cancelled(episode: &Episode) -> bool {
    let stopped = |failure: &Failure| failure.kind == FailureKind::Cancelled;
    match &episode.ending {
        Ending::Failed(failure) => stopped(failure),
        _ => standing(&episode.verdicts).any(|record| matches!(&record.verdict, Verdict::Failed(why) if stopped(why))),
    }
}

/// Why a run ended before its plan was complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// More episodes failed than allowed.
    FailureBudget {
        /// Failed episodes.
        failed: u64,
        /// Largest allowed number.
        allowed: u64,
    },
    /// Learning run: no episode of the first iteration was scored, so there is nothing to learn from.
    Unscored {
        /// The most frequent reason.
        why: String,
    },
    /// Learning run: no call of a reflector ever succeeded.
    Reflectors {
        /// Failed calls.
        failed: u64,
        /// The most frequent failure.
        why: String,
    },
    /// The token or cost budget is exhausted.
    ModelBudget,
    /// The operator stopped the run.
    Cancelled,
}

/// How the episodes of a run share turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Branching {
    /// Episodes restored from a snapshot.
    pub by_snapshot: u64,
    /// Episodes whose instance replayed the shared turns.
    pub by_replay: u64,
    /// Episodes that share no turns after all.
    pub unshared: u64,
    /// Reasons why episodes were not restored or share no turns, with their counts.
    pub reasons: BTreeMap<String, u64>,
}

impl Branching {
    fn of(episodes: &[EpisodeSummary]) -> Option<Self> {
        let mut branching = Self::default();
        for branch in episodes.iter().filter_map(|episode| episode.branch.as_ref()) {
            let count = match (branch.at, branch.way) {
                (0, _) => &mut branching.unshared,
                (_, BranchWay::Snapshot) => &mut branching.by_snapshot,
                (_, BranchWay::Replay) => &mut branching.by_replay,
            };
            *count += 1;
            if let Some(reason) = &branch.reason {
                *branching.reasons.entry(reason.clone()).or_default() += 1;
            }
        }
        (branching != Self::default()).then_some(branching)
    }
}

/// A failure with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedBy {
    /// Name of the plugin; `policy` for a model that did not answer, `host` for the host.
    pub who: String,
    /// Kind and code.
    pub failure: String,
    /// Message of the failure.
    pub message: String,
}

impl FailedBy {
    fn of(plugin: &str, failure: &Failure) -> Self {
        let who = match failure.kind {
            FailureKind::Llm => "policy",
            FailureKind::Host => "host",
            FailureKind::Cancelled => "operator",
            _ => plugin,
        };
        Self { who: who.to_owned(), failure: failure.label(), message: failure.to_string() }
    }
}

/// A failure with its frequency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureCount {
    /// Name of the plugin; `policy` for a model that did not answer, `host` for the host.
    pub who: String,
    /// Kind and code.
    pub failure: String,
    /// Number of episodes.
    pub episodes: u64,
    /// Message of the first occurrence.
    pub message: String,
    /// An example.
    pub example: EpisodeId,
}

/// The message of a failure without numbers: messages that differ in a count or an address have the same cause.
pub fn failure_cause(message: &str) -> String {
    message.split(|character: char| character.is_ascii_digit()).filter(|part| !part.is_empty()).collect()
}

/// Failures by source and cause, the most frequent first.
fn count_failures(episodes: &[EpisodeSummary]) -> Vec<FailureCount> {
    let mut counts: BTreeMap<(&str, &str, String), FailureCount> = BTreeMap::new();
    for episode in episodes.iter().filter(|episode| episode.failed()) {
        // An episode counts once per cause, even if several rewards report it.
        let mut seen = BTreeSet::new();
        for FailedBy { who, failure, message } in &episode.failures {
            if !seen.insert((who, failure, failure_cause(message))) {
                continue;
            }
            let first = || FailureCount {
                who: who.clone(),
                failure: failure.clone(),
                episodes: 0,
                message: message.clone(),
                example: episode.id.clone(),
            };
            counts.entry((who, failure, failure_cause(message))).or_insert_with(first).episodes += 1;
        }
    }
    let mut counts: Vec<FailureCount> = counts.into_values().collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.episodes));
    counts
}

/// Statistics of one reward, including rewards that did not decide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RewardMean {
    /// Mean of its values; `None` without values.
    pub mean: Option<f64>,
    /// Number of values.
    pub scored: u64,
}

/// The episodes of one part of a mixture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartReport {
    /// The part.
    pub part: String,
    /// Its episodes.
    pub episodes: u64,
    /// Mean over its scored episodes; `None` without any.
    pub reward_mean: Option<f64>,
    /// 95 % interval of the mean, clustered by group; `None` for fewer than two groups.
    pub reward_interval: Option<Interval>,
    /// Scored episodes.
    pub scored: u64,
    /// Episodes whose playing or scoring failed.
    pub failed: u64,
}

impl PartReport {
    /// One report per part, by name; empty if the episodes are of no mixture. `range`: smallest and largest possible mean.
    fn all(episodes: &[EpisodeSummary], range: Option<(f64, f64)>) -> Vec<Self> {
        let mut parts: BTreeMap<&str, Vec<&EpisodeSummary>> = BTreeMap::new();
        for episode in episodes {
            if let Some(part) = &episode.part {
                parts.entry(part).or_default().push(episode);
            }
        }
        let report = |(part, episodes): (&str, Vec<&EpisodeSummary>)| {
            let mut groups: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for episode in &episodes {
                groups.entry(episode.group).or_default().extend(episode.reward);
            }
            let (reward_mean, interval) = mean_interval(&groups.into_values().collect::<Vec<_>>());
            Self {
                part: part.to_owned(),
                episodes: episodes.len() as u64,
                reward_mean,
                reward_interval: interval.map(|interval| interval.within(range)),
                scored: episodes.iter().filter(|episode| episode.reward.is_some()).count() as u64,
                failed: episodes.iter().filter(|episode| episode.failed()).count() as u64,
            }
        };
        parts.into_iter().map(report).collect()
    }
}

/// The report of a run. Equal plans give equal reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// Identity of the configuration that played.
    pub state_id: StateId,
    /// One digest of the content of all these episodes, which equal runs share.
    pub content_root: Digest,
    /// The split.
    pub split: String,
    /// All recorded episodes, in order.
    pub episodes: Vec<EpisodeSummary>,
    /// Mean over scored episodes; `None` without any.
    pub reward_mean: Option<f64>,
    /// 95 % interval of the mean, clustered by group; `None` for fewer than two groups.
    pub reward_interval: Option<Interval>,
    /// Smallest and largest possible mean; `None` without rewards.
    #[serde(skip)]
    pub reward_range: Option<(f64, f64)>,
    /// Number of scored episodes.
    pub scored: u64,
    /// What several tries at a task give. Empty: no group has two scored episodes, or there are no rewards.
    pub tries: Vec<TriesMeasure>,
    /// Statistics of each reward, in the order of the rewards.
    pub by_reward: Vec<RewardMean>,
    /// The parts of a mixture, by name; empty: there is one environment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartReport>,
    /// Rewards that found nothing to read in any episode that this process played.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
    /// Counts of endings.
    pub endings: BTreeMap<String, u64>,
    /// Episodes whose playing or scoring failed.
    pub failed: u64,
    /// Their failures with sources, the most frequent first.
    pub failures: Vec<FailureCount>,
    /// How groups share turns; `None` if branching was not planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branching: Option<Branching>,
    /// Number of turns.
    pub steps: u64,
    /// Largest fuel consumption of one step.
    pub peak_step_fuel: Option<u64>,
    /// Tokens used by the policy.
    pub usage: Usage,
    /// Why the run ended early.
    pub stopped: Option<StopReason>,
}

impl RunReport {
    /// The summary in the store.
    pub fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "content_root": self.content_root, "reward_range": self.reward_range,
            "reward_mean": self.reward_mean, "reward_interval": self.reward_interval, "scored": self.scored,
            "endings": self.endings, "failed": self.failed, "failures": self.failures, "steps": self.steps, "stopped": self.stopped,
        })
    }

    /// With the statistics of these rewards. An episode has a value for each reward that applies to its part, in their order.
    pub(crate) fn with_rewards(self, rules: &[ScoringRule]) -> Self {
        let values_of = |place: usize, rule: &ScoringRule| -> Vec<f64> {
            let value = |episode: &EpisodeSummary| {
                let part = episode.part.as_deref();
                let before = rules.iter().take(place).filter(|rule| rule.applies_to(part)).count();
                if rule.applies_to(part) { *episode.verdicts.get(before)? } else { None }
            };
            self.episodes.iter().filter_map(value).collect()
        };
        let mean = |(place, rule): (usize, &ScoringRule)| {
            let values = values_of(place, rule);
            let scored = values.len() as u64;
            RewardMean { mean: (scored > 0).then(|| values.iter().sum::<f64>() / scored as f64), scored }
        };
        let by_reward = rules.iter().enumerate().map(mean).collect();
        Self { by_reward, ..self }
    }

    /// The report without the statistics of single rewards.
    pub(crate) fn new(
        state_id: StateId,
        split: String,
        mut episodes: Vec<EpisodeSummary>,
        stopped: Option<StopReason>,
        range: Option<(f64, f64)>,
    ) -> Self {
        episodes.sort_by_key(|episode| episode.index);
        let mut groups: BTreeMap<u64, GroupTries> = BTreeMap::new();
        let mut endings = BTreeMap::new();
        let mut usage = Usage::default();
        for episode in &episodes {
            let first = || GroupTries { task: episode.task.clone(), rewards: Vec::new() };
            groups.entry(episode.group).or_insert_with(first).rewards.extend(episode.reward);
            *endings.entry(episode.ending.clone()).or_insert(0) += 1;
            usage += episode.usage;
        }
        let groups: Vec<GroupTries> = groups.into_values().collect();
        let tries = range.map_or_else(Vec::new, |(_, best)| tries_measures(&groups, best));
        let groups: Vec<Vec<f64>> = groups.into_iter().map(|group| group.rewards).collect();
        let (reward_mean, reward_interval) = mean_interval(&groups);
        // A mean of bounded values is bounded; for few groups the interval exceeds the bounds.
        let reward_interval = reward_interval.map(|interval| interval.within(range));
        Self {
            tries,
            by_reward: Vec::new(),
            parts: PartReport::all(&episodes, range),
            unread: Vec::new(),
            state_id,
            content_root: content_root(episodes.iter().map(|one| (one.group, one.index, one.content))),
            split,
            reward_range: range,
            reward_mean,
            reward_interval,
            scored: episodes.iter().filter(|episode| episode.reward.is_some()).count() as u64,
            failed: episodes.iter().filter(|episode| episode.failed()).count() as u64,
            failures: count_failures(&episodes),
            branching: Branching::of(&episodes),
            peak_step_fuel: episodes.iter().filter_map(|episode| episode.peak_step_fuel).max(),
            steps: episodes.iter().map(|episode| episode.turns).sum(),
            endings,
            usage,
            stopped,
            episodes,
        }
    }
}
