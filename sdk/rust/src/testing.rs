//! Plays and judges plugins natively, in `#[test]` functions: no wasm, no host, no network.
//!
//! What the host would offer is faked per thread: logs are kept ([`logs`]), kv is a map, and [`set_llm`] says what a
//! granted model answers.

use crate::episode::Fixture;
use crate::llm::{LlmError, Request, Response};
use crate::{
    Attributes, Context, Ending, Episode, Group, Message, MessageEnvironment, Params, Reward, Signals, Status, Step,
    Task, Turn, Usage, Verdict,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// How a fake model answers.
type FakeLlm = Box<dyn FnMut(&Request) -> Result<Response, LlmError>>;

thread_local! {
    static LOGS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static NOTES: RefCell<BTreeMap<String, Vec<u8>>> = const { RefCell::new(BTreeMap::new()) };
    static LLM: RefCell<Option<FakeLlm>> = const { RefCell::new(None) };
}

/// What happened when an environment was played.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// What the policy would have read: the opening, then one text per action.
    pub observations: Vec<String>,
    /// Signals of each action.
    pub signals: Vec<Vec<(String, f64)>>,
    /// Whether the environment ended the episode.
    pub over: bool,
}

impl Transcript {
    /// The last text.
    pub fn last(&self) -> &str {
        self.observations.last().map_or("", String::as_str)
    }
}

/// Plays the first training task with these actions; stops when the environment says so.
///
/// # Panics
/// The episode cannot begin.
pub fn play<E: MessageEnvironment>(seed: u64, actions: &[&str]) -> Transcript {
    let context = Context { seed, options: Attributes::new() };
    let tasks = E::tasks(&context, "train", 0, 1).unwrap_or_default();
    let task = tasks.into_iter().next().unwrap_or_else(|| Task::new("train", "train-0", ""));
    play_task::<E>(Params { task, context, max_turns: 100 }, actions)
}

/// Plays a task of your choice.
///
/// # Panics
/// The episode cannot begin.
#[allow(clippy::panic, reason = "a test that cannot begin has failed")]
pub fn play_task<E: MessageEnvironment>(params: Params, actions: &[&str]) -> Transcript {
    let params = Params { task: Task { reference: None, ..params.task }, ..params };
    let (mut episode, opening) = match E::start(&params) {
        Ok(begun) => begun,
        Err(error) => panic!("the episode did not begin: {}", error.message()),
    };
    let mut transcript = Transcript { observations: vec![joined(&opening.observation)], ..Transcript::default() };
    for action in actions {
        let mut signals = Signals::default();
        let step = episode.step(&Message::assistant(*action), &mut signals).unwrap_or_else(|error| {
            signals.set("invalid_action", 1.0);
            Step::running(error.into_message())
        });
        transcript.observations.push(joined(&step.observation));
        transcript.signals.push(signals.0.into_iter().map(|signal| (signal.name, signal.value)).collect());
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

/// A recorded episode for testing rewards and reflectors: each pair is what was observed and what was answered.
pub fn episode(task: Task, exchanges: &[(&str, &str)], ending: Ending) -> Episode {
    let turns = exchanges.iter().enumerate().map(|(index, (observation, action))| Turn {
        index: index as u32,
        observation: vec![Message::user(*observation)],
        action: Message::assistant(*action),
        tool_results: Vec::new(),
        signals: Vec::new(),
        usage: Usage { prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0, extra: Vec::new() },
        extra: Vec::new(),
    });
    Episode::from_fixture(Fixture {
        id: "episode".to_owned(),
        task,
        turns: turns.collect(),
        closing: Vec::new(),
        ending,
    })
}

/// What a reward says about these episodes, judged together.
///
/// # Errors
/// None of them can be judged.
pub fn judge<R: Reward>(episodes: Vec<Episode>, options: &[(&str, &str)]) -> crate::Result<Vec<Verdict>> {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    R::score_group(&Group::new(episodes), &Context { seed: 0, options })
}

/// A group of recorded episodes.
pub fn group(episodes: Vec<Episode>) -> Group {
    Group::new(episodes)
}

/// Everything logged on this thread so far, as `level: text`; empties it.
pub fn logs() -> Vec<String> {
    LOGS.with(|logs| std::mem::take(&mut *logs.borrow_mut()))
}

/// Says what a granted model answers on this thread.
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
