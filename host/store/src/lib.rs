//! Runs, episodes, verdicts and plugins in SQLite (floor 2): the only crate that sees rusqlite.
//!
//! One database in one folder, in WAL mode. All writes go through one thread ([`Store`]), which puts everything that is
//! waiting into one transaction: many small appends cost one flush to disk. An append that returned is on disk;
//! one that failed left nothing. Readers ([`Reader`]) have connections of their own and never wait for the writer.
//!
//! An episode is kept as its versioned JSON document, with the columns that lists need beside it. Verdicts have a table
//! of their own, because yesterday's episode can be judged again; [`Reader`] puts the two together. Plugins are kept by
//! digest: what was played can be played again.

mod error;
mod learning;
mod reader;
mod schema;
mod writer;

pub use reader::{EpisodeRow, Filter, Reader, RunRow, StoredPlugin};
pub use schema::SCHEMA;
pub use writer::{Store, StoreOptions};

/// The database's file name inside a data folder.
pub const FILE: &str = "clawhost.sqlite";
