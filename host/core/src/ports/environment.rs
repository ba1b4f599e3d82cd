//! Environments: where a policy acts.

use crate::{
    About, Artefact, Context, Digest, Failure, FailureKind, Grants, JournalEntry, Message, Origin, PluginIdentity,
    Role, Signal, Snapshot, Split, Task, ToolSpec,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an environment is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentDescription {
    /// For people.
    pub about: About,
    /// Its sets of tasks.
    pub splits: Vec<Split>,
}

/// How an episode begins.
#[derive(Debug, Clone, PartialEq)]
pub struct StartParams {
    /// What is to be done; the reference is taken out before the environment sees it.
    pub task: Task,
    /// Seed and options.
    pub context: Context,
    /// The host stops after so many turns.
    pub max_turns: u32,
    /// Where the answers of models come from that the environment asks.
    pub answers: ModelCallSource,
}

/// Where answers that cannot be recomputed come from.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ModelCallSource {
    /// From the models that the operator granted.
    #[default]
    Live,
    /// From a journal, in its order. Asking for anything else fails with the code `journal`.
    Recorded {
        /// What was answered.
        journal: std::sync::Arc<[JournalEntry]>,
        /// It covers so many steps (0: the opening); later ones ask the models.
        through: u32,
    },
}

/// What the policy sees first.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// The first messages.
    pub observation: Vec<Message>,
    /// Tools on offer.
    pub tools: Vec<ToolSpec>,
    /// How the environment would introduce itself to a model.
    pub system_hint: Option<String>,
    /// What is there before anybody acts.
    pub artefacts: Vec<Artefact>,
}

impl Opening {
    /// A text, and nothing else.
    pub fn text(text: impl Into<String>) -> Self {
        let observation = vec![Message::text(Role::User, Origin::Environment, text)];
        Self { observation, tools: Vec::new(), system_hint: None, artefacts: Vec::new() }
    }
}

impl StepResult {
    /// It is over, with this text.
    pub fn over(text: impl Into<String>) -> Self {
        let observation = vec![Message::text(Role::User, Origin::Environment, text)];
        Self { observation, status: Status::Terminated, signals: Vec::new(), artefacts: Vec::new() }
    }
}

impl EnvironmentDescription {
    /// An environment of this name with these splits: names, and how many tasks each has.
    pub fn new(name: &str, splits: &[(&str, u64)]) -> Self {
        let split = |(name, tasks): &(&str, u64)| Split { name: (*name).to_owned(), tasks: *tasks };
        Self { about: About::named(name), splits: splits.iter().map(split).collect() }
    }
}

/// Whether an episode goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It goes on.
    Running,
    /// It is over.
    Terminated,
    /// It stops here for a reason outside the task.
    Truncated(String),
}

/// What came of an action.
#[derive(Debug, Clone, PartialEq)]
pub struct StepResult {
    /// What the policy sees next.
    pub observation: Vec<Message>,
    /// Whether it goes on.
    pub status: Status,
    /// What was measured.
    pub signals: Vec<Signal>,
    /// What was left behind.
    pub artefacts: Vec<Artefact>,
}

/// Where a policy acts.
#[async_trait]
pub trait Environment: Send + Sync {
    /// Which plugin this is.
    fn identity(&self) -> &PluginIdentity;
    /// What it is.
    fn description(&self) -> &EnvironmentDescription;
    /// Tasks of a split, from `offset` on; none means the end.
    async fn tasks(&self, context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure>;
    /// Begins an episode in an instance of its own. May wait for a free place; never while holding one.
    async fn start(&self, params: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure>;
    /// What it is allowed beyond computing and logging.
    fn grants(&self) -> Grants {
        Grants::default()
    }
    /// Goes on from a snapshot, in an instance of its own. Same params as the start that it came from.
    async fn restore(&self, params: StartParams, snapshot: &Snapshot) -> Result<Box<dyn LiveEpisode>, Failure> {
        let _ = (params, snapshot);
        Err(no_snapshots(self.identity()))
    }
}

fn no_snapshots(plugin: &PluginIdentity) -> Failure {
    Failure::new(FailureKind::Plugin, crate::code::PLUGIN_ERROR, format!("{} offers no snapshots", plugin.name))
}

/// One episode in progress. Dropped when it is over; never used again after a failure.
#[async_trait]
pub trait LiveEpisode: Send {
    /// Acts: the message holds only tool calls that can be run, `tool_results` what the host answered to the others.
    async fn step(&mut self, action: &Message, tool_results: &[Message]) -> Result<StepResult, Failure>;
    /// The whole state, where the environment offers it.
    async fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        Err(Failure::new(FailureKind::Plugin, crate::code::PLUGIN_ERROR, "it offers no snapshots".to_owned()))
    }
    /// Fuel the last call used; unknown after a cancelled one, and for what burns none.
    fn last_fuel(&self) -> Option<u64> {
        None
    }
    /// Rolling digest of the calls made to the host so far.
    fn host_calls(&self) -> Digest {
        Digest::of(b"")
    }
    /// What was logged, answers that cannot be recomputed, and notes written; empties them.
    fn take_records(&mut self) -> EpisodeRecords {
        EpisodeRecords::default()
    }
}

/// What an instance leaves beside its answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpisodeRecords {
    /// Log lines.
    pub log: Vec<String>,
    /// Answers that cannot be recomputed.
    pub journal: Vec<JournalEntry>,
    /// kv writes; `None` deletes.
    pub notes: BTreeMap<String, Option<Vec<u8>>>,
}
