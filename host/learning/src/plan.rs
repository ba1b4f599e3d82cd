//! The plan and ports of a learning run, and its digest.

use crate::LearningError;
use crate::schedule::Schedule;
use crate::source::ExperienceSource;
use crate::splits::Splits;
use crate::stage::LearningStage;
use clawhost_core::{Digest, LearningStore};
use clawhost_play::{Basis, Plan, Ports};
use serde::Serialize;
use std::sync::Arc;

/// The length of a learning run. Layers have their own plans.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LearnPlan {
    /// Number of iterations.
    pub iterations: u64,
    /// Training episodes per iteration, and settings common to all phases: seed, options, limits.
    pub play: Plan,
    /// Pairs of test episodes in the final evaluation; 0 is no evaluation.
    pub test_pairs: u64,
    /// Which layers learn in which iteration.
    pub schedule: Schedule,
}

impl LearnPlan {
    /// The defaults for lessons: 64 episodes per iteration in groups of 4, and 200 evaluation pairs.
    pub fn new(iterations: u64, seed: u64) -> Self {
        Self { iterations, play: Plan::new(64, 4, seed), test_pairs: 200, schedule: Schedule::Joint }
    }

    /// Groups per iteration.
    pub fn groups(&self) -> u64 {
        self.play.episodes.div_ceil(u64::from(self.play.group.max(1)))
    }
}

/// The ports of a learning run.
pub struct LearnPorts {
    /// Ports for playing episodes. The policy excludes everything that this run learns.
    pub play: Ports,
    /// The learning store; the same as the store of `play`.
    pub learning: Arc<dyn LearningStore>,
    /// The layers' stages, in the order of their warm-up.
    pub stages: Vec<Box<dyn LearningStage>>,
    /// The source of experience; `None`: rollouts of the environment.
    pub source: Option<Box<dyn ExperienceSource>>,
}

/// Digest of everything that determines the result of a learning run, except the durations of its parts. A run is found for
/// resuming by it.
///
/// # Errors
/// The environment's splits are not sufficient.
pub fn learn_digest(plan: &LearnPlan, ports: &LearnPorts) -> Result<Digest, LearningError> {
    Ok(Digest::of_json(&learn_basis(plan, ports)?))
}

/// The document with this digest.
pub(crate) fn learn_basis(plan: &LearnPlan, ports: &LearnPorts) -> Result<serde_json::Value, LearningError> {
    let splits = Splits::of(&ports.play.environments, plan.play.split.as_deref())?;
    let stages: Vec<_> = ports.stages.iter().map(|stage| (stage.name(), stage.plan())).collect();
    // Concurrency and failure budget do not change results.
    let play = Plan { concurrency: 1, failure_budget: 0.0, ..plan.play.clone() };
    let plan = LearnPlan { play: play.clone(), ..plan.clone() };
    let run = Basis::of(&Plan { split: Some(splits.train), ..play }, &ports.play)?.document();
    let source = ports.source.as_ref().map(|source| source.plan());
    Ok(serde_json::json!({ "run": run, "plan": plan, "stages": stages, "source": source }))
}
