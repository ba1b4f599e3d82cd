//! What a learning run is made of, and what it is named by.

use crate::LearningError;
use crate::source::ExperienceSource;
use crate::splits::Splits;
use crate::stage::LearningStage;
use clawhost_core::{Digest, LearningStore};
use clawhost_play::{Plan, Ports, run_digest};
use serde::Serialize;
use std::sync::Arc;

/// How long a learning run is. What its layers do is theirs to say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LearnPlan {
    /// How often to take in experience and step.
    pub iterations: u64,
    /// Training episodes of an iteration, and everything that is common to all phases: seed, options, limits.
    pub play: Plan,
    /// Pairs of test episodes for the final evaluation; 0: no evaluation.
    pub test_pairs: u64,
}

impl LearnPlan {
    /// The program's defaults for lessons: 64 episodes an iteration in groups of 4, and 200 pairs for the evaluation.
    pub fn new(iterations: u64, seed: u64) -> Self {
        Self { iterations, play: Plan::new(64, 4, seed), test_pairs: 200 }
    }

    /// Groups of an iteration.
    pub fn groups(&self) -> u64 {
        self.play.episodes.div_ceil(u64::from(self.play.group.max(1)))
    }
}

/// Everything that a learning run needs.
pub struct LearnPorts {
    /// Who plays, where, and who judges; the policy without anything that this run learns.
    pub play: Ports,
    /// Where everything is kept; the same as the store of `play`.
    pub learning: Arc<dyn LearningStore>,
    /// The layers with their stages, in the order in which they warm up.
    pub stages: Vec<Box<dyn LearningStage>>,
    /// Where experience comes from; none: rollouts from the environment.
    pub source: Option<Box<dyn ExperienceSource>>,
}

/// Names everything that decides the result of a learning run, except how long its parts take: a run is resumed by it.
///
/// # Errors
/// The environment's splits do not serve.
pub fn learn_digest(plan: &LearnPlan, ports: &LearnPorts) -> Result<Digest, LearningError> {
    let splits = Splits::of(ports.play.environment.as_ref(), plan.play.split.as_deref())?;
    let stages: Vec<_> = ports.stages.iter().map(|stage| (stage.name(), stage.plan())).collect();
    // How many are played at once changes nothing, and neither do budgets.
    let play = Plan { concurrency: 1, failure_budget: 0.0, ..plan.play.clone() };
    let plan = LearnPlan { play: play.clone(), ..plan.clone() };
    let run = run_digest(&Plan { split: Some(splits.train), ..play }, &ports.play)?;
    let source = ports.source.as_ref().map(|source| source.plan());
    Ok(Digest::of_json(&serde_json::json!({ "run": run, "plan": plan, "stages": stages, "source": source })))
}
