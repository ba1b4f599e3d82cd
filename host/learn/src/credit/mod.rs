//! Credit: the effect of an entry on the reward, measured within groups.
//!
//! Members of a group have equal task and seed. For each entry on trial, half of the members are drawn at random and shown
//! the entry, so a difference between the halves is the effect of the entry plus chance. [`Credit`] estimates all effects at
//! once: a least-squares regression of the reward on the shown entries, with an intercept per group. Every episode informs
//! about every entry that was drawn for it, which makes trials of many entries affordable (a factorial design).
//!
//! The estimate is the mean effect over the tasks that the entry was drawn for, and over the other entries on trial. It is
//! not the effect of the entry alone: where a task succeeds anyway, no entry can add to it.
//!
//! Members of a group share the entry's effect on their task, so groups are the observations: scores are summed by group before they are
//! squared. An entry that helps on some tasks and harms on others would be a false discovery otherwise.
//!
//! Decisions may be taken after any batch. An [`Estimate`] therefore contains e-values, which stay valid under repeated
//! looks. [`e_bh`] selects by them so that in expectation at most one in ten of the entries admitted in a run is worthless.

#[cfg(test)]
mod dependence;
mod discovery;
mod estimate;
mod rows;
#[cfg(test)]
mod simulation;
mod sums;
#[cfg(test)]
mod tests;

pub use discovery::{e_bh, e_bh_threshold};
pub use estimate::{DECIDABLE_GROUPS, Estimate};
pub use sums::{Credit, WINDOW_GROUPS};
