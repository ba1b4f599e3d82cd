//! Credit: what an entry is worth, measured inside groups.
//!
//! Members of a group have equal task and equal seed, and for each entry on trial a draw decides which half of them
//! sees it. What differs between the halves is the entry's doing, and chance. [`Credit`] takes groups in and estimates
//! all effects at once: least squares of the reward on who was shown what, with an intercept for each group. So every
//! episode says something about every entry that was drawn for it, which is what makes trials of many entries
//! affordable (a factorial design).
//!
//! What is estimated is the mean effect over the tasks for which the entry was drawn and over the other entries on
//! trial, not what it would do alone: where a task succeeds anyway nothing can be added.
//!
//! Decisions are taken after any batch, as often as one likes. So an [`Estimate`] holds e-values, which stay right
//! under such looking, and [`e_bh`] admits by them so that of all entries admitted in a run about one in ten at most is
//! worthless.

mod discovery;
mod estimate;
mod rows;
#[cfg(test)]
mod simulation;
mod sums;
mod symmetric;
#[cfg(test)]
mod tests;

pub use discovery::e_bh;
pub use estimate::{DECIDABLE_GROUPS, Estimate};
pub use sums::{Credit, WINDOW_GROUPS};
