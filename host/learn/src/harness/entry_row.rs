//! What reports say about an entry.

use super::times_proposed;
use crate::{Entry, EntryId, LessonUse};
use serde::{Deserialize, Serialize};

/// A report row about an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryRow {
    /// The entry.
    pub id: EntryId,
    /// Name of its status ([`Status::name`]).
    pub status: String,
    /// The lesson on one line.
    pub lesson: String,
    /// Groups in which some members were shown the entry and some were not.
    pub groups: u64,
    /// Estimated mean effect on the reward; `None` without data.
    pub lift: Option<f64>,
    /// Its 95 % confidence sequence; `None` without data.
    pub interval: Option<(f64, f64)>,
    /// Evidence that it helps, an e-value; above 1 / 0.05 is strong. During the trial that of the last batch, later that of
    /// the decision. `None` without data, or if it was deployed from the start.
    pub helps: Option<f64>,
    /// Evidence that it harms, likewise; of a deployed entry that of the last batch. `None` without data.
    pub harms: Option<f64>,
    /// Estimated tokens in a prompt.
    pub tokens: u64,
    /// Number of proposals; 0 if it was planted and never proposed.
    pub support: u64,
    /// The reflector that proposed it first, or who planted it.
    pub created_by: String,
    /// Entries that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<EntryId>,
    /// Entries whose place it took in a merger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merges: Vec<EntryId>,
    /// The numbers of episodes of the run in which it could apply. `None`: no episode was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<LessonUse>,
}

impl EntryRow {
    /// The row of an entry without data.
    pub fn unmeasured(entry: &Entry) -> Self {
        Self {
            id: entry.id.clone(),
            status: entry.stage().to_owned(),
            lesson: entry.lesson.line(),
            groups: 0,
            lift: None,
            interval: None,
            helps: None,
            harms: None,
            tokens: entry.lesson.tokens(),
            support: times_proposed(entry),
            created_by: entry.created_by.clone(),
            needs: entry.needs.clone(),
            merges: entry.merges.clone(),
            usage: None,
        }
    }
}
