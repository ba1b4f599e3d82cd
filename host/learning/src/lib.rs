//! The learning loop (floor 3): sources of experience, stages of layers, evaluation, reports. Uses ports, never adapters.
//!
//! [`learn`] takes experience from an [`ExperienceSource`] (rollouts of an environment, or a pool of decided episodes),
//! gives every layer its batch in one transaction, and then runs the layer's own stages ([`LearningStage`]). The loop refers
//! to no layer by name: [`HarnessStage`] and [`WeightsStage`] contain everything that is specific to a layer.
//!
//! Invariants:
//! * All layers step on an iteration, or none does.
//! * A run that is interrupted at any point and resumed gives the same result as an uninterrupted run.
//! * The test split is never used for a decision. A promoted playbook passed the gate on tasks of another split than the
//!   training tasks.
//! * Training runs on a dedicated thread, never inside an async task.

mod batch;
mod error;
mod evaluation;
mod experience;
mod factorial;
mod functions;
mod harness;
mod learning_loop;
mod memory;
mod observer;
mod parts;
mod phase;
mod plan;
mod playbook_guidance;
mod pool;
mod recompute;
mod report;
mod rollouts;
mod router;
mod schedule;
mod sides;
mod source;
mod splits;
mod stage;
mod test_phase;
mod training_thread;
mod weights;

pub use error::{Halt, LearningError, Staged, Stopped};
pub use evaluation::evaluate_playbooks;
pub use experience::{Experience, Groups};
pub use functions::ReflectorFunction;
pub use harness::{
    Allowance, EvolutionReport, EvolvePlan, GateAgain, GateNumbers, GatePlan, GateReport, GateUse, HarnessPlan,
    HarnessPorts, HarnessStage, Ledger, Reflecting, Reflections, ReflectorAnswers, ServedPlaybooks, shown_entry,
};
pub use learning_loop::{LearnStart, learn};
pub use memory::MemoryStore;
pub use observer::LearnObserver;
pub use parts::{PartEvaluation, PartReward};
pub use phase::Phase;
pub use plan::{LearnPlan, LearnPorts, learn_digest};
pub use playbook_guidance::UniformPlaybook;
pub use pool::EpisodePool;
pub use recompute::{RecordedPhase, RecordedResult, evaluate_again};
pub use report::{
    ArmReport, Evaluation, HarnessIteration, HarnessReport, IterationReport, LayerDetails, LayerEffect, LayerIteration,
    LayerReport, LearnReport, Mean, Missing, Outcome, PlayedEpisodes, SideTries,
};
pub use rollouts::{Rollouts, is_training_phase};
pub use router::{
    LearnedRouter, PluginDecision, RoutedModel, RoutedModels, RouterKeeper, RouterPorts, RouterStage, RoutingFailure,
    RoutingFailures, decide_by_plugin,
};
pub use schedule::{Schedule, Turn};
pub use source::{ExperienceRequest, ExperienceSource};
pub use splits::{HeldOut, Splits};
pub use stage::{AfterStep, CurrentTurn, LayerState, LearningStage, SavedLayer, StageContext, TaskNeeds, WarmUp};
pub use test_phase::{TestPhase, TestSide};
pub use training_thread::TrainingThread;
pub use weights::{
    Best, Curriculum, RolloutMeasures, RoutedLearner, SharedWeights, Teaching, WarmStart, WarmStartReport,
    WarningSubject, WeightsIteration, WeightsPlan, WeightsPorts, WeightsReport, WeightsStage,
};
