//! Runs, episodes, verdicts, playbooks and plugins in SQLite (floor 2): the only crate that sees rusqlite.
//!
//! One database in one folder, in WAL mode. All writes go through one thread ([`Store`]), which commits all waiting
//! writes in one transaction: many small appends cost one flush to disk. An append that returned is on disk; one that
//! failed left nothing. Readers ([`Reader`]) have their own connections and never wait for the writer.
//!
//! An episode is stored as its versioned JSON document, compressed, beside the columns that lists and filters need.
//! Verdicts have their own table, because an episode can be judged later; [`Reader`] joins the two. The compression
//! dictionaries are in the database, so the file can be read on its own.
//!
//! Large content is stored beside the database, in files named by their digest: plugin components, large parts of
//! checkpoints, large artefacts of episodes. A file is on disk before the record that refers to it is committed.
//!
//! [`FileLeases`] grants leases in the same folder. The caller holds a shared lease of the folder while it uses a [`Store`], and
//! an exclusive one while it calls `Retention::remove`: a removal deletes unfinished files and files without a record.

mod artefacts;
mod blobs;
mod columns;
mod compressor;
mod dictionaries;
mod documents;
mod door;
mod episode_filter;
mod episode_rows;
mod error;
#[cfg(feature = "failpoints")]
mod failpoints;
mod feedback;
mod forgetting;
mod integers;
mod keys;
mod learning;
mod leases;
mod ledger;
mod ledger_check;
mod live;
mod memory;
mod packing;
mod playbooks;
mod plugins;
mod pool;
mod pool_rows;
mod pool_select;
mod reader;
mod records;
mod rehearsal;
mod retention;
mod retraining;
mod routing;
mod runs;
mod schema;
mod trials;
mod writer;

pub use artefacts::ARTEFACT_BLOB_BYTES;
pub use blobs::LARGEST_BLOB;
pub use leases::FileLeases;
pub use ledger::ledger_key;
pub use reader::Reader;
pub use schema::SCHEMA;
pub use writer::{Store, StoreOptions};

/// The database's file name inside a data folder.
pub const FILE: &str = "clawhost.sqlite";
