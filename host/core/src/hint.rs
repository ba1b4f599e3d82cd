//! Structured hints on how to fix an error. Libraries name options by key; each front end renders them in its own form (a
//! flag, a key of a file, a form field).

/// One hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Change an option. Keys are those of `run.toml` and of the host's settings, for example `max_turns`.
    Option {
        /// The option's key.
        key: &'static str,
        /// A suitable value; `None`: a larger or another one.
        value: Option<String>,
    },
    /// Give the option that was read another value. A library that reads a value knows no option: the caller that does replaces this
    /// by [`Hint::Option`] (see [`Hint::of_option`]).
    ChangeThis,
    /// Leave an option out.
    Without(&'static str),
    /// Use another data folder.
    OtherDataFolder,
    /// Free disk space.
    MakeRoom,
    /// Resume the interrupted run.
    Resume,
    /// Start a new run instead of resuming one.
    NewRun,
    /// Use the options and files with which the run was started.
    SameSpecification,
    /// Run a command of the program.
    Command {
        /// The command with its arguments, without the program's name.
        words: String,
        /// The effect of the command.
        does: String,
    },
    /// Do something outside of the program: a sentence in lower case, without its full stop.
    Outside(String),
}

impl Hint {
    /// An option with a suitable value.
    pub fn set(key: &'static str, value: impl Into<String>) -> Self {
        Self::Option { key, value: Some(value.into()) }
    }

    /// An option that needs another value.
    pub fn change(key: &'static str) -> Self {
        Self::Option { key, value: None }
    }

    /// This hint where it is known which option was read.
    pub fn of_option(self, key: &'static str) -> Self {
        match self {
            Self::ChangeThis => Self::change(key),
            other => other,
        }
    }

    /// Something outside of the program.
    pub fn outside(text: impl Into<String>) -> Self {
        Self::Outside(text.into())
    }

    /// A command of the program.
    pub fn command(words: impl Into<String>, does: impl Into<String>) -> Self {
        Self::Command { words: words.into(), does: does.into() }
    }
}
