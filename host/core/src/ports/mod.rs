//! Ports: the traits between the learning loop and the adapters, one file per subject.

mod clock;
mod embedding;
mod environment;
mod episode_store;
mod feedback;
mod forgetting;
mod learning_store;
mod leases;
mod ledger;
mod live;
mod llm;
mod memory;
mod model_request;
mod model_response;
mod pool;
mod reading;
mod reflector;
mod retention;
mod reward;
mod router;
mod routing;
mod runs;
mod store_error;
mod teacher;
mod token_model;
mod trials;

pub use clock::Clock;
pub use embedding::{Embedding, EmbeddingModel, InvalidEmbedding, MOST_DIMENSIONS};
pub use environment::{
    Environment, EnvironmentDescription, EpisodeRecords, LiveEpisode, ModelCallSource, Opening, StartParams, Status,
    StepResult,
};
pub use episode_store::{EpisodeStore, Judged, PluginStore, Recorded, RunKind, RunRecord, SpecDocument};
pub use feedback::{AnswerPlace, FeedbackKept, FeedbackReader, FeedbackStore, WaitingFeedback};
pub use forgetting::{Forgetting, ForgettingStore, Forgotten};
pub use learning_store::{Checkpoint, LargeState, LearningStore, PhaseState, PlaybookLedger, PlaybookVersion};
pub use leases::{Lease, LeaseMode, LeaseSubject, Leases};
pub use ledger::{LedgerFinding, LedgerHead, LedgerKey, LedgerReader, LedgerReport};
pub use live::{
    EpisodeProgress, ExchangeBatch, ExchangeOutcome, ExchangeRow, LiveReader, LiveStore, OpenEpisode, ResponseChange,
    ResponseRow, SpoolPlace,
};
pub use llm::{Llm, LlmIdentity, Meter, ModelError};
pub use memory::{MemoryReader, MemoryRow, MemoryStore};
pub use model_request::{ModelRequest, Partition, ResponseFormat, ToolChoice, UnknownFields};
pub use model_response::{
    AnsweringModel, DeltaSink, IgnoredRequest, ModelDelta, ModelResponse, OtherAnswer, TokenLogprob, ignored_by,
};
pub use pool::{
    BatchChange, BatchRow, BatchState, Channel, ChannelCounts, Curation, FetchRequest, NewStep, NewSteps,
    NewTrajectory, Picked, PickedGroup, PoolChange, PoolOutcome, PoolReader, PoolRefusal, PoolStore, Pooled, StepRow,
    TRAJECTORY_STEPS, TrajectoryFilter, TrajectoryRow, TrajectoryState,
};
pub use reading::{
    DamagedRecord, EpisodeFilter, EpisodeOrder, EpisodeReader, EpisodeRow, FailureFilter, Listed, PlaybookReader,
    PluginReader, RewardFilter, RunRow, RunState, StoreReader, StoredPlugin,
};
pub use reflector::{Change, Entry, Evidence, Playbook, Proposal, Reflector};
pub use retention::{Holdings, Removal, Removed, Retention, RunHoldings};
pub use reward::{Reward, RewardDescription, RewardScope, RewardSource, Scoring};
pub use router::{ModelRouter, PROPENSITY_ROUNDING, RouteCandidate, RouteChoice, RoutingPlugin};
pub use routing::{RoutedExchange, RoutedMarks, RoutedOutcome, RoutedSession, RoutingReader, RoutingStore};
pub use runs::{EpisodeTally, LabelChange, PhaseRow, Relabelled, RunFilter, RunLabelStore, RunReader};
pub use store_error::StoreError;
pub use teacher::{MOST_TAUGHT, TaughtToken, Teacher};
pub use token_model::{
    AlternativeToken, MOST_ALTERNATIVES, ScoredToken, ScoredTokens, TokenAnswer, TokenDelta, TokenFinish, TokenModel,
    TokenRequest, TokenSampling, TokenSink, TokenVersion,
};
pub use trials::{
    EnteredDraw, SessionDraw, StoredDraw, StoredTrials, TrialsChange, TrialsReader, TrialsStore, WaitingDraw,
};
