//! Finds the sessions that are forgotten, and what the store has to forget with them.

use super::request::{ForgetError, ForgetRequest, ForgetScope};
use super::{draws, lessons};
use crate::AppError;
use crate::live::{corrected_episode, user_number};
use crate::runs::run_id;
use clawhost_capture::{Exchange, parent_of};
use clawhost_core::{
    EpisodeFilter, EpisodeId, Forgetting, LiveSession, RunId, RunKind, StoreError, StoreReader, escaped,
};
use clawhost_learn::live::trials::ForgottenLessons;
use clawhost_learn::memory::{Scope, ScopeLevel};
use std::collections::BTreeSet;

/// A live episode by its run and its id.
type Name = (RunId, EpisodeId);

/// A session, in progress or ended.
pub(super) struct Session {
    pub(super) name: Name,
    /// Name of the key of its client; empty without one.
    pub(super) owner: String,
    pub(super) session: LiveSession,
    /// The session from which it comes.
    parent: Option<Name>,
}

impl Session {
    /// The number of its user.
    fn user(&self) -> u64 {
        user_number(&self.owner, self.session.user.as_deref())
    }
}

/// What is forgotten.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) forgetting: Forgetting,
    pub(super) lessons: ForgottenLessons,
    /// Episodes that cannot be read.
    pub(super) unreadable: Vec<String>,
}

/// The sessions of a data folder, as far as they are asked about.
#[derive(Default)]
struct Sessions {
    all: Vec<Session>,
    unreadable: Vec<Name>,
}

fn shown((run, id): &Name) -> String {
    format!("{run}/{id}")
}

impl Sessions {
    /// The sessions of a key, or of all.
    fn read(reader: &dyn StoreReader, owner: Option<&str>) -> Result<Self, AppError> {
        let mut found = Self::default();
        let runs = reader.runs(None)?.into_iter().filter(|run| run.kind == RunKind::Live);
        for run in runs.filter(|run| owner.is_none_or(|owner| run.live_owner() == owner)) {
            let owner = run.live_owner().to_owned();
            let listed = reader.list_episodes(&EpisodeFilter::of(&run.id))?;
            let damaged =
                listed.damaged.into_iter().filter_map(|one| one.record.split_once('/').map(|(_, id)| id.to_owned()));
            for id in listed.rows.into_iter().map(|row| row.id).chain(damaged) {
                found.add(reader, (run.id.clone(), EpisodeId(id)), &owner)?;
            }
            for progress in reader.open_episodes(Some(&run.id))? {
                let name = (run.id.clone(), progress.episode.id);
                let first = reader.exchanges(&name.0, &name.1)?.into_iter().next();
                let first = first.and_then(|document| serde_json::from_str::<Exchange>(&document).ok());
                let parent = first.and_then(|first| first.parent).map(|parent| (parent.run, parent.episode));
                found.all.push(Session { name, owner: owner.clone(), session: progress.episode.session, parent });
            }
        }
        Ok(found)
    }

    /// Adds an ended one.
    fn add(&mut self, reader: &dyn StoreReader, name: Name, owner: &str) -> Result<(), AppError> {
        match reader.episode(&shown(&name)) {
            Ok(Some(episode)) => {
                let parent = parent_of(&episode.log);
                let session = episode.origin.session().cloned();
                self.all.extend(session.map(|session| Session { name, owner: owner.to_owned(), session, parent }));
            }
            Ok(None) => {}
            Err(StoreError::Damaged { .. } | StoreError::BlobMissing { .. } | StoreError::BlobDamaged { .. }) => {
                self.unreadable.push(name);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The names of those that are meant, and of everything that comes from them: it begins with what they said.
    fn with_branches(&self, meant: impl Fn(&Session) -> bool) -> BTreeSet<Name> {
        let mut chosen: BTreeSet<Name> = self.all.iter().filter(|one| meant(one)).map(|one| one.name.clone()).collect();
        loop {
            let comes = |one: &&Session| {
                !chosen.contains(&one.name) && one.parent.as_ref().is_some_and(|parent| chosen.contains(parent))
            };
            let more: Vec<Name> = self.all.iter().filter(comes).map(|one| one.name.clone()).collect();
            if more.is_empty() {
                return chosen;
            }
            chosen.extend(more);
        }
    }
}

/// Whether a session belongs to a scope.
fn is_of(scope: &ForgetScope, one: &Session) -> bool {
    let scope = match scope {
        ForgetScope::Key(name) => return one.owner == *name,
        ForgetScope::Scope(scope) => scope,
    };
    let LiveSession { user, project, agent, .. } = &one.session;
    let name = match scope.level() {
        // All clients that name no user are one.
        ScopeLevel::User => Some(user.as_deref().unwrap_or_default()),
        ScopeLevel::Project => project.as_deref(),
        ScopeLevel::Agent => Some(agent.as_str()),
        ScopeLevel::Team => None,
    };
    one.owner == scope.owner() && name == Some(scope.name())
}

/// The key to which a request is limited.
fn owner_of(scope: Option<&ForgetScope>) -> Option<&str> {
    scope.map(|scope| match scope {
        ForgetScope::Key(name) => name.as_str(),
        ForgetScope::Scope(scope) => scope.owner(),
    })
}

/// The run and the id of an episode that is named.
fn episode_named(reader: &dyn StoreReader, name: &str) -> Result<(Option<RunId>, String), AppError> {
    match name.split_once('/') {
        Some((run, id)) => Ok((Some(run_id(reader, run)?), id.to_owned())),
        None => Ok((None, name.to_owned())),
    }
}

/// The memories that are forgotten: those of a scope, and those that correct a forgotten session.
fn memories(
    reader: &dyn StoreReader,
    request: &ForgetRequest,
    episodes: &BTreeSet<String>,
) -> Result<BTreeSet<(String, String)>, AppError> {
    let scope = request.scope.as_ref().filter(|_| request.is_whole());
    let mut all = BTreeSet::new();
    for (name, _) in reader.memory_scopes()? {
        let is_meant = match scope {
            None => false,
            Some(ForgetScope::Scope(scope)) => scope.to_string() == name,
            Some(ForgetScope::Key(key)) => {
                name.parse::<Scope>().is_ok_and(|scope| scope.level() != ScopeLevel::Team && scope.owner() == key)
            }
        };
        for row in reader.memories(&name)? {
            let corrects = || corrected_episode(&row).is_some_and(|episode| episodes.contains(&episode));
            if is_meant || corrects() {
                all.insert((name.clone(), row.id));
            }
        }
    }
    Ok(all)
}

impl Selection {
    /// What a request names.
    ///
    /// # Errors
    /// A name means several, or the data folder cannot be read.
    pub(super) fn of(reader: &dyn StoreReader, request: &ForgetRequest) -> Result<Self, AppError> {
        let ForgetRequest { scope, session, episode, .. } = request;
        let episode = episode.as_deref().map(|name| episode_named(reader, name)).transpose()?;
        let sessions = Sessions::read(reader, owner_of(scope.as_ref()))?;
        let is_named = |(run, id): &Name| {
            episode.as_ref().is_none_or(|(of, named)| id.0 == *named && of.as_ref().is_none_or(|of| of == run))
        };
        let is_meant = |one: &Session| {
            scope.as_ref().is_none_or(|scope| is_of(scope, one))
                && session.as_ref().is_none_or(|name| one.session.session == *name)
                && is_named(&one.name)
        };
        if let Some(name) = session {
            let meant = sessions.all.iter().filter(|one| is_meant(one));
            let user =
                |one: &Session| format!("user:{}/{}", one.owner, one.session.user.as_deref().unwrap_or_default());
            let scopes: BTreeSet<String> = meant.map(|one| escaped(&user(one), 200)).collect();
            if scopes.len() > 1 {
                let scopes = scopes.into_iter().collect();
                return Err(ForgetError::Several { session: escaped(name, 200), scopes }.into());
            }
        }
        let mut chosen = sessions.with_branches(is_meant);
        // One that cannot be read is forgotten where its key or its name is enough.
        let is_key = matches!(scope, Some(ForgetScope::Key(_))) && request.is_whole();
        let (goes, unreadable): (Vec<Name>, Vec<Name>) = sessions
            .unreadable
            .iter()
            .cloned()
            .partition(|name| is_key || (scope.is_none() && session.is_none() && is_named(name)));
        chosen.extend(goes);
        if let Some((run, id)) = episode.filter(|_| chosen.is_empty()) {
            let mut runs = reader.runs_of_episode(&id)?.into_iter();
            if let Some(run) = runs.find(|owner| run.as_ref().is_none_or(|run| run == owner))
                && reader.run(&run)?.is_some_and(|row| row.kind != RunKind::Live)
            {
                return Err(ForgetError::Played(escaped(&format!("{run}/{id}"), 200)).into());
            }
        }
        Self::with(reader, request, &sessions, chosen, unreadable)
    }

    fn with(
        reader: &dyn StoreReader,
        request: &ForgetRequest,
        sessions: &Sessions,
        chosen: BTreeSet<Name>,
        unreadable: Vec<Name>,
    ) -> Result<Self, AppError> {
        let names: BTreeSet<String> = chosen.iter().map(shown).collect();
        let (gone, left): (Vec<&Session>, Vec<&Session>) =
            sessions.all.iter().partition(|one| chosen.contains(&one.name));
        let left: BTreeSet<u64> = left.into_iter().map(Session::user).collect();
        let mut users: BTreeSet<u64> = gone.iter().map(|one| one.user()).filter(|user| !left.contains(user)).collect();
        // Their sessions may be gone already.
        if let Some(ForgetScope::Scope(scope)) = request.scope.as_ref().filter(|_| request.is_whole())
            && scope.level() == ScopeLevel::User
        {
            users.insert(user_number(scope.owner(), Some(scope.name())));
        }
        let (trials, lessons) = lessons::without(reader, &names, &users)?;
        let submitters = match &request.scope {
            Some(ForgetScope::Key(key)) if request.is_whole() => [key.clone()].into(),
            _ => BTreeSet::new(),
        };
        let forgetting = Forgetting {
            memories: memories(reader, request, &names)?,
            draws: draws::anonymous(reader, &chosen, agent_of(request))?,
            episodes: chosen,
            submitters,
            trials,
            traces: request.traces(),
            retrains_all: request.is_whole(),
        };
        Ok(Self { forgetting, lessons, unreadable: unreadable.iter().map(shown).collect() })
    }

    /// The episodes, as `RUN/EPISODE`.
    pub(super) fn episodes(&self) -> BTreeSet<String> {
        self.forgetting.episodes.iter().map(shown).collect()
    }

    /// Whether nothing of it is found. A key whose clients submitted trajectories has these at most.
    pub(super) fn is_empty(&self) -> bool {
        let Forgetting { episodes, memories, trials, .. } = &self.forgetting;
        episodes.is_empty() && memories.is_empty() && trials.is_empty()
    }
}

/// The name of the agent that is forgotten.
fn agent_of(request: &ForgetRequest) -> Option<&str> {
    match &request.scope {
        Some(ForgetScope::Scope(scope)) if scope.level() == ScopeLevel::Agent => Some(scope.name()),
        _ => None,
    }
}
