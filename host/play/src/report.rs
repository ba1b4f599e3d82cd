//! What a run came to.

use crate::interval::{Interval, mean_interval};
use clawhost_core::{
    Branch, BranchWay, Ending, Episode, EpisodeId, Failure, FailureKind, StateId, Usage, Verdict, code, standing,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One line of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeSummary {
    /// The episode.
    pub id: EpisodeId,
    /// Its task.
    pub task: String,
    /// None: not scored. Never a stand-in for 0.
    pub reward: Option<f64>,
    /// How it ended: `terminated`, `truncated`, or `failed: ...`.
    pub ending: String,
    /// Turns played.
    pub turns: u64,
    /// Position in the run.
    #[serde(skip)]
    pub index: u64,
    /// Group in the run.
    #[serde(skip)]
    pub group: u64,
    /// What it cost in tokens.
    #[serde(skip)]
    pub usage: Usage,
    /// What each reward said, in the order of the rewards; none: no number. Empty where nothing was judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Option<f64>>,
    /// The first failure, of the episode or of a reward, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What went wrong in it, and whose doing that was.
    #[serde(skip)]
    pub failures: Vec<FailedBy>,
    /// How it came to share turns with its group, where it was to.
    #[serde(skip)]
    pub branch: Option<Branch>,
    /// Whether it was stopped by the operator, or because the run stopped: that is nobody's failure.
    #[serde(skip)]
    pub cancelled: bool,
    /// Whether the operator's token or cost budget ended it: no failure of anybody's either.
    #[serde(skip)]
    pub out_of_budget: bool,
    /// Most fuel that one of its steps used.
    #[serde(skip)]
    pub peak_step_fuel: Option<u64>,
}

impl EpisodeSummary {
    /// Sums up an episode as it is now.
    pub fn of(episode: &Episode) -> Self {
        let mut usage = Usage::default();
        // Turns that a group shares were paid for once.
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
            task: episode.task.id.clone(),
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
        }
    }

    /// Whether it counts against the failure budget: it could not be played, or not be judged.
    pub fn failed(&self) -> bool {
        self.failure.is_some() && !self.cancelled && !self.out_of_budget
    }
}

/// Whether it, or its judgement, was stopped.
fn was_cancelled(episode: &Episode) -> bool {
    let stopped = |failure: &Failure| failure.kind == FailureKind::Cancelled;
    match &episode.ending {
        Ending::Failed(failure) => stopped(failure),
        _ => standing(&episode.verdicts).any(|record| matches!(&record.verdict, Verdict::Failed(why) if stopped(why))),
    }
}

/// Why a run ended before its plan was played.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// More episodes failed than the operator allows.
    FailureBudget {
        /// How many failed.
        failed: u64,
        /// How many may.
        allowed: u64,
    },
    /// A learning run: nothing of what it played first was scored, so there is nothing to learn from.
    Unscored {
        /// The most frequent reason, in words.
        why: String,
    },
    /// A learning run: no reflector has answered yet, and all of an iteration's calls failed.
    Reflectors {
        /// Calls that failed.
        failed: u64,
        /// The most frequent failure, in words.
        why: String,
    },
    /// The operator's token or cost budget is spent.
    ModelBudget,
    /// The operator stopped it.
    Cancelled,
}

/// How the episodes of a run came to share turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Branching {
    /// Episodes that were restored from a snapshot.
    pub by_snapshot: u64,
    /// Episodes whose instance took the shared turns again.
    pub by_replay: u64,
    /// Episodes that share nothing after all.
    pub unshared: u64,
    /// Why episodes are not restored, or share nothing; with how many.
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

/// A failure with whoever is to be asked about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedBy {
    /// The plugin's name; `policy` where a model gave no answer, `host` where this program did not.
    pub who: String,
    /// Kind and code.
    pub failure: String,
    /// In words.
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

/// How often something went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureCount {
    /// The plugin's name; `policy` where a model gave no answer, `host` where this program did not.
    pub who: String,
    /// Kind and code.
    pub failure: String,
    /// In how many episodes.
    pub episodes: u64,
    /// The first time, in words.
    pub message: String,
    /// An episode to look at.
    pub example: EpisodeId,
}

/// A failure's words without its numbers: what differs by a count or an address is one cause.
pub fn failure_cause(message: &str) -> String {
    message.split(|character: char| character.is_ascii_digit()).filter(|part| !part.is_empty()).collect()
}

/// Failures by whose they are and what caused them, the most frequent first.
fn count_failures(episodes: &[EpisodeSummary]) -> Vec<FailureCount> {
    let mut counts: BTreeMap<(&str, &str, String), FailureCount> = BTreeMap::new();
    for episode in episodes.iter().filter(|episode| episode.failed()) {
        // One episode counts once for each cause, however many rewards tell of it.
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

/// What one reward came to, whether or not it decided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RewardMean {
    /// Mean of its values; none if it gave none.
    pub mean: Option<f64>,
    /// How many values it gave.
    pub scored: u64,
}

/// What a run came to. Equal plans give equal reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// The configuration that acted.
    pub state_id: StateId,
    /// The split that was played.
    pub split: String,
    /// Every recorded episode, in order.
    pub episodes: Vec<EpisodeSummary>,
    /// Mean over scored episodes; none if none was scored.
    pub reward_mean: Option<f64>,
    /// 95 % interval of the mean, with groups as the unit; none for fewer than two groups.
    pub reward_interval: Option<Interval>,
    /// How many episodes were scored.
    pub scored: u64,
    /// What each reward came to, in the order of the rewards.
    pub by_reward: Vec<RewardMean>,
    /// Endings by kind.
    pub endings: BTreeMap<String, u64>,
    /// Episodes that could not be played or judged.
    pub failed: u64,
    /// Why, and whose doing it was; the most frequent first.
    pub failures: Vec<FailureCount>,
    /// How groups came to share turns; none where they were not to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branching: Option<Branching>,
    /// Turns played.
    pub steps: u64,
    /// Most fuel that one step used.
    pub peak_step_fuel: Option<u64>,
    /// Tokens of the policy.
    pub usage: Usage,
    /// Why it ended early.
    pub stopped: Option<StopReason>,
}

impl RunReport {
    /// What the store keeps of it.
    pub fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "reward_mean": self.reward_mean, "reward_interval": self.reward_interval, "scored": self.scored,
            "endings": self.endings, "failed": self.failed, "failures": self.failures, "steps": self.steps, "stopped": self.stopped,
        })
    }

    pub(crate) fn new(
        state_id: StateId,
        split: String,
        mut episodes: Vec<EpisodeSummary>,
        stopped: Option<StopReason>,
        range: Option<(f64, f64)>,
    ) -> Self {
        episodes.sort_by_key(|episode| episode.index);
        let mut groups: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut endings = BTreeMap::new();
        let mut usage = Usage::default();
        for episode in &episodes {
            groups.entry(episode.group).or_default().extend(episode.reward);
            *endings.entry(episode.ending.clone()).or_insert(0) += 1;
            usage += episode.usage;
        }
        let groups: Vec<Vec<f64>> = groups.into_values().collect();
        let (reward_mean, reward_interval) = mean_interval(&groups);
        // A mean of bounded values is bounded too: with few groups the plain interval reaches past that.
        let reward_interval = match (reward_interval, range) {
            (Some(interval), Some((least, most))) => {
                Some(Interval { low: interval.low.max(least), high: interval.high.min(most) })
            }
            (interval, _) => interval,
        };
        let rewards = episodes.iter().map(|episode| episode.verdicts.len()).max().unwrap_or(0);
        let by_reward = (0..rewards).map(|position| {
            let values: Vec<f64> = episodes.iter().filter_map(|episode| *episode.verdicts.get(position)?).collect();
            let scored = values.len() as u64;
            RewardMean { mean: (scored > 0).then(|| values.iter().sum::<f64>() / scored as f64), scored }
        });
        Self {
            by_reward: by_reward.collect(),
            state_id,
            split,
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
