//! What was learned from forgotten sessions: lessons that are not served go, and those of playbooks are named.

use crate::AppError;
use crate::live::{TrialsState, forget_shadow_lessons};
use crate::playbooks::document;
use clawhost_core::StoreReader;
use clawhost_learn::live::trials::ForgottenLessons;
use clawhost_store::Reader;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A lesson of a playbook whose evidence cites forgotten sessions. It came from several users, so the operator decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CitedLesson {
    /// The playbook.
    pub playbook: String,
    /// The id of the entry.
    pub entry: String,
    /// Its text.
    pub lesson: String,
    /// The newest version that has it.
    pub version: u64,
    /// Whether that is the newest version of all, which is served.
    pub is_served: bool,
    /// The number of forgotten sessions that it cites.
    pub sessions: u64,
}

/// The states of all trials without lessons that came from these sessions (`RUN/EPISODE`) alone, where they differ, by playbook; and what goes.
pub(super) fn without(
    reader: &dyn StoreReader,
    episodes: &BTreeSet<String>,
    users: &BTreeSet<u64>,
) -> Result<(BTreeMap<String, String>, ForgottenLessons), AppError> {
    let (mut states, mut gone) = (BTreeMap::new(), ForgottenLessons::default());
    for playbook in reader.tried_playbooks()? {
        let mut state = TrialsState::read(reader, &playbook)?;
        let before = state.trials.clone();
        gone = gone.and(state.trials.forget(|episode| episodes.contains(episode), users));
        if state.trials != before {
            states.insert(playbook, state.trials_document()?);
        }
    }
    Ok((states, gone))
}

/// Removes what the counts of shadow answers have of lessons that no trial knows any more. Their ids are digests of their texts.
pub(super) fn remove_counts(folder: &Path) -> Result<(), AppError> {
    let reader = Reader::open(folder)?;
    let reader: &dyn StoreReader = &reader;
    let mut known = BTreeSet::new();
    for playbook in reader.tried_playbooks()? {
        let trials = TrialsState::read(reader, &playbook)?.trials;
        let waiting = trials.candidates().iter().map(|one| &one.entry);
        let tried = trials.on_trial().iter().map(|one| &one.entry);
        let served = trials.admitted().iter().map(|one| &one.entry);
        let ended = trials.ended().iter().map(|one| &one.entry);
        known.extend(waiting.chain(tried).chain(served).chain(ended).map(|entry| entry.id.0.clone()));
    }
    forget_shadow_lessons(folder, |id| known.contains(id))
}

/// The lessons of playbooks that cite these sessions (`RUN/EPISODE`), each once.
pub(super) fn cited(reader: &dyn StoreReader, episodes: &BTreeSet<String>) -> Result<Vec<CitedLesson>, AppError> {
    let ids: BTreeSet<&str> = episodes.iter().filter_map(|name| Some(name.split_once('/')?.1)).collect();
    let is_cited = |name: &str| episodes.contains(name) || ids.contains(name);
    let mut all = Vec::new();
    for playbook in reader.playbooks()? {
        let mut known = BTreeSet::new();
        // The newest first. One that another version of the program wrote is left out.
        for (version, age) in reader.versions(&playbook)?.iter().zip(0_u64..) {
            let Ok(content) = document(version) else { continue };
            for entry in content.entries {
                let sessions = entry.sources.iter().filter(|source| is_cited(&source.episode)).count() as u64;
                if sessions > 0 && known.insert(entry.id.clone()) {
                    all.push(CitedLesson {
                        playbook: playbook.clone(),
                        entry: entry.id.0,
                        lesson: entry.lesson.line(),
                        version: version.number,
                        is_served: age == 0,
                        sessions,
                    });
                }
            }
        }
    }
    Ok(all)
}
