//! The error of this crate.

use clawhost_app::{AppError, ErrorKind, FolderError};
use clawhost_core::Hint;
use clawhost_package::Language;

/// An operation of an author cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum DevkitError {
    /// The folder of a plugin cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A plugin or the data folder cannot be used.
    #[error(transparent)]
    App(#[from] AppError),
    /// A new plugin would lie in a folder that is in use.
    #[error("{folder}: there is something in it already; a new plugin gets a folder of its own")]
    Taken {
        /// The folder.
        folder: String,
    },
    /// A name that cannot be used in the language.
    #[error("`{name}` has a meaning in Rust or in the template; choose another name")]
    TakenName {
        /// The name.
        name: String,
    },
    /// A language without this template.
    #[error("there is no template `{template}` in {language}; it is there in {}", listed(others))]
    NoTemplate {
        /// The template.
        template: &'static str,
        /// The language.
        language: Language,
        /// The languages in which it is there.
        others: Vec<Language>,
    },
    /// The SDK of a new plugin is not there.
    #[error("{folder}: there is no SDK; it is the folder `sdk` of a checkout of clawhost")]
    NoSdk {
        /// The folder.
        folder: String,
    },
    /// A task that its environment does not publish.
    #[error("there is no task `{}` in split {split}", clawhost_core::escaped(task, 100))]
    NoTask {
        /// The task's id.
        task: String,
        /// The split.
        split: String,
    },
    /// A file cannot be written.
    #[error("{path}: {why}")]
    Unwritable {
        /// The file or folder.
        path: String,
        /// The operating system's error.
        why: String,
    },
    /// A tool that builds is missing.
    #[error("{tool} is needed to build a plugin in {language}, and is not there: {why}")]
    NoTool {
        /// The tool.
        tool: String,
        /// The language.
        language: Language,
        /// How it is got.
        why: String,
    },
    /// A build failed.
    #[error("the build of {folder} failed ({how}){messages}")]
    Build {
        /// The folder.
        folder: String,
        /// How it ended.
        how: String,
        /// What a quiet build said last, a line each. Empty: it was passed on.
        messages: String,
    },
    /// Sources cannot be watched.
    #[error("the sources in {folder} cannot be watched: {why}")]
    Watch {
        /// The folder.
        folder: String,
        /// The system's message.
        why: String,
    },
    /// Something cannot be published or added as it is.
    #[error("{what}: {why}")]
    Unfit {
        /// What it is about.
        what: String,
        /// The reason.
        why: String,
    },
    /// A file with test cases has a mistake.
    #[error("{path}, {why}")]
    Cases {
        /// The file.
        path: String,
        /// What is wrong, and where.
        why: String,
    },
}

/// Names of languages.
fn listed(languages: &[Language]) -> String {
    languages.iter().map(|language| language.name()).collect::<Vec<_>>().join(", ")
}

impl From<clawhost_registry::RegistryError> for DevkitError {
    fn from(error: clawhost_registry::RegistryError) -> Self {
        Self::App(error.into())
    }
}

impl From<clawhost_app::ModuleError> for DevkitError {
    fn from(error: clawhost_app::ModuleError) -> Self {
        Self::App(error.into())
    }
}

impl DevkitError {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::App(error) => error.kind(),
            Self::Unwritable { .. } | Self::Watch { .. } | Self::NoTool { .. } | Self::Build { .. } => ErrorKind::Other,
            _ => ErrorKind::Usage,
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Folder(error) => error.hints(),
            Self::App(error) => error.hints(),
            Self::NoTask { .. } => vec![Hint::command("tasks PLUGIN", "lists them")],
            Self::NoTool { .. } => vec![Hint::command("doctor", "checks what builds need")],
            _ => Vec::new(),
        }
    }
}
