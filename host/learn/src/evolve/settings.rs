//! What an evolution is told at the start.

use crate::LearnError;
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};

/// Training items on which a child is compared with its parent, unless told otherwise; the paper's number. More would
/// cost more per attempt, fewer would let more children through by luck.
pub const MINIBATCH: usize = 3;

/// What an evolution is told at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Evaluations that may be made in all: one is one candidate on one item, and failed ones count.
    pub budget: u64,
    /// Training items on which a child is compared with its parent; at least one ([`MINIBATCH`]).
    pub minibatch: usize,
    /// Tasks of the fixed set, at least one. The others train.
    pub pareto: usize,
    /// The section that changes.
    pub section: String,
    /// Where every draw comes from.
    pub seed: u64,
    /// Names everything beside the candidate that makes a score: model and sampling, environment and rewards with their
    /// options.
    pub policy: Digest,
}

impl Settings {
    /// Refuses what could never let a child in.
    pub(super) fn check(&self, training: usize, fixed: usize) -> Result<(), LearnError> {
        let refuse = |what: String| Err(LearnError::Evolution(what));
        if self.minibatch == 0 || self.pareto == 0 {
            return refuse("a minibatch and a fixed set hold at least one task: raise the number that is 0".into());
        }
        if training == 0 || fixed == 0 {
            return refuse(format!(
                "a fixed set of {} tasks leaves nothing to train on: give more tasks, or make it smaller",
                self.pareto
            ));
        }
        let attempt = 2 * training.min(self.minibatch) as u64 + fixed as u64;
        let least = attempt + fixed as u64;
        if self.budget < least {
            return refuse(format!(
                "a budget of {} evaluations lets no child in: the seed takes {fixed}, a child up to {attempt}; give \
                 {least} or more",
                self.budget
            ));
        }
        Ok(())
    }
}
