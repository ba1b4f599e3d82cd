//! Answering on this machine's processor: the decoder on plain numbers, without gradients.
//!
//! Every number is computed in one order that depends on nothing but its own sequence: a sum over `k` runs from the first `k` to
//! the last with fused multiply-adds, and what runs in parallel, in vector lanes or in threads, are different sums. So a
//! request that is answered alone, among fifteen others, in chunks, or behind a prefix that was computed for somebody else,
//! comes to the same bits; with whatever number of threads, and whatever vectors the processor has.

mod attention;
mod cache;
mod elementwise;
mod forward;
mod panels;
mod rotary_table;
pub(crate) mod training;

#[cfg(test)]
pub(crate) mod tests;

pub use cache::Cache;
pub use forward::{CpuModel, Work};
pub(crate) use panels::Panels;
pub(crate) use rotary_table::RotaryTable;
