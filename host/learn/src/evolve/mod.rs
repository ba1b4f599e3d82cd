//! Prompt evolution: candidates evolve on a Pareto front over tasks.
//!
//! A candidate ([`Candidate`]) is a set of named sections of text. One section is rewritten repeatedly by a reflector that
//! reads episodes of a parent; a child is kept if it scores better. The method follows GEPA (Agrawal et al. 2025, "GEPA:
//! Reflective Prompt Evolution Can Outperform Reinforcement Learning"). Two properties save evaluations:
//!
//! - *A minibatch test first.* A child is compared with its parent on a few training items. Only a child that is strictly
//!   better there is evaluated on the fixed set.
//! - *A front instead of a single best candidate.* Parents are the nondominated candidates that are best on some item of the
//!   fixed set. So an improvement on a few tasks is kept even if another candidate has a better mean.
//!
//! ```text
//! seed ──▶ fixed set ──▶ ┌ draw a parent from the front, and a minibatch
//!                        │ play the parent on it ─▶ reflect ─▶ play the child on it
//!                        └ strictly better? play it on the fixed set, let it join the front
//! ```
//!
//! [`Evolution`] is a pure state machine. The caller asks [`Evolution::next`] for the next action, performs it and reports
//! the result. Equal settings and equal results give equal bytes, and a snapshot can be taken at any time. Evaluations are
//! cached ([`Cache`]). A failure never counts as a score.
//!
//! Difference from the paper: GEPA also merges candidates that changed different sections. Here only one section changes, so
//! there is nothing to merge.
//!
//! **The result is only a candidate.** [`Evolution::best`] is the maximum of many means on one fixed set, so its mean is
//! biased upwards (winner's curse). The gate decides about deployment, on tasks that are neither in the fixed set nor in a
//! minibatch.

mod cache;
mod candidate;
mod draw;
mod evolution;
mod front;
mod report;
mod settings;
#[cfg(test)]
mod tests;

pub use cache::{Cache, Known};
pub use candidate::{Candidate, Item};
pub use evolution::{EndReason, Evolution, Next, Outcome, RETRIES};
pub use report::{Failures, Point, Report};
pub use settings::{MINIBATCH, Settings};
