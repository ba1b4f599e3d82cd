//! What a person sees while something works: bars and lines on standard error.

mod iteration;
mod progress;
mod warning;

pub(crate) use progress::{LEARNED, Progress};
