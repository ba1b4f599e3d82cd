//! Evolution: prompt candidates evolve on a Pareto front over tasks.
//!
//! A candidate ([`Candidate`]) is a few named sections of text. One of its sections is changed again and again, each
//! time by a reflector that has read episodes of a parent; a child stays if it does better. The idea is that of GEPA
//! (Agrawal et al. 2025, "GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning"). Two things make it
//! frugal:
//!
//! - *A small test first.* A child is compared with its parent on a few training items, and only one that is strictly
//!   better there is played on the fixed set.
//! - *A front instead of a champion.* Parents are the candidates that are best on some item of the fixed set and not
//!   dominated, so that something learned on a few tasks is not lost because another candidate is better on average.
//!
//! ```text
//! seed ──▶ fixed set ──▶ ┌ draw a parent from the front, and a minibatch
//!                        │ play the parent on it ─▶ reflect ─▶ play the child on it
//!                        └ strictly better? play it on the fixed set, let it join the front
//! ```
//!
//! [`Evolution`] is a pure state machine: a conductor asks [`Evolution::next`] what to do, does it, and answers. It
//! plays nothing and asks nobody itself. Equal settings and equal answers give equal bytes, and a snapshot taken at any
//! moment goes on to the same end. What was evaluated once is not asked again ([`Cache`]); what failed is never a
//! number.
//!
//! Where this differs from the paper: GEPA also merges candidates that changed different sections. Here one section
//! changes, so two candidates have nothing to exchange, and there is no merge.
//!
//! **What comes out is a candidate, and no more.** [`Evolution::best`] is the largest of many means on a fixed set that
//! was looked at again and again: its mean there is too high, by the winner's curse. Whether it is deployed is decided
//! elsewhere, by the gate, on tasks that taught nothing: neither those of the fixed set nor those of minibatches.

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
pub use evolution::{Evolution, Next, Outcome, RETRIES, Why};
pub use report::{Failures, Point, Report};
pub use settings::{MINIBATCH, Settings};
