//! Entries: lessons with their history.

use crate::Lesson;
use clawhost_core::Evidence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Content address of a lesson: equal lessons have equal ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub String);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Stage of an entry: queued, on trial, admitted, deployed; or out, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Proposed and checked; waiting for a trial.
    Queued,
    /// Shown to half of the members of training groups.
    OnTrial,
    /// Credit found that it helps; waiting for the gate.
    Admitted,
    /// Shown in training with all others of a bundle, without a measurement of its own; waiting for the gate with them.
    Bundled,
    /// Part of the served playbook.
    Deployed,
    /// Credit found that it harms.
    Harmful,
    /// The trial ended without a finding.
    Expired,
    /// Replaced by another entry.
    Superseded(EntryId),
}

impl Status {
    /// Name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::OnTrial => "on trial",
            Self::Admitted => "admitted",
            Self::Bundled => "bundled",
            Self::Deployed => "deployed",
            Self::Harmful => "harmful",
            Self::Expired => "expired",
            Self::Superseded(_) => "superseded",
        }
    }

    /// Whether the entry may still be shown to a model.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Queued | Self::OnTrial | Self::Admitted | Self::Bundled | Self::Deployed)
    }
}

/// A lesson with its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Id of the lesson.
    pub id: EntryId,
    /// The content.
    pub lesson: Lesson,
    /// Tags for retrieval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Episodes that the proposals cited; the first few only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Evidence>,
    /// Number of proposals.
    pub support: u64,
    /// The first reflector to propose it, or `import`, or `operator`.
    pub created_by: String,
    /// Number of batches learned from when it was first proposed.
    pub born: u64,
    /// Entries without which it is useless, at most [`NEEDS`]: it is shown, tried, deployed and retired together with them. The relation
    /// has no cycle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<EntryId>,
    /// Entries whose place it took in a merger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merges: Vec<EntryId>,
    /// Current stage.
    pub status: Status,
    /// Whether it passed the gate only together with others. Later training holds it out from half of the episodes, until credit confirms
    /// it or finds it harmful.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisional: bool,
}

/// Most entries that one entry needs itself. A rule needs a look-up for each of its facts; one that needs more is a program, not a lesson.
pub const NEEDS: usize = 8;

/// The stage that reports name for an entry that passed the gate only together with others.
pub const PROVISIONAL: &str = "provisional";

impl Entry {
    /// A new entry with status [`Status::Queued`].
    pub fn new(lesson: Lesson, created_by: impl Into<String>) -> Self {
        Self {
            id: lesson.id(),
            lesson,
            tags: Vec::new(),
            sources: Vec::new(),
            support: 1,
            created_by: created_by.into(),
            born: 0,
            needs: Vec::new(),
            merges: Vec::new(),
            status: Status::Queued,
            provisional: false,
        }
    }

    /// The name of its stage in reports.
    pub fn stage(&self) -> &'static str {
        match self.status {
            Status::Deployed if self.provisional => PROVISIONAL,
            ref status => status.name(),
        }
    }
}
