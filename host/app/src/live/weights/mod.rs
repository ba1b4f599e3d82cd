//! Weights that learn while their model serves.
//!
//! ```text
//! ended sessions ─▶ material ─▶ step (rewards, hints) ─▶ versions ─▶ the gateway reads the folder again
//! ```
//!
//! Either weights that answer everybody learn, or an adapter for each user or project (`adapters`).
//!
//! [`section`] is the configuration, [`windows`] says when training may run, [`background`] runs it behind everything else, at the [`pace`] of its share of the processors. [`material`] is what a session
//! teaches, if [`opted_in`] has its user, [`hints`] what a correction changes of an answer. [`queue`] has what waits, [`backend`] takes a step ([`local`] in this process, [`tinker`] at a service,
//! both with [`step`], which takes back what diverges), [`versions`] keeps what was learned, [`serving`] serves an earlier one again ([`lease`]: also during a step), and [`learner`] does all of it, beside a gateway or by hand, and
//! [`page`] shows it.

mod backend;
mod background;
mod hints;
mod learner;
mod lease;
mod local;
mod material;
mod pace;
mod page;
mod queue;
mod section;
mod serving;
mod step;
mod steps;
#[cfg(test)]
mod tests;
mod tinker;
mod traces;
mod versions;
mod windows;

use super::opted_in;
pub(crate) use learner::{LiveWeights, Training};
pub use learner::{TrainStep, train_step};
pub(crate) use page::TrainingPage;
pub use section::WeightsSection;
pub use serving::{LiveWeightsVersions, WithdrawnWeights, live_weights, serve_live_weights};
pub(crate) use serving::{remove_adapters, withdraw_weights};
pub(crate) use traces::trace_of;
pub(crate) use versions::LearnedPlace;
pub use versions::WeightsVersion;
