//! The playbook: the text knowledge that an agent is given.
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
pub use duplicates::{Embedder, NEAR_COSINE, SHARED_PAIRS, cluster_of};
pub use prose::{FEW_PROSE_ENTRIES, RELEVANT_SHARE};
pub use rendering::{LESSONS_HEADING, Rendering, TOKEN_BUDGET, attach, render};
pub use retrieval::{Hit, Index};
