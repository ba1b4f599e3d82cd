//! Ports: what the loop needs from the world.

use crate::{
    About, Artefact, Attributes, Context, Digest, Episode, EpisodeId, Failure, FailureKind, Grants, JournalEntry,
    Message, Origin, PluginIdentity, RewardRecord, Role, RunId, Signal, Snapshot, Split, StateId, Task, TokenRecord,
    ToolSpec, Usage, Verdict,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tells the time, in milliseconds since 1970, and measures it.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970. For records only: no decision reads it.
    fn now_ms(&self) -> u64;
    /// Microseconds since some fixed point; never goes back.
    fn monotonic_us(&self) -> u64;
}

/// Which model answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LlmIdentity {
    /// The kind of client, for example `openai` or `follower`.
    pub provider: String,
    /// The model's name.
    pub model: String,
    /// What else tells it apart: an address, a version, a digest of weights.
    pub version: String,
}

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Most tokens to write.
    pub max_tokens: u32,
    /// 0 to 2; none: the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// For models that take one.
    pub seed: Option<u64>,
    /// Texts that end the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// The assistant's message.
    pub message: Message,
    /// What it cost.
    pub usage: Usage,
    /// Why it stopped: `stop`, `length`, `tool_calls`, or the model's own word.
    pub finish: String,
    /// Its tokens, where the model is ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Box<TokenRecord>>,
}

/// Why a model gave no answer. No variant holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ModelError {
    /// The endpoint could not be reached, was too slow, or kept asking to wait.
    #[error("the model did not answer: {0}")]
    Unavailable(String),
    /// The endpoint refused the request.
    #[error("the model refused the request: {0}")]
    Refused(String),
    /// The conversation has outgrown what the model can read.
    #[error("the conversation is too long for the model: {0}")]
    TooLong(String),
    /// What came back could not be read.
    #[error("the model's answer could not be read: {0}")]
    Garbage(String),
    /// The run's budget is spent.
    #[error("the budget is spent: {0}")]
    Budget(String),
}

impl ModelError {
    /// As the failure of an episode.
    pub fn into_failure(self) -> Failure {
        let code = match &self {
            Self::Unavailable(_) => crate::code::UNAVAILABLE,
            Self::Refused(_) => crate::code::REFUSED,
            Self::TooLong(_) => crate::code::LENGTH,
            Self::Garbage(_) => crate::code::GARBAGE,
            Self::Budget(_) => crate::code::BUDGET,
        };
        Failure::new(FailureKind::Llm, code, self.to_string())
    }
}

/// A model that answers conversations.
#[async_trait]
pub trait Llm: Send + Sync {
    /// Which model this is.
    fn identity(&self) -> LlmIdentity;
    /// Asks once. Cancel-safe: dropping the future abandons the request.
    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError>;
}

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
    pub answers: Answers,
}

/// Where answers that cannot be recomputed come from.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Answers {
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

/// What a verdict depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardScope {
    /// On its episode alone.
    Each,
    /// On the whole group.
    Group,
}

/// Where a judgement comes from, the most reliable first: of several sources the first that has something to say decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardSource {
    /// A person said so.
    User,
    /// What was reached: the state of the world, a gold answer, tests that pass.
    #[default]
    Outcome,
    /// What was seen on the way: tool results, the form of answers.
    Execution,
    /// The opinion of a model.
    Judge,
}

impl RewardSource {
    /// All of them, the most reliable first.
    pub const ALL: [Self; 4] = [Self::User, Self::Outcome, Self::Execution, Self::Judge];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Outcome => "outcome",
            Self::Execution => "execution",
            Self::Judge => "judge",
        }
    }
}

/// What a reward is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RewardDescription {
    /// For people.
    pub about: About,
    /// Least value, -1 or more.
    pub minimum: f64,
    /// Greatest value, 1 or less.
    pub maximum: f64,
    /// Where its judgement comes from.
    pub source: RewardSource,
    /// What a verdict depends on.
    pub scope: RewardScope,
}

/// What came of asking a reward.
#[derive(Debug, Clone, PartialEq)]
pub struct Scoring {
    /// One verdict per episode, in order. A failure of the call fails every verdict.
    pub verdicts: Result<Vec<Verdict>, Failure>,
    /// What the reward logged.
    pub log: Vec<String>,
    /// Answers of models, kept so that the verdicts can be replayed.
    pub journal: Vec<JournalEntry>,
}

/// Judges recorded episodes.
#[async_trait]
pub trait Reward: Send + Sync {
    /// Which plugin this is.
    fn identity(&self) -> &PluginIdentity;
    /// What it is.
    fn description(&self) -> &RewardDescription;
    /// The model it may ask, where one was granted.
    fn judge(&self) -> Option<String>;
    /// What it is allowed beyond computing and logging.
    fn grants(&self) -> Grants {
        Grants::default()
    }
    /// Judges these episodes together, in an instance of its own.
    async fn score(&self, context: &Context, group: &[std::sync::Arc<Episode>]) -> Scoring;
    /// Judges them as it did before: what it asked a model then is answered from the journal.
    async fn score_again(
        &self,
        context: &Context,
        group: &[std::sync::Arc<Episode>],
        journal: std::sync::Arc<[JournalEntry]>,
    ) -> Scoring {
        // A reward that asked nobody needs no answers.
        let _ = journal;
        self.score(context, group).await
    }
}

/// One lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Chosen by the host; empty in a new entry.
    pub id: String,
    /// The lesson.
    pub text: String,
    /// For retrieval.
    pub tags: Vec<String>,
    /// Room to grow.
    pub extra: Attributes,
}

/// What is known so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Playbook {
    /// Content address of this version.
    pub version: String,
    /// Lessons in order.
    pub entries: Vec<Entry>,
    /// Named sections of free text.
    pub sections: Vec<(String, String)>,
}

/// Where a proposal comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The episode's id.
    pub episode: String,
    /// Turns that show it.
    pub turns: Vec<u32>,
}

/// What to change in a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A new entry.
    Add(Entry),
    /// Another text for an entry that exists.
    Update(Entry),
    /// Take an entry out, by id.
    Retire(String),
    /// Another text for a section: name and text.
    RewriteSection(String, String),
}

/// One suggestion of a reflector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// What to change.
    pub change: Change,
    /// Where it comes from.
    pub evidence: Vec<Evidence>,
    /// What should get better, for people.
    pub expected_effect: String,
}

/// Draws lessons from recorded episodes.
#[async_trait]
pub trait Reflector: Send + Sync {
    /// Which plugin this is.
    fn identity(&self) -> &PluginIdentity;
    /// What it is.
    fn about(&self) -> &About;
    /// What it is allowed beyond computing and logging.
    fn grants(&self) -> Grants {
        Grants::default()
    }
    /// Suggestions; data that still has to pass trial and gate.
    async fn reflect(
        &self,
        context: &Context,
        playbook: &Playbook,
        group: &[std::sync::Arc<Episode>],
    ) -> Result<Vec<Proposal>, Failure>;
}

/// One invocation that plays episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Unique in the data folder.
    pub id: RunId,
    /// The run that it is a phase of.
    pub parent: Option<RunId>,
    /// The configuration that acts.
    pub state_id: StateId,
    /// Everything asked for, for people and for resuming.
    pub config: serde_json::Value,
    /// Names all that decides what its episodes are: equal digests, equal episodes.
    pub digest: Digest,
    /// When it began: milliseconds since 1970.
    pub created_at: u64,
}

/// Why nothing could be stored or read. Variants say what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error(
        "{0}: no room left: the disk is full, or --store-limit is reached; make room and go on (a run: with --resume), what was recorded before is safe"
    )]
    Full(String),
    /// Another process holds the database.
    #[error("{0}: another process is writing to this database; wait for it, or use another --data folder")]
    Locked(String),
    /// The file is not a database, or a damaged one.
    #[error("{0}: not a usable database ({1}); move the file away, or use another --data folder")]
    Corrupt(String, String),
    /// One record cannot be read.
    #[error(
        "{0}: {1} is damaged ({2}); other records are not concerned, `clawhost replay --all` names every one that is"
    )]
    Damaged(String, String, String),
    /// It was written by a newer version.
    #[error(
        "{0}: written by a newer clawhost (schema {1}, this one knows {2}); use that version, or another --data folder"
    )]
    Newer(String, u32, u32),
    /// The file cannot be written.
    #[error("{0}: cannot be written; check the folder's permissions, or use another --data folder")]
    ReadOnly(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// An episode with what its instance wrote into its notes.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The episode.
    pub episode: std::sync::Arc<Episode>,
    /// kv writes; `None` deletes.
    pub notes: BTreeMap<String, Option<Vec<u8>>>,
    /// It takes the place of one at its position that was cut short. Else there must be none.
    pub again: bool,
}

/// What the models of a run cost, all of them together: the policy's, and those that plugins ask.
pub trait Meter: Send + Sync {
    /// Tokens so far.
    fn spent(&self) -> Usage;
}

/// A later verdict about a stored episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The episode's run.
    pub run: RunId,
    /// The episode.
    pub episode: EpisodeId,
    /// The verdict.
    pub record: RewardRecord,
}

/// Keeps runs and episodes.
#[async_trait]
pub trait EpisodeStore: Send + Sync {
    /// Begins a run.
    async fn begin_run(&self, run: &RunRecord) -> Result<(), StoreError>;
    /// Takes a run up again: it is unfinished once more.
    async fn resume_run(&self, run: &RunId) -> Result<(), StoreError>;
    /// Records episodes with their notes, and what the models of the run have cost so far; durable when this returns. All of
    /// it, or nothing.
    async fn append(&self, run: &RunId, episodes: Vec<Recorded>, spent: Usage) -> Result<(), StoreError>;
    /// Adds verdicts to stored episodes, all of them or none. One whose question was answered already is left out; one that
    /// takes the place of a failed verdict is counted as that was, and the episode's reward is worked out anew, whoever
    /// else has written meanwhile.
    async fn judge(&self, judged: Vec<Judged>) -> Result<(), StoreError>;
    /// Ends a run with its summary and what its models have cost. The notes of its episodes are merged in the order of the plan: the last writer wins,
    /// whoever ran first.
    async fn finish_run(&self, run: &RunId, summary: &serde_json::Value, spent: Usage) -> Result<(), StoreError>;
}
