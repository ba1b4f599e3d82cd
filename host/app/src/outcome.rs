//! What operations return: typed, complete, and without words for people.

use clawhost_core::{Digest, Episode, PlaybookVersion, RunId};
use clawhost_learning::{Evaluation, LearnPlan, LearnReport, Outcome};
use clawhost_play::RunReport;
use clawhost_providers::Spending;
use clawhost_run_config::RunSpec;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// When it happened and what it cost: what differs between equal runs.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it took.
    pub wall: Duration,
    /// What all models have used, with what was paid before the run was resumed.
    pub spent: Spending,
    /// Whether prices are known, so that the cost means something.
    pub is_priced: bool,
}

/// Episodes that were played.
#[derive(Debug)]
pub struct Played {
    /// The run.
    pub run: RunId,
    /// Whether it was interrupted before.
    pub is_resumed: bool,
    /// What was played, with the identity of everything that was loaded.
    pub spec: RunSpec,
    /// What it came to.
    pub report: RunReport,
    /// The playbook that was served.
    pub playbook: Option<PlaybookVersion>,
    /// The database that holds the episodes.
    pub database: PathBuf,
    /// Instructions that a step of the environment may take.
    pub step_fuel: u64,
    /// When, and at what cost.
    pub timing: Timing,
}

/// A run that learned.
#[derive(Debug)]
pub struct Learned {
    /// The run.
    pub run: RunId,
    /// Whether it was interrupted before.
    pub is_resumed: bool,
    /// What was learned from, with the identity of everything that was loaded.
    pub spec: RunSpec,
    /// What it came to.
    pub report: LearnReport,
    /// The version of the playbook with which the harness began. None: it began empty, or does not learn.
    pub playbook_before: Option<u64>,
    /// What became of the weights. None: they do not learn.
    pub weights: Option<LearnedWeights>,
    /// When, and at what cost.
    pub timing: Timing,
}

/// What became of weights.
#[derive(Debug)]
pub struct LearnedWeights {
    /// Their digest before.
    pub before: Digest,
    /// Their digest now.
    pub after: Digest,
    /// Whether an adapter alone learned.
    pub is_adapter: bool,
    /// The run's own folder, with models, numbers and curves.
    pub out: PathBuf,
    /// The folder of the model that was learned last.
    pub last: PathBuf,
    /// The folder of the model that did best on validation tasks, where it is there.
    pub best: Option<PathBuf>,
    /// Episodes of the last iteration that were written down as text.
    pub samples: Vec<Arc<Episode>>,
    /// Files with numbers and texts that are there, by name.
    pub files: Vec<&'static str>,
}

/// What a learning run would do at most.
#[derive(Debug)]
pub struct Rehearsal {
    /// What would be learned from, with the identity of everything that was loaded.
    pub spec: RunSpec,
    /// The plan of the loop.
    pub plan: LearnPlan,
    /// The digest of everything that decides.
    pub digest: Digest,
    /// Names of the rewards that judge.
    pub judges: Vec<String>,
    /// The model that would learn. None: weights do not learn.
    pub model: Option<ModelSize>,
    /// Episodes at most.
    pub episodes: EpisodeBudget,
}

/// How large a model is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelSize {
    /// Its parameters.
    pub parameters: u64,
    /// Tokens of its context.
    pub context: usize,
}

/// Episodes that a learning run plays at most, by what they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct EpisodeBudget {
    /// To train.
    #[serde(rename = "training_episodes")]
    pub training: u64,
    /// In the place of groups without a signal.
    #[serde(rename = "refilled_episodes")]
    pub refilled: u64,
    /// To evolve a section of the prompt.
    #[serde(rename = "evolution_episodes")]
    pub evolution: u64,
    /// For the gate.
    #[serde(rename = "gate_episodes")]
    pub gate: u64,
    /// Sessions of the gate.
    pub gate_sessions: u64,
    /// Demonstrations and looks at what they taught.
    #[serde(rename = "demonstration_episodes")]
    pub demonstrations: u64,
    /// Looks at validation tasks.
    #[serde(rename = "validation_episodes")]
    pub validation: u64,
    /// The test at the end.
    #[serde(rename = "test_episodes")]
    pub test: u64,
}

impl EpisodeBudget {
    /// All of them.
    pub fn all(&self) -> u64 {
        let Self { training, refilled, evolution, gate, gate_sessions: _, demonstrations, validation, test } = *self;
        [training, refilled, evolution, gate, demonstrations, validation, test].into_iter().fold(0, u64::saturating_add)
    }
}

/// A playbook that was measured.
#[derive(Debug)]
pub struct Evaluated {
    /// The run.
    pub run: RunId,
    /// What was measured, with the identity of everything that was loaded.
    pub spec: RunSpec,
    /// The version it was compared with. None: no playbook.
    pub before: Option<PlaybookVersion>,
    /// The version that was measured.
    pub after: PlaybookVersion,
    /// The numbers.
    pub evaluation: Evaluation,
    /// What they say; not measured where it was stopped.
    pub outcome: Outcome,
    /// How the episodes went.
    pub report: RunReport,
    /// When, and at what cost.
    pub timing: Timing,
}
