//! What a gateway added to the system text of a session's requests.

use clawhost_core::{Digest, Drawn, PlaybookRecord, Retrieval, estimated_tokens};
use serde::{Deserialize, Serialize};

/// A version of a playbook, by name and number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuidedBy {
    /// Name of the playbook.
    pub playbook: String,
    /// Number of the version.
    pub version: u64,
}

/// Guidance as it was chosen for a session. It is no message of the client, and is recorded beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guided {
    /// The served version, if one is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<GuidedBy>,
    /// Ids of the entries in the text: of the playbook, of skills, of memory.
    pub shown: Vec<String>,
    /// Entries of the playbook that were drawn for the session, with their propensities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawn: Vec<Drawn>,
    /// How entries were found. `None`: by words, and there is no embedding model, or nothing that it could find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<Retrieval>,
    /// Digest of the text.
    pub digest: Digest,
    /// The text, in the record of the first exchange of a session that has it. Empty if everything was held out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Guided {
    /// Guidance with its text.
    pub fn new(by: Option<GuidedBy>, shown: Vec<String>, text: String) -> Self {
        Self { by, shown, drawn: Vec::new(), retrieval: None, digest: Digest::of(text.as_bytes()), text: Some(text) }
    }

    /// The same with entries that were drawn.
    #[must_use]
    pub fn with_drawn(self, drawn: Vec<Drawn>) -> Self {
        Self { drawn, ..self }
    }

    /// The same, with how its entries were found.
    #[must_use]
    pub fn found_by(self, retrieval: Option<Retrieval>) -> Self {
        Self { retrieval, ..self }
    }

    /// What models see of it, if that is anything.
    pub fn prompt(&self) -> Option<&str> {
        self.text.as_deref().filter(|text| !text.is_empty())
    }

    /// The same without its text, for a record behind one that has it.
    #[must_use]
    pub fn without_text(&self) -> Self {
        Self { text: None, ..self.clone() }
    }

    /// Estimated tokens of the text, if it is here.
    pub fn tokens(&self) -> u64 {
        self.text.as_ref().map_or(0, |text| estimated_tokens(text.len()))
    }

    /// As one line: the version, then the entries.
    pub fn line(&self) -> String {
        let by = self.by.iter().map(|by| format!("{}/{}", by.playbook, by.version));
        by.chain(self.shown.iter().cloned()).collect::<Vec<_>>().join(" ")
    }

    /// As an episode has it.
    pub(crate) fn record(&self) -> PlaybookRecord {
        PlaybookRecord {
            digest: self.digest,
            text: self.text.clone().unwrap_or_default(),
            shown: self.shown.clone(),
            drawn: self.drawn.clone(),
            retrieval: self.retrieval,
            propensity: 1.0,
        }
    }
}
