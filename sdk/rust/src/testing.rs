//! Plays and judges plugins natively, in `#[test]` functions: no wasm, no host, no network.
//!
//! Services of the host are faked per thread: log lines are collected ([`logs`]), kv is a map, and [`set_llm`] sets the
//! answers of a granted model.

use crate::episode::Fixture;
use crate::llm::{LlmError, Request, Response};
use crate::{
    Action, Artefact, Attributes, Context, Ending, Episode, Group, Message, MessageEnvironment, Origin, Params,
    Playbook, Proposal, Reflector, Reward, Role, Signal, Signals, Status, Step, Task, ToolSpec, Turn, Usage, Verdict,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The answers of a fake model.
type FakeLlm = Box<dyn FnMut(&Request) -> Result<Response, LlmError>>;

thread_local! {
    static LOGS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static NOTES: RefCell<BTreeMap<String, Vec<u8>>> = const { RefCell::new(BTreeMap::new()) };
    static LLM: RefCell<Option<FakeLlm>> = const { RefCell::new(None) };
}

/// The result of playing an environment.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// The observations: the opening, then one text per action.
    pub observations: Vec<String>,
    /// Signals of each action.
    pub signals: Vec<Vec<(String, f64)>>,
    /// Artefacts by name; the last one of each name.
    pub artefacts: BTreeMap<String, Vec<u8>>,
    /// Whether the environment ended the episode.
    pub over: bool,
}

impl Transcript {
    fn leave(&mut self, artefacts: Vec<Artefact>) {
        self.artefacts.extend(artefacts.into_iter().map(|artefact| (artefact.name, artefact.bytes)));
    }

    /// The last text.
    pub fn last(&self) -> &str {
        self.observations.last().map_or("", String::as_str)
    }
}

/// Plays the first training task with these actions, until the environment ends the episode.
///
/// # Panics
/// The episode cannot begin.
pub fn play<E: MessageEnvironment>(seed: u64, actions: &[&str]) -> Transcript {
    let context = Context::new(seed, Attributes::new());
    let tasks = E::tasks(&context, "train", 0, 1).unwrap_or_default();
    let task = tasks.into_iter().next().unwrap_or_else(|| Task::new("train", "train-0", ""));
    play_task::<E>(Params { task, context, max_turns: 100 }, actions)
}

/// Plays a given task.
///
/// # Panics
/// The episode cannot begin.
pub fn play_task<E: MessageEnvironment>(params: Params, actions: &[&str]) -> Transcript {
    play_messages::<E>(params, &actions.iter().map(|action| Message::assistant(*action)).collect::<Vec<_>>())
}

/// Plays a given task with whole messages, including tool calls.
///
/// # Panics
/// The episode cannot begin.
#[allow(clippy::panic, reason = "a test that cannot begin has failed")]
pub fn play_messages<E: MessageEnvironment>(params: Params, actions: &[Message]) -> Transcript {
    let params = Params { task: Task { reference: None, ..params.task }, ..params };
    let (mut episode, opening) = match E::start(&params) {
        Ok(begun) => begun,
        Err(error) => panic!("the episode did not begin: {}", error.message()),
    };
    let mut transcript = Transcript { observations: vec![joined(&opening.observation)], ..Transcript::default() };
    transcript.leave(opening.artefacts);
    for action in actions {
        let mut signals = Signals::default();
        let action = Action::from(action.clone());
        let step = episode.step(&action, &mut signals).unwrap_or_else(|error| {
            signals.set("invalid_action", 1.0);
            Step::error(&action, error.message())
        });
        transcript.observations.push(joined(&step.observation));
        transcript.signals.push(signals.0.into_iter().map(|signal| (signal.name, signal.value)).collect());
        transcript.leave(step.artefacts);
        if step.status != Status::Running {
            transcript.over = true;
            break;
        }
    }
    transcript
}

fn joined(messages: &[Message]) -> String {
    messages.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n")
}

/// A recorded episode for testing rewards and reflectors: each pair is an observation and its answer.
pub fn episode(task: Task, exchanges: &[(&str, &str)], ending: Ending) -> Episode {
    let said = |recording: Recording, (observed, answered): &(&str, &str)| {
        recording.observed(*observed).acted(Message::assistant(*answered))
    };
    exchanges.iter().fold(Recording::of(task), said).ended(ending)
}

/// Builds a recorded episode piece by piece: tools, turns, tool results, signals, artefacts.
///
/// ```
/// use clawhost_sdk::testing::Recording;
/// use clawhost_sdk::{Ending, Message, Task};
///
/// let episode = Recording::of(Task::new("train", "t", ""))
///     .observed("It is dark.")
///     .acted(Message::calling("call-1", "light", "{}"))
///     .answered("call-1", "now you see")
///     .signal("light", 1.0)
///     .left("room.txt", "bright")
///     .ended(Ending::Terminated);
/// assert_eq!(episode.turns()[0].tool_results[0].plain_text(), "now you see");
/// ```
#[derive(Debug, Clone)]
pub struct Recording {
    fixture: Fixture,
    pending: Vec<Message>,
}

impl Recording {
    /// An episode of this task without turns.
    pub fn of(task: Task) -> Self {
        let fixture = Fixture {
            id: "episode".to_owned(),
            task,
            tools: Vec::new(),
            turns: Vec::new(),
            closing: Vec::new(),
            artefacts: Vec::new(),
            ending: Ending::Terminated,
            reward: None,
        };
        Self { fixture, pending: Vec::new() }
    }

    /// Sets the id, to distinguish several episodes.
    pub fn named(mut self, id: impl Into<String>) -> Self {
        self.fixture.id = id.into();
        self
    }

    /// Adds an available tool.
    pub fn offering(mut self, tool: ToolSpec) -> Self {
        self.fixture.tools.push(tool);
        self
    }

    /// Adds an observation. After the last action it is the closing message.
    pub fn observed(mut self, text: impl Into<String>) -> Self {
        self.pending.push(Message::user(text));
        self
    }

    /// Adds what a person said, as in a session that an agent had outside of an environment.
    pub fn asked(mut self, text: impl Into<String>) -> Self {
        self.pending.push(Message { origin: Origin::User, ..Message::user(text) });
        self
    }

    /// Adds an action of the policy.
    pub fn acted(mut self, action: Message) -> Self {
        let index = self.fixture.turns.len() as u32;
        let observation = std::mem::take(&mut self.pending);
        let usage = Usage { prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0, extra: Vec::new() };
        let (tool_results, signals, extra) = (Vec::new(), Vec::new(), Vec::new());
        self.fixture.turns.push(Turn {
            index,
            observation,
            action,
            tool_results,
            finish: "stop".to_owned(),
            signals,
            usage,
            extra,
        });
        self
    }

    /// Adds the environment's answer to a tool call of the last action.
    pub fn answered(self, call: &str, text: impl Into<String>) -> Self {
        self.result(call, text, Origin::Environment)
    }

    /// Adds the host's answer to an invalid tool call of the last action.
    pub fn refused(self, call: &str, text: impl Into<String>) -> Self {
        self.result(call, text, Origin::Host)
    }

    fn result(mut self, call: &str, text: impl Into<String>, origin: Origin) -> Self {
        let answer = Message { tool_call_id: Some(call.to_owned()), origin, ..Message::text(Role::Tool, text) };
        if let Some(turn) = self.fixture.turns.last_mut() {
            turn.tool_results.push(answer);
        }
        self
    }

    /// Adds a signal to the last turn.
    pub fn signal(mut self, name: &str, value: f64) -> Self {
        if let Some(turn) = self.fixture.turns.last_mut() {
            turn.signals.push(Signal::new(name, value));
        }
        self
    }

    /// Adds an artefact.
    pub fn left(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.fixture.artefacts.push(Artefact::new(name, "application/octet-stream", bytes));
        self
    }

    /// Sets the reward that reflectors read.
    pub fn rewarded(mut self, reward: f64) -> Self {
        self.fixture.reward = Some(reward);
        self
    }

    /// The complete episode.
    pub fn ended(mut self, ending: Ending) -> Episode {
        self.fixture.closing = self.pending;
        self.fixture.ending = ending;
        Episode::from_fixture(self.fixture)
    }
}

/// The verdicts of a reward about these episodes as one group.
///
/// # Errors
/// None of them can be judged.
pub fn judge<R: Reward>(episodes: Vec<Episode>, options: &[(&str, &str)]) -> crate::Result<Vec<Verdict>> {
    R::score_group(&Group::new(episodes), &context(options))
}

/// The proposals of a reflector for these episodes, with seed 0.
///
/// # Errors
/// The options are invalid, or no proposals are possible.
pub fn reflect<R: Reflector>(
    episodes: Vec<Episode>,
    playbook: &Playbook,
    options: &[(&str, &str)],
) -> crate::Result<Vec<Proposal>> {
    let context = context(options);
    R::check(&context)?;
    R::reflect(&Group::new(episodes), playbook, &context)
}

fn context(options: &[(&str, &str)]) -> Context {
    Context::new(0, options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// A group of recorded episodes.
pub fn group(episodes: Vec<Episode>) -> Group {
    Group::new(episodes)
}

/// Takes all log lines of this thread so far, as `level: text`.
pub fn logs() -> Vec<String> {
    LOGS.with(|logs| std::mem::take(&mut *logs.borrow_mut()))
}

/// Sets the answers of a granted model on this thread.
pub fn set_llm(answer: impl FnMut(&Request) -> Result<Response, LlmError> + 'static) {
    LLM.with(|llm| *llm.borrow_mut() = Some(Box::new(answer)));
}

#[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "the host's log is used there"))]
pub(crate) fn record_log(level: &str, text: &str) {
    LOGS.with(|logs| logs.borrow_mut().push(format!("{level}: {text}")));
}

#[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "the host's kv is used there"))]
pub(crate) fn with_notes<T>(access: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> T {
    NOTES.with(|notes| access(&mut notes.borrow_mut()))
}

#[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "the host's models are used there"))]
pub(crate) fn answer(request: &Request) -> Result<Response, LlmError> {
    LLM.with(|llm| match llm.borrow_mut().as_mut() {
        Some(answer) => answer(request),
        None => Err(LlmError::Denied(format!("no model `{}`: call testing::set_llm first", request.alias))),
    })
}
