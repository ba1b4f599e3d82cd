//! Reflectors.

mod proposer;

pub use proposer::{Proposer, Shown, lesson};
