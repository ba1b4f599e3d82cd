//! Entries: lessons with their history.

use crate::Lesson;
use clawhost_core::Evidence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An entry is known by what it says: equal lessons, equal ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub String);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where an entry is in its life: proposed, on trial, admitted, deployed; or out, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Proposed, checked, and waiting for a place on trial.
    Queued,
    /// Shown to half of the members of training groups.
    OnTrial,
    /// Credit says that it helps; it waits for the gate.
    Admitted,
    /// In the playbook that is served.
    Deployed,
    /// Credit says that it harms.
    Harmful,
    /// Tried for long, and nothing was found.
    Expired,
    /// Another entry has taken its place.
    Superseded(EntryId),
}

impl Status {
    /// Its word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::OnTrial => "on trial",
            Self::Admitted => "admitted",
            Self::Deployed => "deployed",
            Self::Harmful => "harmful",
            Self::Expired => "expired",
            Self::Superseded(_) => "superseded",
        }
    }

    /// Whether it may still be shown to anybody.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Queued | Self::OnTrial | Self::Admitted | Self::Deployed)
    }
}

/// A lesson with its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Of its lesson.
    pub id: EntryId,
    /// What it says.
    pub lesson: Lesson,
    /// For retrieval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Episodes that suggested it; the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Evidence>,
    /// How often it was proposed.
    pub support: u64,
    /// The reflector that proposed it first, or `import`, or `operator`.
    pub created_by: String,
    /// Batches that had been learned from when it was first proposed.
    pub born: u64,
    /// Where it is in its life.
    pub status: Status,
}

impl Entry {
    /// A new one, queued.
    pub fn new(lesson: Lesson, created_by: impl Into<String>) -> Self {
        Self {
            id: lesson.id(),
            lesson,
            tags: Vec::new(),
            sources: Vec::new(),
            support: 1,
            created_by: created_by.into(),
            born: 0,
            status: Status::Queued,
        }
    }
}
