//! The results of weights, for people.

mod command;
mod samples;
mod summary;

pub(crate) use command::command;
pub(crate) use summary::{batches, changed, episodes, files, weights};
