//! The playbook: the text knowledge that an agent is given.
mod budget;
mod difference;
mod document;
mod rendering;
pub mod safety;

pub use budget::{Candidate, fit};
pub use difference::Difference;
pub use document::Playbook;
pub use rendering::{LESSONS_HEADING, Rendering, TOKEN_BUDGET, attach, render};
