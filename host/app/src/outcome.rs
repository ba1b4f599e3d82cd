//! Results of operations: typed, complete, and without text for people.

use crate::routers::RouterUse;
use clawhost_core::{Digest, Episode, PlaybookVersion, RunId};
use clawhost_learn::budget::BudgetPlan;
use clawhost_learning::{Evaluation, LearnPlan, LearnReport, Outcome};
use clawhost_play::RunReport;
use clawhost_providers::Spending;
use clawhost_run_config::RunSpec;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The time and cost of an operation: the values that differ between equal runs.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it took.
    pub wall: Duration,
    /// The usage of all models, including usage before the run was resumed.
    pub spent: Spending,
    /// Whether prices are known, so that the cost is meaningful.
    pub is_priced: bool,
}

/// Episodes that were played.
#[derive(Debug)]
pub struct Played {
    /// The run.
    pub run: RunId,
    /// Whether it was interrupted before.
    pub is_resumed: bool,
    /// The specification, with the identities of everything that was loaded.
    pub spec: RunSpec,
    /// Its report.
    pub report: RunReport,
    /// The served playbook.
    pub playbook: Option<PlaybookVersion>,
    /// The database with the episodes.
    pub database: PathBuf,
    /// The fuel limit of a step of the environment.
    pub step_fuel: u64,
    /// Time and cost.
    pub timing: Timing,
}

/// A learning run.
#[derive(Debug)]
pub struct Learned {
    /// The run.
    pub run: RunId,
    /// Whether it was interrupted before.
    pub is_resumed: bool,
    /// The specification, with the identities of everything that was loaded.
    pub spec: RunSpec,
    /// Its report.
    pub report: LearnReport,
    /// The version of the playbook at the beginning of the run. `None`: it was empty, or the harness does not learn.
    pub playbook_before: Option<u64>,
    /// The learned weights. `None`: they do not learn.
    pub weights: Option<LearnedWeights>,
    /// What became of the router that learned. `None`: none did, or the run stopped early.
    pub router: Option<RouterUse>,
    /// Time and cost.
    pub timing: Timing,
}

/// Learned weights.
#[derive(Debug)]
pub struct LearnedWeights {
    /// Their initial digest.
    pub before: Digest,
    /// Their current digest.
    pub after: Digest,
    /// Whether only an adapter learned.
    pub is_adapter: bool,
    /// The run's own folder, with models, metrics and curves.
    pub out: PathBuf,
    /// The folder of the latest model. `None`: the run was cancelled before it learned anything.
    pub last: Option<PathBuf>,
    /// The folder of the best model on validation tasks, if there is one.
    pub best: Option<PathBuf>,
    /// The name of the model in the table of the router that the policy names. `None`: the model is the policy.
    pub routed_as: Option<String>,
    /// Episodes of the last iteration that were written as text.
    pub samples: Vec<Arc<Episode>>,
    /// Names of the existing files with metrics and texts.
    pub files: Vec<&'static str>,
}

/// The plan of a learning run, with upper bounds.
#[derive(Debug)]
pub struct Rehearsal {
    /// The specification, with the identities of everything that was loaded.
    pub spec: RunSpec,
    /// The plan of the loop.
    pub plan: LearnPlan,
    /// The digest of everything that can change a result.
    pub digest: Digest,
    /// Names of the rewards.
    pub judges: Vec<String>,
    /// The model that would learn. `None`: weights do not learn.
    pub model: Option<ModelSize>,
    /// Upper bounds of episodes.
    pub episodes: EpisodeBudget,
    /// The division of the harness's budget, if it has one.
    pub budget: Option<BudgetPlan>,
}

/// The size of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelSize {
    /// Its parameters.
    pub parameters: u64,
    /// Tokens of its context.
    pub context: usize,
}

/// Upper bounds for the episodes of a learning run, by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct EpisodeBudget {
    /// Training.
    #[serde(rename = "training_episodes")]
    pub training: u64,
    /// Refills: replacements of groups without reward variance.
    #[serde(rename = "refilled_episodes")]
    pub refilled: u64,
    /// Evolution of a section of the prompt.
    #[serde(rename = "evolution_episodes")]
    pub evolution: u64,
    /// The gate.
    #[serde(rename = "gate_episodes")]
    pub gate: u64,
    /// Sessions of the gate.
    pub gate_sessions: u64,
    /// Demonstrations and their evaluations.
    #[serde(rename = "demonstration_episodes")]
    pub demonstrations: u64,
    /// Validation.
    #[serde(rename = "validation_episodes")]
    pub validation: u64,
    /// The final test.
    #[serde(rename = "test_episodes")]
    pub test: u64,
}

impl EpisodeBudget {
    /// The sum of all.
    pub fn all(&self) -> u64 {
        let Self { training, refilled, evolution, gate, gate_sessions: _, demonstrations, validation, test } = *self;
        [training, refilled, evolution, gate, demonstrations, validation, test].into_iter().fold(0, u64::saturating_add)
    }
}

/// An evaluation of a playbook.
#[derive(Debug)]
pub struct Evaluated {
    /// The run.
    pub run: RunId,
    /// The specification, with the identities of everything that was loaded.
    pub spec: RunSpec,
    /// The version that it was compared with. `None`: no playbook.
    pub before: Option<PlaybookVersion>,
    /// The evaluated version.
    pub after: PlaybookVersion,
    /// The numbers.
    pub evaluation: Evaluation,
    /// The conclusion. Not measured if the evaluation was stopped.
    pub outcome: Outcome,
    /// How the episodes ended.
    pub report: RunReport,
    /// Time and cost.
    pub timing: Timing,
}
