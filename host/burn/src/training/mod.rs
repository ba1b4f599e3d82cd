//! Training on a device: gradients by burn, the head by hand, Muon and AdamW.

mod gradient;
mod optimizer;
#[cfg(test)]
mod tests;
mod trainer;

pub use gradient::{GradientSum, gradients, scores};
pub use optimizer::OptimizerState;
pub use trainer::DeviceTrainer;
