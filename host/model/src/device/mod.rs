//! Where a model is computed: on this processor, or on a device that this program was built for.
//!
//! ```text
//! auto | cpu | cuda:0 | vulkan:1 ─▶ choose ─▶ a name ─▶ ComputeDevice ─▶ training, answers
//!                                     │  ▲
//!               which are there, does │  │ JSON, or a signal
//!               this one work?        ▼  │
//!                                  a child process: driver, first kernels, one small product
//! ```
//!
//! A driver that is broken ends its process. So no driver is touched before a child has come through with it. What breaks later, in
//! the midst of work, is an error with a name: [`ComputeDevice::guarded`].

mod child;
mod choose;
mod compute;
#[cfg(feature = "cuda")]
mod cuda;
mod found;
#[cfg(feature = "graphics")]
mod graphics;
mod name;
mod probe;
#[cfg(test)]
mod tests;

pub use child::answer_probe;
pub use choose::{AUTO_PARAMETERS, Chosen, DeviceError, choose};
pub use compute::ComputeDevice;
pub(crate) use compute::{lacks_memory, words};
pub use found::{DeviceKind, FoundDevice};
pub use name::{Backend, DeviceChoice, DeviceName};
pub use probe::{ChildProber, LIST_SECONDS, PROBE_SECONDS, ProbeFailure, Prober, Worked};
