//! Episodes: the record of one task attempt.

use crate::{
    AnsweringModel, Attributes, Digest, EpisodeId, EpisodeOrigin, ExpectedVerdict, Failure, IgnoredRequest,
    LlmIdentity, Message, OtherAnswer, RewardRecord, RunId, Sampling, Simulated, StateId, Task, TokenLogprob,
    TokenRecord, ToolSpec, Usage,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the episode's JSON form. Increased when a reader of the old form would misread the new one. Added fields with
/// defaults do not increase it.
pub const EPISODE_FORMAT: u32 = 2;

/// The first format that contains everything a replay needs: grants and sampling.
pub const REPLAYABLE_FORMAT: u32 = 2;

/// A named measurement; never a reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Name of the measurement.
    pub name: String,
    /// The value; finite.
    pub value: f64,
}

/// A file that an episode produced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artefact {
    /// Name, for example `board.txt`.
    pub name: String,
    /// Media type, for example `text/plain`.
    pub media_type: String,
    /// The content; base64 in JSON.
    #[serde(with = "base64_text")]
    pub bytes: Vec<u8>,
    /// Extension fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// How an episode ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The environment terminated it.
    Terminated,
    /// It was truncated, for the reason in the text.
    Truncated(String),
    /// It could not be completed. Different from a reward of 0.
    Failed(Failure),
}

impl Ending {
    /// Whether rewards can score it.
    pub fn is_complete(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    /// For statistics: `terminated`, `truncated`, or `failed` with kind and code.
    pub fn label(&self) -> String {
        match self {
            Self::Terminated => "terminated".to_owned(),
            Self::Truncated(_) => "truncated".to_owned(),
            Self::Failed(failure) => format!("failed: {}", failure.label()),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminated => f.write_str("terminated"),
            Self::Truncated(why) => write!(f, "truncated: {why}"),
            Self::Failed(failure) => write!(f, "failed: {failure}"),
        }
    }
}

/// Durations of a turn in microseconds. Never compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnTiming {
    /// Time of the model call.
    pub policy_us: u64,
    /// Time of the environment's step.
    pub environment_us: u64,
}

/// One turn: an observation, an action, and its results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// New messages since the previous turn, without tool results.
    pub observation: Vec<Message>,
    /// Digest of the complete model request.
    pub request: Digest,
    /// The policy's message.
    pub action: Message,
    /// Finish reason: `stop`, `length`, `tool_calls`, or an endpoint's own term.
    pub finish: String,
    /// One result per tool call of the action, in the order of the calls. Those with origin `host` were produced by the
    /// host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_results: Vec<Message>,
    /// Measurements of the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// Tokens used by the model call.
    pub usage: Usage,
    /// Tokens of the answer, if a local model sampled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Box<TokenRecord>>,
    /// The model that answered, if the endpoint reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<AnsweringModel>,
    /// Log-probs of the answer's tokens, if the endpoint reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
    /// Parts of the request that the endpoint ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<IgnoredRequest>,
    /// Further answers to the same request, which went nowhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherAnswer>,
    /// Fuel used by the environment's step; unknown after a cancelled call.
    pub fuel: Option<u64>,
    /// Rolling digest of the environment's host calls up to the end of this turn.
    pub host_calls: Digest,
    /// Extension fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
    /// Durations.
    #[serde(default)]
    pub timing: TurnTiming,
}

/// An answer that led to no turn because the environment's step failed. Recorded for diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnappliedAction {
    /// Digest of the complete model request.
    pub request: Digest,
    /// The policy's message.
    pub action: Message,
    /// Finish reason.
    pub finish: String,
    /// Tokens used by the model call.
    pub usage: Usage,
}

/// An entry that was shown at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drawn {
    /// The entry's id.
    pub entry: String,
    /// Whether it was shown.
    pub shown: bool,
    /// Probability that it is shown, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propensity: Option<f64>,
}

/// How entries were found that conditions did not decide about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retrieval {
    /// By words alone, although there is an embedding model: it did not answer in time.
    Words,
    /// By words and by the vectors of an embedding model.
    Embeddings,
}

/// The playbook part of a policy's prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaybookRecord {
    /// Digest of everything that determines the selection: texts, order, rendering, retrieval. Part of the state id.
    pub digest: Digest,
    /// The text; the system prompt ends with it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Ids of the entries in the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
    /// Eligible entries that were randomised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawn: Vec<Drawn>,
    /// How entries were found. `None`: by words, and there is no embedding model, or nothing that it could find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<Retrieval>,
    /// Probability that a randomised entry is shown that has none of its own.
    #[serde(default)]
    pub propensity: f64,
}

/// The policy of an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyRecord {
    /// The model.
    pub model: LlmIdentity,
    /// Seed of its sampling in this episode.
    pub seed: u64,
    /// The system prompt: the operator's, or the environment's hint if the operator gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Sampling parameters.
    #[serde(default)]
    pub sampling: Sampling,
    /// The playbook part of the system prompt, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playbook: Option<PlaybookRecord>,
}

/// How an episode reached the shared state of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchWay {
    /// Its instance replayed the shared turns.
    Replay,
    /// Its instance was restored from a snapshot.
    Snapshot,
}

/// The shared part of an episode that branched off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Number of turns shared with the other episodes of the group.
    pub at: u32,
    /// Seed of the policy's sampling in the shared turns.
    pub seed: u64,
    /// How the shared state was reached.
    pub way: BranchWay,
    /// Whether this episode accounts for the cost of the shared turns, which were paid for once.
    pub pays: bool,
    /// Why it was not restored from a snapshot, if its environment supports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A model answer to a plugin. It cannot be recomputed, so it is recorded for replays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Number of the step during which it happened; 0 during the opening, and for rewards.
    pub turn: u32,
    /// The import: `llm`.
    pub import: String,
    /// The request.
    pub request: serde_json::Value,
    /// The response.
    pub response: serde_json::Value,
}

impl JournalEntry {
    /// The entry as a model's answer; `None` if it is something else.
    pub fn answer(&self) -> Option<Result<crate::ModelResponse, crate::ModelError>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Answer {
            Ok(Box<crate::ModelResponse>),
            Error(crate::ModelError),
        }
        let answer = if self.import == "llm" { Answer::deserialize(&self.response).ok()? } else { return None };
        Some(match answer {
            Answer::Ok(response) => Ok(*response),
            Answer::Error(error) => Err(error),
        })
    }
}

/// The complete record of an episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// [`EPISODE_FORMAT`] of the writer.
    pub format: u32,
    /// Id, unique in the run.
    pub id: EpisodeId,
    /// Id of the run.
    pub run: RunId,
    /// Position in the run, from 0.
    pub index: u64,
    /// The task, including its reference. For a live episode its first user message, in the split `live`.
    pub task: Task,
    /// Digest of the task.
    pub task_hash: Digest,
    /// Origin.
    #[serde(flatten)]
    pub origin: EpisodeOrigin,
    /// Verdicts that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expects: Vec<ExpectedVerdict>,
    /// Identity of the configuration that played.
    pub state_id: StateId,
    /// The policy.
    pub policy: PolicyRecord,
    /// The environment's system prompt, which is used if the operator gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_hint: Option<String>,
    /// Available tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// The turns.
    pub turns: Vec<Turn>,
    /// Messages of the environment after the last action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closing: Vec<Message>,
    /// The answer whose step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untaken: Option<UnappliedAction>,
    /// The ending.
    pub ending: Ending,
    /// The last value of every signal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// Files that it produced; for equal names the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artefacts: Vec<Artefact>,
    /// Verdicts of rewards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<RewardRecord>,
    /// The effective reward; `None` if it is not scored.
    pub reward: Option<f64>,
    /// Log lines of plugins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Model answers to plugins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journal: Vec<JournalEntry>,
    /// Unix time of its end, in milliseconds.
    pub created_at: u64,
}

impl Episode {
    /// What it depends on, if it was simulated.
    pub fn simulated(&self) -> Option<&Simulated> {
        self.origin.simulated()
    }

    /// The group whose members are compared. A live episode is alone in its group.
    pub fn group(&self) -> u64 {
        self.simulated().map_or(self.index, |simulated| simulated.group)
    }

    /// Seed for everything derived from it: see [`EpisodeOrigin::seed`].
    pub fn seed(&self) -> u64 {
        self.origin.seed()
    }

    /// The branch, if it branched off.
    pub fn branch(&self) -> Option<&Branch> {
        self.simulated().and_then(|simulated| simulated.branch.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A golden file must parse and serialise unchanged.
    fn check(golden: &str) -> Episode {
        let value: serde_json::Value = serde_json::from_str(golden).unwrap();
        let episode: Episode = serde_json::from_str(golden).unwrap();
        assert_eq!(serde_json::to_value(&episode).unwrap(), value);
        episode
    }

    #[test]
    fn episodes_of_this_format_round_trip() {
        let whole = check(include_str!("../../../tests/golden/episode-2.json"));
        assert_eq!(whole.reward, Some(1.0));
        let failed = check(include_str!("../../../tests/golden/episode-2-failed.json"));
        assert!(!failed.ending.is_complete());
        assert_eq!(failed.reward, None, "a failure has no reward");
    }

    #[test]
    fn episodes_of_format_1_still_parse() {
        let episode: Episode = serde_json::from_str(include_str!("../../../tests/golden/episode-1.json")).unwrap();
        assert!(episode.format < REPLAYABLE_FORMAT, "it lacks what a replay needs");
        assert_eq!(episode.reward, Some(1.0));
    }

    #[test]
    fn unknown_fields_of_newer_writers_are_ignored() {
        let mut value: serde_json::Value =
            serde_json::from_str(include_str!("../../../tests/golden/episode-2.json")).unwrap();
        value["a_field_of_tomorrow"] = serde_json::json!([1, 2]);
        assert!(serde_json::from_value::<Episode>(value).is_ok());
    }
}
