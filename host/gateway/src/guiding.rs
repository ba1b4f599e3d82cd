//! The ports of what is added to sessions: guidance in their system text, and the memory that it is made of.

use async_trait::async_trait;
use clawhost_capture::Guided;
use clawhost_core::{Drawn, LiveSession, ModelRequest, SessionDraw};
use serde::Serialize;

/// A session that needs guidance.
#[derive(Debug, Clone, Copy)]
pub struct Guiding<'a> {
    /// The conversation as its client sent it.
    pub request: &'a ModelRequest,
    /// The session: its agent, its user, its project.
    pub session: &'a LiveSession,
    /// Name of the key of its client; empty without one.
    pub owner: &'a str,
    /// The team of that key.
    pub team: Option<&'a str>,
    /// The episode, as `RUN/EPISODE`.
    pub episode: &'a str,
    /// What may be drawn for it.
    pub draws: Draws<'a>,
    /// Unix time in milliseconds.
    pub at_ms: u64,
}

/// What may be drawn for a session. The draws of its beginning hold as long as it lasts, also where its guidance is chosen anew: its rewards are
/// compared by them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Draws<'a> {
    /// The session begins, and its client lets others learn from it: entries may be drawn.
    New,
    /// It has begun, comes from another session, or teaches nothing: what was drawn for its beginning holds, and nothing else is drawn.
    Kept {
        /// Entries that were drawn then.
        entries: &'a [Drawn],
        /// The version that it got then, if its guidance names one.
        version: Option<u64>,
    },
}

/// What a session gets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GuidanceChoice {
    /// What is added to its system text. `None`: nothing.
    pub guided: Option<Guided>,
    /// What was drawn for it, for the trials of a playbook. It counts even if a model has no room for the text.
    pub drawn: Option<SessionDraw>,
}

/// Chooses guidance for sessions.
#[async_trait]
pub trait Guide: Send + Sync {
    /// Whether sessions get guidance now.
    fn is_on(&self) -> bool;
    /// The guidance of a session, which waits for it. It is empty if nothing applies, or if memory cannot be read, which the guide reports itself.
    async fn guide(&self, guiding: &Guiding<'_>) -> GuidanceChoice;
    /// Milliseconds after which an endpoint has forgotten the beginning of a conversation, so that other guidance costs nothing.
    fn cache_ms(&self) -> u64;
}

/// A text to remember.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMemory {
    /// Whom it is about: a level of scope by its name. `None`: the user.
    pub level: Option<String>,
    /// Its kind by its name. `None`: a correction if it is about an episode, else a preference.
    pub kind: Option<String>,
    /// The text.
    pub text: String,
    /// The episode that it is about, as `RUN/EPISODE`.
    pub episode: Option<String>,
    /// The id of the memory in whose place it is used.
    pub supersedes: Option<String>,
    /// Days after which it is not used.
    pub expires_days: Option<u32>,
}

/// What is remembered, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryItem {
    /// Its id.
    pub id: String,
    /// Its scope.
    pub scope: String,
    /// Its kind.
    pub kind: String,
    /// Its text.
    pub text: String,
    /// Unix time in milliseconds at which it was written.
    pub written_at: u64,
    /// Unix time in milliseconds from which it is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Whether it has expired: it is not used, and goes with the next write to its scope.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
    /// What is used in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// The episode that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode: Option<String>,
}

/// Why nothing was remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRemembered {
    /// The text or a name cannot be used, for the reason.
    Refused(String),
    /// There is no memory of this id.
    Unknown,
    /// The memory cannot be read or written.
    Unavailable(String),
}

/// Whose memory a client means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryParty<'a> {
    /// Name of its key; empty without one.
    pub owner: &'a str,
    /// The team of that key.
    pub team: Option<&'a str>,
    /// The user, the agent and the project that it names.
    pub session: &'a LiveSession,
}

/// Reads and writes what is remembered.
#[async_trait]
pub trait MemoryBook: Send + Sync {
    /// Remembers a text. It is used from the next session on.
    ///
    /// # Errors
    /// The text is refused, or the memory cannot be written.
    async fn remember(&self, party: MemoryParty<'_>, new: NewMemory) -> Result<MemoryItem, NotRemembered>;
    /// What is remembered of the scopes of a party, or of one of them; only what contains every word of `query`, if there is one.
    ///
    /// # Errors
    /// There is no such level, or the memory cannot be read.
    async fn memories(
        &self,
        party: MemoryParty<'_>,
        level: Option<&str>,
        query: Option<&str>,
    ) -> Result<Vec<MemoryItem>, NotRemembered>;
    /// Forgets a memory of any user, project or agent behind a key. What a team remembers belongs to its operator. Returns the scope.
    ///
    /// # Errors
    /// There is none of this id, or the memory cannot be written.
    async fn forget(&self, owner: &str, id: &str) -> Result<String, NotRemembered>;
}
