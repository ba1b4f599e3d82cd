//! What every layer is handed: the scored groups of one iteration, and what reflectors proposed about them.

use crate::policy::Generated;
use crate::{EntryId, LearnError};
use clawhost_core::{EpisodeId, Proposal, StateId};
use std::sync::Arc;

/// Most entries whose showing is drawn in one group: one bit each.
pub const DRAWN_ENTRIES: usize = 64;

/// One scored episode of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The episode.
    pub episode: EpisodeId,
    /// The effective reward, -1 to 1.
    pub reward: f64,
    /// Which of the group's drawn entries it was shown: bit n stands for the n-th.
    pub shown: u64,
    /// What a local model wrote in it, token by token; none: the model is somebody else's.
    pub generated: Option<Arc<Generated>>,
}

/// Episodes with equal task and environment seed. Those that failed or were not scored are not in it: a failure is no number.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The task.
    pub task: String,
    /// The environment's seed.
    pub seed: u64,
    /// Entries for which a draw decided who sees them: relevant to the task, fitting the budget, and settled before the draw.
    pub drawn: Vec<EntryId>,
    /// The probability with which a member was shown a drawn entry.
    pub propensity: f64,
    /// At least one.
    pub members: Vec<Member>,
}

/// Episodes that reach no estimate, by why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// They failed.
    pub failed: u64,
    /// No reward had anything to say.
    pub unscored: u64,
}

/// What is learned from at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Batches before it in this run.
    pub number: u64,
    /// The configuration that played it.
    pub state_id: StateId,
    /// Its groups.
    pub groups: Vec<Group>,
    /// Suggestions, with the reflector's name.
    pub proposals: Vec<(String, Proposal)>,
    /// What is missing from the groups.
    pub removed: Removed,
}

impl Batch {
    /// Refuses what no layer could learn from rightly.
    ///
    /// # Errors
    /// A reward that is no number between -1 and 1, a group without members or with too many drawn entries.
    pub fn check(&self) -> Result<(), LearnError> {
        for group in &self.groups {
            let refuse = |what: String| Err(LearnError::Batch { task: group.task.clone(), what });
            if group.members.is_empty() {
                return refuse("a group without members".into());
            }
            if group.drawn.len() > DRAWN_ENTRIES {
                return refuse(format!("{} drawn entries; at most {DRAWN_ENTRIES}", group.drawn.len()));
            }
            if !(0.0..=1.0).contains(&group.propensity) {
                return refuse(format!("a propensity of {}", group.propensity));
            }
            if let Some(odd) = group.members.iter().find(|member| !(-1.0..=1.0).contains(&member.reward)) {
                return refuse(format!("a reward of {} ({})", odd.reward, odd.episode));
            }
        }
        Ok(())
    }

    /// Episodes in it.
    pub fn episodes(&self) -> usize {
        self.groups.iter().map(|group| group.members.len()).sum()
    }

    /// Mean reward over its episodes; none without any.
    pub fn mean(&self) -> Option<f64> {
        let count = self.episodes();
        let sum: f64 = self.groups.iter().flat_map(|group| &group.members).map(|member| member.reward).sum();
        (count > 0).then(|| sum / count as f64)
    }
}
