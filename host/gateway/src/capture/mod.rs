//! From a request to a record: whose turn it is, the spool, the store, and the episode at the end of a session.

mod begun;
mod counts;
mod guides;
mod importer;
mod record;
mod recorder;
mod responses;
mod rounds;
mod routes;
mod runs;
mod seen;
mod spool;
mod used;

pub(crate) use begun::Begun;
pub(crate) use importer::Importer;
pub(crate) use recorder::Recorder;
pub(crate) use responses::{Chain, ChainError, StoredResponse};
pub(crate) use seen::{Done, Seen};
pub(crate) use spool::{Spool, SpoolLimits};
pub use used::used_today;
