//! Weights that learn while their model serves.
//!
//! ```text
//! ended sessions ─▶ material ─▶ step (rewards, hints) ─▶ versions ─▶ the gateway reads the folder again
//! ```
//!
//! [`section`] is the configuration, [`windows`] says when training may run, [`background`] runs it behind everything else. [`material`] is what a session
//! teaches, if [`opted_in`] has its user, [`hints`] what a correction changes of an answer. [`step`] takes a step or takes it back, [`versions`] keeps what was learned, and
//! [`learner`] does all of it, beside a gateway or by hand, and
//! [`page`] shows it.

mod background;
mod hints;
mod learner;
mod material;
mod opted_in;
mod page;
mod section;
mod step;
#[cfg(test)]
mod tests;
mod versions;
mod windows;

pub(crate) use learner::{LiveWeights, Training};
pub use learner::{TrainStep, train_step};
pub(crate) use page::TrainingPage;
pub use section::WeightsSection;
pub use versions::WeightsVersion;
