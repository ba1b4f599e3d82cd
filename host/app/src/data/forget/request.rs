//! Whose words are forgotten.

use crate::live::trace_of;
use clawhost_core::escaped;
use clawhost_learn::memory::Scope;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Longest part of a name that a message repeats, in bytes.
const SHOWN_BYTES: usize = 200;

/// Whose words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForgetScope {
    /// Of a user, a project or an agent; of a team its memory.
    Scope(Scope),
    /// Of all clients of a key; empty: of those without one.
    Key(String),
}

/// What is forgotten: what all of these parts name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetRequest {
    /// Whose words. Without a session and an episode, memory goes, too.
    pub scope: Option<ForgetScope>,
    /// The name of a session.
    pub session: Option<String>,
    /// An episode: its id, or `RUN/ID`.
    pub episode: Option<String>,
    /// Report what would be removed, and remove nothing.
    pub is_rehearsal: bool,
}

/// Why nothing is forgotten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    /// A text names nobody.
    #[error(
        "`{0}` names nobody: write user:KEY/NAME, project:KEY/NAME, agent:KEY/NAME, team:/NAME, or key:NAME for all of a key"
    )]
    Scope(String),
    /// Nothing is named.
    #[error("name what is forgotten: a scope, a session or an episode")]
    NothingNamed,
    /// Nothing of it is there.
    #[error("{folder} has nothing of {what}")]
    NotFound {
        /// The folder.
        folder: String,
        /// What was asked for.
        what: String,
    },
    /// Nothing of it is recorded, and what had expired or was removed before is cleaned from dictionaries and free pages.
    #[error(
        "{folder} has nothing of {what} on record; what expired or was removed before is gone from dictionaries, free pages and logs now"
    )]
    OnlyCleaned {
        /// The folder.
        folder: String,
        /// What was asked for.
        what: String,
    },
    /// A session's name that several have.
    #[error("several users have a session `{session}`: {}; name one of these scopes with it", scopes.join(", "))]
    Several {
        /// The name.
        session: String,
        /// Their scopes.
        scopes: Vec<String>,
    },
    /// An episode that was played.
    #[error("{0} was played in an environment, and nobody said it; only sessions of agents are forgotten")]
    Played(String),
    /// A gateway runs.
    #[error("{folder}: a gateway runs, and remembers what it has recorded; stop it, forget, and start it again")]
    GatewayRuns {
        /// The folder.
        folder: String,
    },
}

impl FromStr for ForgetScope {
    type Err = ForgetError;

    fn from_str(text: &str) -> Result<Self, ForgetError> {
        let wrong = || ForgetError::Scope(escaped(text, SHOWN_BYTES));
        match text.strip_prefix("key:") {
            Some(name) if name.contains('/') => Err(wrong()),
            Some(name) => Ok(Self::Key(name.to_owned())),
            None => text.parse().map(Self::Scope).map_err(|_| wrong()),
        }
    }
}

impl fmt::Display for ForgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scope(scope) => scope.fmt(f),
            Self::Key(name) => write!(f, "key:{name}"),
        }
    }
}

impl fmt::Display for ForgetRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.scope.as_ref().map(|scope| escaped(&scope.to_string(), SHOWN_BYTES)),
            self.session.as_ref().map(|name| format!("session `{}`", escaped(name, SHOWN_BYTES))),
            self.episode.as_ref().map(|name| format!("episode {}", escaped(name, SHOWN_BYTES))),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl ForgetRequest {
    /// Whether all of a scope is meant, and not single sessions of it.
    pub(super) fn is_whole(&self) -> bool {
        self.session.is_none() && self.episode.is_none()
    }

    /// The names under which files know the scope, if all of it is meant.
    pub(super) fn traces(&self) -> BTreeSet<String> {
        self.scope.iter().filter(|_| self.is_whole()).map(|scope| trace_of(&scope.to_string())).collect()
    }

    pub(super) fn check(&self) -> Result<(), ForgetError> {
        if self.scope.is_none() && self.is_whole() { Err(ForgetError::NothingNamed) } else { Ok(()) }
    }

    pub(super) fn not_found(&self, folder: &Path) -> ForgetError {
        ForgetError::NotFound { folder: folder.display().to_string(), what: self.to_string() }
    }

    pub(super) fn only_cleaned(&self, folder: &Path) -> ForgetError {
        ForgetError::OnlyCleaned { folder: folder.display().to_string(), what: self.to_string() }
    }
}
