//! Weights in a learning run: demonstrations first, the same transaction as every layer after that, a look at validation tasks
//! now and then.

mod curriculum;
mod measures;
mod stage;
mod task_sampler;
mod warm_up;

pub use curriculum::Curriculum;
pub use stage::{Best, SharedWeights, WeightsPlan, WeightsPorts, WeightsStage};
pub use warm_up::{WarmStart, WarmStartReport};
