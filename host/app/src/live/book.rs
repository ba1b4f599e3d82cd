//! Memory: what is remembered of the scopes of sessions, for gateways and for their operators.

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
    /// An exported file cannot be read.
    #[error("the file is no export of memory: {0}")]
    File(String),
}

/// A scope with the number of its memories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryScope {
    /// The scope.
    pub scope: String,
    /// Its memories, used or not.
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
        let rows = reader.memories(&scope.to_string())?;
        let memories: Vec<Memory> = rows.iter().filter(|row| is_used(row, now)).filter_map(memory).collect();
        if !memories.is_empty() {
            found.push(ScopeMemory { scope, memories });
        }
    }
    Ok(found)
}

/// Whether a memory is used at a time.
fn is_used(row: &MemoryRow, now: u64) -> bool {
    row.superseded_by.is_none() && !has_expired(row, now)
}

fn has_expired(row: &MemoryRow, now: u64) -> bool {
    row.expires_at.is_some_and(|at| at <= now)
}

/// The memory of a row. One that another version of the program wrote is left out.
fn memory(row: &MemoryRow) -> Option<Memory> {
    serde_json::from_str(&row.document).ok()
}

/// The episode that a memory corrects, as `RUN/EPISODE`.
pub(crate) fn corrected_episode(row: &MemoryRow) -> Option<String> {
    match memory(row)?.source {
        MemorySource::Feedback(episode) => Some(episode),
        _ => None,
    }
}

fn item(row: &MemoryRow) -> Option<MemoryItem> {
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
        superseded_by: row.superseded_by.clone(),
        episode,
    })
}

/// The items of a scope that have every word of a query, newest first.
fn items(reader: &dyn MemoryReader, scope: &str, query: Option<&str>) -> Result<Vec<MemoryItem>, StoreError> {
    let words: Vec<String> = query.unwrap_or_default().split_whitespace().map(str::to_lowercase).collect();
    let matches = |item: &MemoryItem| {
        let text = item.text.to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    };
    Ok(reader.memories(scope)?.iter().rev().filter_map(item).filter(matches).collect())
}

/// The row of a new memory, if it may be written. `known`: all memories of the scope.
fn row(
    known: &[MemoryRow],
    scope: &Scope,
    (new, source): (&NewMemory, MemorySource),
    at: u64,
) -> Result<MemoryRow, AppError> {
    let kind = kind(new.kind.as_deref(), new.episode.is_some())?;
    let memory = Memory::read(kind, &new.text, source).map_err(|refusal| MemoryError::Text(said(&refusal)))?;
    if new.expires_days == Some(0) {
        return Err(MemoryError::Text("it would expire at once; give it a day at least".to_owned()).into());
    }
    let (name, id) = (scope.to_string(), memory.id(scope));
    if let Some(former) = new.supersedes.as_ref().filter(|former| !known.iter().any(|row| row.id == **former)) {
        let id = clawhost_core::escaped(former, 60);
        return Err(MemoryError::Unknown { scope: name, id }.into());
    }
    let is_new = !known.iter().any(|row| row.id == id);
    if is_new && known.iter().filter(|row| is_used(row, at)).count() >= SCOPE_MEMORIES {
        return Err(MemoryError::Full { scope: name }.into());
    }
    let document = serde_json::to_string(&memory).map_err(|error| StoreError::Other(format!("memory: {error}")))?;
    let expires_at = new.expires_days.map(|days| at.saturating_add(u64::from(days).saturating_mul(DAY_MS)));
    Ok(MemoryRow { scope: name, id, at, expires_at, superseded_by: None, document })
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

async fn write(store: &Store, folder: &Path, scope: Scope, new: NewMemory, at: u64) -> Result<MemoryItem, AppError> {
    let (name, supersedes) = (scope.to_string(), new.supersedes.clone());
    let asked = name.clone();
    let (row, expired) = reading(folder, move |reader| {
        let known = reader.memories(&asked)?;
        let source = new.episode.clone().map_or(MemorySource::Written, MemorySource::Feedback);
        let row = row(&known, &scope, (&new, source), at)?;
        let expired: Vec<String> = known.into_iter().filter(|row| has_expired(row, at)).map(|row| row.id).collect();
        Ok((row, expired))
    })
    .await?;
    for id in expired.into_iter().filter(|id| *id != row.id) {
        store.forget_memory(name.clone(), id).await?;
    }
    store.remember(row.clone(), supersedes).await?;
    let unreadable = || StoreError::Other("the memory that was written cannot be read".to_owned());
    Ok(item(&row).ok_or_else(unreadable)?)
}

/// Remembers a text for a scope. Gateways use it from the next session on.
///
/// # Errors
/// The text is refused, the scope is full, or the data folder cannot be written.
pub async fn remember(workspace: &Workspace, scope: Scope, new: NewMemory) -> Result<MemoryItem, AppError> {
    write(&workspace.store(), workspace.folder(), scope, new, workspace.clock().now_ms()).await
}

/// What is remembered of a scope, newest first; only what has every word of `query`.
///
/// # Errors
/// The data folder cannot be read.
pub fn list_memory(reader: &dyn MemoryReader, scope: &Scope, query: Option<&str>) -> Result<Vec<MemoryItem>, AppError> {
    Ok(items(reader, &scope.to_string(), query)?)
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
    let rows = reader.memories(&scope.to_string())?;
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

/// Remembers what an exported text has, for a scope. Returns how much.
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
        let kind = Some(kind.name().to_owned());
        let new = NewMemory { level: None, kind, text, episode: None, supersedes: None, expires_days: None };
        let row = {
            let reader = Reader::open(workspace.folder())?;
            row(&reader.memories(&scope.to_string())?, scope, (&new, MemorySource::Import), now)?
        };
        workspace.store().remember(MemoryRow { expires_at, ..row }, None).await?;
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
        let query = query.map(str::to_owned);
        let read = move |reader: &Reader| {
            let all = asked.iter().map(|scope| items(reader, &scope.to_string(), query.as_deref()));
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

/// The scopes that have memory.
///
/// # Errors
/// The data folder cannot be read.
pub fn memory_scopes(reader: &dyn MemoryReader) -> Result<Vec<MemoryScope>, AppError> {
    let all = reader.memory_scopes()?.into_iter();
    Ok(all.map(|(scope, memories)| MemoryScope { scope, memories }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkspaceSettings;
    use clawhost_learn::memory::SCOPE_MEMORIES;

    fn new(text: &str) -> NewMemory {
        NewMemory {
            level: None,
            kind: None,
            text: text.to_owned(),
            episode: None,
            supersedes: None,
            expires_days: None,
        }
    }

    fn opened() -> (tempfile::TempDir, Workspace, Scope) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(WorkspaceSettings::new(folder.path())).unwrap();
        (folder, workspace, "user:/ada".parse().unwrap())
    }

    #[tokio::test]
    async fn a_full_scope_takes_no_more() {
        let (_folder, workspace, scope) = opened();
        for number in 0..SCOPE_MEMORIES {
            remember(&workspace, scope.clone(), new(&format!("fact {number}"))).await.unwrap();
        }
        let refused = remember(&workspace, scope.clone(), new("one more")).await.unwrap_err().to_string();
        assert!(refused.contains("forget some first"), "{refused}");
        // One that it has already may be written again.
        remember(&workspace, scope, new("fact 7")).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_no_export_is_refused() {
        let (_folder, workspace, scope) = opened();
        for text in ["", "[]", r#"{"format": 2, "scope": "user:/", "memories": []}"#] {
            let refused = import_memory(&workspace, &scope, text).await.unwrap_err().to_string();
            assert!(refused.starts_with("the file is no export of memory: "), "{refused}");
        }
    }

    #[tokio::test]
    async fn what_has_expired_or_was_superseded_is_not_shown() {
        let (folder, workspace, scope) = opened();
        let kept = remember(&workspace, scope.clone(), new("Eva")).await.unwrap();
        let by = NewMemory { supersedes: Some(kept.id), ..new("Ada") };
        remember(&workspace, scope.clone(), by).await.unwrap();
        let short = NewMemory { expires_days: Some(1), ..new("in Bern this week") };
        remember(&workspace, scope, short).await.unwrap();
        let mut session = clawhost_core::LiveSession::new("s", "", "m");
        session.user = Some("ada".into());
        let party = MemoryParty { owner: "", team: None, session: &session };
        let reader = Reader::open(folder.path()).unwrap();
        let shown = |now: u64| {
            let found = of_session(&reader, party, now).unwrap();
            found[0].memories.iter().map(|memory| memory.lesson.line()).collect::<Vec<_>>()
        };
        let now = workspace.clock().now_ms();
        assert_eq!(shown(now), ["Ada", "in Bern this week"]);
        assert_eq!(shown(now + 2 * DAY_MS), ["Ada"]);
    }
}
