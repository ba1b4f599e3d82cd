//! Training: exact sequences, gradients, optimisers, the trainer that holds them together.

mod gradient;
mod on_device;
mod optimizer;
mod processor;
mod schedule;
mod sequence;
mod snapshot;
#[cfg(test)]
mod tests;
mod trainer;

pub use gradient::{GradientSum, TokenScores, Wanted, gradients, scores};
pub use optimizer::{OptimizerSettings, OptimizerState, Rule, StepReport};
pub use schedule::Schedule;
pub use sequence::Sequence;
pub use trainer::{Trained, Trainer};
