//! The data types of clawhost (floor 0): ids, messages, episodes, verdicts, limits, digests, and the ports.
//!
//! All other crates use these types. A *port* is a trait for something the learning loop needs from outside
//! ([`Environment`], [`Reward`], [`Reflector`], [`Llm`], [`EpisodeStore`], [`Clock`]). Adapters on higher floors implement
//! it with wasmtime, SQLite or HTTP.
//!
//! Invariants: this crate uses no clock, file, socket, thread or tensor. A failure is a [`Failure`], never a number: nothing
//! here converts one into a reward of 0.

mod answer_text;
mod content;
mod counted;
mod digest;
mod discrepancy;
mod episode;
mod episode_origin;
mod failure;
mod hint;
mod ids;
mod limits;
mod message;
mod nearest;
mod plugin;
mod ports;
mod reads;
mod recorder;
mod revision;
mod rules;
mod run_labels;
mod safe_text;
mod secret;
mod seeds;
mod snapshot;
mod state_id;
mod task;
mod tokens;
mod verdict;

pub use answer_text::{ScriptError, answer_lines, read_script, script_turn};
pub use content::{content_digest, content_root, content_root_of_phases, recorded_root};
pub use counted::{counted, thousands};
pub use digest::{Digest, ParseDigestError, canonical_json};
pub use discrepancy::Discrepancy;
pub use episode::{
    Artefact, Branch, BranchWay, Drawn, EPISODE_FORMAT, Ending, Episode, JournalEntry, PlaybookRecord, PolicyRecord,
    REPLAYABLE_FORMAT, Retrieval, Signal, Turn, TurnTiming, UnappliedAction,
};
pub use episode_origin::{EpisodeOrigin, Live, LiveSession, Simulated, Withheld};
pub use failure::{CallBudget, Failure, FailureKind, TrapReport, code};
pub use hint::Hint;
pub use ids::{EpisodeId, RunId};
pub use limits::{CallLimits, FUEL_PER_BUSY_SECOND, Limits, TOOL_CALLS};
pub use message::{
    Attributes, Blob, Message, Origin, Part, REASONING, Role, ToolCall, ToolSpec, Usage, estimated_tokens,
};
pub use nearest::{did_you_mean, nearest};
pub use plugin::{About, GIVES, Grants, OptionSpec, PluginIdentity, UnknownOption, check_options};
pub use ports::*;
pub use reads::{READS, Read, Reads};
pub use recorder::{Closing, EpisodeHeader, EpisodeRecorder, Observed, RecorderError};
pub use revision::{
    Admission, CORRECTION, EpisodeState, Expectation, ExpectedVerdict, FEEDBACK_KEY_BYTES, FEEDBACK_TEXT_BYTES,
    Feedback, InvalidFeedback, NotAdmitted, REVISIONS, Revision, RewardRule, admit, history, revision, verdicts_at,
};
pub use rules::{Condition, Facts, Rule, conditions, rule};
pub use run_labels::{InvalidLabel, LABEL_CHARACTERS, RUN_ID_PREFIX, RUN_TAGS, RunLabels, RunName, RunTag};
pub use safe_text::{escaped, is_hidden, json_escaped};
pub use secret::{KeptSecret, KnownSecrets, SCRUBBED, SHORTEST_SCRUBBED, ScrubbedText, Secret, Secrets};
pub use seeds::derive_seed;
pub use snapshot::{HostState, LogState, Snapshot};
pub use state_id::{Sampling, StateConfig, StateId};
pub use task::{Context, Split, Task};
pub use tokens::{GrammarRecord, TokenRecord};
pub use verdict::{
    EXECUTION_CONFIDENCE, LaterVerdict, Question, RewardRecord, ScoreCard, Verdict, deciding, effective_reward,
    standing,
};
