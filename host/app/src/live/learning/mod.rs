//! Lessons from live sessions: reflectors propose, trials on sessions decide, and what is served follows.
//!
//! [`section`] is the configuration, [`drawing`] what is drawn for a session, [`state`] what is known, [`reflecting`] asks reflectors, [`learner`]
//! runs beside the gateway, and [`page`] shows what it knows.

mod drawing;
mod first_seen;
mod learner;
mod page;
mod reflecting;
mod section;
mod state;

pub(crate) use drawing::{Drawing, Plan, user_number};
pub(crate) use learner::LiveLearner;
pub(crate) use page::LivePlaybook;
pub(crate) use reflecting::correction;
pub use section::LearningSection;
pub(crate) use section::sources;
pub(crate) use state::{TrialsState, trials_of};
