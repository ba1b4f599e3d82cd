//! Records one episode event by event: open, request, answer, observation, close. The same record is made for a simulated
//! environment and for an agent behind a gateway.
//!
//! Pure: times and digests are part of the events. An event out of order is an error and changes nothing.

use crate::{
    Artefact, Attributes, Digest, EPISODE_FORMAT, Ending, Episode, EpisodeId, EpisodeOrigin, ExpectedVerdict,
    JournalEntry, Message, ModelResponse, Part, PolicyRecord, RunId, Signal, StateId, Task, ToolCall, ToolSpec, Turn,
    TurnTiming, UnappliedAction,
};

/// Data about an episode that is known before its first event.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeHeader {
    /// The run that it belongs to.
    pub run: RunId,
    /// Its id.
    pub id: EpisodeId,
    /// Its position in the run.
    pub index: u64,
    /// The task.
    pub task: Task,
    /// Digest of the task.
    pub task_hash: Digest,
    /// Origin.
    pub origin: EpisodeOrigin,
    /// Verdicts that it waits for.
    pub expects: Vec<ExpectedVerdict>,
    /// Identity of the configuration.
    pub state_id: StateId,
    /// The policy.
    pub policy: PolicyRecord,
}

/// The results of an action.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// One result per tool call of the action, in the order of the calls.
    pub tool_results: Vec<Message>,
    /// Other new messages.
    pub observation: Vec<Message>,
    /// Measurements.
    pub signals: Vec<Signal>,
    /// Produced files.
    pub artefacts: Vec<Artefact>,
    /// Fuel used by the environment's step, if known.
    pub fuel: Option<u64>,
    /// Rolling digest of the environment's host calls.
    pub host_calls: Digest,
    /// Duration of the step in microseconds.
    pub environment_us: u64,
}

impl Observed {
    /// New messages of an external agent: results of the last answer's calls, and other messages.
    pub fn messages(tool_results: Vec<Message>, observation: Vec<Message>) -> Self {
        Self {
            tool_results,
            observation,
            signals: Vec::new(),
            artefacts: Vec::new(),
            fuel: None,
            host_calls: Digest::of(b""),
            environment_us: 0,
        }
    }
}

/// Data about an episode that is known at its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Closing {
    /// Log lines of plugins.
    pub log: Vec<String>,
    /// Model answers to plugins.
    pub journal: Vec<JournalEntry>,
    /// Unix time of the end, in milliseconds.
    pub at: u64,
}

/// Why an event cannot be recorded. The record is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecorderError {
    /// A request is already open.
    #[error("the model is asked again before it has answered")]
    AskedTwice,
    /// The results of the last answer were not observed yet.
    #[error("the model is asked before anything followed its last answer")]
    NotObserved,
    /// There is no open request.
    #[error("an answer without a request")]
    NotAsked,
    /// There is no answer to observe results of.
    #[error("something is observed before the model has answered")]
    NotAnswered,
    /// The results do not match the calls.
    #[error("{results} tool results for {calls} tool calls: each call has one result, in the order of the calls")]
    Results {
        /// Number of calls.
        calls: usize,
        /// Number of results.
        results: usize,
    },
    /// The record would exceed its size limit.
    #[error("the episode is longer than the {limit} bytes that are recorded")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
}

/// A request without an answer yet.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    request: Digest,
}

/// An answer without results yet.
#[derive(Debug, Clone, PartialEq)]
struct Answered {
    request: Digest,
    response: ModelResponse,
    policy_us: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// Ready for a request.
    Ready,
    /// A request is open.
    Asked(Asked),
    /// An answer waits for its results.
    Answered(Box<Answered>),
}

/// Collects the events, so that everything up to the end is recorded, whatever ends the episode.
#[derive(Debug, Clone)]
pub struct EpisodeRecorder {
    phase: Phase,
    turns: Vec<Turn>,
    /// Messages that the model has not answered yet.
    pending: Vec<Message>,
    system_hint: Option<String>,
    tools: Vec<ToolSpec>,
    signals: Vec<Signal>,
    artefacts: Vec<Artefact>,
    bytes: usize,
    limit: usize,
}

impl EpisodeRecorder {
    /// Opens an episode with its first messages. `limit`: most bytes that messages, tools, signals and artefacts take in the record, which is
    /// a JSON document.
    pub fn open(observation: Vec<Message>, limit: usize) -> Self {
        let bytes = size(observation.iter(), &[], &[]);
        Self {
            phase: Phase::Ready,
            turns: Vec::new(),
            pending: observation,
            system_hint: None,
            tools: Vec::new(),
            signals: Vec::new(),
            artefacts: Vec::new(),
            bytes,
            limit,
        }
    }

    /// Sets the environment's system hint and its initial artefacts.
    pub fn introduced(mut self, system_hint: Option<String>, artefacts: Vec<Artefact>) -> Self {
        let hint = system_hint.as_deref().map_or(0, written);
        self.bytes = self.bytes.saturating_add(hint).saturating_add(size(std::iter::empty(), &[], &artefacts));
        (self.system_hint, self.artefacts) = (system_hint, artefacts);
        self
    }

    /// Sets the available tools.
    pub fn with_tools(mut self, tools: Vec<ToolSpec>) -> Self {
        let size = |tool: &ToolSpec| {
            OVERHEAD + written(&tool.description) + written(&tool.input_schema) + attributes(&tool.extra)
        };
        self.bytes = self.bytes.saturating_add(tools.iter().map(size).sum());
        self.tools = tools;
        self
    }

    /// Complete turns.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Messages that the model has not answered yet.
    pub fn pending(&self) -> &[Message] {
        &self.pending
    }

    /// Whether no request is open and no answer waits for its results.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// The complete turns only.
    pub fn into_turns(self) -> Vec<Turn> {
        self.turns
    }

    /// The tool calls of the answer whose results were not observed yet.
    pub fn open_calls(&self) -> &[ToolCall] {
        match &self.phase {
            Phase::Answered(answered) => &answered.response.message.tool_calls,
            Phase::Ready | Phase::Asked(_) => &[],
        }
    }

    /// Records a request. `request`: digest of the complete request.
    ///
    /// # Errors
    /// A request is already open, or the last answer's results were not observed.
    pub fn request(&mut self, request: Digest) -> Result<(), RecorderError> {
        match self.phase {
            Phase::Ready => {
                self.phase = Phase::Asked(Asked { request });
                Ok(())
            }
            Phase::Asked(_) => Err(RecorderError::AskedTwice),
            Phase::Answered(_) => Err(RecorderError::NotObserved),
        }
    }

    /// Withdraws the open request, so that the model can be called again.
    ///
    /// # Errors
    /// There is no open request.
    pub fn withdraw(&mut self) -> Result<(), RecorderError> {
        match self.phase {
            Phase::Asked(_) => {
                self.phase = Phase::Ready;
                Ok(())
            }
            Phase::Ready | Phase::Answered(_) => Err(RecorderError::NotAsked),
        }
    }

    /// Records the model's answer and its duration in microseconds.
    ///
    /// # Errors
    /// There is no open request.
    pub fn answer(&mut self, response: ModelResponse, policy_us: u64) -> Result<(), RecorderError> {
        let Phase::Asked(Asked { request }) = self.phase else { return Err(RecorderError::NotAsked) };
        self.phase = Phase::Answered(Box::new(Answered { request, response, policy_us }));
        Ok(())
    }

    /// Checks that the opening alone is not too long for the record.
    ///
    /// # Errors
    /// It is.
    pub fn check(&self) -> Result<(), RecorderError> {
        if self.bytes > self.limit { Err(RecorderError::TooLong { limit: self.limit }) } else { Ok(()) }
    }

    /// Records the results of the answer, which completes the turn.
    ///
    /// # Errors
    /// There is no answer, its calls and the results do not match, or the record would be too long. The answer then has no
    /// turn; closing the episode records it as such.
    pub fn observe(&mut self, observed: Observed) -> Result<(), RecorderError> {
        let Phase::Answered(answered) = &self.phase else { return Err(RecorderError::NotAnswered) };
        let (calls, results) = (answered.response.message.tool_calls.len(), observed.tool_results.len());
        if calls != results {
            return Err(RecorderError::Results { calls, results });
        }
        let ModelResponse { message, others, .. } = &answered.response;
        let others = others.iter().map(|other| &other.message);
        let said = observed.tool_results.iter().chain(&observed.observation).chain([message]).chain(others);
        let bytes = self.bytes.saturating_add(size(said, &observed.signals, &observed.artefacts));
        if bytes > self.limit {
            return Err(RecorderError::TooLong { limit: self.limit });
        }
        self.bytes = bytes;
        let phase = std::mem::replace(&mut self.phase, Phase::Ready);
        if let Phase::Answered(answered) = phase {
            self.complete(*answered, observed);
        }
        Ok(())
    }

    fn complete(&mut self, answered: Answered, observed: Observed) {
        let Answered { request, response, policy_us } = answered;
        let Observed { tool_results, observation, signals, artefacts, fuel, host_calls, environment_us } = observed;
        for signal in &signals {
            match self.signals.iter_mut().find(|known| known.name == signal.name) {
                Some(known) => known.value = signal.value,
                None => self.signals.push(signal.clone()),
            }
        }
        for artefact in artefacts {
            self.artefacts.retain(|known| known.name != artefact.name);
            self.artefacts.push(artefact);
        }
        self.turns.push(Turn {
            observation: std::mem::replace(&mut self.pending, observation),
            request,
            action: response.message,
            finish: response.finish,
            tool_results,
            signals,
            usage: response.usage,
            tokens: response.tokens,
            answered_by: response.answered_by,
            logprobs: response.logprobs,
            ignored: response.ignored,
            others: response.others,
            fuel,
            host_calls,
            extra: Vec::new(),
            timing: TurnTiming { policy_us, environment_us },
        });
    }

    /// Closes the episode. An open request is dropped. An answer without results is the last turn of an episode that could
    /// be completed, and the unapplied action of one that failed.
    pub fn close(mut self, header: EpisodeHeader, ending: Ending, closing: Closing) -> Episode {
        let mut untaken = None;
        match std::mem::replace(&mut self.phase, Phase::Ready) {
            Phase::Answered(answered) if ending.is_complete() => {
                let host_calls = self.turns.last().map_or_else(|| Digest::of(b""), |last| last.host_calls);
                self.complete(*answered, Observed { host_calls, ..Observed::messages(Vec::new(), Vec::new()) });
            }
            Phase::Answered(answered) => {
                let Answered { request, response: ModelResponse { message: action, usage, finish, .. }, .. } =
                    *answered;
                untaken = Some(UnappliedAction { request, action, finish, usage });
            }
            Phase::Ready | Phase::Asked(_) => {}
        }
        Episode {
            format: EPISODE_FORMAT,
            id: header.id,
            run: header.run,
            index: header.index,
            task: header.task,
            task_hash: header.task_hash,
            origin: header.origin,
            expects: header.expects,
            state_id: header.state_id,
            policy: header.policy,
            system_hint: self.system_hint,
            tools: self.tools,
            turns: self.turns,
            closing: self.pending,
            untaken,
            ending,
            signals: self.signals,
            artefacts: self.artefacts,
            verdicts: Vec::new(),
            reward: None,
            log: closing.log,
            journal: closing.journal,
            created_at: closing.at,
        }
    }
}

/// Bytes of a signal, a part, a tool or an artefact in the record besides its texts.
const OVERHEAD: usize = 64;

/// Bytes of a text in a JSON document, with its escapes.
fn written(text: &str) -> usize {
    let of = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(of).sum()
}

fn attributes(extra: &Attributes) -> usize {
    extra.iter().map(|(name, value)| OVERHEAD + written(name) + written(value)).sum()
}

fn message(message: &Message) -> usize {
    let part = |part: &Part| match part {
        Part::Text(text) | Part::Json(text) | Part::Other(text) => written(text),
        Part::Blob(blob) => blob.digest.len() + written(&blob.media_type),
    };
    let call = |call: &ToolCall| {
        OVERHEAD + written(&call.id) + written(&call.name) + written(&call.arguments) + attributes(&call.extra)
    };
    let parts: usize = message.parts.iter().map(|one| OVERHEAD + part(one)).sum();
    let calls: usize = message.tool_calls.iter().map(call).sum();
    OVERHEAD + parts + calls + attributes(&message.extra) + message.tool_call_id.as_deref().map_or(0, written)
}

/// Bytes that messages, signals and artefacts take in the record, at most: artefacts are written in Base64.
fn size<'a>(said: impl Iterator<Item = &'a Message>, signals: &[Signal], artefacts: &[Artefact]) -> usize {
    let said: usize = said.map(message).sum();
    let signals: usize = signals.iter().map(|signal| OVERHEAD + written(&signal.name)).sum();
    let artefact =
        |one: &Artefact| OVERHEAD + written(&one.name) + one.bytes.len().div_ceil(3) * 4 + attributes(&one.extra);
    said + signals + artefacts.iter().map(artefact).sum::<usize>()
}

#[cfg(test)]
mod tests;
