//! Environments: where a policy acts.

use crate::{Artefact, Context, Message, OptionSpec, Result, Signal, Task, ToolCall, ToolSpec};

/// An environment that speaks text: the common case.
///
/// The host makes a new instance for every episode, so `self` is one episode. All chance must come from `seed`
/// ([`Random`](crate::Random)): equal seeds, equal episodes.
pub trait Environment: Sized + 'static {
    /// Short name, for example `guess`.
    const NAME: &'static str;
    /// Your version.
    const VERSION: &'static str = "0.1.0";
    /// One line for people.
    const SUMMARY: &'static str = "";
    /// Whether episodes end with a [`Review`](crate::Review) where something else was expected; for people (`clawhost inspect`).
    const REVIEWS: bool = false;

    /// Begins an episode; the text is what the policy sees first.
    ///
    /// # Errors
    /// The task makes no sense. The episode fails; it is not scored.
    fn start(task: &str, seed: u64) -> Result<(Self, String)>;

    /// Acts. An error is no failure: the policy reads it as the next observation, and the signal `invalid_action` is 1.
    ///
    /// # Errors
    /// The action cannot be understood.
    fn step(&mut self, action: &str, signals: &mut Signals) -> Result<Next>;

    /// How the environment introduces itself to a model.
    fn system_hint() -> Option<String> {
        None
    }
}

/// What comes after an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It goes on; the policy sees this text.
    Continue(String),
    /// It is over.
    Done(String),
    /// It stops here for a reason outside the task; the second text is the reason.
    Stop(String, String),
}

/// Numbers observed in a turn. Finite, at most 256, and never a reward: rewards are plugins of their own.
#[derive(Debug, Default)]
pub struct Signals(pub(crate) Vec<Signal>);

impl Signals {
    /// Notes a number; of equal names the last one counts.
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
    /// How many tasks it holds.
    pub tasks: u64,
}

impl Split {
    /// A split of so many tasks.
    pub fn new(name: impl Into<String>, tasks: u64) -> Self {
        Self { name: name.into(), tasks }
    }
}

/// How an episode begins.
#[derive(Debug, Clone)]
pub struct Params {
    /// What is to be done; without its reference, which only rewards see.
    pub task: Task,
    /// Seed and options.
    pub context: Context,
    /// The host stops the episode after so many turns.
    pub max_turns: u32,
}

/// What the policy sees first.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// The first messages.
    pub observation: Vec<Message>,
    /// Tools on offer for the whole episode.
    pub tools: Vec<ToolSpec>,
    /// How the environment introduces itself to a model.
    pub system_hint: Option<String>,
    /// What is there before anybody acts.
    pub artefacts: Vec<Artefact>,
}

impl Opening {
    /// One text and no tools.
    pub fn text(text: impl Into<String>) -> Self {
        Self { observation: vec![Message::user(text)], ..Self::default() }
    }

    /// With something that is there before anybody acts.
    pub fn leave(mut self, name: impl Into<String>, media_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.artefacts.push(Artefact::new(name, media_type, bytes));
        self
    }
}

/// What the policy did: its message, and what the host has settled already. Reads like the message.
#[derive(Debug, Clone)]
pub struct Action {
    /// Its message. Every tool call in it names a tool on offer and carries a JSON object.
    pub message: Message,
    /// What the host answered to its other calls; the policy reads it.
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

/// Whether an episode goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It goes on.
    Running,
    /// It is over.
    Terminated,
    /// It stops here for a reason outside the task.
    Truncated(String),
}

/// What came of an action.
#[derive(Debug, Clone)]
pub struct Step {
    /// What the policy sees next.
    pub observation: Vec<Message>,
    /// Whether it goes on.
    pub status: Status,
    /// What is left behind.
    pub artefacts: Vec<Artefact>,
}

impl Step {
    /// It goes on with one text.
    pub fn running(text: impl Into<String>) -> Self {
        Self { observation: vec![Message::user(text)], status: Status::Running, artefacts: Vec::new() }
    }

    /// It is over, with one text.
    pub fn done(text: impl Into<String>) -> Self {
        Self { status: Status::Terminated, ..Self::running(text) }
    }

    /// What comes of an error: the policy reads it as the answer to each of its calls, or as an observation.
    pub(crate) fn error(action: &Action, text: &str) -> Self {
        match action.tool_calls.as_slice() {
            [] => Self::running(text),
            calls => calls.iter().fold(Self::silent(), |step, call| step.answer(call, text)),
        }
    }

    /// It goes on, and nothing is said yet: answers to tool calls are added with [`answer`](Self::answer).
    pub fn silent() -> Self {
        Self { observation: Vec::new(), status: Status::Running, artefacts: Vec::new() }
    }

    /// With the answer to a tool call.
    pub fn answer(mut self, call: &ToolCall, text: impl Into<String>) -> Self {
        self.observation.push(Message::tool_result(call, text));
        self
    }

    /// With something more for the policy to read.
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.observation.push(Message::user(text));
        self
    }

    /// With something left behind; of equal names the last one counts.
    pub fn leave(mut self, name: impl Into<String>, media_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.artefacts.push(Artefact::new(name, media_type, bytes));
        self
    }

    /// With another status.
    pub fn with_status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }
}

/// An environment that speaks messages: the second level, for tool calls, tasks of your own, options and snapshots.
/// Every [`Environment`] is one.
pub trait MessageEnvironment: Sized + 'static {
    /// Short name.
    const NAME: &'static str;
    /// Your version.
    const VERSION: &'static str = "0.1.0";
    /// One line for people.
    const SUMMARY: &'static str = "";
    /// Whether [`snapshot`](Self::snapshot) and [`restore`](Self::restore) work.
    const SNAPSHOT: bool = false;
    /// Whether episodes end with a [`Review`](crate::Review) where something else was expected; for people (`clawhost inspect`).
    const REVIEWS: bool = false;
    /// Whether observations carry a demonstration ([`Message::demonstrating`]), perhaps only with certain options; for people
    /// (`clawhost inspect`).
    const DEMONSTRATIONS: bool = false;

    /// Every option this environment reads; the host refuses any other.
    fn options() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// Whether the operator's options make sense; called once per run, before anything is played.
    ///
    /// # Errors
    /// They do not; the text says which, and what would.
    fn check(context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// The sets of tasks.
    fn splits() -> Vec<Split> {
        // Enough for an environment whose episodes differ by seed alone.
        vec![Split::new("train", 1000), Split::new("val", 200), Split::new("test", 200)]
    }

    /// Tasks of a split from `offset` on, at most `limit`; none means the end. Equal context, equal tasks.
    ///
    /// # Errors
    /// The options make no sense.
    fn tasks(context: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>> {
        let _ = context;
        let size = Self::splits().iter().find(|known| known.name == split).map_or(0, |known| known.tasks);
        let end = size.min(offset.saturating_add(u64::from(limit)));
        Ok((offset..end).map(|position| Task::new(split, format!("{split}-{position}"), "")).collect())
    }

    /// Begins an episode.
    ///
    /// # Errors
    /// The task makes no sense. The episode fails; it is not scored.
    fn start(params: &Params) -> Result<(Self, Opening)>;

    /// Acts: called for every message of the policy. Tools are called by its `tool_calls`: every call names a tool on offer
    /// and carries a JSON object ([`ToolCall::read`]); what the host could not make sense of it has answered itself
    /// (`refused`). Answer each call with [`Step::answer`].
    ///
    /// # Errors
    /// The action cannot be understood: the policy reads the error as the next observation, or as the answer to each of its
    /// calls, and the signal `invalid_action` is 1.
    fn step(&mut self, action: &Action, signals: &mut Signals) -> Result<Step>;

    /// The whole state as bytes.
    ///
    /// # Errors
    /// It cannot be written down.
    fn snapshot(&self) -> Result<Vec<u8>> {
        Err("this environment has no snapshots".into())
    }

    /// The episode that `snapshot` wrote down. Same params as its `start`.
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

/// Exports an [`Environment`] or [`MessageEnvironment`] as a plugin. Outside wasm it expands to nothing but a check
/// that the type is one.
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
