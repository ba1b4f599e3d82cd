//! Recorded runs: selection, lists, details, and labels.
//!
//! Every operation on a run accepts its id, its name, a unique beginning of its id, or `last` ([`find_run`]). Every operation
//! on several runs uses the newest one if none is named (of live runs, those of the newest day), and all runs of the data folder on request ([`choose_runs`]).

mod choice;
mod labels;
mod list;
mod show;

pub use choice::{RunChoice, choose_runs, find_run};
pub use labels::{rename_run, tag_run};
pub use list::{LIST_LIMIT, ListedRun, RunQuery, list_runs};
pub use show::{Estimate, RunDetails, show_run};

pub(crate) use choice::{damaged_runs, run_id};

#[cfg(test)]
mod tests;
