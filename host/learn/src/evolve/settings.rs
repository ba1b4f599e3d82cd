//! Settings of an evolution.

use crate::LearnError;
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};

/// Default number of training items on which a child is compared with its parent, as in the paper. More cost more per
/// attempt; with fewer, more children pass by chance.
pub const MINIBATCH: usize = 3;

/// Settings of an evolution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Most evaluations in total. One evaluation is one candidate on one item; failures count.
    pub budget: u64,
    /// Training items on which a child is compared with its parent; at least one ([`MINIBATCH`]).
    pub minibatch: usize,
    /// Tasks of the fixed set, at least one. The other tasks are for training.
    pub pareto: usize,
    /// The section that is rewritten.
    pub section: String,
    /// Seed of all draws.
    pub seed: u64,
    /// Digest of everything besides the candidate that determines a score: model and sampling, environment and rewards with
    /// their options.
    pub policy: Digest,
}

impl Settings {
    /// Rejects settings that do not suffice for one child.
    pub(super) fn check(&self, training: usize, fixed: usize) -> Result<(), LearnError> {
        let refuse = |what: String| Err(LearnError::Evolution(what));
        if self.minibatch == 0 || self.pareto == 0 {
            return refuse("minibatch and fixed set need at least one task each: raise the number that is 0".into());
        }
        if training == 0 || fixed == 0 {
            return refuse(format!(
                "a fixed set of {} tasks leaves no training items: give more tasks, or make it smaller",
                self.pareto
            ));
        }
        let attempt = 2 * training.min(self.minibatch) as u64 + fixed as u64;
        let least = attempt + fixed as u64;
        if self.budget < least {
            return refuse(format!(
                "a budget of {} evaluations is too small for one child: the seed candidate takes {fixed}, a child up to {attempt}; give \
                 {least} or more",
                self.budget
            ));
        }
        Ok(())
    }
}
