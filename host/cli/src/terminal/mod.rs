//! What a person sees while something works: bars and lines on standard error.

mod iteration;
mod progress;
mod warning;

pub(crate) use progress::{LEARNED, Progress, line};
pub(crate) use warning::lines as warning_lines;
