//! The ports of the data pool: trajectories of agents in groups, which trainers outside of this program fetch, train on and
//! acknowledge.

use crate::{EpisodeId, RunId, StoreError};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// What trajectories are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// To train on.
    #[default]
    Train,
    /// To measure a policy with.
    Val,
}

impl Channel {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Train, Self::Val];

    /// Name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
        }
    }
}

/// A trajectory to be registered. One that is known keeps its group; metadata and channel are replaced while it has no step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTrajectory {
    /// Name of the key of its client; empty without one.
    pub owner: String,
    /// Its id, unique for its owner.
    pub id: String,
    /// Its prompt group: trajectories of one task, which are compared with each other.
    pub group: String,
    /// What it is for. `None`: what it was for, or else to train on.
    pub channel: Option<Channel>,
    /// Further data of its client as a JSON object. `None`: as it was, or else empty.
    pub metadata: Option<String>,
    /// Unix time in milliseconds.
    pub at: u64,
}

/// A step of a trajectory: one call of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStep {
    /// Position in the trajectory. `None`: behind the last one. A step that is stored already stays as it is.
    pub position: Option<u64>,
    /// The oldest version of the policy that sampled one of its tokens, if it is known.
    pub policy_version: Option<u64>,
    /// Whether trainers get it.
    pub trainable: bool,
    /// The step as a JSON object. A store does not interpret it.
    pub document: String,
}

/// Steps of one trajectory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSteps {
    /// The trajectory.
    pub trajectory: NewTrajectory,
    /// Whether the trajectory is registered if it is not known.
    pub registers: bool,
    /// The steps.
    pub steps: Vec<NewStep>,
    /// Whether it is complete then, so that a batch may take it.
    pub completes: bool,
}

/// Where a captured exchange belongs in the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pooled {
    /// Name of the key of its client.
    pub owner: String,
    /// The trajectory.
    pub trajectory: String,
    /// Its group, where it is not registered.
    pub group: String,
    /// Version of the policy when the answer began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<u64>,
}

/// Progress of a trajectory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrajectoryState {
    /// Steps may follow.
    Open,
    /// It has ended, and no batch has taken it.
    Complete,
    /// A batch holds it.
    Leased,
    /// A trainer has acknowledged it.
    Consumed,
}

impl TrajectoryState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Open, Self::Complete, Self::Leased, Self::Consumed];

    /// Name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Complete => "complete",
            Self::Leased => "leased",
            Self::Consumed => "consumed",
        }
    }
}

/// What people and programs note about a trajectory. `None`: as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Curation {
    /// Whether trainers get it.
    pub trainable: Option<bool>,
    /// A word for its quality.
    pub quality: Option<String>,
    /// Tags, all of them.
    pub tags: Option<Vec<String>>,
    /// A note.
    pub note: Option<String>,
    /// Whether trainers get single steps, by position.
    pub steps: Vec<(u64, bool)>,
}

/// A trajectory in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrajectoryRow {
    /// Its number: trajectories are listed in the order of their registration.
    #[serde(skip)]
    pub number: u64,
    /// Name of the key of its client.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Its id.
    pub id: String,
    /// Its group.
    pub group: String,
    /// What it is for.
    pub channel: Channel,
    /// Progress.
    pub state: TrajectoryState,
    /// Its reward as its client gave it.
    pub reward: Option<f64>,
    /// Further data of its client.
    pub metadata: serde_json::Value,
    /// Its steps.
    #[serde(rename = "step_count")]
    pub steps: u64,
    /// The oldest version of the policy that sampled one of its tokens, if it is known.
    pub policy_version: Option<u64>,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Unix time of its last step or of its end in milliseconds.
    pub touched_at: u64,
    /// Whether trainers get it.
    pub trainable: bool,
    /// A word for its quality.
    pub quality: Option<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// A note.
    pub note: Option<String>,
    /// The batch that holds it or held it last.
    pub batch: Option<u64>,
    /// The episode that was captured of it.
    pub episode: Option<(RunId, EpisodeId)>,
}

/// A stored step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    /// Position in the trajectory.
    pub position: u64,
    /// Whether trainers get it.
    pub trainable: bool,
    /// The oldest version of the policy that sampled one of its tokens, if it is known.
    pub policy_version: Option<u64>,
    /// The step as a JSON object; `None`: it is in the captured episode.
    pub document: Option<String>,
}

/// A selection of trajectories: those for which everything that is set holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrajectoryFilter {
    /// Of this key; `None`: of all.
    pub owner: Option<String>,
    /// For this purpose.
    pub channel: Option<Channel>,
    /// Of this group.
    pub group: Option<String>,
    /// In this state.
    pub state: Option<TrajectoryState>,
    /// Only those that trainers get, or do not get.
    pub trainable: Option<bool>,
    /// With this word for their quality.
    pub quality: Option<String>,
    /// Behind the one with this number.
    pub after: Option<u64>,
    /// Most results.
    pub limit: u64,
}

/// What a trainer wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// Trajectories of this key; `None`: of all. Groups of two keys are two groups.
    pub owner: Option<String>,
    /// For this purpose.
    pub channel: Channel,
    /// Number of groups.
    pub groups: u64,
    /// Trajectories of a group.
    pub members: u64,
    /// Fewest trajectories of a group whose other ones are dead.
    pub least_members: u64,
    /// Milliseconds without a step after which an open trajectory is dead.
    pub dead_after_ms: u64,
    /// Most versions that a token may be behind the newest one. `None`: any.
    pub max_staleness: Option<u64>,
    /// Whether fewer groups are taken if no more are ready.
    pub partial: bool,
    /// Milliseconds after which the batch is free again unless it was acknowledged.
    pub lease_ms: u64,
    /// Unix time in milliseconds.
    pub now: u64,
}

/// A group of a batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PickedGroup {
    /// Name of the key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// The group.
    pub group: String,
    /// Whether it has fewer members than wanted, because the others are dead.
    pub short: bool,
    /// Its members.
    pub trajectories: Vec<TrajectoryRow>,
}

/// What a fetch found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picked {
    /// The batch and the Unix time in milliseconds until which it is held. `None`: nothing was taken.
    pub batch: Option<(u64, u64)>,
    /// The groups that are ready, the oldest first.
    pub groups: Vec<PickedGroup>,
    /// Version of the newest policy; 0: none was published.
    pub policy_version: u64,
    /// Complete trajectories of this channel that are too old.
    pub stale: u64,
    /// Groups that are ready, up to the number that was asked for.
    pub ready: u64,
}

/// How a batch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchChange {
    /// Its trajectories are consumed.
    Acknowledge,
    /// Its trajectories are free again.
    Release,
    /// It is held up to this Unix time in milliseconds.
    Extend(u64),
}

/// Progress of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchState {
    /// A trainer has it.
    Leased,
    /// It was acknowledged.
    Acknowledged,
    /// Its trainer gave it back.
    Released,
    /// Its time was over.
    Expired,
}

/// A batch in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BatchRow {
    /// Its number.
    #[serde(rename = "id")]
    pub number: u64,
    /// What its trajectories are for.
    pub channel: Channel,
    /// Progress.
    pub state: BatchState,
    /// Unix time in milliseconds until which it is held.
    pub until: u64,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Ids of its trajectories.
    pub trajectories: Vec<String>,
}

/// A change of the pool.
#[derive(Debug, Clone, PartialEq)]
pub enum PoolChange {
    /// Registers a trajectory.
    Register(NewTrajectory),
    /// Adds steps, all or none.
    Steps(Vec<NewSteps>),
    /// Ends a trajectory.
    Complete {
        /// Name of the key of its client.
        owner: String,
        /// The trajectory.
        id: String,
        /// Its reward.
        reward: Option<f64>,
        /// Unix time in milliseconds.
        at: u64,
    },
    /// Notes something about a trajectory.
    Curate {
        /// Name of the key of its client.
        owner: String,
        /// The trajectory.
        id: String,
        /// What is noted.
        curation: Curation,
    },
    /// Takes a batch.
    Fetch(FetchRequest),
    /// Ends or extends a batch.
    Batch {
        /// Of this key; `None`: of any.
        owner: Option<String>,
        /// Its number.
        number: u64,
        /// How.
        change: BatchChange,
        /// Unix time in milliseconds.
        now: u64,
    },
    /// Publishes a version of the policy.
    Publish {
        /// Greater than the one before.
        version: u64,
        /// Unix time in milliseconds.
        at: u64,
    },
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum PoolOutcome {
    /// The trajectories as they are now, in the order of the change.
    Trajectories(Vec<TrajectoryRow>),
    /// What a fetch found.
    Picked(Picked),
    /// The batch as it is now.
    Batch(BatchRow),
    /// The newest version of the policy.
    Policy(u64),
    /// Nothing was changed.
    Refused(PoolRefusal),
}

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolRefusal {
    /// There is no such trajectory.
    #[error("there is no trajectory `{0}`")]
    NoTrajectory(String),
    /// The trajectory has ended.
    #[error("the trajectory `{0}` has ended")]
    Ended(String),
    /// It belongs to another group.
    #[error("the trajectory `{id}` belongs to the group `{group}`")]
    OtherGroup {
        /// The trajectory.
        id: String,
        /// Its group.
        group: String,
    },
    /// It was ended with another reward.
    #[error("the trajectory `{0}` has ended with another reward")]
    OtherReward(String),
    /// There is another step at a position.
    #[error("the trajectory `{id}` has another step at position {position}")]
    OtherStep {
        /// The trajectory.
        id: String,
        /// The position.
        position: u64,
    },
    /// A step is missing before one.
    #[error("the trajectory `{id}` has {steps} steps, so a step at position {position} cannot follow")]
    Gap {
        /// The trajectory.
        id: String,
        /// Its steps.
        steps: u64,
        /// The position.
        position: u64,
    },
    /// It has too many steps.
    #[error("the trajectory `{id}` would have more than {most} steps")]
    TooManySteps {
        /// The trajectory.
        id: String,
        /// Most steps.
        most: u64,
    },
    /// Its steps are captured by the gateway.
    #[error("the steps of the trajectory `{0}` are captured from its conversation")]
    Captured(String),
    /// There is no such step.
    #[error("the trajectory `{id}` has no step {position}")]
    NoStep {
        /// The trajectory.
        id: String,
        /// The position.
        position: u64,
    },
    /// There is no such batch.
    #[error("there is no batch {0}")]
    NoBatch(u64),
    /// The batch is not held any more.
    #[error("the batch {number} is {state}")]
    BatchOver {
        /// The batch.
        number: u64,
        /// Its state.
        state: &'static str,
    },
    /// A version does not follow the newest one.
    #[error("the version {version} does not follow {newest}")]
    OldVersion {
        /// The version.
        version: u64,
        /// The newest one.
        newest: u64,
    },
}

/// Trajectories of a channel, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelCounts {
    /// The channel.
    pub channel: Channel,
    /// Trajectories by state.
    pub open: u64,
    /// Complete ones that no batch has taken.
    pub complete: u64,
    /// Those in batches.
    pub leased: u64,
    /// Acknowledged ones.
    pub consumed: u64,
    /// Those that trainers do not get.
    pub untrainable: u64,
    /// Groups.
    pub groups: u64,
    /// Steps.
    pub steps: u64,
}

/// Most steps of a trajectory: agents take some hundreds.
pub const TRAJECTORY_STEPS: u64 = 10_000;

/// Changes the pool.
#[async_trait]
pub trait PoolStore: Send + Sync {
    /// Makes a change in one transaction. Durable when this returns.
    ///
    /// # Errors
    /// The store cannot be written. Nothing was changed then.
    async fn change_pool(&self, change: PoolChange) -> Result<PoolOutcome, StoreError>;
}

/// Reads the pool.
pub trait PoolReader {
    /// Trajectories in the order of their registration.
    ///
    /// # Errors
    /// The store cannot be read; likewise for all methods below.
    fn trajectories(&self, filter: &TrajectoryFilter) -> Result<Vec<TrajectoryRow>, StoreError>;
    /// A trajectory of a key.
    fn trajectory(&self, owner: &str, id: &str) -> Result<Option<TrajectoryRow>, StoreError>;
    /// Steps of a trajectory, from a position on.
    fn steps(&self, trajectory: u64, from: u64, limit: u64) -> Result<Vec<StepRow>, StoreError>;
    /// What a fetch would find now.
    fn preview(&self, request: &FetchRequest) -> Result<Picked, StoreError>;
    /// Batches, newest first; of one key or of all.
    fn batches(&self, owner: Option<&str>, limit: u64) -> Result<Vec<BatchRow>, StoreError>;
    /// Counts by channel; of one key or of all.
    fn pool_counts(&self, owner: Option<&str>) -> Result<Vec<ChannelCounts>, StoreError>;
    /// The newest version of the policy; 0: none was published.
    fn policy_version(&self) -> Result<u64, StoreError>;
}
