//! Chooses the guidance of live sessions.

use super::bank::bank;
use super::book::of_session;
use super::section::{LiveMode, SkillsSection};
use crate::playbooks::{SkillStamp, document, read_playbook, skill_stamp, worth};
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
    let only = || names.first().filter(|_| names.len() == 1);
    let Some(name) = section.playbook.as_ref().or_else(only) else { return Ok(None) };
    Ok(reader.newest_version(name)?)
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
        let changed = self.read(|reader| {
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

    /// Reads the data folder. One reader is kept open: opening one costs more than what is read.
    fn read<T>(&self, read: impl FnOnce(&Reader) -> Result<T, AppError>) -> Result<T, AppError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().take();
        let reader = kept.map_or_else(|| Reader::open(&self.folder), Ok)?;
        let found = read(&reader);
        *idle() = Some(reader);
        found
    }
}

/// What serves a section.
fn made(reader: &Reader, mode: LiveMode, section: &SkillsSection) -> Result<Serving, AppError> {
    let version = served_version(reader, section)?;
    let made_from = MadeFrom::of(section, version.as_ref());
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
        let party = MemoryParty { owner, team, session };
        let memory = self.read(|reader| of_session(reader, party, at_ms));
        let memory = memory.unwrap_or_else(|error| {
            tracing::error!("the memory of a session cannot be read: {error}");
            Vec::new()
        });
        let guided = serving.sources.guide(&memory, &query(guiding.request));
        if guided.text.is_empty() {
            return None;
        }
        let by = serving.by.clone().filter(|_| !guided.shown.is_empty());
        Some(Guided::new(by, guided.shown, guided.text))
    }

    fn cache_ms(&self) -> u64 {
        self.serving().cache_ms
    }
}
