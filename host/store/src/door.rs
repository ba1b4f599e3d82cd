//! The door before the store: no key of this process passes it, in any text of any record.
//!
//! Endpoints and models are guarded before; here every record is checked once more, whatever it is made of.

use clawhost_core::{
    Artefact, Checkpoint, Episode, KeptSecret, KnownSecrets, PlaybookLedger, PlaybookVersion, Recorded, Secrets,
    StoreError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::sync::Arc;

/// Checks what is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Door(KnownSecrets);

/// A record without the keys of this process.
pub(crate) struct Checked<'a> {
    secrets: Secrets,
    what: &'a str,
}

impl Door {
    pub(crate) fn new(known: KnownSecrets) -> Self {
        Self(known)
    }

    /// For records of one kind, named in errors.
    pub(crate) fn checked<'a>(&self, what: &'a str) -> Checked<'a> {
        Checked { secrets: self.0.secrets(), what }
    }
}

impl Checked<'_> {
    fn refused(&self, kept: &KeptSecret) -> StoreError {
        StoreError::Other(format!("{} is not recorded: {kept}", self.what))
    }

    /// A record with every text scrubbed.
    pub(crate) fn record<T: Serialize + DeserializeOwned>(&self, record: T) -> Result<T, StoreError> {
        self.secrets.scrub_all(record).map_err(|kept| self.refused(&kept))
    }

    /// A document with every text scrubbed.
    pub(crate) fn document(&self, document: String) -> Result<String, StoreError> {
        let scrubbed = self.secrets.scrub_document(document).map_err(|kept| self.refused(&kept))?;
        Ok(scrubbed.0)
    }

    /// Bytes with every text scrubbed.
    fn bytes(&self, bytes: &mut Vec<u8>) {
        if let Cow::Owned(clean) = self.secrets.scrub(&String::from_utf8_lossy(bytes)) {
            *bytes = clean.into_bytes();
        }
    }

    /// An episode with its notes. Artefacts and notes are bytes, and documents have them as Base64: they are scrubbed as texts first.
    pub(crate) fn recorded(&self, mut recorded: Recorded) -> Result<Recorded, StoreError> {
        if self.secrets.is_empty() {
            return Ok(recorded);
        }
        let quotes = |artefact: &Artefact| self.secrets.are_in(&String::from_utf8_lossy(&artefact.bytes));
        if recorded.episode.artefacts.iter().any(quotes) {
            let mut episode = Episode::clone(&recorded.episode);
            episode.artefacts.iter_mut().for_each(|artefact| self.bytes(&mut artefact.bytes));
            recorded.episode = Arc::new(episode);
        }
        let document = serde_json::to_string(&*recorded.episode).map_err(|error| self.refused(&error.into()))?;
        if let (document, true) = self.secrets.scrub_document(document).map_err(|kept| self.refused(&kept))? {
            let episode: Episode = serde_json::from_str(&document).map_err(|error| self.refused(&error.into()))?;
            recorded.episode = Arc::new(episode);
        }
        for value in recorded.notes.values_mut().flatten() {
            self.bytes(value);
        }
        if recorded.notes.keys().any(|name| self.secrets.are_in(name)) {
            let notes = std::mem::take(&mut recorded.notes);
            let clean = |(name, value): (String, _)| (self.secrets.scrub(&name).into_owned(), value);
            recorded.notes = notes.into_iter().map(clean).collect();
        }
        Ok(recorded)
    }

    /// A playbook's content is known by its digest, so it cannot be changed here: one with a key is refused.
    pub(crate) fn version(&self, version: PlaybookVersion) -> Result<PlaybookVersion, StoreError> {
        let document = version.document.to_string();
        if self.secrets.are_in(&document) {
            return Err(StoreError::Other(format!(
                "a version of playbook {} is not recorded: one of its lessons repeats a key",
                version.name
            )));
        }
        self.record(version)
    }

    pub(crate) fn ledger(&self, ledger: Option<PlaybookLedger>) -> Result<Option<PlaybookLedger>, StoreError> {
        ledger.map(|ledger| self.record(ledger)).transpose()
    }

    /// The end of an iteration. Weights are numbers, so large states are left as they are.
    pub(crate) fn checkpoint(&self, mut checkpoint: Checkpoint) -> Result<Checkpoint, StoreError> {
        if self.secrets.is_empty() {
            return Ok(checkpoint);
        }
        self.secrets.scrub_value(&mut checkpoint.state);
        self.secrets.scrub_value(&mut checkpoint.report);
        let versions = std::mem::take(&mut checkpoint.versions);
        checkpoint.versions = versions.into_iter().map(|version| self.version(version)).collect::<Result<_, _>>()?;
        checkpoint.ledger = self.ledger(checkpoint.ledger.take())?;
        Ok(checkpoint)
    }
}
