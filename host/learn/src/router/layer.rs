//! The router as a layer of the learning loop.
//!
//! A batch has rewards by episode, and no decisions. So the stage that feeds the loop hands over the decisions of a batch's
//! episodes first ([`Router::stage`]); the batch then brings their rewards. Episodes that were not staged were not routed.

use super::{Decision, Logged, Outcome, Router};
use crate::{Batch, Forward, Layer, LearnError, Measurements, Metric, Step};
use clawhost_core::{Digest, EpisodeId};

impl Router {
    /// Hands over the decision by which an episode of the next batch was played, and the units that it used of the first
    /// and the second model.
    pub fn stage(&mut self, episode: EpisodeId, decision: Decision, units: [f64; 2]) {
        self.staged.insert(episode, (decision, units));
    }

    /// Hands over a decision whose model failed, so that its episode has no reward and is in no batch. For the router it is an outcome
    /// of the chosen action, with the least reward: an action that always fails must not stay untried. The returned record is what is
    /// learned.
    pub fn stage_failed(&mut self, decision: Decision, units: [f64; 2]) -> Logged {
        let logged = Logged { decision, outcome: Outcome { reward: self.settings.rewards.low, units } };
        self.failed.push(logged.clone());
        logged
    }
}

/// An error of this layer.
fn broken(error: &impl ToString) -> LearnError {
    LearnError::Layer { layer: "router".into(), why: error.to_string() }
}

impl Layer for Router {
    fn name(&self) -> &str {
        "router"
    }

    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        let mut routed = 0;
        for member in batch.groups.iter().flat_map(|group| &group.members) {
            let Some((decision, units)) = self.staged.remove(&member.episode) else { continue };
            decision.check()?;
            self.scale.check(&decision.features)?;
            let outcome = Outcome { reward: member.reward, units };
            outcome.check(self.settings.rewards)?;
            self.pending.push(Logged { decision, outcome });
            routed += 1;
        }
        for logged in std::mem::take(&mut self.failed) {
            logged.decision.check()?;
            self.scale.check(&logged.decision.features)?;
            logged.outcome.check(self.settings.rewards)?;
            self.pending.push(logged);
            routed += 1;
        }
        Ok(Forward { metrics: Measurements::from([(Metric::Episodes, f64::from(routed))]) })
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        let mut pending = std::mem::take(&mut self.pending);
        self.staged.clear();
        if pending.is_empty() {
            return Ok(Step::default());
        }
        // Groups come in any order; forgetting needs the order of time.
        pending.sort_by(|one, other| {
            let key = |logged: &Logged| (logged.decision.time, logged.decision.session.clone());
            key(one).cmp(&key(other))
        });
        let learned = self.learn(&pending)?;
        let metrics = Measurements::from([(Metric::Version, self.version as f64)]);
        let events = match learned.gone {
            0 => Vec::new(),
            gone => vec![format!("{gone} outcomes of models that have left the table")],
        };
        Ok(Step { updates: learned.used, metrics, events })
    }

    fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        let bytes = serde_json::to_vec(self).map_err(|error| broken(&error))?;
        // Cache the digest, which is needed next and hashes the same bytes.
        self.named.get_or_init(|| Digest::of(&bytes));
        Ok(bytes)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        *self = Self::from_state(bytes).map_err(|error| broken(&error))?;
        Ok(())
    }

    fn clear_pending(&mut self) {
        self.pending.clear();
        self.staged.clear();
        self.failed.clear();
    }

    fn digest(&self) -> Digest {
        *self.named.get_or_init(|| Digest::of(&serde_json::to_vec(self).unwrap_or_default()))
    }
}
