//! Training: sequences, gradients, optimisers, and the trainer.

mod accelerated;
mod optimizer;
pub(crate) mod pass;
mod processor;
mod schedule;
mod scores;
mod sequence;
mod snapshot;
#[cfg(test)]
mod tests;
mod trainer;

pub use accelerated::{AcceleratedTrainer, LossError, PieceLoss};
pub use optimizer::{
    MOMENTUM, MUON_SCALE, NEWTON_SCHULZ, OptimizerSettings, ROUNDS, Rule, StepReport, TINY, is_inside,
};
pub(crate) use processor::kept_by_a_pass;
pub use schedule::Schedule;
pub use scores::{TokenScores, Wanted};
pub use sequence::Sequence;
pub use snapshot::{HostTensor, TrainerState, foreign_weight};
pub use trainer::{Trained, Trainer, pieces};
