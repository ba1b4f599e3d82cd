//! What a learning run is made of, and what it is called by.

use super::splits::Splits;
use crate::RuntimeError;
use crate::plan::Plan;
use crate::run::Ports;
use clawhost_core::{Attributes, Digest, LearningStore, Llm, Reflector};
use clawhost_learn::harness::HarnessSettings;
use clawhost_learn::playbook::{Embedder, Playbook};
use clawhost_learn::policy::Difficulty;
use clawhost_learn::{Lesson, Weights};
use serde::Serialize;
use std::sync::{Arc, Mutex};

/// How candidates are judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatePlan {
    /// Iterations between two candidates.
    pub every: u64,
    /// Pairs of episodes that one session may use.
    pub pairs: u64,
    /// Chance of letting anything through that is no better, over all candidates of a run.
    pub alpha: f64,
}

/// How a section of the prompt evolves, once, before the first iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EvolvePlan {
    /// Evaluations in all, one candidate on one task each; failed ones count.
    pub budget: u64,
    /// Training tasks on which a child is compared with its parent.
    pub minibatch: u64,
    /// Training tasks of the fixed set, by which candidates are chosen; at most half of what there is.
    pub pareto: u64,
    /// The section.
    pub section: String,
}

/// Learning from demonstrations before learning from rewards: without a success now and then no reward says anything.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarmStart {
    /// Demonstrations that are played; they are learned from again and again, in an order of the seed's.
    pub demonstrations: u64,
    /// Options of the environment while it demonstrates, beside its usual ones.
    pub options: Attributes,
    /// Demonstrations of a step.
    pub batch: u64,
    /// How fast.
    pub rate: f64,
    /// Mean reward of sampled training episodes at which it is enough.
    pub target: f64,
    /// Steps between two looks at it.
    pub every: u64,
    /// Episodes of a look.
    pub episodes: u64,
    /// Most steps.
    pub steps: u64,
}

/// How a model's weights learn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WeightsPlan {
    /// Everything that decides what a step does, for the run's digest.
    pub settings: serde_json::Value,
    /// Demonstrations first; none: rewards from the first step on.
    pub warm_start: Option<WarmStart>,
    /// How often groups without variance are replaced in an iteration, at most [`clawhost_learn::policy::REFILLS`]; 0: never.
    pub refills: u32,
    /// When tasks are passed over that teach nothing; none: never.
    pub difficulty: Option<Difficulty>,
    /// Iterations between two looks at the validation tasks, by which the best weights are kept; 0: none.
    pub evaluate_every: u64,
    /// Validation episodes of a look.
    pub evaluate_episodes: u64,
}

/// What is to be learned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LearnPlan {
    /// How often to play, reflect and step.
    pub iterations: u64,
    /// Training episodes of an iteration, and everything that is common to all phases: seed, options, limits.
    pub play: Plan,
    /// The harness layer.
    pub harness: HarnessSettings,
    /// Reflectors are asked at least after so many batches.
    pub reflect_every: u64,
    /// The gate.
    pub gate: GatePlan,
    /// Evolving a section of the prompt first; none: it stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evolve: Option<EvolvePlan>,
    /// How the policy's weights learn; none: they stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsPlan>,
    /// Pairs of test episodes for the final report; 0: no report.
    pub test_pairs: u64,
    /// Lessons that are tried first, whoever thought of them.
    pub planted: Vec<Lesson>,
}

/// A reflector with the operator's options for it.
#[derive(Clone)]
pub struct Reflecting {
    /// The reflector.
    pub reflector: Arc<dyn Reflector>,
    /// Its options.
    pub options: Attributes,
}

/// Weights that a conductor and whoever looks on share.
pub type WeightsPort = Arc<Mutex<dyn Weights>>;

/// Everything that a learning run needs.
#[derive(Clone)]
pub struct LearnPorts {
    /// Who plays, where, and who judges; the policy without any playbook.
    pub play: Ports,
    /// Who draws lessons.
    pub reflectors: Vec<Reflecting>,
    /// Who rewrites sections, where one evolves.
    pub evolver: Option<Reflecting>,
    /// Who tells whether lessons in prose mean the same; none: their words do.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// The weights of the policy of `play`, where they learn.
    pub weights: Option<WeightsPort>,
    /// Who demonstrates, where a warm start is planned.
    pub demonstrator: Option<Arc<dyn Llm>>,
    /// Where everything is kept; the same as the store of `play`.
    pub learning: Arc<dyn LearningStore>,
    /// The name of the playbook.
    pub playbook: String,
    /// What it says when the run begins, where the store has no version: nothing, as a rule.
    pub beginning: Playbook,
}

/// Names everything that decides what a learning run comes to, except how long its parts take: it is taken up again by that.
///
/// # Errors
/// The environment's splits do not serve.
pub fn learn_digest(plan: &LearnPlan, ports: &LearnPorts) -> Result<Digest, RuntimeError> {
    let splits = Splits::of(ports.play.environment.as_ref(), plan.play.split.as_deref())?;
    let name = |one: &Reflecting| (one.reflector.identity().digest, one.options.clone(), one.reflector.grants());
    let reflectors: Vec<_> = ports.reflectors.iter().map(name).collect();
    let evolver = ports.evolver.as_ref().map(name);
    // How many are played at once changes nothing, and neither do budgets.
    let play = Plan { concurrency: 1, failure_budget: 0.0, ..plan.play.clone() };
    let plan = LearnPlan { play: play.clone(), ..plan.clone() };
    let run = crate::run::run_digest(&Plan { split: Some(splits.train), ..play }, &ports.play)?;
    Ok(Digest::of_json(&serde_json::json!({
        "run": run, "plan": plan, "reflectors": reflectors, "evolver": evolver, "playbook": ports.playbook,
    })))
}
