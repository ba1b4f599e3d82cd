//! Reads the episodes of a stored run, group by group.

use clawhost_core::{DamagedRecord, Episode, EpisodeFilter, RunId, StoreError, StoreReader};
use clawhost_play::EpisodeSource;
use std::collections::VecDeque;

/// Episodes of a run, group by group, read on demand. Records that cannot be read are passed over, and named.
pub struct StoredEpisodes<'a> {
    reader: &'a dyn StoreReader,
    /// `RUN/ID`: the episodes of a learning run belong to its phases.
    names: VecDeque<String>,
    next: Option<Episode>,
    /// The last of these names: their rows cannot be read.
    unlisted: Vec<DamagedRecord>,
    /// Unreadable records that were passed over.
    damaged: Vec<DamagedRecord>,
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
        let listed = reader.list_episodes(&EpisodeFilter::of(run))?;
        let rows = listed.rows.into_iter().map(|row| format!("{}/{}", row.run, row.id));
        // What is missing in the list is met when the others were read, by its name.
        let names = rows.chain(listed.damaged.iter().map(|one| one.record.clone())).collect();
        Ok(Self { reader, names, unlisted: listed.damaged, next: None, damaged: Vec::new() })
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
                Some(name) => match reader.episode(name) {
                    Ok(one) => Ok(one.is_some_and(|one| one.group() == episode.group())),
                    Err(error) if damage(&error).is_some() => Ok(false),
                    Err(error) => Err(error),
                },
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

    /// Number of remaining episodes.
    pub fn remaining(&self) -> u64 {
        self.names.len() as u64 + u64::from(self.next.is_some())
    }

    /// Takes the damaged records that were skipped so far.
    pub fn take_damaged(&mut self) -> Vec<DamagedRecord> {
        std::mem::take(&mut self.damaged)
    }

    fn read(&mut self) -> Result<Option<Episode>, StoreError> {
        while let Some(episode) = self.names.pop_front() {
            match self.reader.episode(&episode) {
                Ok(Some(found)) => return Ok(Some(found)),
                // It was removed meanwhile, or its row has no name that finds it.
                Ok(None) => self.damaged.extend(self.unlisted.iter().filter(|one| one.record == episode).cloned()),
                Err(error) => match damage(&error) {
                    Some(why) => self.damaged.push(DamagedRecord { record: episode, why }),
                    None => return Err(error),
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
