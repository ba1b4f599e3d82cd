//! Chooses the guidance of live sessions.

use super::bank::bank;
use super::book::of_session;
use super::section::{LiveMode, SkillsSection};
use crate::playbooks::{SkillStamp, chosen, document, read_playbook, skill_stamp, worth};
use crate::{AppError, RequestError};
use async_trait::async_trait;
use clawhost_core::{Message, ModelRequest, PlaybookReader as _, PlaybookVersion, Role};
use clawhost_gateway::{Guide, Guided, GuidedBy, Guiding, MemoryParty};
use clawhost_learn::Entry;
use clawhost_learn::guidance::GuidanceSources;
use clawhost_store::Reader;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Most bytes of a conversation that retrieval reads: the first and the last message of the user. A document that is pasted would match
/// everything.
const QUERY_BYTES: usize = 8 << 10;

/// What guides sessions now.
struct Serving {
    mode: LiveMode,
    cache_ms: u64,
    sources: Arc<GuidanceSources>,
    by: Option<GuidedBy>,
    /// What it was made from: when the same is asked for again, nothing is read.
    made_from: MadeFrom,
}

/// What guidance is made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct MadeFrom {
    section: SkillsSection,
    /// The playbook and its newest version.
    version: Option<(String, u64)>,
    /// The files of each folder.
    folders: Vec<SkillStamp>,
}

/// The guidance of a gateway.
pub(crate) struct LiveGuide {
    folder: PathBuf,
    serving: RwLock<Arc<Serving>>,
    /// An idle reader of the data folder.
    idle: Arc<Mutex<Option<Reader>>>,
}

/// The newest version of the playbook of a section.
fn served_version(reader: &Reader, section: &SkillsSection) -> Result<Option<PlaybookVersion>, AppError> {
    let names = reader.playbooks()?;
    if section.playbook.is_none() && names.len() != 1 {
        return Ok(None);
    }
    let name = chosen(reader, section.playbook.as_deref())?;
    Ok(reader.newest_version(&name)?)
}

/// Why no playbook is served, although there are some.
fn undecided(reader: &Reader, section: &SkillsSection) -> Result<Option<String>, AppError> {
    let names = reader.playbooks()?;
    let is_open = section.playbook.is_none() && names.len() > 1;
    Ok(is_open.then(|| format!("no playbook is served: there are {}; name one in skills.playbook", names.join(", "))))
}

/// The general skills of a section.
///
/// # Errors
/// A folder has no skills, or a skill cannot be read.
fn skills(section: &SkillsSection) -> Result<Vec<Entry>, AppError> {
    let mut all = Vec::new();
    for folder in &section.folders {
        let path = Path::new(folder);
        if !path.is_dir() {
            let why = "skills.folders: there is no such folder".to_owned();
            return Err(RequestError::File { path: folder.clone(), why }.into());
        }
        all.extend(read_playbook(path)?.playbook.entries);
    }
    if section.bank {
        all.extend(bank());
    }
    Ok(all)
}

impl MadeFrom {
    fn of(section: &SkillsSection, version: Option<&PlaybookVersion>) -> Self {
        let folders = section.folders.iter().map(|folder| skill_stamp(Path::new(folder))).collect();
        let version = version.map(|version| (version.name.clone(), version.number));
        Self { section: section.clone(), version, folders }
    }
}

impl LiveGuide {
    /// The guidance of a data folder.
    ///
    /// # Errors
    /// The playbook or a skill cannot be read.
    pub(crate) fn new(folder: &Path, mode: LiveMode, section: &SkillsSection) -> Result<Self, AppError> {
        let reader = Reader::open(folder)?;
        let serving = made(&reader, mode, section)?;
        Ok(Self {
            folder: folder.to_owned(),
            serving: RwLock::new(Arc::new(serving)),
            idle: Arc::new(Mutex::new(Some(reader))),
        })
    }

    /// What sessions get, for people. `None`: nothing.
    pub(crate) fn described(&self) -> Option<String> {
        let serving = self.serving();
        if serving.mode == LiveMode::Observe {
            return None;
        }
        let playbook = serving
            .by
            .as_ref()
            .map_or_else(|| "no playbook".to_owned(), |by| format!("playbook {}, version {}", by.playbook, by.version));
        let skills = clawhost_core::counted(serving.sources.skills() as u64, "skill");
        Some(format!("{playbook}; {skills}; memory of users"))
    }

    fn serving(&self) -> Arc<Serving> {
        self.serving.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a changed configuration, a new version of the playbook and changed skills over. New sessions get them. Returns whether
    /// something has changed.
    ///
    /// # Errors
    /// The playbook or a skill cannot be read. Then everything stays as it is.
    pub(crate) fn refresh(&self, mode: LiveMode, section: &SkillsSection) -> Result<bool, AppError> {
        let now = self.serving();
        if mode == LiveMode::Observe && now.mode == mode {
            return Ok(false);
        }
        let changed = reading(&self.idle, &self.folder, |reader| {
            let version = served_version(reader, section)?;
            let is_same = now.mode == mode && now.made_from == MadeFrom::of(section, version.as_ref());
            if is_same { Ok(None) } else { made(reader, mode, section).map(Some) }
        })?;
        let has_changed = changed.is_some();
        if let Some(serving) = changed {
            *self.serving.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(serving);
        }
        Ok(has_changed)
    }
}

/// Reads the data folder. One reader is kept open: opening one costs more than what is read.
fn reading<T>(
    idle: &Mutex<Option<Reader>>,
    folder: &Path,
    read: impl FnOnce(&Reader) -> Result<T, AppError>,
) -> Result<T, AppError> {
    let idle = || idle.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = idle().take();
    let reader = kept.map_or_else(|| Reader::open(folder), Ok)?;
    let found = read(&reader);
    *idle() = Some(reader);
    found
}

/// What serves a section.
fn made(reader: &Reader, mode: LiveMode, section: &SkillsSection) -> Result<Serving, AppError> {
    let version = served_version(reader, section)?;
    let made_from = MadeFrom::of(section, version.as_ref());
    if mode == LiveMode::Skills
        && let Some(why) = undecided(reader, section)?
    {
        tracing::warn!("{why}");
    }
    let by = version.as_ref().map(|version| GuidedBy { playbook: version.name.clone(), version: version.number });
    let worth = version.as_ref().map(|version| worth(reader, &version.name)).transpose()?.unwrap_or_default();
    let playbook = version.as_ref().map(document).transpose()?.map(|playbook| (playbook, &worth));
    let sources = Arc::new(GuidanceSources::new(playbook, skills(section)?, section.tokens()));
    Ok(Serving { mode, cache_ms: section.cache_ms(), sources, by, made_from })
}

/// What its user asks for in a conversation: the first message of the user and the last one.
fn query(request: &ModelRequest) -> String {
    let said: Vec<&Message> = request.messages.iter().filter(|message| message.role == Role::User).collect();
    let ends = said.first().into_iter().chain(said.last().filter(|_| said.len() > 1));
    let part = QUERY_BYTES / 2;
    let cut = |message: &&Message| {
        let text = message.plain_text();
        let end = (0..=part.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.get(..end).unwrap_or_default().to_owned()
    };
    ends.map(cut).collect::<Vec<_>>().join("\n")
}

#[async_trait]
impl Guide for LiveGuide {
    fn is_on(&self) -> bool {
        self.serving().mode == LiveMode::Skills
    }

    async fn guide(&self, guiding: &Guiding<'_>) -> Option<Guided> {
        let serving = self.serving();
        let Guiding { session, owner, team, at_ms, .. } = *guiding;
        let (owner, team, session) = (owner.to_owned(), team.map(str::to_owned), session.clone());
        let (idle, folder) = (self.idle.clone(), self.folder.clone());
        let read = move || {
            let party = MemoryParty { owner: &owner, team: team.as_deref(), session: &session };
            reading(&idle, &folder, |reader| of_session(reader, party, at_ms))
        };
        let read = tokio::task::spawn_blocking(read).await;
        let memory = read.unwrap_or_else(|error| Err(AppError::Host(error.to_string()))).unwrap_or_else(|error| {
            tracing::error!("the memory of a session cannot be read: {error}");
            Vec::new()
        });
        let guided = serving.sources.guide(&memory, &query(guiding.request));
        if guided.text.is_empty() {
            return None;
        }
        let by = serving.by.clone().filter(|_| guided.has_lessons);
        Some(Guided::new(by, guided.shown, guided.text))
    }

    fn cache_ms(&self) -> u64 {
        self.serving().cache_ms
    }
}
