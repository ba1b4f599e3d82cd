//! Reads the episodes of a stored run, group by group.

use clawhost_core::{Episode, EpisodeFilter, RunId, StoreError, StoreReader};
use clawhost_play::EpisodeSource;
use std::collections::VecDeque;

/// Episodes of a run, group by group, read on demand.
pub struct StoredEpisodes<'a> {
    reader: &'a dyn StoreReader,
    /// `RUN/ID`: the episodes of a learning run belong to its phases.
    names: VecDeque<String>,
    next: Option<Episode>,
    /// Unreadable records, if they are to be skipped.
    damaged: Option<Vec<DamagedRecord>>,
}

/// A record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedRecord {
    /// The episode: `RUN/ID`.
    pub episode: String,
    /// The reason.
    pub why: String,
}

/// Why a single record cannot be read. `None`: the error concerns more than the record.
fn damage(error: &StoreError) -> Option<String> {
    match error {
        StoreError::Damaged { why, .. } => Some(why.clone()),
        StoreError::BlobMissing { .. } | StoreError::BlobDamaged { .. } => Some(error.to_string()),
        _ => None,
    }
}

impl<'a> StoredEpisodes<'a> {
    /// All episodes of a run and its phases.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn of_run(reader: &'a dyn StoreReader, run: &RunId) -> Result<Self, StoreError> {
        let rows = reader.episodes(&EpisodeFilter::of(run))?;
        let names = rows.into_iter().map(|row| format!("{}/{}", row.run, row.id)).collect();
        Ok(Self { reader, names, next: None, damaged: None })
    }

    /// The group of one episode: all of it if a verdict is about the group, otherwise only the episode.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn group_of(reader: &'a dyn StoreReader, episode: &Episode) -> Result<Self, StoreError> {
        let mut stored = Self::of_run(reader, &episode.run)?;
        let name = format!("{}/{}", episode.run, episode.id);
        let own = stored.names.iter().position(|known| *known == name).unwrap_or(0);
        let (mut first, mut end) = (own, own + 1);
        if episode.verdicts.iter().any(|record| record.group_digest.is_some()) {
            // Members are adjacent.
            let is_member = |position: usize| match stored.names.get(position) {
                Some(name) => Ok(reader.episode(name)?.is_some_and(|one| one.group() == episode.group())),
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

    /// Skips and collects damaged records instead of failing.
    pub fn passing_over_damage(self) -> Self {
        Self { damaged: Some(Vec::new()), ..self }
    }

    /// Number of remaining episodes.
    pub fn remaining(&self) -> u64 {
        self.names.len() as u64 + u64::from(self.next.is_some())
    }

    /// Takes the damaged records that were skipped so far.
    pub fn take_damaged(&mut self) -> Vec<DamagedRecord> {
        self.damaged.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn read(&mut self) -> Result<Option<Episode>, StoreError> {
        while let Some(episode) = self.names.pop_front() {
            match self.reader.episode(&episode) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) => match (damage(&error), &mut self.damaged) {
                    (Some(why), Some(damaged)) => damaged.push(DamagedRecord { episode, why }),
                    _ => return Err(error),
                },
            }
        }
        Ok(None)
    }
}

impl EpisodeSource for StoredEpisodes<'_> {
    fn next_group(&mut self) -> Result<Option<Vec<Episode>>, StoreError> {
        let first = match self.next.take() {
            Some(episode) => Some(episode),
            None => self.read()?,
        };
        let Some(first) = first else { return Ok(None) };
        let group = (first.run.clone(), first.group());
        let mut episodes = vec![first];
        while let Some(episode) = self.read()? {
            if (&episode.run, episode.group()) != (&group.0, group.1) {
                self.next = Some(episode);
                break;
            }
            episodes.push(episode);
        }
        Ok(Some(episodes))
    }
}
