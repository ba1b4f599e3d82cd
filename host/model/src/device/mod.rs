//! Where a model is computed: on this processor, or on an accelerator that is built into the program.
//!
//! ```text
//! auto | cpu | cuda:0 | vulkan:1 ─▶ choose ─▶ a name ─▶ ComputeDevice ─▶ training, answers
//!                                     │  ▲
//!               which are there, does │  │ JSON, or a signal
//!               this one work?        ▼  │
//!                                  a child process: driver, first kernels, one small product
//! ```
//!
//! A broken driver ends its process. So a driver is loaded only after a child process has used it without a failure. A
//! device that fails later gives an error with its name: [`ComputeDevice::guarded`].
//!
//! This crate computes on the processor. Accelerators implement [`Accelerator`] in other crates. A program passes them
//! as [`Drivers`].

mod accelerator;
mod child;
mod choose;
mod compute;
mod found;
mod name;
mod probe;
mod slot;
#[cfg(test)]
mod tests;

pub use accelerator::{AcceleratedModel, Accelerator, Drivers, ProcessorOnly};
pub use child::answer_probe;
pub use choose::{AUTO_PARAMETERS, Chosen, DeviceError, choose};
pub use compute::{ComputeDevice, guarded, lacks_memory, panic_text};
pub use found::{DeviceKind, FoundDevice};
pub use name::{Backend, DeviceChoice, DeviceName};
pub use probe::{ChildProber, LIST_SECONDS, PROBE_SECONDS, ProbeFailure, Prober, Worked};
pub use slot::{Slot, SlotAllocator, slot_capacity};
