//! What may mend an error, structured: a library names an option by its key, and each front end says it in its own words (a flag,
//! a key of a file, a field of a form).

/// One thing that may mend an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Give an option another value. Keys are those of `run.toml` and of the host's settings, for example `max_turns`.
    Option {
        /// The option's key.
        key: &'static str,
        /// A value that would do; none: a larger or other one.
        value: Option<String>,
    },
    /// Leave an option out.
    Without(&'static str),
    /// Use another data folder.
    OtherDataFolder,
    /// Make room on the disk.
    MakeRoom,
    /// Continue what was interrupted.
    Resume,
    /// Begin a new run instead of resuming one.
    NewRun,
    /// Repeat the options and the files with which the run was begun.
    SameSpecification,
    /// Use a command of the program.
    Command {
        /// The command with its arguments, without the program's name.
        words: String,
        /// What it does here.
        does: String,
    },
}

impl Hint {
    /// An option, with a value that would do.
    pub fn set(key: &'static str, value: impl Into<String>) -> Self {
        Self::Option { key, value: Some(value.into()) }
    }

    /// An option whose value has to be another one.
    pub fn change(key: &'static str) -> Self {
        Self::Option { key, value: None }
    }

    /// A command of the program.
    pub fn command(words: impl Into<String>, does: impl Into<String>) -> Self {
        Self::Command { words: words.into(), does: does.into() }
    }
}
