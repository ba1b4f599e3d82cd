//! The environment port.

use crate::{
    About, Artefact, Context, Digest, Failure, FailureKind, Grants, JournalEntry, Message, Origin, PluginIdentity,
    Role, Signal, Snapshot, Split, Task, ToolSpec,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Description of an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentDescription {
    /// For people.
    pub about: About,
    /// Its splits.
    pub splits: Vec<Split>,
}

/// Parameters of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct StartParams {
    /// The task, without its reference.
    pub task: Task,
    /// Seed and options.
    pub context: Context,
    /// The episode is truncated after this many turns.
    pub max_turns: u32,
    /// Source of the model answers that the environment requests.
    pub answers: ModelCallSource,
}

/// Source of model answers for a plugin.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ModelCallSource {
    /// The models that the operator granted.
    #[default]
    Live,
    /// A journal, in order. Any other request fails with the code `journal`.
    Recorded {
        /// The recorded answers.
        journal: std::sync::Arc<[JournalEntry]>,
        /// The journal covers this many steps (0: the opening); later steps use the models.
        through: u32,
    },
}

/// The start of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// The first messages.
    pub observation: Vec<Message>,
    /// Tools on offer.
    pub tools: Vec<ToolSpec>,
    /// The environment's system prompt for a model.
    pub system_hint: Option<String>,
    /// Initial artefacts.
    pub artefacts: Vec<Artefact>,
}

impl Opening {
    /// An opening with only a text.
    pub fn text(text: impl Into<String>) -> Self {
        let observation = vec![Message::text(Role::User, Origin::Environment, text)];
        Self { observation, tools: Vec::new(), system_hint: None, artefacts: Vec::new() }
    }
}

impl StepResult {
    /// A result that terminates the episode, with this text.
    pub fn over(text: impl Into<String>) -> Self {
        let observation = vec![Message::text(Role::User, Origin::Environment, text)];
        Self { observation, status: Status::Terminated, signals: Vec::new(), artefacts: Vec::new() }
    }
}

impl EnvironmentDescription {
    /// A description from a name and splits (name and number of tasks).
    pub fn new(name: &str, splits: &[(&str, u64)]) -> Self {
        let split = |(name, tasks): &(&str, u64)| Split { name: (*name).to_owned(), tasks: *tasks };
        Self { about: About::named(name), splits: splits.iter().map(split).collect() }
    }
}

/// Status of an episode after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It continues.
    Running,
    /// The environment terminated it.
    Terminated,
    /// It was truncated, for a reason outside the task.
    Truncated(String),
}

/// The result of an action.
#[derive(Debug, Clone, PartialEq)]
pub struct StepResult {
    /// Messages for the policy.
    pub observation: Vec<Message>,
    /// Status of the episode.
    pub status: Status,
    /// Measurements.
    pub signals: Vec<Signal>,
    /// Produced files.
    pub artefacts: Vec<Artefact>,
}

/// A plugin or native environment that a policy acts in.
#[async_trait]
pub trait Environment: Send + Sync {
    /// Identity of the plugin.
    fn identity(&self) -> &PluginIdentity;
    /// Description.
    fn description(&self) -> &EnvironmentDescription;
    /// Tasks of a split, starting at `offset`; an empty list means the end.
    async fn tasks(&self, context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure>;
    /// Starts an episode in a new instance. May wait for a free slot, but never while holding one.
    async fn start(&self, params: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure>;
    /// Its grants.
    fn grants(&self) -> Grants {
        Grants::default()
    }
    /// Continues from a snapshot in a new instance. The params must equal those of the snapshot's episode.
    async fn restore(&self, params: StartParams, snapshot: &Snapshot) -> Result<Box<dyn LiveEpisode>, Failure> {
        let _ = (params, snapshot);
        Err(no_snapshots(self.identity()))
    }
}

fn no_snapshots(plugin: &PluginIdentity) -> Failure {
    Failure::new(FailureKind::Plugin, crate::code::PLUGIN_ERROR, format!("{} offers no snapshots", plugin.name))
}

/// One episode in progress. Dropped at its end; never used again after a failure.
#[async_trait]
pub trait LiveEpisode: Send {
    /// Performs an action. The message contains only valid tool calls; `tool_results` are the host's answers to the others.
    async fn step(&mut self, action: &Message, tool_results: &[Message]) -> Result<StepResult, Failure>;
    /// Takes a snapshot, if the environment supports it.
    async fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        Err(Failure::new(FailureKind::Plugin, crate::code::PLUGIN_ERROR, "it offers no snapshots".to_owned()))
    }
    /// Fuel used by the last call; `None` if unknown.
    fn last_fuel(&self) -> Option<u64> {
        None
    }
    /// Rolling digest of the host calls so far.
    fn host_calls(&self) -> Digest {
        Digest::of(b"")
    }
    /// Takes the log, the journal and the notes written so far.
    fn take_records(&mut self) -> EpisodeRecords {
        EpisodeRecords::default()
    }
}

/// Records of an instance besides its results.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpisodeRecords {
    /// Log lines.
    pub log: Vec<String>,
    /// Model answers to the plugin.
    pub journal: Vec<JournalEntry>,
    /// kv writes; `None` deletes.
    pub notes: BTreeMap<String, Option<Vec<u8>>>,
}
