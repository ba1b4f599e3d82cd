//! The playbook: knowledge as text that a model is shown.
//!
//! A [`Playbook`] holds entries (lessons) and named sections. The life of a lesson:
//!
//! 1. [`safety::check`] rejects or escapes it. Its id is computed from the result.
//! 2. A duplicate of a known lesson only increases that lesson's support.
//! 3. When a task begins, [`Index::relevant`] finds the entries that are relevant to the task's text, and to its meaning where that is known.
//! 4. [`fit`] selects the entries with the largest effect per token within the budget ([`Rendering::room`]).
//! 5. [`render`] produces the prompt text.
//!
//! [`Playbook::digest`] identifies everything that can change an output. [`Playbook::diff`] compares two versions.
//! [`exchange`] exports and imports playbooks. The [`Lineage`] is what the runs of a playbook have used: tasks, and alpha.

mod budget;
mod difference;
mod document;
mod duplicates;
pub mod exchange;
mod lineage;
mod meaning;
pub(crate) mod needs;
mod prose;
mod rendering;
mod retrieval;
pub mod safety;
mod words;

pub use budget::{Candidate, fit};
pub use difference::Difference;
pub use document::Playbook;
pub use duplicates::Embedder;
pub(crate) use duplicates::{Form, plain, says_the_same};
pub use lineage::Lineage;
pub use meaning::{Meaning, Query};
pub use prose::{FEW_PROSE_ENTRIES, RELEVANT_SHARE, prose_text};
pub use rendering::{LESSONS_HEADING, Rendering, TOKEN_BUDGET, render};
pub use retrieval::{Hit, Index};
pub(crate) use words::words;
