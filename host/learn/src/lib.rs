//! Learning from episodes (floor 1): layers and their transaction, the playbook, credit, and the gate.
//!
//! The loop hands one [`Batch`] of scored groups to every [`Layer`] and applies all updates or none ([`learn`]). The harness
//! layer keeps a [`playbook`] of lessons. What a lesson is worth is *measured*: inside a group of episodes with equal
//! task and seed half of the members see it, and [`credit`] compares them. What credit admits goes into a candidate, and
//! the [`gate`] lets a candidate through when it does better than what is deployed, on tasks that taught nothing.
//! Weights learn too: [`policy`] is the arithmetic of their losses, on log-probs that a model computed.
//!
//! Invariants: pure arithmetic on plain numbers. No clock, no file, no thread, no tensor. Equal inputs, equal bytes. A failed or
//! unscored episode is no number and never reaches an estimate.

mod batch;
pub mod credit;
mod entry;
mod error;
pub mod evolve;
pub mod gate;
pub mod harness;
mod layer;
mod lesson;
mod metric;
mod normal;
pub mod playbook;
pub mod policy;
#[cfg(test)]
mod random;
mod reflection_schedule;
mod transaction;

pub use batch::{Batch, DRAWN_ENTRIES, Group, Member, Removed};
pub use entry::{Entry, EntryId, Status};
pub use error::LearnError;
pub use layer::{CheckpointKind, Forward, Layer, Step, Weights};
pub use lesson::{Lesson, Skill, estimated_tokens};
pub use metric::{Measurements, Metric};
pub use reflection_schedule::ReflectionSchedule;
pub use transaction::{Applied, LayerOutcome, learn, learn_each};
