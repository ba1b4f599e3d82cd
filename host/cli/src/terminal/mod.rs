//! Progress bars, progress lines and warnings on standard error.

mod iteration;
mod progress;
mod sink;
mod warning;

pub(crate) use progress::{LEARNED, Progress, line};
pub(crate) use sink::{json, json_line, stderr, stdout};
pub(crate) use warning::{NOTE, lines as warning_lines};
