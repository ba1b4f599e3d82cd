//! The learning loop: episodes become improvement.

mod batch;
mod choice;
mod conductor;
mod evaluate;
mod evolve;
mod functions;
mod gate;
mod guide;
mod memory;
mod phase;
mod plan;
mod reflect;
mod report;
mod rollout;
mod splits;
mod values;
mod weights;

pub use conductor::{LearnObserver, Ledger, learn_run, resume_learning};
pub use evaluate::{evaluate, play_and_keep};
pub use evolve::{ReflectorAnswers, EvolutionReport};
pub use functions::{ReflectorFunction, RewardFunction};
pub use gate::GateReport;
pub use guide::UniformPlaybook;
pub use memory::MemoryStore;
pub use plan::{
    EvolvePlan, GatePlan, LearnPlan, LearnPorts, Reflecting, WarmStart, WeightsPlan, WeightsPort, learn_digest,
};
pub use reflect::Reflections;
pub use report::{Evaluation, IterationReport, LearnReport, Mean, Missing, Outcome as Verdict};
pub use splits::{HeldOut, Splits};
pub use weights::{Best, WarmStartReport};
