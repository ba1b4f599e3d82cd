//! The plan of a run, and its cancellation.

use crate::report::StopReason;
use clawhost_core::{Attributes, Expectation, Limits, counted};
use serde::Serialize;
use tokio::sync::watch;

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Number of episodes.
    pub episodes: u64,
    /// Group size: episodes per task and environment seed.
    pub group: u32,
    /// Concurrent episodes. Does not change results.
    pub concurrency: usize,
    /// Source of all seeds.
    pub seed: u64,
    /// The split; `None`: `train`, or the environment's first split.
    pub split: Option<String>,
    /// The environment's options.
    pub options: Attributes,
    /// An episode is truncated after this many turns.
    pub max_turns: u32,
    /// An episode fails when its record exceeds this many bytes.
    pub episode_bytes: usize,
    /// Number of turns that the episodes of a group share before they branch; `None`: they share only the task.
    pub branch_at: Option<u32>,
    /// Position of the first group in the split. It determines tasks and seeds.
    pub first_group: u64,
    /// Positions of the groups in the split, instead of consecutive ones from `first_group`: exactly these tasks and seeds
    /// are played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions: Option<Vec<u64>>,
    /// Verdicts that every episode waits for after its end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expects: Vec<Expectation>,
    /// Whether all members of a group sample with the same seed, so that they differ only in their guidance.
    pub paired: bool,
    /// Tries of each side in a paired group. The group has a member for each side and try, the first try of all sides first; members
    /// of one try sample with the same seed.
    #[serde(skip_serializing_if = "is_one")]
    pub tries: u32,
    /// Share of the planned episodes that may fail before the run stops, 0 to 1.
    pub failure_budget: f64,
}

pub(crate) fn is_one(tries: &u32) -> bool {
    *tries == 1
}

impl Plan {
    /// A plan with this many episodes in groups of this size, and defaults otherwise.
    pub fn new(episodes: u64, group: u32, seed: u64) -> Self {
        Self {
            episodes,
            group,
            concurrency: 16,
            seed,
            split: None,
            options: Attributes::new(),
            max_turns: 64,
            episode_bytes: Limits::default().episode_bytes,
            branch_at: None,
            first_group: 0,
            positions: None,
            expects: Vec::new(),
            paired: false,
            tries: 1,
            failure_budget: 0.1,
        }
    }

    /// Number of groups.
    pub(crate) fn groups(&self) -> u64 {
        self.episodes.div_ceil(u64::from(self.group.max(1)))
    }

    /// Number of episodes that may fail before the run stops.
    pub fn failures_allowed(&self) -> u64 {
        // Compensates rounding: 0.29 of 100 must give 29.
        (self.failure_budget.clamp(0.0, 1.0) * self.episodes as f64 + 1e-9).floor() as u64
    }

    /// Position of a group in the split; determines its task and seeds.
    pub(crate) fn position(&self, group: u64) -> u64 {
        position(self.positions.as_ref(), self.first_group, group)
    }

    /// Number of tasks needed.
    pub(crate) fn tasks(&self) -> u64 {
        let furthest = self.positions.as_ref().and_then(|positions| positions.iter().max());
        furthest.map_or_else(|| self.first_group.saturating_add(self.groups()), |last| last.saturating_add(1))
    }
}

/// Position of a group in its split.
pub(crate) fn position(positions: Option<&Vec<u64>>, first_group: u64, group: u64) -> u64 {
    let chosen = |positions: &Vec<u64>| usize::try_from(group).ok().and_then(|group| positions.get(group).copied());
    positions.and_then(chosen).unwrap_or_else(|| first_group.saturating_add(group))
}

/// The request to stop a run, with its reason.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Sender<Option<StopReason>>);

impl Default for Cancel {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Cancel {
    /// Requests the stop for the operator: episodes in progress end as cancelled, and everything is recorded.
    pub fn request(&self) {
        self.request_because(StopReason::Cancelled);
    }

    /// Asks the run to stop for a reason. The first reason stands.
    pub(crate) fn request_because(&self, reason: StopReason) {
        self.0.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(reason);
            is_first
        });
    }

    /// Whether the stop was requested.
    pub fn is_requested(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// What an episode says that was in progress when the run stopped.
    pub(crate) fn words(&self) -> String {
        match &*self.0.borrow() {
            None | Some(StopReason::Cancelled) => "stopped by the operator".to_owned(),
            Some(StopReason::FailureBudget { failed, allowed }) => {
                let failed = counted(*failed, "failure");
                format!("stopped with the run: too many episodes had failed ({failed} where {allowed} may)")
            }
            Some(StopReason::ModelBudget) => "stopped with the run: the token or cost budget was spent".to_owned(),
            Some(StopReason::Unscored { .. } | StopReason::Reflectors { .. }) => {
                "stopped with the run, which could not go on".to_owned()
            }
        }
    }

    /// Waits until the stop is requested.
    pub async fn requested(&self) {
        if self.is_requested() {
            return;
        }
        let mut receiver = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = receiver.wait_for(Option::is_some).await;
    }

    /// Waits until scoring is to stop. A spent budget stops no scoring: its further requests are refused at once, and those that were
    /// answered are paid for, so their record counts when the run is resumed.
    pub(crate) async fn requested_for_scoring(&self) {
        let stops = |reason: &Option<StopReason>| {
            reason.as_ref().is_some_and(|reason| !matches!(reason, StopReason::ModelBudget))
        };
        let mut receiver = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = receiver.wait_for(stops).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_says_why_the_run_stopped_and_the_first_reason_stands() {
        let check = |reasons: &[StopReason], expect: &str| {
            let cancel = Cancel::default();
            assert!(!cancel.is_requested());
            reasons.iter().for_each(|reason| cancel.request_because(reason.clone()));
            assert!(cancel.is_requested() && cancel.words().starts_with(expect), "{}", cancel.words());
        };
        let failures = |failed, allowed| StopReason::FailureBudget { failed, allowed };
        check(&[StopReason::Cancelled], "stopped by the operator");
        check(&[failures(3, 2)], "stopped with the run: too many episodes had failed (3 failures where 2 may)");
        check(&[failures(1, 0)], "stopped with the run: too many episodes had failed (1 failure where 0 may)");
        check(&[StopReason::ModelBudget, StopReason::Cancelled], "stopped with the run: the token or cost budget");
    }

    #[tokio::test]
    async fn a_spent_budget_stops_no_scoring() {
        let check = async |reason: StopReason, expect: bool| {
            let cancel = Cancel::default();
            cancel.request_because(reason.clone());
            let stops = tokio::select! {
                biased;
                () = cancel.requested_for_scoring() => true,
                () = std::future::ready(()) => false,
            };
            assert_eq!(stops, expect, "{reason:?}");
        };
        check(StopReason::ModelBudget, false).await;
        check(StopReason::Cancelled, true).await;
        check(StopReason::FailureBudget { failed: 3, allowed: 2 }, true).await;
    }
}
