//! The file of a run (floor 1): the text of `run.toml` becomes a [`RunFile`], or [`Diagnostics`] that name all that is wrong.
//!
//! What is typed on the command line once is written down here: which environment, which rewards, which model, and, with a
//! `[learn]` section, how to learn from the episodes. Keys, ranges and defaults are those of `clawhost run`.
//!
//! A file is read in three passes. The text must be TOML; if it is not, only that is told, for what its keys mean is
//! unsure. Then every section is asked for the keys it knows; a key that nobody asked for is unknown. At last come the keys
//! that contradict each other. [`RunFile::to_toml`] writes every value out, and reads back as the same.
//!
//! Invariants: pure; it is given text and opens nothing. Paths and the specs of models stay text, because only whoever opens
//! them can tell (a file may have a `?` in its name). Nothing is handed out unless everything is right.

mod diagnostic;
mod grant;
mod learn;
pub mod limits;
mod price;
mod read;
mod run_file;
mod sample;
mod section;
mod unknown;
mod write;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use grant::Grant;
pub use learn::{Evaluation, Evolve, Gate, HARNESS, Harness, Learn};
pub use price::Price;
pub use run_file::{Play, RunFile, SystemPrompt, Work};
pub use sample::sample;
