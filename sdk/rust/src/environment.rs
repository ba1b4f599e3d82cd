//! Environments: they publish tasks and answer actions.

use crate::{Artefact, Context, Message, OptionSpec, Result, Signal, Task, ToolCall, ToolSpec};

/// An environment with text observations and actions: the common case.
///
/// The host creates a new instance for every episode, so `self` is one episode. All randomness must come from `seed`
/// ([`Random`](crate::Random)): equal seeds give equal episodes.
pub trait Environment: Sized + 'static {
    /// Short name, for example `guess`.
    const NAME: &'static str;
    /// Your version.
    const VERSION: &'static str = "0.1.0";
    /// One line for people.
    const SUMMARY: &'static str = "";
    /// Whether episodes end with a [`Review`](crate::Review) if another action was expected; shown by `clawhost inspect`.
    const REVIEWS: bool = false;

    /// Begins an episode. The text is the policy's first observation.
    ///
    /// # Errors
    /// The task is invalid. The episode fails and is not scored.
    fn start(task: &str, seed: u64) -> Result<(Self, String)>;

    /// Executes an action. An error does not fail the episode: it is the next observation, and the signal `invalid_action` is 1.
    ///
    /// # Errors
    /// The action cannot be understood.
    fn step(&mut self, action: &str, signals: &mut Signals) -> Result<Next>;

    /// The system prompt that the environment suggests.
    fn system_hint() -> Option<String> {
        None
    }
}

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The episode continues with this observation.
    Continue(String),
    /// The episode is terminated, with this observation.
    Done(String),
    /// The episode is truncated for a reason outside the task. The second text is the reason.
    Stop(String, String),
}

/// Numbers measured in a turn. Finite, at most 256, and never a reward: rewards are separate plugins.
#[derive(Debug, Default)]
pub struct Signals(pub(crate) Vec<Signal>);

impl Signals {
    /// Records a number. A later value replaces an earlier one with the same name.
    pub fn set(&mut self, name: &str, value: f64) {
        match self.0.iter_mut().find(|signal| signal.name == name) {
            Some(signal) => signal.value = value,
            None => self.0.push(Signal::new(name, value)),
        }
    }
}

/// A named set of tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// By convention `train`, `val`, `test`.
    pub name: String,
    /// The number of its tasks.
    pub tasks: u64,
}

impl Split {
    /// A split with this number of tasks.
    pub fn new(name: impl Into<String>, tasks: u64) -> Self {
        Self { name: name.into(), tasks }
    }
}

/// The parameters of an episode.
#[derive(Debug, Clone)]
pub struct Params {
    /// The task, without its reference, which only rewards see.
    pub task: Task,
    /// Seed and options.
    pub context: Context,
    /// The host truncates the episode after this number of turns.
    pub max_turns: u32,
}

/// The beginning of an episode.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// The first messages.
    pub observation: Vec<Message>,
    /// Available tools of the whole episode.
    pub tools: Vec<ToolSpec>,
    /// The system prompt that the environment suggests.
    pub system_hint: Option<String>,
    /// Artefacts that exist before the first action.
    pub artefacts: Vec<Artefact>,
}

impl Opening {
    /// One text, without tools.
    pub fn text(text: impl Into<String>) -> Self {
        Self { observation: vec![Message::user(text)], ..Self::default() }
    }

    /// Adds an artefact that exists before the first action.
    pub fn leave(mut self, name: impl Into<String>, media_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.artefacts.push(Artefact::new(name, media_type, bytes));
        self
    }
}

/// The policy's action: its message, and the tool calls that the host has answered. Derefs to the message.
#[derive(Debug, Clone)]
pub struct Action {
    /// The message. Every tool call in it names an available tool and has a JSON object as arguments.
    pub message: Message,
    /// The host's answers to invalid calls. The policy reads them.
    pub refused: Vec<Message>,
}

impl std::ops::Deref for Action {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

impl From<Message> for Action {
    fn from(message: Message) -> Self {
        Self { message, refused: Vec::new() }
    }
}

/// Whether an episode continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It continues.
    Running,
    /// It is terminated.
    Terminated,
    /// It is truncated for a reason outside the task.
    Truncated(String),
}

/// The result of an action.
#[derive(Debug, Clone)]
pub struct Step {
    /// The next observation.
    pub observation: Vec<Message>,
    /// Whether the episode continues.
    pub status: Status,
    /// Artefacts.
    pub artefacts: Vec<Artefact>,
}

impl Step {
    /// The episode continues with one text.
    pub fn running(text: impl Into<String>) -> Self {
        Self { observation: vec![Message::user(text)], status: Status::Running, artefacts: Vec::new() }
    }

    /// The episode is terminated with one text.
    pub fn done(text: impl Into<String>) -> Self {
        Self { status: Status::Terminated, ..Self::running(text) }
    }

    /// The result of an error: the policy reads it as the answer to each of its calls, or as an observation.
    pub(crate) fn error(action: &Action, text: &str) -> Self {
        match action.tool_calls.as_slice() {
            [] => Self::running(text),
            calls => calls.iter().fold(Self::silent(), |step, call| step.answer(call, text)),
        }
    }

    /// The episode continues without text. Add answers to tool calls with [`answer`](Self::answer).
    pub fn silent() -> Self {
        Self { observation: Vec::new(), status: Status::Running, artefacts: Vec::new() }
    }

    /// Adds the answer to a tool call.
    pub fn answer(mut self, call: &ToolCall, text: impl Into<String>) -> Self {
        self.observation.push(Message::tool_result(call, text));
        self
    }

    /// Adds a text to the observation.
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.observation.push(Message::user(text));
        self
    }

    /// Adds an artefact. A later one replaces an earlier one with the same name.
    pub fn leave(mut self, name: impl Into<String>, media_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.artefacts.push(Artefact::new(name, media_type, bytes));
        self
    }

    /// Sets the status.
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }
}

/// An environment with messages: the second level, with tool calls, tasks, options and snapshots. Every [`Environment`]
/// is also a `MessageEnvironment`.
pub trait MessageEnvironment: Sized + 'static {
    /// Short name.
    const NAME: &'static str;
    /// Your version.
    const VERSION: &'static str = "0.1.0";
    /// One line for people.
    const SUMMARY: &'static str = "";
    /// Whether [`snapshot`](Self::snapshot) and [`restore`](Self::restore) work.
    const SNAPSHOT: bool = false;
    /// Whether episodes end with a [`Review`](crate::Review) if another action was expected; shown by `clawhost inspect`.
    const REVIEWS: bool = false;
    /// Whether observations have a demonstration ([`Message::demonstrating`]), possibly only with certain options;
    /// shown by `clawhost inspect`.
    const DEMONSTRATIONS: bool = false;

    /// All options that this environment reads. The host refuses others.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// Checks the operator's options. Called once per run, before anything is played.
    ///
    /// # Errors
    /// The options are invalid. The text says which, and what is expected.
    fn check(context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// The splits.
    fn splits() -> Vec<Split> {
        // Sufficient for an environment whose episodes differ only by seed.
        vec![Split::new("train", 1000), Split::new("val", 200), Split::new("test", 200)]
    }

    /// Tasks of a split from `offset` on, at most `limit`. An empty list means the end. Equal contexts must give equal tasks.
    ///
    /// # Errors
    /// The options are invalid.
    fn tasks(context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>> {
        let _ = context;
        let size = Self::splits().iter().find(|known| known.name == split).map_or(0, |known| known.tasks);
        let end = size.min(offset.saturating_add(u64::from(limit)));
        Ok((offset..end).map(|position| Task::new(split, format!("{split}-{position}"), "")).collect())
    }

    /// Begins an episode.
    ///
    /// # Errors
    /// The task is invalid. The episode fails and is not scored.
    fn start(params: &Params) -> Result<(Self, Opening)>;

    /// Executes an action: called for every message of the policy. Its `tool_calls` call tools: every call names an
    /// available tool and has a JSON object as arguments ([`ToolCall::read`]). The host has answered invalid calls
    /// itself (`refused`). Answer each call with [`Step::answer`].
    ///
    /// # Errors
    /// The action is invalid: the policy reads the error as the next observation, or as the answer to each of its
    /// calls, and the signal `invalid_action` is 1.
    fn step(&mut self, action: &Action, signals: &mut Signals) -> Result<Step>;

    /// Serialises the whole state.
    ///
    /// # Errors
    /// The state cannot be serialised.
    fn snapshot(&self) -> Result<Vec<u8>> {
        Err("this environment has no snapshots".into())
    }

    /// Restores an episode from the output of `snapshot`. `params` are those of its `start`.
    ///
    /// # Errors
    /// The bytes are not a state of this environment.
    fn restore(params: &Params, state: &[u8]) -> Result<Self> {
        let _ = (params, state);
        Err("this environment has no snapshots".into())
    }
}

impl<E: Environment> MessageEnvironment for E {
    const NAME: &'static str = E::NAME;
    const VERSION: &'static str = E::VERSION;
    const SUMMARY: &'static str = E::SUMMARY;
    const REVIEWS: bool = E::REVIEWS;

    fn start(params: &Params) -> Result<(Self, Opening)> {
        let (episode, text) = E::start(&params.task.input, params.context.seed)?;
        Ok((episode, Opening { system_hint: E::system_hint(), ..Opening::text(text) }))
    }

    fn step(&mut self, action: &Action, signals: &mut Signals) -> Result<Step> {
        Ok(match Environment::step(self, &action.plain_text(), signals)? {
            Next::Continue(text) => Step::running(text),
            Next::Done(text) => Step::done(text),
            Next::Stop(text, reason) => Step { status: Status::Truncated(reason), ..Step::running(text) },
        })
    }
}

/// Exports an [`Environment`] or [`MessageEnvironment`] as a plugin. Outside wasm it only checks that the type is
/// one.
#[macro_export]
macro_rules! export_environment {
    ($ty:ty) => {
        const _: () = {
            #[cfg(target_arch = "wasm32")]
            type Exported = $crate::guest::EnvironmentGuest<$ty>;
            #[cfg(target_arch = "wasm32")]
    $crate::__export_environment_plugin_impl!(Exported with_types_in $crate::bindings::environment);
            #[cfg(not(target_arch = "wasm32"))]
            const fn is_an_environment<E: $crate::MessageEnvironment>() {}
            #[cfg(not(target_arch = "wasm32"))]
            is_an_environment::<$ty>();
        };
    };
}
