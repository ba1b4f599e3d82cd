//! Snapshots: a state in mid-episode, from which others go on.
//!
//! A snapshot holds what the guest says of itself *and* what the host keeps for it: an instance that is restored reads the
//! same clock, draws the same numbers, has used the same quotas and continues the same record.

use crate::{Digest, JournalEntry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A state in mid-episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The component that it was taken from: no other can go on from it.
    pub environment: Digest,
    /// The guest's own bytes.
    pub guest: Vec<u8>,
    /// Steps taken.
    pub turn: u32,
    /// What the host keeps for the instance.
    pub host: HostState,
}

/// What the host keeps for an instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    /// Virtual time since the episode began, in nanoseconds.
    pub clock_ns: u64,
    /// Words drawn from the two sources of chance, secure and insecure.
    pub random_words: [u64; 2],
    /// kv writes; `None` deletes.
    pub notes: BTreeMap<String, Option<Vec<u8>>>,
    /// Log lines, and how much of the quota they used.
    pub log: LogState,
    /// Models asked.
    pub model_calls: u32,
    /// Answers that cannot be recomputed. Its length is where a replay of the rest goes on.
    pub journal: Vec<JournalEntry>,
    /// Rolling digest of the calls to the host; none before the first.
    pub host_calls: Option<Digest>,
}

/// A log in mid-episode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogState {
    /// Lines kept.
    pub lines: Vec<String>,
    /// Bytes kept.
    pub bytes: usize,
    /// Lines over the quota.
    pub suppressed: u64,
    /// The last line that tells of an error.
    pub last_error: Option<String>,
    /// Whether it was logged as one.
    pub logged_error: bool,
    /// What stdout and stderr have begun.
    pub partial: [Vec<u8>; 2],
}
