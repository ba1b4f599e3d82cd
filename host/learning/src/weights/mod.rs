//! The weights layer in a learning run: demonstrations, the transaction, periodic validation.

mod curriculum;
mod measures;
mod report;
mod routed;
mod stage;
mod task_sampler;
mod teaching;
mod warm_up;

pub use curriculum::Curriculum;
pub use report::{RolloutMeasures, WarningSubject, WeightsIteration, WeightsReport};
pub use routed::RoutedLearner;
pub use stage::{Best, SharedWeights, WeightsPlan, WeightsPorts, WeightsStage};
pub use teaching::Teaching;
pub use warm_up::{WarmStart, WarmStartReport};
