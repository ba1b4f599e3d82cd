//! Local models on accelerators (floor 3): the decoder, training and the optimiser on devices of burn.
//!
//! ```text
//! clawhost-model: Drivers ─▶ Accelerator ─▶ AcceleratedModel, AcceleratedTrainer
//! here:           Burn    ─▶ BurnDevice  ─▶ DeviceModel,      DeviceTrainer
//! ```
//!
//! The only crate that sees burn. The default program does not link it: features `gpu` and `cuda` of the program do.

mod device;
pub mod network;
#[cfg(test)]
mod testing;
pub mod training;

pub use device::{Burn, BurnDevice};
