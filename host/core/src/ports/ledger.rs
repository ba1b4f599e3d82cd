//! The port for checking the ledger: every change of the records in the order of commits, authenticated by a key.

use crate::{RunId, StoreError};
use serde::Serialize;
use std::fmt;

/// The key that authenticates the entries of the ledger.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LedgerKey(pub [u8; 32]);

impl fmt::Debug for LedgerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LedgerKey(..)")
    }
}

/// A disagreement between the ledger and the records, or inside the ledger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerFinding {
    /// Entries are missing in the sequence.
    EntryMissing {
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// The code of an entry does not follow from the entry and from the one before.
    EntryForged {
        /// The entry.
        entry: u64,
    },
    /// A record is missing, and no later entry has removed it.
    RecordRemoved {
        /// The record: a run, or a part of it.
        record: String,
        /// The entry that has it.
        entry: u64,
    },
    /// A record has no entry.
    RecordInserted {
        /// The record.
        record: String,
    },
    /// A record is not what its entry has.
    RecordChanged {
        /// The record.
        record: String,
        /// The entry that has it.
        entry: u64,
    },
}

impl fmt::Display for LedgerFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EntryMissing { first, last } if first == last => write!(f, "entry {first} of the ledger is missing"),
            Self::EntryMissing { first, last } => write!(f, "entries {first} to {last} of the ledger are missing"),
            Self::EntryForged { entry } => {
                write!(f, "entry {entry} of the ledger was changed, moved or inserted, or the one before it was")
            }
            Self::RecordRemoved { record, entry } => {
                write!(f, "{record} was removed: entry {entry} of the ledger has it")
            }
            Self::RecordInserted { record } => write!(f, "{record} was inserted: the ledger has no entry for it"),
            Self::RecordChanged { record, entry } => {
                write!(f, "{record} was changed: entry {entry} of the ledger has another digest")
            }
        }
    }
}

/// The end of the ledger. Noted elsewhere, it shows later whether entries were cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LedgerHead {
    /// Its number, counted from 1.
    pub entry: u64,
    /// Its code, in hexadecimal digits.
    pub code: String,
}

/// The result of checking the ledger against records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LedgerReport {
    /// Entries of the whole ledger.
    pub entries: u64,
    /// The last of them; `None`: there is none.
    pub head: Option<LedgerHead>,
    /// Episodes that were forgotten on request, of all runs. The digests of their entries were erased.
    pub forgotten: u64,
    /// Why entries cannot be checked: their key is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<String>,
    /// What disagrees.
    pub findings: Vec<LedgerFinding>,
}

impl LedgerReport {
    /// Whether the ledger could be checked and agrees with the records.
    pub fn is_clean(&self) -> bool {
        self.unchecked.is_none() && self.findings.is_empty()
    }
}

/// Checks the ledger.
pub trait LedgerReader {
    /// Checks the chain of the whole ledger, that every run is there and no other, and the records of a run and its phases against it; `None`: the
    /// records of all runs.
    ///
    /// # Errors
    /// The store cannot be read.
    fn check_ledger(&self, run: Option<&RunId>, key: &LedgerKey) -> Result<LedgerReport, StoreError>;
}
