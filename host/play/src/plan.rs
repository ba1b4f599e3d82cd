//! What is to be played, and how it is stopped.

use clawhost_core::{Attributes, Expectation, Limits};
use serde::Serialize;
use tokio::sync::watch;

/// What is to be played.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// How many episodes.
    pub episodes: u64,
    /// Episodes per task and environment seed.
    pub group: u32,
    /// Episodes at once; never changes a result.
    pub concurrency: usize,
    /// Source of every seed.
    pub seed: u64,
    /// Which tasks; none: `train`, or the first split.
    pub split: Option<String>,
    /// The environment's options.
    pub options: Attributes,
    /// An episode is cut short after so many turns.
    pub max_turns: u32,
    /// An episode fails when more than so many bytes of it would be recorded.
    pub episode_bytes: usize,
    /// The episodes of a group share so many turns and go their own ways from there; none: they share nothing but the task.
    pub branch_at: Option<u32>,
    /// Position of the first group in the split: tasks and seeds go on from there.
    pub first_group: u64,
    /// Positions of the groups in the split, one each, in place of those from `first_group` on: exactly these tasks with
    /// exactly these seeds are played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positions: Option<Vec<u64>>,
    /// Verdicts that every episode waits for once it has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expects: Vec<Expectation>,
    /// Whether all members of a group draw their answers with one seed, so that they differ by what they are told alone.
    pub paired: bool,
    /// Share of the planned episodes that may fail before the run stops, 0 to 1.
    pub failure_budget: f64,
}

impl Plan {
    /// So many episodes in groups of this size, with everything else as the program has it where nothing is chosen.
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
            failure_budget: 0.1,
        }
    }

    /// How many groups it has.
    pub(crate) fn groups(&self) -> u64 {
        self.episodes.div_ceil(u64::from(self.group.max(1)))
    }

    /// How many episodes may fail before the run stops.
    pub fn failures_allowed(&self) -> u64 {
        // A share like 0.29 of 100 is meant as 29, though its product is a little less.
        (self.failure_budget.clamp(0.0, 1.0) * self.episodes as f64 + 1e-9).floor() as u64
    }

    /// Position of a group in the split: its task and its seeds follow from it.
    pub(crate) fn position(&self, group: u64) -> u64 {
        let chosen = |positions: &Vec<u64>| usize::try_from(group).ok().and_then(|group| positions.get(group).copied());
        self.positions.as_ref().and_then(chosen).unwrap_or_else(|| self.first_group.saturating_add(group))
    }

    /// Tasks of the split that are needed.
    pub(crate) fn tasks(&self) -> u64 {
        let furthest = self.positions.as_ref().and_then(|positions| positions.iter().max());
        furthest.map_or_else(|| self.first_group.saturating_add(self.groups()), |last| last.saturating_add(1))
    }
}

/// How the operator stops a run.
#[derive(Debug, Clone)]
pub struct Cancel(watch::Sender<bool>);

impl Default for Cancel {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Cancel {
    /// Asks the run to stop: episodes in progress end as cancelled, and everything is recorded.
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    /// Whether that was asked.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until that is asked.
    pub async fn requested(&self) {
        if self.is_requested() {
            return;
        }
        let mut receiver = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = receiver.wait_for(|requested| *requested).await;
    }
}
