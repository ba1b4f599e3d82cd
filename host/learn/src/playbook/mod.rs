//! The playbook: the text knowledge that an agent is given.
//!
//! A [`Playbook`] holds entries (lessons) and named sections. The way of a lesson:
//!
//! 1. [`safety::check`] refuses it or makes it inert; only then does it get an id.
//! 2. What is known already in nearly the same words only counts as support.
//! 3. When a task begins, [`Index::relevant`] finds the entries that its text is about.
//! 4. [`fit`] keeps those with the best measured effect per token within the budget ([`Rendering::room`]).
//! 5. [`render`] writes them down.
//!
//! [`Playbook::digest`] names everything that can change an output, [`Playbook::diff`] tells two versions apart, and
//! [`exchange`] brings playbooks to other people and tools and back.

mod budget;
mod difference;
mod document;
mod duplicates;
pub mod exchange;
mod prose;
mod rendering;
mod retrieval;
pub mod safety;
mod words;

pub use budget::{Candidate, fit};
pub use difference::Difference;
pub use document::Playbook;
pub use duplicates::Embedder;
pub(crate) use duplicates::Form;
pub use prose::{FEW_PROSE_ENTRIES, RELEVANT_SHARE};
pub use rendering::{LESSONS_HEADING, Rendering, TOKEN_BUDGET, render};
pub use retrieval::{Hit, Index};
pub(crate) use words::words;
