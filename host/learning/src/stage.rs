//! What a layer does in a learning run beside stepping on batches: the stages that it owns.
//!
//! ```text
//! begin | restore ─▶ warm_up (again and again, checkpointed) ─▶ [ observe ─▶ transaction ─▶ after_step ]* ─▶ evaluation ─▶ finish
//! ```
//!
//! The loop calls every stage of every layer and knows none of them by name.

use crate::experience::Experience;
use crate::phase::{Phase, play_phase};
use crate::report::{LayerIteration, LayerReport};
use crate::splits::Splits;
use crate::training_thread::TrainingThread;
use crate::weights::Curriculum;
use crate::{LearnObserver, LearnPlan, Staged, Stopped};
use async_trait::async_trait;
use clawhost_core::{Digest, LargeState, LearningStore, PlaybookLedger, PlaybookVersion, RunId};
use clawhost_learn::{Batch, Layer, LayerOutcome};
use clawhost_play::{Cancel, ChatPolicy, Observer, Plan, Ports, StopReason, Tasks};
use serde_json::Value;
use std::collections::BTreeMap;

/// Tasks that a layer needs beyond the loop's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskNeeds {
    /// Of the training split.
    pub train: u64,
    /// Of the tasks that decide.
    pub val: u64,
}

/// In which state a layer acts in an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerState {
    /// As it was before the first reward.
    Before,
    /// As it is now.
    Now,
}

/// How far a warm-up has come.
#[derive(Debug)]
pub enum WarmUp {
    /// Something was reached that must be checkpointed, with these new versions of playbooks, before it goes on.
    Again(Vec<PlaybookVersion>),
    /// Nothing is left to do.
    Done,
}

/// A layer's part of a checkpoint.
pub struct SavedLayer {
    /// What [`LearningStage::restore`] takes.
    pub state: Value,
    /// Its large parts, by name.
    pub large: BTreeMap<String, LargeState>,
    /// Names the state.
    pub digest: Digest,
}

/// What a layer made of an iteration after the transaction.
pub struct AfterStep {
    /// For the report of the iteration.
    pub report: LayerIteration,
    /// New versions of playbooks.
    pub versions: Vec<PlaybookVersion>,
}

/// What a stage may use.
pub struct StageContext<'a> {
    /// The learning run.
    pub run: &'a RunId,
    /// Its plan.
    pub plan: &'a LearnPlan,
    /// Who plays, judges and records. The policy here is the operator's own.
    pub ports: &'a Ports,
    /// Where everything is kept.
    pub learning: &'a dyn LearningStore,
    /// Which tasks serve which purpose.
    pub splits: &'a Splits,
    /// Training tasks.
    pub train: &'a Tasks,
    /// Tasks that decide.
    pub val: &'a Tasks,
    /// Iterations that are over.
    pub iteration: u64,
    /// The policy as the other layers serve it now.
    pub policy: ChatPolicy,
    /// Where long computations run.
    pub training: &'a TrainingThread,
    /// Whether the operator wants to stop.
    pub cancel: &'a Cancel,
    /// Who watches.
    pub observer: &'a dyn LearnObserver,
}

impl StageContext<'_> {
    /// Plays a phase, or what is missing of it; one that is over is read. Stopped early it counts for nothing yet.
    ///
    /// # Errors
    /// It was stopped, or failed.
    pub async fn phase(&self, name: &str, plan: Plan, policy: ChatPolicy, tasks: Tasks) -> Staged<Phase> {
        if self.cancel.is_requested() {
            return Err(StopReason::Cancelled.into());
        }
        self.observer.phase(name, plan.episodes);
        let ports = Ports { policy, ..self.ports.clone() };
        let watched: &dyn Observer = self.observer;
        let phase = play_phase((self.run, name), plan, ports, tasks, self.learning, (self.cancel, watched)).await?;
        match phase.report.as_ref().and_then(|report| Some((report.stopped.clone()?, report.failures.clone()))) {
            Some((reason, failures)) => Err(Stopped { reason, failures }.into()),
            None => Ok(phase),
        }
    }
}

/// The stages of one layer in a learning run, and the layer itself.
#[async_trait]
pub trait LearningStage: Send {
    /// The layer's name in reports and checkpoints.
    fn name(&self) -> &'static str;

    /// Everything that decides what it does, for the run's digest.
    fn plan(&self) -> Value;

    /// Tasks that it needs.
    fn needs(&self, plan: &LearnPlan) -> TaskNeeds;

    /// Whether only one of its states can act at a time. Such a layer is evaluated state by state ([`LearningStage::act_as`]);
    /// states of other layers are compared side by side, on the same tasks in one phase, and differ by the policy's guidance alone.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Begins a new run.
    async fn begin(&mut self, context: &StageContext<'_>) -> Staged<()>;

    /// Becomes what a checkpoint of this run holds.
    async fn restore(&mut self, state: Value, context: &StageContext<'_>) -> Staged<()>;

    /// Its part of a checkpoint.
    async fn save(&mut self, context: &StageContext<'_>) -> Staged<SavedLayer>;

    /// What is kept of its playbook beside the versions; none: it has no playbook.
    fn ledger(&self) -> Option<PlaybookLedger> {
        None
    }

    /// What comes before the first iteration, one checkpoint at a time.
    async fn warm_up(&mut self, _: &StageContext<'_>) -> Staged<WarmUp> {
        Ok(WarmUp::Done)
    }

    /// The policy of training episodes.
    fn training_policy(&self, policy: ChatPolicy, _seed: u64) -> ChatPolicy {
        policy
    }

    /// The policy as it is served in a state.
    fn serving_policy(&self, policy: ChatPolicy, _state: LayerState) -> ChatPolicy {
        policy
    }

    /// Acts in a state from now on, for a layer that is exclusive.
    async fn act_as(&mut self, _: LayerState, _: &StageContext<'_>) -> Staged<()> {
        Ok(())
    }

    /// Keeps what [`LearningStage::act_as`] needs to go back to where it is now.
    async fn remember_before(&mut self, _: &StageContext<'_>) -> Staged<()> {
        Ok(())
    }

    /// Which training tasks are worth playing; none: one after the other.
    fn curriculum(&mut self) -> Option<&mut Curriculum> {
        None
    }

    /// Takes note of an iteration's experience, and gives the batch that the layer learns from.
    async fn observe(&mut self, experience: &Experience, context: &StageContext<'_>) -> Staged<Batch>;

    /// The layer, for the transaction.
    fn layer(&mut self) -> &mut dyn Layer;

    /// Whether the outcome of the transaction counts as learned; else why not.
    fn learned(&self, outcome: &LayerOutcome) -> Result<(), String> {
        match outcome {
            LayerOutcome::Stepped(..) => Ok(()),
            LayerOutcome::LeftOut(why) => Err(why.to_string()),
            LayerOutcome::RolledBack => Err("rolled back".to_owned()),
        }
    }

    /// What follows the transaction: candidates, a look at validation tasks, the report.
    async fn after_step(
        &mut self,
        outcome: LayerOutcome,
        experience: &Experience,
        context: &StageContext<'_>,
    ) -> Staged<AfterStep>;

    /// Ends the run, or this part of it.
    async fn finish(&mut self, _: &StageContext<'_>) -> Staged<()> {
        Ok(())
    }

    /// What it came to.
    fn report(&self) -> LayerReport;
}
