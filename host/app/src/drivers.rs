//! The accelerators that this program was built with. Only this module knows them.

use clawhost_model::device::Drivers;

/// Accelerators by burn, built with the feature `gpu` or `cuda`.
#[cfg(feature = "burn")]
pub fn drivers() -> &'static dyn Drivers {
    &clawhost_burn::Burn
}

/// No accelerators: this program computes on the processor.
#[cfg(not(feature = "burn"))]
pub fn drivers() -> &'static dyn Drivers {
    &clawhost_model::device::ProcessorOnly
}
