//! What a gateway gives back to the sessions that it records: guidance from a playbook, from skills and from memory.
//!
//! [`guide`] chooses it, [`text_vectors`] has the vectors by which it is found, [`book`] keeps the memory, [`promotion`] makes lessons of it, [`bank`] has the
//! general skills that ship, [`section`] is the configuration. [`scoring`] judges what ends, [`learning`] learns lessons from it, [`weights`] trains a local model with it, and [`shadow`]
//! answers requests again with lessons on trial. [`opted_in`] has who has agreed to either, [`readers`] are kept open for requests.

mod bank;
mod book;
mod guide;
mod learning;
mod opted_in;
mod promotion;
mod readers;
mod scoring;
mod section;
mod shadow;
mod text_vectors;
mod weights;

pub(crate) use book::{LiveMemory, corrected_episode};
pub use book::{
    MemoryError, MemoryScope, export_memory, forget_memory, import_memory, list_memory, memory_scopes, remember,
};
pub(crate) use guide::LiveGuide;
pub use learning::LearningSection;
pub(crate) use learning::{LiveLearner, LivePlaybook, TrialsState, user_number};
pub use promotion::{OPERATOR, PromotedMemory, promote_memory};
pub(crate) use scoring::LiveScoring;
pub use scoring::ScoringSection;
pub use section::{LiveMode, NoLiveMode, SkillsSection};
pub use shadow::ShadowSection;
pub(crate) use shadow::{ShadowAnswers, ShadowPlan, forget_shadow_lessons};
pub(crate) use weights::{LearnedPlace, LiveWeights, Training, remove_adapters, trace_of, withdraw_weights};
pub use weights::{
    LiveWeightsVersions, TrainStep, WeightsSection, WeightsVersion, WithdrawnWeights, live_weights, serve_live_weights,
    train_step,
};
