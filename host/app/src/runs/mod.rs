//! Recorded runs: which ones are meant, lists of them, one of them in full, and what they are called.
//!
//! Every operation that takes a run takes its id, its name, or a beginning of its id that no other run has ([`find_run`]). Every
//! operation that goes over runs takes the newest where none is named, and all of the data folder where that is asked for
//! ([`choose_runs`]).

mod choice;
mod labels;
mod list;
mod show;

pub use choice::{RunChoice, choose_runs, find_run};
pub use labels::{rename_run, tag_run};
pub use list::{LIST_LIMIT, ListedRun, RunQuery, list_runs};
pub use show::{Estimate, RunDetails, show_run};

pub(crate) use choice::run_id;

#[cfg(test)]
mod tests;
