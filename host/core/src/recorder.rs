//! Records one episode, event by event: it is opened, the model is asked and answers, what follows is observed, it is closed.
//! The record has the same form for an environment that is played and for an agent behind a gateway.
//!
//! Pure: times and digests come with the events. An event out of order is a named error and changes nothing.

use crate::{
    Artefact, Digest, EPISODE_FORMAT, Ending, Episode, EpisodeId, EpisodeOrigin, ExpectedVerdict, JournalEntry,
    Message, ModelResponse, PolicyRecord, RunId, Signal, StateId, Task, ToolCall, ToolSpec, Turn, TurnTiming,
    UnappliedAction,
};

/// What is known of an episode before its first event.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeHeader {
    /// The run that it belongs to.
    pub run: RunId,
    /// Its id.
    pub id: EpisodeId,
    /// Its position in the run.
    pub index: u64,
    /// What is to be done.
    pub task: Task,
    /// Digest of the task.
    pub task_hash: Digest,
    /// Where it comes from.
    pub origin: EpisodeOrigin,
    /// Verdicts that it waits for.
    pub expects: Vec<ExpectedVerdict>,
    /// The configuration that acts.
    pub state_id: StateId,
    /// Who acts.
    pub policy: PolicyRecord,
}

/// What follows an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// One answer to each tool call of the action, in the order of the calls.
    pub tool_results: Vec<Message>,
    /// Other new messages.
    pub observation: Vec<Message>,
    /// What was measured.
    pub signals: Vec<Signal>,
    /// What was left behind.
    pub artefacts: Vec<Artefact>,
    /// Fuel that the environment's step used, where it is known.
    pub fuel: Option<u64>,
    /// Rolling digest of the environment's calls to the host.
    pub host_calls: Digest,
    /// How long it took, in microseconds.
    pub environment_us: u64,
}

impl Observed {
    /// New messages of an agent that runs elsewhere: results of the calls of the last answer, and what stands beside them.
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

/// What is known at the end beside how it ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Closing {
    /// What plugins logged.
    pub log: Vec<String>,
    /// Answers that cannot be recomputed.
    pub journal: Vec<JournalEntry>,
    /// When it ended: milliseconds since 1970.
    pub at: u64,
}

/// Why an event cannot be recorded. The record is as it was before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecorderError {
    /// A request is open already.
    #[error("the model is asked again before it has answered")]
    AskedTwice,
    /// What followed the last answer was not observed.
    #[error("the model is asked before anything followed its last answer")]
    NotObserved,
    /// There is no open request.
    #[error("an answer without a request")]
    NotAsked,
    /// There is no answer that something could follow.
    #[error("something is observed before the model has answered")]
    NotAnswered,
    /// The results do not answer the calls.
    #[error("{results} tool results for {calls} tool calls: each call has one result, in the order of the calls")]
    Results {
        /// Calls of the answer.
        calls: usize,
        /// Results that came.
        results: usize,
    },
    /// The episode is longer than what is recorded.
    #[error("the episode is longer than the {limit} bytes that are recorded")]
    TooLong {
        /// Bytes that are recorded.
        limit: usize,
    },
}

/// A request that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    request: Digest,
}

/// An answer that nothing has followed yet.
#[derive(Debug, Clone, PartialEq)]
struct Answered {
    request: Digest,
    response: ModelResponse,
    policy_us: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// The model is to be asked.
    Ready,
    /// It was asked.
    Asked(Asked),
    /// It answered.
    Answered(Box<Answered>),
}

/// Collects what happens, so that whatever ends the episode, everything up to there is kept.
#[derive(Debug, Clone)]
pub struct EpisodeRecorder {
    phase: Phase,
    turns: Vec<Turn>,
    /// What the model has not answered yet.
    pending: Vec<Message>,
    system_hint: Option<String>,
    tools: Vec<ToolSpec>,
    signals: Vec<Signal>,
    artefacts: Vec<Artefact>,
    bytes: usize,
    limit: usize,
}

impl EpisodeRecorder {
    /// Opens an episode with its first messages. `limit`: bytes of the messages, signals and artefacts of all turns that are
    /// recorded at most.
    pub fn open(observation: Vec<Message>, limit: usize) -> Self {
        Self {
            phase: Phase::Ready,
            turns: Vec::new(),
            pending: observation,
            system_hint: None,
            tools: Vec::new(),
            signals: Vec::new(),
            artefacts: Vec::new(),
            bytes: 0,
            limit,
        }
    }

    /// The same episode with how its environment introduces itself, and what is there before anybody acts.
    pub fn introduced(mut self, system_hint: Option<String>, artefacts: Vec<Artefact>) -> Self {
        (self.system_hint, self.artefacts) = (system_hint, artefacts);
        self
    }

    /// The same episode with tools on offer.
    pub fn with_tools(mut self, tools: Vec<ToolSpec>) -> Self {
        self.tools = tools;
        self
    }

    /// Turns that are complete.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// What the model has not answered yet.
    pub fn pending(&self) -> &[Message] {
        &self.pending
    }

    /// Whether no request is open and no answer waits for what follows it.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// The complete turns alone.
    pub fn into_turns(self) -> Vec<Turn> {
        self.turns
    }

    /// The tool calls of the answer that nothing has followed yet.
    pub fn open_calls(&self) -> &[ToolCall] {
        match &self.phase {
            Phase::Answered(answered) => &answered.response.message.tool_calls,
            Phase::Ready | Phase::Asked(_) => &[],
        }
    }

    /// The model is asked. `request`: digest of the whole request.
    ///
    /// # Errors
    /// It was asked and has not answered, or nothing followed its last answer.
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

    /// The request came to nothing: the model may be asked again.
    ///
    /// # Errors
    /// No request is open.
    pub fn withdraw(&mut self) -> Result<(), RecorderError> {
        match self.phase {
            Phase::Asked(_) => {
                self.phase = Phase::Ready;
                Ok(())
            }
            Phase::Ready | Phase::Answered(_) => Err(RecorderError::NotAsked),
        }
    }

    /// The model answered, after so many microseconds.
    ///
    /// # Errors
    /// No request is open.
    pub fn answer(&mut self, response: ModelResponse, policy_us: u64) -> Result<(), RecorderError> {
        let Phase::Asked(Asked { request }) = self.phase else { return Err(RecorderError::NotAsked) };
        self.phase = Phase::Answered(Box::new(Answered { request, response, policy_us }));
        Ok(())
    }

    /// Something followed the answer: the turn is complete.
    ///
    /// # Errors
    /// There is no answer, its calls and the results do not match, or the episode becomes too long. The answer stays without a
    /// turn then, and closing the episode keeps it as such.
    pub fn observe(&mut self, observed: Observed) -> Result<(), RecorderError> {
        let Phase::Answered(answered) = &self.phase else { return Err(RecorderError::NotAnswered) };
        let (calls, results) = (answered.response.message.tool_calls.len(), observed.tool_results.len());
        if calls != results {
            return Err(RecorderError::Results { calls, results });
        }
        let said = observed.tool_results.iter().chain(&observed.observation).chain([&answered.response.message]);
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
            fuel,
            host_calls,
            extra: Vec::new(),
            timing: TurnTiming { policy_us, environment_us },
        });
    }

    /// Closes the episode. An open request is dropped. An answer that nothing followed is the last action of an episode that
    /// could be completed (its calls have no results), and an unapplied action of one that failed.
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

/// Bytes that a turn adds to the record, about.
fn size<'a>(said: impl Iterator<Item = &'a Message>, signals: &[Signal], artefacts: &[Artefact]) -> usize {
    /// What a signal, a part or an artefact costs beside its text.
    const OVERHEAD: usize = 64;
    let said: usize =
        said.map(|message| message.len() + OVERHEAD * (1 + message.parts.len() + message.extra.len())).sum();
    let signals: usize = signals.iter().map(|signal| signal.name.len() + OVERHEAD).sum();
    let artefacts: usize = artefacts.iter().map(|artefact| artefact.bytes.len() + OVERHEAD).sum();
    said + signals + artefacts
}

#[cfg(test)]
mod tests;
