//! The input of every layer: the scored groups of one iteration and the reflectors' proposals about them.

use crate::policy::Generated;
use crate::{EntryId, LearnError};
use clawhost_core::{EpisodeId, Proposal, StateId};
use std::sync::Arc;

/// Largest number of entries drawn in one group: one bit of [`Member::shown`] each.
pub const DRAWN_ENTRIES: usize = 64;

/// One scored episode of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The episode's id.
    pub episode: EpisodeId,
    /// Effective reward, -1 to 1.
    pub reward: f64,
    /// The drawn entries that this episode was shown: bit n stands for `Group::drawn[n]`.
    pub shown: u64,
    /// The tokens that a local model sampled in the episode. `None` if another model played it.
    pub generated: Option<Arc<Generated>>,
}

/// Episodes with equal task and environment seed. Failed and unscored episodes are not members: they have no reward.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Task id.
    pub task: String,
    /// Seed of the environment.
    pub seed: u64,
    /// Entries that were shown to members at random: those relevant to the task that fit the token budget, chosen before the
    /// draw.
    pub drawn: Vec<EntryId>,
    /// Probability that a member was shown a drawn entry, 0 to 1.
    pub propensity: f64,
    /// At least one member.
    pub members: Vec<Member>,
}

/// Episodes that were left out of the groups, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// Failed episodes.
    pub failed: u64,
    /// Episodes without an effective reward.
    pub unscored: u64,
}

/// The answer of a reflector to one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The name of the reflector.
    pub reflector: String,
    /// What it proposes. New entries may need each other, by names that hold in this answer only.
    pub proposals: Vec<Proposal>,
}

/// The experience of one iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Number of batches before this one in the run.
    pub number: u64,
    /// Identity of the configuration that played the batch.
    pub state_id: StateId,
    /// The groups.
    pub groups: Vec<Group>,
    /// The answers of reflectors.
    pub answers: Vec<Answer>,
    /// Episodes that are not in the groups.
    pub removed: Removed,
}

impl Batch {
    /// Checks what every layer relies on.
    ///
    /// # Errors
    /// A group without members or with too many drawn entries, a propensity outside 0 to 1, or a reward outside -1 to 1.
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

    /// Number of proposals.
    pub fn proposals(&self) -> usize {
        self.answers.iter().map(|answer| answer.proposals.len()).sum()
    }

    /// Number of episodes.
    pub fn episodes(&self) -> usize {
        self.groups.iter().map(|group| group.members.len()).sum()
    }

    /// Mean reward over the episodes; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        let count = self.episodes();
        let sum: f64 = self.groups.iter().flat_map(|group| &group.members).map(|member| member.reward).sum();
        (count > 0).then(|| sum / count as f64)
    }
}
