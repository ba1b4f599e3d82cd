//! Chooses the guidance of live sessions.

use super::bank::bank;
use super::book::{has_some, of_session};
use super::learning::{Drawing, LearningSection, Plan, trials_of};
use super::opted_in::OptedIn;
use super::readers::Readers;
use super::section::{LiveMode, SkillsSection};
use super::text_vectors::{Asked, TEXT_BYTES, TextVectors, remembered_texts, texts};
use crate::playbooks::{SkillStamp, chosen, document, pick, read_playbook, skill_stamp, worth};
use crate::{AppError, RequestError};
use async_trait::async_trait;
use clawhost_core::{
    Clock, Embedding, EmbeddingModel, Message, ModelRequest, PlaybookReader as _, PlaybookVersion, Retrieval, Role,
    TrialsReader as _,
};
use clawhost_gateway::{Draws, GuidanceChoice, Guide, Guided, GuidedBy, Guiding, MemoryParty};
use clawhost_learn::guidance::{GuidanceSources, ServedPlaybook};
use clawhost_learn::live::trials::{Admitted, changes_manner};
use clawhost_learn::memory::ScopeMemory;
use clawhost_learn::playbook::{Meaning, Query};
use clawhost_learn::{Entry, EntryId};
use clawhost_store::Reader;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// Most bytes of a conversation that retrieval reads: the first and the last message of the user. A document that is pasted would match
/// everything.
const QUERY_BYTES: usize = 8 << 10;

/// What guides sessions now.
struct Serving {
    mode: LiveMode,
    cache_ms: u64,
    /// The name of the playbook, if one is served or learned.
    playbook: Option<String>,
    newest: Served,
    /// The version before the newest one, if some sessions stay on it.
    previous: Option<Served>,
    /// What is drawn for sessions, if something is.
    drawing: Option<Drawing>,
    /// What it was made from: when the same is asked for again, nothing is read.
    made_from: MadeFrom,
}

/// A version of the playbook with the skills beside it.
#[derive(Clone)]
struct Served {
    sources: Arc<GuidanceSources>,
    /// The number of the version; 0 is the empty playbook.
    number: u64,
}

/// The playbook that is begun where there is none.
pub(super) const FIRST_PLAYBOOK: &str = "live";

/// What guidance is made from.
#[derive(Debug, Clone, Default, PartialEq)]
struct MadeFrom {
    section: SkillsSection,
    /// The playbook and its newest version.
    version: Option<(String, u64)>,
    /// The files of each folder.
    folders: Vec<SkillStamp>,
    /// What is tried and compared, if lessons are tried.
    plan: Option<Plan>,
}

/// The guidance of a gateway.
pub(crate) struct LiveGuide {
    learning: Learning,
    serving: RwLock<Arc<Serving>>,
    vectors: TextVectors,
    readers: Readers,
}

/// How lessons are learned, and the secret of the draws.
struct Learning {
    section: LearningSection,
    secret: [u8; 32],
    /// Whose sessions are drawn for.
    from: OptedIn,
}

/// The name of the playbook of a section. `None`: there are several, or there is none and none is learned.
fn playbook_name(reader: &Reader, mode: LiveMode, section: &SkillsSection) -> Result<Option<String>, AppError> {
    let names = reader.playbooks()?;
    match (&section.playbook, names.as_slice()) {
        // The first version of a playbook may be learned here.
        (Some(name), _) if mode == LiveMode::Auto => {
            crate::playbooks::check_name(name)?;
            Ok(Some(name.clone()))
        }
        (Some(name), _) => Ok(Some(chosen(reader, Some(name))?)),
        (None, [only]) => Ok(Some(only.clone())),
        (None, []) if mode == LiveMode::Auto => Ok(Some(FIRST_PLAYBOOK.to_owned())),
        (None, _) => Ok(None),
    }
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
    fn of(section: &SkillsSection, version: Option<&PlaybookVersion>, plan: Option<Plan>) -> Self {
        let folders = section.folders.iter().map(|folder| skill_stamp(Path::new(folder))).collect();
        let version = version.map(|version| (version.name.clone(), version.number));
        Self { section: section.clone(), version, folders, plan }
    }
}

impl LiveGuide {
    /// The guidance of a data folder.
    ///
    /// # Errors
    /// The playbook or a skill cannot be read.
    pub(crate) fn new(
        folder: &Path,
        mode: LiveMode,
        section: &SkillsSection,
        (learning, secret): (LearningSection, [u8; 32]),
    ) -> Result<Self, AppError> {
        let reader = Reader::open(folder)?;
        let wrong = |why| RequestError::File { path: crate::GATEWAY_FILE.to_owned(), why };
        let from = learning.opted_in().map_err(wrong)?;
        let learning = Learning { section: learning, secret, from };
        let (made_from, version) = looked(&reader, mode, section, &learning)?;
        let serving = made(&reader, mode, made_from, version, &learning)?;
        Ok(Self {
            learning,
            serving: RwLock::new(Arc::new(serving)),
            vectors: TextVectors::default(),
            readers: Readers::with(folder, reader),
        })
    }

    /// What sessions get, for people. `None`: nothing.
    pub(crate) fn described(&self) -> Option<String> {
        let serving = self.serving();
        if serving.mode == LiveMode::Observe {
            return None;
        }
        let playbook = match (&serving.playbook, serving.newest.number) {
            (None, _) | (_, 0) => "no playbook".to_owned(),
            (Some(playbook), number) => format!("playbook {playbook}, version {number}"),
        };
        let skills = clawhost_core::counted(serving.newest.sources.skills() as u64, "skill");
        let learns = match (serving.mode, self.learning.section.live_trials) {
            (LiveMode::Auto, true) => "; lessons are tried on sessions",
            (LiveMode::Auto, false) => "; lessons are proposed, and none is tried",
            _ => "",
        };
        Some(format!("{playbook}; {skills}; memory of users{learns}"))
    }

    /// The playbook whose lessons are learned from live sessions. `None`: none is, or there are several and none is named.
    ///
    /// # Errors
    /// The data folder cannot be read.
    pub(crate) fn learned_playbook(&self) -> Result<Option<String>, AppError> {
        if self.serving().mode == LiveMode::Auto { self.served_playbook() } else { Ok(None) }
    }

    /// The playbook that sessions get, or whose first version is learned. `None`: none, or there are several and none is named.
    ///
    /// # Errors
    /// The data folder cannot be read.
    pub(crate) fn served_playbook(&self) -> Result<Option<String>, AppError> {
        let serving = self.serving();
        if serving.mode == LiveMode::Observe {
            return Ok(None);
        }
        let section = &serving.made_from.section;
        self.readers.read(|reader| playbook_name(reader, serving.mode, section))
    }

    /// Takes the model of `skills.embeddings`. `None`: entries are found by words alone.
    pub(crate) fn set_embeddings(&self, model: Option<Arc<dyn EmbeddingModel>>) {
        if self.vectors.set_model(model) {
            self.want_vectors();
        }
    }

    /// Makes the vectors of the served texts until it is dropped.
    pub(crate) async fn make_vectors(self: Arc<Self>, clock: Arc<dyn Clock>) {
        self.vectors.run(|| clock.now_ms()).await;
    }

    /// Has vectors made of what is served.
    fn want_vectors(&self) {
        let serving = self.serving();
        if serving.mode != LiveMode::Observe {
            let all = std::iter::once(&serving.newest).chain(&serving.previous);
            self.vectors.want(all.flat_map(|served| served.sources.prose_texts()));
        }
    }

    /// What is remembered of the scopes of a session.
    async fn memory(&self, party: MemoryParty<'_>, at_ms: u64) -> Vec<ScopeMemory> {
        let MemoryParty { owner, team, session } = party;
        let (owner, team, session) = (owner.to_owned(), team.map(str::to_owned), session.clone());
        let readers = self.readers.clone();
        let read = move || {
            let party = MemoryParty { owner: &owner, team: team.as_deref(), session: &session };
            readers.read(|reader| of_session(reader, party, at_ms))
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| Err(AppError::Host(error.to_string()))).unwrap_or_else(|error| {
            tracing::error!("the memory of a session cannot be read: {error}");
            Vec::new()
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
        let changed = self.readers.read(|reader| {
            let (made_from, version) = looked(reader, mode, section, &self.learning)?;
            let is_same = now.mode == mode && now.made_from == made_from;
            if is_same { Ok(None) } else { made(reader, mode, made_from, version, &self.learning).map(Some) }
        })?;
        let has_changed = changed.is_some();
        if let Some(serving) = changed {
            *self.serving.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(serving);
            self.want_vectors();
        }
        Ok(has_changed)
    }
}

/// What guidance of a section is made from now, and the newest version.
fn looked(
    reader: &Reader,
    mode: LiveMode,
    section: &SkillsSection,
    learning: &Learning,
) -> Result<(MadeFrom, Option<PlaybookVersion>), AppError> {
    let name = playbook_name(reader, mode, section)?;
    let version = name.as_ref().map(|name| reader.newest_version(name)).transpose()?.flatten();
    let tries = mode == LiveMode::Auto && learning.section.live_trials;
    let plan = name.as_ref().filter(|_| tries).map(|name| {
        let trials = trials_of(&reader.trials(name)?, name)?;
        Ok::<_, AppError>(Plan::of(&trials, learning.section.settings()?))
    });
    Ok((MadeFrom::of(section, version.as_ref(), plan.transpose()?), version))
}

/// What serves a section.
fn made(
    reader: &Reader,
    mode: LiveMode,
    made_from: MadeFrom,
    version: Option<PlaybookVersion>,
    learning: &Learning,
) -> Result<Serving, AppError> {
    let section = &made_from.section;
    if mode != LiveMode::Observe
        && let Some(why) = undecided(reader, section)?
    {
        tracing::warn!("{why}");
    }
    let plan = made_from.plan.clone();
    let playbook = playbook_name(reader, mode, section)?;
    let drawing = plan.zip(playbook.as_ref());
    let drawing = drawing.map(|(plan, name)| Drawing::new(&learning.secret, name, plan));
    let skills = skills(section)?;
    let served = |version: Option<&PlaybookVersion>, trials: Vec<Entry>| -> Result<Served, AppError> {
        let number = version.map_or(0, |version| version.number);
        let mut worth = version.map(|version| worth(reader, &version.name)).transpose()?.unwrap_or_default();
        if let Some(version) = version {
            worth.extend(live_worth(reader, &version.name)?);
        }
        let playbook = version.map(document).transpose()?;
        // A lesson on trial needs no version before it.
        let playbook = playbook.or_else(|| (!trials.is_empty()).then(Default::default));
        let playbook = playbook.map(|playbook| ServedPlaybook { playbook, worth: &worth, trials });
        Ok(Served { sources: Arc::new(GuidanceSources::new(playbook, skills.clone(), section.tokens())), number })
    };
    let plan = drawing.as_ref().map(|drawing| &drawing.plan);
    let newest = served(version.as_ref(), plan.map(|plan| plan.trials.clone()).unwrap_or_default())?;
    let watch = plan.and_then(|plan| plan.watch.as_ref()).zip(version.as_ref());
    let previous = watch.filter(|(watch, version)| watch.version == version.number).map(|(watch, version)| {
        let before = (watch.previous > 0).then(|| pick(reader, &version.name, Some(watch.previous))).transpose()?;
        let read = |version: Option<&PlaybookVersion>| {
            Ok::<_, AppError>(version.map(document).transpose()?.unwrap_or_default())
        };
        let by_user = changes_manner(&read(before.as_ref())?, &read(Some(version))?);
        // Lessons on trial are tried in both arms, so that the arms differ by the versions alone.
        Ok::<_, AppError>((served(before.as_ref(), plan.map(|plan| plan.trials.clone()).unwrap_or_default())?, by_user))
    });
    let (previous, by_user) = previous.transpose()?.unzip();
    let drawing = drawing.map(|drawing| drawing.versions_by_user(by_user.unwrap_or_default()));
    Ok(Serving { mode, cache_ms: section.cache_ms(), playbook, newest, previous, drawing, made_from })
}

/// What live trials found that served lessons add at least, on a scale of 0 to 1: where the budget is short, lessons that add more go first.
fn live_worth(reader: &Reader, name: &str) -> Result<Vec<(EntryId, f64)>, AppError> {
    let trials = trials_of(&reader.trials(name)?, name)?;
    let worth = |one: &Admitted| Some((one.entry.id.clone(), one.estimate.as_ref()?.interval.0.max(0.0)));
    Ok(trials.admitted().iter().filter_map(worth).collect())
}

/// What its user asks for in a conversation: the first message of the user and the last one, each up to a half of so many bytes.
fn query(request: &ModelRequest, bytes: usize) -> String {
    let said: Vec<&Message> = request.messages.iter().filter(|message| message.role == Role::User).collect();
    let ends = said.first().into_iter().chain(said.last().filter(|_| said.len() > 1));
    let part = bytes / 2;
    let cut = |message: &&Message| {
        let text = message.plain_text();
        let end = (0..=part.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.get(..end).unwrap_or_default().to_owned()
    };
    ends.map(cut).collect::<Vec<_>>().join("\n")
}

/// What a session asks, with its meaning if that is known.
struct SessionQuery<'a> {
    text: String,
    vectors: &'a TextVectors,
    asked: Asked,
}

impl SessionQuery<'_> {
    /// How entries are found.
    fn retrieval(&self) -> Option<Retrieval> {
        match self.asked {
            Asked::Nothing => None,
            Asked::Vector(_) => Some(Retrieval::Embeddings),
            Asked::Failed => Some(Retrieval::Words),
        }
    }

    fn vector(&self) -> Option<&Embedding> {
        match &self.asked {
            Asked::Vector(vector) => Some(vector),
            Asked::Nothing | Asked::Failed => None,
        }
    }
}

impl Serving {
    /// The guidance of a session: what is drawn for it, then what is chosen.
    fn choose(
        &self,
        memory: &[ScopeMemory],
        guiding: &Guiding<'_>,
        asked: &SessionQuery<'_>,
    ) -> Result<GuidanceChoice, AppError> {
        let drawing = self.drawing.as_ref().filter(|_| guiding.draws == Draws::New);
        let drawing = drawing.map(|drawing| drawing.session(guiding, self.previous.is_some()));
        let version = drawing.as_ref().and_then(|drawing| drawing.version);
        let (kept, began_with) = match guiding.draws {
            Draws::New => (&[][..], None),
            Draws::Kept { entries, version } => (entries, version),
        };
        // What a session was shown on trial may be served since, in the newest version alone.
        let shown: Vec<&str> = kept.iter().filter(|draw| draw.shown).map(|draw| draw.entry.as_str()).collect();
        let has_all = |one: &Served| one.sources.count_of(&shown) >= self.newest.sources.count_of(&shown);
        let previous = self.previous.as_ref().filter(|previous| match &version {
            Some(draw) => draw.previous,
            None => began_with.is_some_and(|began| began == previous.number) && has_all(previous),
        });
        let served = previous.unwrap_or(&self.newest);
        let shows = |entry: &Entry| match &drawing {
            Some(drawing) => drawing.shows(entry),
            None => kept.iter().find(|draw| draw.entry == entry.id.0).map(|draw| draw.shown),
        };
        let session = drawing.as_ref().map_or(0, |drawing| drawing.number());
        let (least, known) = (self.made_from.section.least_similarity(), |text: &str| asked.vectors.vector(text));
        let meaning = asked.vector().map(|vector| Meaning { vector, known: &known, least });
        let guided = served.sources.guide(memory, (session, Query::new(&asked.text, meaning)), shows);
        let recorded = drawing.as_ref().map(|drawing| drawing.recorded(&guided.drawn, served.number)).transpose()?;
        let (entries, drawn) = match recorded {
            Some((entries, drawn)) => (entries, Some(drawn)),
            None => (kept.to_vec(), None),
        };
        // Which version a session began with must be known when its guidance is chosen anew.
        let is_compared = version.is_some() || began_with.is_some();
        if guided.text.is_empty() && entries.is_empty() && !is_compared {
            return Ok(GuidanceChoice { guided: None, drawn });
        }
        let by = self.playbook.clone().map(|playbook| GuidedBy { playbook, version: served.number });
        let by = by.filter(|_| guided.has_lessons || !entries.is_empty() || is_compared);
        let guided = Guided::new(by, guided.shown, guided.text).with_drawn(entries).found_by(asked.retrieval());
        Ok(GuidanceChoice { guided: Some(guided), drawn })
    }
}

#[async_trait]
impl Guide for LiveGuide {
    fn is_on(&self) -> bool {
        self.serving().mode != LiveMode::Observe
    }

    async fn guide(&self, guiding: &Guiding<'_>) -> GuidanceChoice {
        let serving = self.serving();
        let Guiding { session, owner, team, at_ms, .. } = *guiding;
        let party = MemoryParty { owner, team, session };
        // Most sessions have none. To look is quicker than to hand the work to another thread; what may be much is read there.
        let has_none = self.readers.read(|reader| has_some(reader, party)).is_ok_and(|has_some| !has_some);
        let memory = if has_none { Vec::new() } else { self.memory(party, at_ms).await };
        self.vectors.want(remembered_texts(&memory));
        let text = query(guiding.request, QUERY_BYTES);
        let short = query(guiding.request, TEXT_BYTES);
        let asked = self.vectors.asked(&short, texts(&serving.newest.sources, &memory), at_ms).await;
        if self.vectors.is_emptied() {
            self.want_vectors();
        }
        let asked = SessionQuery { text, vectors: &self.vectors, asked };
        let may_draw = guiding.draws != Draws::New || self.learning.from.has(owner, session);
        let draws = if may_draw { guiding.draws } else { Draws::Kept { entries: &[], version: None } };
        let guiding = Guiding { draws, ..*guiding };
        serving.choose(&memory, &guiding, &asked).unwrap_or_else(|error| {
            tracing::error!("a session gets no guidance: {error}");
            GuidanceChoice::default()
        })
    }

    fn cache_ms(&self) -> u64 {
        self.serving().cache_ms
    }
}
