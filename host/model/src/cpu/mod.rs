//! Inference on this machine's processor: the decoder on plain numbers, without gradients.
//!
//! Results are bitwise independent of batch composition. A sum over `k` runs from the first `k` to the last with fused
//! multiply-adds; vector lanes and threads compute different sums. A request that is answered alone, among fifteen
//! others, in chunks, or after a prefix that another request computed gives the same bits, with any number of threads
//! and any vector width.

mod attention;
mod cache;
mod elementwise;
mod forward;
mod halves;
mod int8_panels;
#[cfg(target_arch = "x86_64")]
mod int8_x86;
mod laid;
mod outer;
mod panels;
mod product;
mod rotary_table;
pub(crate) mod training;
mod unpacked;

#[cfg(test)]
pub(crate) mod tests;

/// The class of this processor: its architecture, and the vector instructions that are used of it. Bits are equal on processors of one class;
/// on others nobody has compared them. AVX2 and AVX-512 are one class: on a processor that
/// has both, a test compares what they compute.
pub fn processor_class() -> String {
    let used = format!("{:?}", pulp::Arch::new()).to_lowercase();
    let used = match used.split('(').next().unwrap_or_default() {
        "v4" => "v3",
        used => used,
    };
    format!("{} {used}", std::env::consts::ARCH)
}

pub(crate) use halves::{Bf16, F16, Half};
pub(crate) use int8_panels::{BLOCK, block_of};
pub(crate) use laid::{Laid, Unkept};
pub(crate) use panels::LANES;

pub use cache::Cache;
pub use forward::{CpuModel, Work};
pub(crate) use panels::Panels;
pub(crate) use rotary_table::RotaryTable;
