//! What is known of the trials of a playbook, as the store keeps it.

use crate::AppError;
use clawhost_core::{StoreReader, StoredTrials};
use clawhost_learn::LearnError;
use clawhost_learn::live::trials::{LiveTrials, SessionDraws, Tally, TrialSettings};
use serde::{Deserialize, Serialize};

/// The format of the document.
const FORMAT: u32 = 1;
/// Sessions that are read at once.
const PAGE: usize = 2_000;

/// The documents of the store.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TrialsState {
    /// Candidates, the trial, and what came of others.
    pub(crate) trials: LiveTrials,
    /// How far reflection is.
    pub(crate) progress: Progress,
}

/// How far reflection is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Progress {
    format: u32,
    /// Number of the last ended episode that was passed to reflectors, or had nothing to reflect on. `None`: before the first look.
    pub(crate) ended: Option<u64>,
    /// Number of the last memory whose correction reflectors have seen.
    pub(crate) remembered: Option<u64>,
    /// Reflector calls that failed since the last one that did not.
    pub(crate) failures: u32,
    /// Unix time in milliseconds before which reflectors are not asked again.
    pub(crate) rests_until: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    trials: LiveTrials,
}

fn checked(format: u32, playbook: &str) -> Result<(), AppError> {
    if format == FORMAT {
        return Ok(());
    }
    let why = format!("the live trials of playbook {playbook} have format {format}, not {FORMAT}");
    Err(LearnError::Document(why).into())
}

fn parsed<T: for<'d> Deserialize<'d>>(document: Option<&String>, playbook: &str) -> Result<Option<T>, AppError> {
    let read = document.map(|document| serde_json::from_str(document)).transpose();
    let why = |error| format!("the live trials of playbook {playbook} cannot be read: {error}");
    Ok(read.map_err(|error| LearnError::Document(why(error)))?)
}

/// The trials of a document of the store.
///
/// # Errors
/// It cannot be read, or another version of the program wrote it.
pub(crate) fn trials_of(stored: &StoredTrials, playbook: &str) -> Result<LiveTrials, AppError> {
    let Some(document) = parsed::<Document>(stored.state.as_ref(), playbook)? else { return Ok(LiveTrials::default()) };
    checked(document.format, playbook)?;
    Ok(document.trials)
}

fn written(document: &impl Serialize) -> Result<String, AppError> {
    Ok(serde_json::to_string(document).map_err(|error| LearnError::Document(error.to_string()))?)
}

impl TrialsState {
    /// The state of the trials of a playbook.
    ///
    /// # Errors
    /// It cannot be read, or another version of the program wrote it.
    pub(crate) fn read(reader: &dyn StoreReader, playbook: &str) -> Result<Self, AppError> {
        let stored = reader.trials(playbook)?;
        let progress: Option<Progress> = parsed(stored.progress.as_ref(), playbook)?;
        progress.iter().try_for_each(|progress| checked(progress.format, playbook))?;
        Ok(Self { trials: trials_of(&stored, playbook)?, progress: progress.unwrap_or_default() })
    }

    /// The trials as the store keeps them.
    ///
    /// # Errors
    /// A number cannot be written; likewise below.
    pub(crate) fn trials_document(&self) -> Result<String, AppError> {
        written(&Document { format: FORMAT, trials: self.trials.clone() })
    }

    /// The progress as the store keeps it.
    pub(crate) fn progress_document(&self) -> Result<String, AppError> {
        written(&Progress { format: FORMAT, ..self.progress.clone() })
    }

    /// The tally of the sessions that have entered.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn tally(
        &self,
        reader: &dyn StoreReader,
        playbook: &str,
        settings: &TrialSettings,
    ) -> Result<Tally, AppError> {
        let mut tally = Tally::new(settings, &self.trials)?;
        let mut behind = 0;
        loop {
            let page = reader.entered_draws(playbook, behind, PAGE)?;
            let Some(last) = page.last() else { return Ok(tally) };
            behind = last.place;
            for entered in &page {
                // A document of another version of the program is skipped.
                if let Ok(draws) = serde_json::from_str::<SessionDraws>(&entered.document) {
                    tally.observe(&draws, entered.reward).unwrap_or_else(|error| {
                        tracing::warn!("session {} of the trials of {playbook} is left out: {error}", entered.place);
                    });
                }
            }
        }
    }
}
