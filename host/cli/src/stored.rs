//! Stored runs: which one is meant, and its episodes group by group.

use crate::exit::UsageError;
use clawhost_core::{Episode, StoreError};
use clawhost_runtime::EpisodeSource;
use clawhost_store::{Filter, Reader, RunRow};
use std::collections::VecDeque;

/// The episodes of a run, group by group, read as they are needed.
pub(crate) struct Stored<'a> {
    reader: &'a Reader,
    /// `RUN/ID`: the episodes of a learning run lie in its phases.
    names: VecDeque<String>,
    next: Option<Episode>,
    /// Records that cannot be read, with why, where they are to be told and not to end everything.
    pub(crate) damaged: Option<Vec<(String, String)>>,
}

impl<'a> Stored<'a> {
    pub(crate) fn new(reader: &'a Reader, run: &str) -> Result<Self, StoreError> {
        let rows = reader.episodes(&Filter { run: Some(run.to_owned()), limit: None })?;
        let names = rows.into_iter().map(|row| format!("{}/{}", row.run, row.id)).collect();
        Ok(Self { reader, names, next: None, damaged: None })
    }

    /// The group of one episode: all of it where a verdict is about the group, else the episode alone.
    pub(crate) fn group_of(reader: &'a Reader, episode: &Episode) -> Result<Self, StoreError> {
        let mut stored = Self::new(reader, &episode.run.0)?;
        let name = format!("{}/{}", episode.run, episode.id);
        let own = stored.names.iter().position(|known| *known == name).unwrap_or(0);
        let (mut first, mut end) = (own, own + 1);
        if episode.verdicts.iter().any(|record| record.group_digest.is_some()) {
            // Members stand side by side.
            let is_member = |position: usize| match stored.names.get(position) {
                Some(name) => Ok(reader.episode(name)?.is_some_and(|one| one.group == episode.group)),
                None => Ok::<_, StoreError>(false),
            };
            while first > 0 && is_member(first - 1)? {
                first -= 1;
            }
            while is_member(end)? {
                end += 1;
            }
        }
        stored.names = stored.names.drain(first..end.min(stored.names.len())).collect();
        Ok(stored)
    }

    /// How many episodes are left.
    pub(crate) fn len(&self) -> usize {
        self.names.len() + usize::from(self.next.is_some())
    }

    fn read(&mut self) -> Result<Option<Episode>, StoreError> {
        while let Some(name) = self.names.pop_front() {
            match (self.reader.episode(&name), &mut self.damaged) {
                (Ok(Some(episode)), _) => return Ok(Some(episode)),
                (Ok(None), _) => {}
                (Err(StoreError::Damaged(_, _, why)), Some(damaged)) => damaged.push((name, why)),
                (Err(error), _) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl EpisodeSource for Stored<'_> {
    fn next_group(&mut self) -> Result<Option<Vec<Episode>>, StoreError> {
        let first = match self.next.take() {
            Some(episode) => Some(episode),
            None => self.read()?,
        };
        let Some(first) = first else { return Ok(None) };
        let group = (first.run.clone(), first.group);
        let mut episodes = vec![first];
        while let Some(episode) = self.read()? {
            if (&episode.run, episode.group) != (&group.0, group.1) {
                self.next = Some(episode);
                break;
            }
            episodes.push(episode);
        }
        Ok(Some(episodes))
    }
}

/// The run that is meant.
pub(crate) fn choose(reader: &Reader, name: Option<&str>) -> anyhow::Result<RunRow> {
    let runs = reader.runs(if name.is_none() { Some(1) } else { None })?;
    let found = match name {
        None => runs.into_iter().next(),
        Some(name) => runs.into_iter().find(|run| run.id == name),
    };
    found.ok_or_else(|| match name {
        Some(name) => UsageError(format!("no run `{name}` here; `clawhost episodes list --runs` shows all")).into(),
        None => UsageError("no runs here yet; play some episodes with `clawhost run`".into()).into(),
    })
}
