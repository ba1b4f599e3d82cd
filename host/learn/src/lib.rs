//! Learning from episodes (floor 1): layers and their transaction, playbooks, credit, the gate, policy losses.
//!
//! The learning loop gives one [`Batch`] of scored groups to every [`Layer`] and applies all updates or none ([`learn`]).
//!
//! - The harness layer ([`harness`]) maintains a [`playbook`] of lessons. The effect of a lesson is *measured*: within a
//!   group of episodes with equal task and seed, half of the members are shown the lesson, and [`credit`] compares the two
//!   halves. Admitted lessons form a candidate playbook. The [`gate`] deploys a candidate if it beats the deployed playbook
//!   on tasks of another split than the training tasks.
//! - The weights layer uses [`policy`]: advantages and losses, computed from log-probs that a model provides.
//! - The router layer ([`router`]) learns which model a session is given, from rewards and prices.
//! - [`live`] estimates effects from single live sessions, which have neither groups nor pairs.
//! - [`evolve`] optimises sections of a prompt by reflection.
//!
//! Invariants: pure arithmetic on plain numbers, without clock, file, thread or tensor. Equal inputs give equal bytes. A
//! failed or unscored episode has no reward and never enters an estimate.

mod batch;
pub mod budget;
pub mod credit;
mod entry;
mod error;
pub mod evolve;
pub mod gate;
pub mod guidance;
pub mod harness;
mod interrupt;
mod layer;
mod lesson;
pub mod lesson_use;
pub mod live;
pub mod memory;
mod metric;
mod normal;
pub mod playbook;
pub mod policy;
mod random;
mod reflection_schedule;
pub mod router;
mod symmetric;
mod transaction;

pub use batch::{Answer, Batch, DRAWN_ENTRIES, Group, Member, Removed};
pub use entry::{Entry, EntryId, NEEDS, PROVISIONAL, Status};
pub use error::LearnError;
pub use interrupt::Interrupt;
pub use layer::{CheckpointKind, Forward, Layer, Step, Weights};
pub use lesson::{Lesson, Skill, estimated_tokens};
pub use lesson_use::{ConditionUse, LessonUse};
pub use metric::{Measurements, Metric};
pub use reflection_schedule::ReflectionSchedule;
pub use transaction::{Applied, LayerOutcome, learn, learn_each};
