//! Snapshots: the state of an episode in progress, from which other episodes can continue.
//!
//! A snapshot contains the guest's own state *and* the host's state for it: a restored instance reads the same clock, draws
//! the same random numbers, has the same quotas left and continues the same record.

use crate::{Digest, JournalEntry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The state of an episode in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Digest of the component that it was taken from. Only this component can be restored from it.
    pub environment: Digest,
    /// The guest's own bytes.
    pub guest: Vec<u8>,
    /// Number of steps taken.
    pub turn: u32,
    /// The host's state for the instance.
    pub host: HostState,
}

/// The host's state for an instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    /// Virtual time since the start of the episode, in nanoseconds.
    pub clock_ns: u64,
    /// Words drawn from the two random sources, secure and insecure.
    pub random_words: [u64; 2],
    /// kv writes; `None` deletes.
    pub notes: BTreeMap<String, Option<Vec<u8>>>,
    /// The log and its use of the quota.
    pub log: LogState,
    /// Number of model calls.
    pub model_calls: u32,
    /// Model answers to the plugin. A replay of the rest continues at its length.
    pub journal: Vec<JournalEntry>,
    /// Rolling digest of the host calls; `None` before the first.
    pub host_calls: Option<Digest>,
}

/// The log of an episode in progress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogState {
    /// Stored lines.
    pub lines: Vec<String>,
    /// Stored bytes.
    pub bytes: usize,
    /// Lines beyond the quota.
    pub suppressed: u64,
    /// The last line that reports an error.
    pub last_error: Option<String>,
    /// Whether that line was logged at error level.
    pub logged_error: bool,
    /// Incomplete lines of stdout and stderr.
    pub partial: [Vec<u8>; 2],
}
