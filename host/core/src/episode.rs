//! Episodes: what the host recorded.

use crate::{
    AnsweringModel, Attributes, Digest, EpisodeId, EpisodeOrigin, ExpectedVerdict, Failure, IgnoredRequest,
    LlmIdentity, Message, RewardRecord, RunId, Sampling, Simulated, StateId, Task, TokenLogprob, TokenRecord, ToolSpec,
    Usage,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the episode's JSON form. Raised when a reader of the old form would misread the new one; added fields
/// with defaults do not raise it.
pub const EPISODE_FORMAT: u32 = 2;

/// The first format that holds all that a replay needs: grants and sampling.
pub const REPLAYABLE_FORMAT: u32 = 2;

/// A number somebody observed; never a reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// What was observed.
    pub name: String,
    /// The value; finite.
    pub value: f64,
}

/// Bytes an episode left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artefact {
    /// For example `board.txt`.
    pub name: String,
    /// For example `text/plain`.
    pub media_type: String,
    /// The content; in JSON as base64.
    #[serde(with = "base64_text")]
    pub bytes: Vec<u8>,
    /// Room to grow.
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
    /// The environment said that it is over.
    Terminated,
    /// It was cut short; the text says why.
    Truncated(String),
    /// It could not be completed. Never a reward of 0.
    Failed(Failure),
}

impl Ending {
    /// Whether rewards are asked about it.
    pub fn is_complete(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    /// For counting: `terminated`, `truncated`, or `failed` with kind and code.
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

/// How long a turn took, in microseconds. Never part of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnTiming {
    /// The model's part.
    pub policy_us: u64,
    /// The environment's part.
    pub environment_us: u64,
}

/// One exchange: what the policy saw, what it did, what was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// New messages since the turn before, without tool results.
    pub observation: Vec<Message>,
    /// Digest of the whole request that the model was sent.
    pub request: Digest,
    /// The policy's message.
    pub action: Message,
    /// Why the model stopped: `stop`, `length`, `tool_calls`, or its own word.
    pub finish: String,
    /// One answer to each tool call of the action, in the order of the calls; those of origin `host` were given by the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_results: Vec<Message>,
    /// The environment's signals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// What the model call cost.
    pub usage: Usage,
    /// The answer's tokens, where the model is ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Box<TokenRecord>>,
    /// Who answered, where the endpoint says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<AnsweringModel>,
    /// Log-probabilities of the answer's tokens, as an endpoint reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
    /// What the endpoint ignored of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<IgnoredRequest>,
    /// Fuel the environment's step used; unknown after a cancelled call.
    pub fuel: Option<u64>,
    /// Rolling digest of the environment's calls to the host up to the end of this turn.
    pub host_calls: Digest,
    /// Room to grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
    /// How long it took.
    #[serde(default)]
    pub timing: TurnTiming,
}

/// An answer that led to no turn: the step that should have taken it failed. Whoever looks for the cause needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnappliedAction {
    /// Digest of the whole request that the model was sent.
    pub request: Digest,
    /// The policy's message.
    pub action: Message,
    /// Why the model stopped.
    pub finish: String,
    /// What the model call cost.
    pub usage: Usage,
}

/// An entry for which a draw decided whether it was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// The entry's id.
    pub entry: String,
    /// What the draw decided.
    pub shown: bool,
}

/// What a playbook told the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaybookRecord {
    /// Names all that decides what is told to whom: texts, order, rendering, retrieval. Part of the state id.
    pub digest: Digest,
    /// What was told; the system prompt ends with it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The entries in it, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
    /// Entries that were relevant, fitted, and were drawn for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawn: Vec<Drawn>,
    /// The probability with which a drawn entry is shown.
    #[serde(default)]
    pub propensity: f64,
}

/// Who acted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyRecord {
    /// The model.
    pub model: LlmIdentity,
    /// Seed of its sampling in this episode.
    pub seed: u64,
    /// What it was told first: the operator's words, or the environment's own where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// How its answers were drawn.
    #[serde(default)]
    pub sampling: Sampling,
    /// What a playbook added to the system prompt, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub playbook: Option<PlaybookRecord>,
}

/// How an episode came to share its first turns with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchWay {
    /// Its instance took the shared turns again.
    Replay,
    /// Its instance was restored from a snapshot.
    Snapshot,
}

/// The shared beginning of an episode that branched off in its middle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// So many turns are shared with the other episodes of the group.
    pub at: u32,
    /// Seed of the policy's sampling in the shared turns.
    pub seed: u64,
    /// How the state was reached.
    pub way: BranchWay,
    /// Whether the shared turns stand in this episode's account: they were paid for once.
    pub pays: bool,
    /// Why it is not restored from a snapshot, where its environment offers them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An answer that cannot be recomputed, kept so that the episode can be replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Steps the environment had been asked to take; 0 during the opening, and for rewards.
    pub turn: u32,
    /// Which import: `llm`.
    pub import: String,
    /// What was asked.
    pub request: serde_json::Value,
    /// What was answered.
    pub response: serde_json::Value,
}

impl JournalEntry {
    /// A model's answer, where this is one.
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

/// One episode, in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// [`EPISODE_FORMAT`] of the writer.
    pub format: u32,
    /// Unique inside the run.
    pub id: EpisodeId,
    /// The run.
    pub run: RunId,
    /// Position in the run, from 0.
    pub index: u64,
    /// What was to be done, reference included. Of a live episode: its first words, in the split `live`.
    pub task: Task,
    /// Digest of the task.
    pub task_hash: Digest,
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: EpisodeOrigin,
    /// Verdicts that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expects: Vec<ExpectedVerdict>,
    /// The configuration that acted.
    pub state_id: StateId,
    /// Who acted.
    pub policy: PolicyRecord,
    /// How the environment would introduce itself, if nobody else said anything first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_hint: Option<String>,
    /// Tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// What happened.
    pub turns: Vec<Turn>,
    /// The environment's messages after the last action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closing: Vec<Message>,
    /// The answer that a failing step was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untaken: Option<UnappliedAction>,
    /// How it ended.
    pub ending: Ending,
    /// The last value of every signal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// What it left behind; of equal names the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artefacts: Vec<Artefact>,
    /// What rewards said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<RewardRecord>,
    /// The reward that learning sees; none when not scored.
    pub reward: Option<f64>,
    /// What plugins logged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Answers that cannot be recomputed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journal: Vec<JournalEntry>,
    /// When it ended: milliseconds since 1970.
    pub created_at: u64,
}

impl Episode {
    /// What it depends on, where it was simulated.
    pub fn simulated(&self) -> Option<&Simulated> {
        self.origin.simulated()
    }

    /// The group that it is compared in. A live episode is alone in its own.
    pub fn group(&self) -> u64 {
        self.simulated().map_or(self.index, |simulated| simulated.group)
    }

    /// Seeds what is derived from it: see [`EpisodeOrigin::seed`].
    pub fn seed(&self) -> u64 {
        self.origin.seed()
    }

    /// Where it branched off, if it did.
    pub fn branch(&self) -> Option<&Branch> {
        self.simulated().and_then(|simulated| simulated.branch.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A golden file reads, and writes back as it stands.
    fn check(golden: &str) -> Episode {
        let value: serde_json::Value = serde_json::from_str(golden).unwrap();
        let episode: Episode = serde_json::from_str(golden).unwrap();
        assert_eq!(serde_json::to_value(&episode).unwrap(), value);
        episode
    }

    #[test]
    fn episodes_of_this_format_read_and_write_as_they_stand() {
        let whole = check(include_str!("../../../tests/golden/episode-2.json"));
        assert_eq!(whole.reward, Some(1.0));
        let failed = check(include_str!("../../../tests/golden/episode-2-failed.json"));
        assert!(!failed.ending.is_complete());
        assert_eq!(failed.reward, None, "a failure has no number");
    }

    #[test]
    fn episodes_of_format_1_are_still_read() {
        let episode: Episode = serde_json::from_str(include_str!("../../../tests/golden/episode-1.json")).unwrap();
        assert!(episode.format < REPLAYABLE_FORMAT, "it lacks what a replay needs");
        assert_eq!(episode.reward, Some(1.0));
    }

    #[test]
    fn a_newer_writer_with_more_fields_is_still_read() {
        let mut value: serde_json::Value =
            serde_json::from_str(include_str!("../../../tests/golden/episode-2.json")).unwrap();
        value["a_field_of_tomorrow"] = serde_json::json!([1, 2]);
        assert!(serde_json::from_value::<Episode>(value).is_ok());
    }
}
