//! Memory: what is remembered of the scopes of sessions, for gateways and for their operators.
//!
//! What has expired counts as if it had been forgotten at that moment: what it had replaced is used again. It stays in the data folder until
//! the next write to its scope, and nothing depends on whether that has come ([`resolved`]).

use super::guide::LiveGuide;
use crate::{AppError, Workspace};
use async_trait::async_trait;
use clawhost_core::{MemoryReader, MemoryRow, MemoryStore, StoreError};
use clawhost_gateway::{Guide as _, MemoryBook, MemoryItem, MemoryParty, NewMemory, NotRemembered};
use clawhost_learn::memory::{
    InvalidScope, Memory, MemoryKind, MemorySource, SCOPE_MEMORIES, Scope, ScopeLevel, ScopeMemory,
};
use clawhost_learn::playbook::safety::Refusal;
use clawhost_store::{Reader, Store};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Version of the form in which memory is exported.
const FORMAT: u32 = 1;

/// Why a text is refused, in the words of memory.
fn said(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Empty => "the text is empty".to_owned(),
        Refusal::TooLong { bytes, limit } => format!("the text has {bytes} bytes, at most {limit} are allowed"),
        other => other.to_string(),
    }
}

/// Why something cannot be remembered or forgotten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// A text is no scope.
    #[error(transparent)]
    Scope(#[from] InvalidScope),
    /// A text is no level of scope.
    #[error("there is no level of scope `{0}`; there is user, project, agent and team")]
    Level(String),
    /// The session has no scope of this level.
    #[error("the client names no {0}, so nothing can be remembered of it")]
    Unnamed(&'static str),
    /// A text is no kind of memory.
    #[error("there is no kind of memory `{0}`; there is correction, preference, fact and decision")]
    Kind(String),
    /// The text is refused.
    #[error("it is not remembered: {0}")]
    Text(String),
    /// There is none of this id.
    #[error("{scope} has no memory `{id}`")]
    Unknown {
        /// The scope.
        scope: String,
        /// The id.
        id: String,
    },
    /// The scope is full.
    #[error("{scope} has {SCOPE_MEMORIES} memories already, and more would never be shown; forget some first")]
    Full {
        /// The scope.
        scope: String,
    },
    /// No scope has one of this id.
    #[error("no scope has a memory `{0}`")]
    Nowhere(String),
    /// It has expired, so it becomes no lesson.
    #[error("the memory `{0}` has expired and is not used; write it anew without an end")]
    Expired(String),
    /// Another one is used in its place, so it becomes no lesson.
    #[error("the memory `{id}` is not used, because `{by}` replaced it; promote that one")]
    Superseded {
        /// Its id.
        id: String,
        /// The id of the other one.
        by: String,
    },
    /// Its text is no lesson.
    #[error("it becomes no lesson: {0}")]
    NoLesson(String),
    /// The playbook has a lesson that says the same.
    #[error("the playbook {playbook} says the same already, in version {version}")]
    Known {
        /// The playbook.
        playbook: String,
        /// Its newest version.
        version: u64,
    },
    /// An exported file cannot be read.
    #[error("the file is no export of memory: {0}")]
    File(String),
}

/// A scope with the number of its memories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryScope {
    /// The scope.
    pub scope: String,
    /// Its memories that have not expired, used or not.
    pub memories: u64,
}

/// The kind of a name. Without one, what feedback says is a correction, and what somebody writes a preference.
fn kind(name: Option<&str>, is_feedback: bool) -> Result<MemoryKind, MemoryError> {
    let Some(name) = name else {
        return Ok(if is_feedback { MemoryKind::Correction } else { MemoryKind::Preference });
    };
    let known = MemoryKind::ALL.into_iter().find(|kind| kind.name() == name);
    known.ok_or_else(|| MemoryError::Kind(clawhost_core::escaped(name, 60)))
}

/// The scopes of a party, the narrowest first.
fn scopes(party: MemoryParty<'_>) -> Vec<Scope> {
    let MemoryParty { owner, team, session } = party;
    let user = Some(session.user.as_deref().unwrap_or_default());
    let agent = Some(session.agent.as_str()).filter(|agent| !agent.is_empty());
    let named = [
        (ScopeLevel::User, user),
        (ScopeLevel::Project, session.project.as_deref()),
        (ScopeLevel::Agent, agent),
        (ScopeLevel::Team, team),
    ];
    named.into_iter().filter_map(|(level, name)| Scope::new(level, owner, name?).ok()).collect()
}

/// The scope of a party at a level. `None`: the user.
fn scope_at(party: MemoryParty<'_>, level: Option<&str>) -> Result<Scope, MemoryError> {
    let level = match level {
        None => ScopeLevel::User,
        Some(name) => {
            let known = ScopeLevel::ALL.into_iter().find(|level| level.name() == name);
            known.ok_or_else(|| MemoryError::Level(clawhost_core::escaped(name, 60)))?
        }
    };
    scopes(party).into_iter().find(|scope| scope.level() == level).ok_or(MemoryError::Unnamed(level.name()))
}

/// Whether anything is remembered of the scopes of a session, used or not.
pub(super) fn has_some(reader: &Reader, party: MemoryParty<'_>) -> Result<bool, AppError> {
    let names: Vec<String> = scopes(party).iter().map(ToString::to_string).collect();
    Ok(reader.has_memories(&names)?)
}

/// What is remembered of the scopes of a session and is used at a time.
pub(super) fn of_session(reader: &Reader, party: MemoryParty<'_>, now: u64) -> Result<Vec<ScopeMemory>, AppError> {
    let mut found = Vec::new();
    for scope in scopes(party) {
        let rows = resolved(reader, &scope.to_string(), now)?;
        let memories: Vec<Memory> = rows.iter().filter(|row| is_used(row, now)).filter_map(memory).collect();
        if !memories.is_empty() {
            found.push(ScopeMemory { scope, memories });
        }
    }
    Ok(found)
}

/// All memories of a scope, oldest first, each with what is used in its place at a time. What has expired replaces nothing: where it was
/// itself replaced, that counts, as if it had been forgotten.
pub(super) fn resolved(reader: &dyn MemoryReader, scope: &str, now: u64) -> Result<Vec<MemoryRow>, StoreError> {
    let mut rows = reader.memories(scope)?;
    let expired: BTreeMap<String, Option<String>> = rows
        .iter()
        .filter(|row| has_expired(row, now))
        .map(|row| (row.id.clone(), row.superseded_by.clone()))
        .collect();
    for row in &mut rows {
        // Each step leads to another one that has expired, so more steps than those would go round in a circle.
        for _ in 0..=expired.len() {
            let Some(next) = row.superseded_by.as_ref().and_then(|by| expired.get(by)) else { break };
            row.superseded_by.clone_from(next);
        }
    }
    Ok(rows)
}

/// Whether a memory of [`resolved`] is used at that time.
fn is_used(row: &MemoryRow, now: u64) -> bool {
    row.superseded_by.is_none() && !has_expired(row, now)
}

pub(super) fn has_expired(row: &MemoryRow, now: u64) -> bool {
    row.expires_at.is_some_and(|at| at <= now)
}

/// The memory of a row. One that another version of the program wrote is left out.
pub(super) fn memory(row: &MemoryRow) -> Option<Memory> {
    serde_json::from_str(&row.document).ok()
}

/// The episode that a memory corrects, as `RUN/EPISODE`.
pub(crate) fn corrected_episode(row: &MemoryRow) -> Option<String> {
    match memory(row)?.source {
        MemorySource::Feedback(episode) => Some(episode),
        _ => None,
    }
}

fn item(row: &MemoryRow, now: u64) -> Option<MemoryItem> {
    let Memory { kind, lesson, source } = memory(row)?;
    let episode = match source {
        MemorySource::Feedback(episode) => Some(episode),
        MemorySource::Written | MemorySource::Import => None,
    };
    Some(MemoryItem {
        id: row.id.clone(),
        scope: row.scope.clone(),
        kind: kind.name().to_owned(),
        text: lesson.line(),
        written_at: row.at,
        expires_at: row.expires_at,
        expired: has_expired(row, now),
        superseded_by: row.superseded_by.clone(),
        episode,
    })
}

/// The items of a scope that have every word of a query, newest first. `expired`: also those that have expired and are still stored.
fn items(
    reader: &dyn MemoryReader,
    scope: &str,
    (query, expired): (Option<&str>, bool),
    now: u64,
) -> Result<Vec<MemoryItem>, StoreError> {
    let words: Vec<String> = query.unwrap_or_default().split_whitespace().map(str::to_lowercase).collect();
    let matches = |item: &MemoryItem| {
        let text = item.text.to_lowercase();
        (expired || !item.expired) && words.iter().all(|word| text.contains(word.as_str()))
    };
    let rows = resolved(reader, scope, now)?;
    Ok(rows.iter().rev().filter_map(|row| item(row, now)).filter(matches).collect())
}

/// A memory to write.
struct Draft {
    scope: Scope,
    memory: Memory,
    /// The id of the memory in whose place it is used.
    supersedes: Option<String>,
    /// Unix time in milliseconds from which it is not used.
    expires_at: Option<u64>,
}

/// Checks a text, and makes a memory of it.
fn checked(kind: MemoryKind, text: &str, source: MemorySource) -> Result<Memory, MemoryError> {
    Memory::read(kind, text, source).map_err(|refusal| MemoryError::Text(said(&refusal)))
}

impl Draft {
    /// The draft of a new memory.
    fn new(scope: Scope, new: NewMemory, at: u64) -> Result<Self, MemoryError> {
        let kind = kind(new.kind.as_deref(), new.episode.is_some())?;
        let memory = checked(kind, &new.text, new.episode.map_or(MemorySource::Written, MemorySource::Feedback))?;
        if new.expires_days == Some(0) {
            return Err(MemoryError::Text("it would expire at once; give it a day at least".to_owned()));
        }
        let expires_at = new.expires_days.map(|days| at.saturating_add(u64::from(days).saturating_mul(DAY_MS)));
        Ok(Self { scope, memory, supersedes: new.supersedes, expires_at })
    }

    /// Its row, if it may be written. `known`: the memories of the scope that have not expired.
    fn row(&self, known: &[MemoryRow], at: u64) -> Result<MemoryRow, AppError> {
        let Self { scope, memory, supersedes, expires_at } = self;
        let (name, id) = (scope.to_string(), memory.id(scope));
        if let Some(former) = supersedes.as_ref().filter(|former| !known.iter().any(|row| row.id == **former)) {
            let id = clawhost_core::escaped(former, 60);
            return Err(MemoryError::Unknown { scope: name, id }.into());
        }
        let is_new = !known.iter().any(|row| row.id == id);
        if is_new && known.iter().filter(|row| is_used(row, at)).count() >= SCOPE_MEMORIES {
            return Err(MemoryError::Full { scope: name }.into());
        }
        let document = serde_json::to_string(memory).map_err(|error| StoreError::Other(format!("memory: {error}")))?;
        Ok(MemoryRow { scope: name, id, at, expires_at: *expires_at, superseded_by: None, document })
    }
}

/// Reads the memory of a data folder off the executor.
async fn reading<T: Send + 'static>(
    folder: &Path,
    read: impl FnOnce(&Reader) -> Result<T, AppError> + Send + 'static,
) -> Result<T, AppError> {
    let folder = folder.to_owned();
    let found = tokio::task::spawn_blocking(move || read(&Reader::open(&folder)?)).await;
    found.map_err(|error| AppError::Host(format!("memory was not read: {error}")))?
}

/// Writes a memory, and removes those of its scope that have expired.
async fn put(store: &Store, folder: &Path, draft: Draft, at: u64) -> Result<MemoryRow, AppError> {
    let supersedes = draft.supersedes.clone();
    let read = move |reader: &Reader| {
        let all = resolved(reader, &draft.scope.to_string(), at)?;
        let (expired, known): (Vec<MemoryRow>, Vec<MemoryRow>) = all.into_iter().partition(|row| has_expired(row, at));
        Ok((draft.row(&known, at)?, expired))
    };
    let (row, expired) = reading(folder, read).await?;
    // Also the same text, written again: what it had replaced is used again since it has expired.
    for MemoryRow { scope, id, .. } in expired {
        store.forget_memory(scope, id).await?;
    }
    store.remember(row.clone(), supersedes).await?;
    Ok(row)
}

async fn write(store: &Store, folder: &Path, scope: Scope, new: NewMemory, at: u64) -> Result<MemoryItem, AppError> {
    let row = put(store, folder, Draft::new(scope, new, at)?, at).await?;
    let unreadable = || StoreError::Other("the memory that was written cannot be read".to_owned());
    Ok(item(&row, at).ok_or_else(unreadable)?)
}

/// Remembers a text for a scope. Gateways use it from the next session on.
///
/// # Errors
/// The text is refused, the scope is full, or the data folder cannot be written.
pub async fn remember(workspace: &Workspace, scope: Scope, new: NewMemory) -> Result<MemoryItem, AppError> {
    write(&workspace.store(), workspace.folder(), scope, new, workspace.clock().now_ms()).await
}

/// What is remembered of a scope at a Unix time in milliseconds, newest first; only what has every word of `query`. `expired`: also what has
/// expired and is still stored.
///
/// # Errors
/// The data folder cannot be read.
pub fn list_memory(
    reader: &dyn MemoryReader,
    scope: &Scope,
    (query, expired): (Option<&str>, bool),
    now: u64,
) -> Result<Vec<MemoryItem>, AppError> {
    Ok(items(reader, &scope.to_string(), (query, expired), now)?)
}

/// Forgets a memory. What it had replaced is used again.
///
/// # Errors
/// There is none of this id, or the data folder cannot be written.
pub async fn forget_memory(workspace: &Workspace, scope: &Scope, id: &str) -> Result<(), AppError> {
    let scope = scope.to_string();
    match workspace.store().forget_memory(scope.clone(), id.to_owned()).await? {
        true => Ok(()),
        false => Err(MemoryError::Unknown { scope, id: clawhost_core::escaped(id, 60) }.into()),
    }
}

/// A memory in an exported file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportedMemory {
    kind: MemoryKind,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Export {
    format: u32,
    scope: String,
    memories: Vec<ExportedMemory>,
}

/// What is remembered and used of a scope at a Unix time in milliseconds, as a JSON text.
///
/// # Errors
/// The data folder cannot be read.
pub fn export_memory(reader: &dyn MemoryReader, scope: &Scope, now: u64) -> Result<String, AppError> {
    let rows = resolved(reader, &scope.to_string(), now)?;
    let used = rows.iter().filter(|row| is_used(row, now));
    let exported = |row: &MemoryRow| {
        let Memory { kind, lesson, .. } = memory(row)?;
        let text = lesson.prompt();
        let text = text.strip_prefix("- ").unwrap_or(&text).to_owned();
        Some(ExportedMemory { kind, text, expires_at: row.expires_at })
    };
    let export = Export { format: FORMAT, scope: scope.to_string(), memories: used.filter_map(exported).collect() };
    Ok(serde_json::to_string_pretty(&export).map_err(|error| StoreError::Other(format!("memory: {error}")))?)
}

/// Remembers what an exported text has, for a scope. What has expired since is left out. Returns how much was remembered.
///
/// # Errors
/// The text is no export, a memory is refused, or the data folder cannot be written. Memories before the refused one are kept.
pub async fn import_memory(workspace: &Workspace, scope: &Scope, text: &str) -> Result<u64, AppError> {
    let export: Export = serde_json::from_str(text).map_err(|error| MemoryError::File(error.to_string()))?;
    if export.format != FORMAT {
        return Err(MemoryError::File(format!("its format is {}, not {FORMAT}", export.format)).into());
    }
    let now = workspace.clock().now_ms();
    let mut count = 0;
    for ExportedMemory { kind, text, expires_at } in export.memories {
        if expires_at.is_some_and(|at| at <= now) {
            continue;
        }
        let memory = checked(kind, &text, MemorySource::Import)?;
        let draft = Draft { scope: scope.clone(), memory, supersedes: None, expires_at };
        put(&workspace.store(), workspace.folder(), draft, now).await?;
        count += 1;
    }
    Ok(count)
}

/// The memory of a gateway.
pub(crate) struct LiveMemory {
    store: Arc<Store>,
    folder: PathBuf,
    clock: Arc<dyn clawhost_core::Clock>,
    guide: Arc<LiveGuide>,
}

impl LiveMemory {
    /// The memory of a workspace's data folder. `guide`: what shows it.
    pub(crate) fn new(workspace: &Workspace, guide: Arc<LiveGuide>) -> Self {
        Self { store: workspace.store(), folder: workspace.folder().to_owned(), clock: workspace.clock(), guide }
    }
}

/// Turns an error into the reason that the client's answer gives.
fn not_remembered(error: AppError) -> NotRemembered {
    match error {
        AppError::Memory(MemoryError::Unknown { .. }) => NotRemembered::Unknown,
        AppError::Memory(other) => NotRemembered::Refused(other.to_string()),
        other => NotRemembered::Unavailable(other.to_string()),
    }
}

fn refused(error: &MemoryError) -> NotRemembered {
    NotRemembered::Refused(error.to_string())
}

#[async_trait]
impl MemoryBook for LiveMemory {
    async fn remember(&self, party: MemoryParty<'_>, new: NewMemory) -> Result<MemoryItem, NotRemembered> {
        if !self.guide.is_on() {
            let why = "this gateway only observes; its operator sets gateway.mode to skills for memory";
            return Err(NotRemembered::Refused(why.to_owned()));
        }
        let scope = scope_at(party, new.level.as_deref()).map_err(|error| refused(&error))?;
        write(&self.store, &self.folder, scope, new, self.clock.now_ms()).await.map_err(not_remembered)
    }

    async fn memories(
        &self,
        party: MemoryParty<'_>,
        level: Option<&str>,
        query: Option<&str>,
    ) -> Result<Vec<MemoryItem>, NotRemembered> {
        let asked = match level {
            Some(_) => vec![scope_at(party, level).map_err(|error| refused(&error))?],
            None => scopes(party),
        };
        let (query, now) = (query.map(str::to_owned), self.clock.now_ms());
        let read = move |reader: &Reader| {
            let all = asked.iter().map(|scope| items(reader, &scope.to_string(), (query.as_deref(), false), now));
            Ok(all.collect::<Result<Vec<_>, _>>()?.concat())
        };
        reading(&self.folder, read).await.map_err(not_remembered)
    }

    async fn forget(&self, owner: &str, id: &str) -> Result<String, NotRemembered> {
        let asked = id.to_owned();
        let known =
            reading(&self.folder, move |reader| Ok(reader.scopes_with(&asked)?)).await.map_err(not_remembered)?;
        let scopes = known.iter().filter_map(|scope| scope.parse::<Scope>().ok());
        let mut own = scopes.filter(|scope| scope.level() != ScopeLevel::Team && scope.owner() == owner);
        let scope = own.next().ok_or(NotRemembered::Unknown)?.to_string();
        let forgotten = self.store.forget_memory(scope.clone(), id.to_owned()).await;
        match forgotten.map_err(|error| NotRemembered::Unavailable(error.to_string()))? {
            true => Ok(scope),
            false => Err(NotRemembered::Unknown),
        }
    }
}

/// The scopes that have memory at a Unix time in milliseconds, without what has expired.
///
/// # Errors
/// The data folder cannot be read.
pub fn memory_scopes(reader: &dyn MemoryReader, now: u64) -> Result<Vec<MemoryScope>, AppError> {
    let mut found = Vec::new();
    for (scope, _) in reader.memory_scopes()? {
        let memories = reader.memories(&scope)?.iter().filter(|row| !has_expired(row, now)).count() as u64;
        if memories > 0 {
            found.push(MemoryScope { scope, memories });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
