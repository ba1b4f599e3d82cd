//! The stages of a layer in a learning run, besides its step in the transaction.
//!
//! ```text
//! begin | restore ─▶ warm_up (again and again, checkpointed) ─▶ [ observe ─▶ transaction ─▶ after_step ]* ─▶ evaluation ─▶ finish
//! ```
//!
//! The loop calls every stage of every layer and refers to no layer by name.

use crate::experience::Experience;
use crate::phase::{Phase, play_phase};
use crate::report::{LayerIteration, LayerReport};
use crate::splits::Splits;
use crate::training_thread::TrainingThread;
use crate::weights::Curriculum;
use crate::{LearnObserver, LearnPlan, LearningError, Staged, Stopped};
use async_trait::async_trait;
use clawhost_core::{Digest, LargeState, LearningStore, PlaybookLedger, PlaybookVersion, RunId};
use clawhost_learn::playbook::Lineage;
use clawhost_learn::{Batch, Interrupt, Layer, LayerOutcome};
use clawhost_play::{Cancel, ChatPolicy, Observer, Plan, Ports, StopReason, Tasks};
use serde_json::Value;
use std::collections::BTreeMap;

/// Number of tasks that a layer needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskNeeds {
    /// Tasks of the training split.
    pub train: u64,
    /// Tasks of the validation split.
    pub val: u64,
}

/// The state of a layer in an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerState {
    /// The state before the first reward.
    Before,
    /// The current state.
    Now,
}

/// Progress of a warm-up.
#[derive(Debug)]
pub enum WarmUp {
    /// A part is complete. The loop must write a checkpoint, with these new playbook versions, and call again.
    Again(Vec<PlaybookVersion>),
    /// The warm-up is complete.
    Done,
}

/// A layer's part of a checkpoint.
pub struct SavedLayer {
    /// The input of [`LearningStage::restore`].
    pub state: Value,
    /// Large parts (weights), by name.
    pub large: BTreeMap<String, LargeState>,
    /// Digest of the state.
    pub digest: Digest,
}

/// The result of a layer's stage after the transaction.
pub struct AfterStep {
    /// The layer's part of the iteration report.
    pub report: LayerIteration,
    /// New playbook versions.
    pub versions: Vec<PlaybookVersion>,
    /// Whether the layer needs no further iteration of its turn; without turns, of the run. It ends if no layer that learns in it needs more.
    pub ends_turn: bool,
}

/// An iteration for the layers that learn in it.
#[derive(Debug, Clone, PartialEq)]
pub struct CurrentTurn {
    /// Iterations in which they have learned before.
    pub own: u64,
    /// Whether they learn in no later iteration.
    pub is_last: bool,
    /// The training episodes.
    pub play: Plan,
    /// Position of the first group of training tasks.
    pub first_group: u64,
}

/// What a stage can use.
pub struct StageContext<'a> {
    /// The learning run.
    pub run: &'a RunId,
    /// Its plan.
    pub plan: &'a LearnPlan,
    /// Ports for playing, scoring and recording. Their policy is the operator's, without any layer.
    pub ports: &'a Ports,
    /// The learning store.
    pub learning: &'a dyn LearningStore,
    /// The purposes of the splits.
    pub splits: &'a Splits,
    /// Training tasks.
    pub train: &'a Tasks,
    /// Validation tasks.
    pub val: &'a Tasks,
    /// Completed iterations.
    pub iteration: u64,
    /// The current iteration for the layers that learn in it.
    pub turn: &'a CurrentTurn,
    /// The policy as the other layers serve it now.
    pub policy: ChatPolicy,
    /// The thread for long computations.
    pub training: &'a TrainingThread,
    /// The operator's request to stop.
    pub cancel: &'a Cancel,
    /// The observer.
    pub observer: &'a dyn LearnObserver,
    /// What earlier runs of the playbook used. This run begins behind it.
    pub lineage: &'a Lineage,
}

impl StageContext<'_> {
    /// Plays the missing episodes of a phase; reads a completed one. The episodes of a phase that was stopped early are not
    /// used yet.
    ///
    /// # Errors
    /// The phase was stopped, or failed.
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

/// One layer in a learning run: its stages, and the layer itself.
#[async_trait]
pub trait LearningStage: Send {
    /// Name of the layer in reports and checkpoints.
    fn name(&self) -> &'static str;

    /// Everything that determines its behaviour, for the run's digest.
    fn plan(&self) -> Value;

    /// The tasks that it needs.
    fn needs(&self, plan: &LearnPlan) -> TaskNeeds;

    /// Whether the layer can act in only one state at a time. Such a layer is evaluated state by state
    /// ([`LearningStage::act_as`]). States of other layers differ only in the policy's guidance and are compared side by
    /// side, in one phase.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Starts a new run.
    async fn begin(&mut self, context: &StageContext<'_>) -> Staged<()>;

    /// Restores the layer's part of a checkpoint.
    async fn restore(&mut self, state: Value, context: &StageContext<'_>) -> Staged<()>;

    /// The layer's part of a checkpoint.
    async fn save(&mut self, context: &StageContext<'_>) -> Staged<SavedLayer>;

    /// What earlier runs used of the layer's playbook; `None` without a playbook, or before its first run.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn lineage(&mut self, _: &dyn LearningStore) -> Result<Option<Lineage>, LearningError> {
        Ok(None)
    }

    /// What the store keeps about the layer's playbook besides its versions; `None` without a playbook. `used`: what its runs have used
    /// by now, apart from what the layer itself uses.
    fn ledger(&self, _used: Lineage) -> Option<PlaybookLedger> {
        None
    }

    /// The part before the first iteration, one checkpoint at a time.
    async fn warm_up(&mut self, _: &StageContext<'_>) -> Staged<WarmUp> {
        Ok(WarmUp::Done)
    }

    /// The policy for training episodes.
    fn training_policy(&self, policy: ChatPolicy, _seed: u64) -> ChatPolicy {
        policy
    }

    /// The policy as it is served in a state.
    fn serving_policy(&self, policy: ChatPolicy, _state: LayerState) -> ChatPolicy {
        policy
    }

    /// Makes an exclusive layer act in this state from now on.
    async fn act_as(&mut self, _: LayerState, _: &StageContext<'_>) -> Staged<()> {
        Ok(())
    }

    /// Stores the current state, so that [`LearningStage::act_as`] can return to it as [`LayerState::Before`].
    async fn remember_before(&mut self, _: &StageContext<'_>) -> Staged<()> {
        Ok(())
    }

    /// The selection of training tasks; `None`: in order.
    fn curriculum(&mut self) -> Option<&mut Curriculum> {
        None
    }

    /// Processes an iteration's experience, and returns the batch that the layer learns from.
    async fn observe(&mut self, experience: &Experience, context: &StageContext<'_>) -> Staged<Batch>;

    /// The layer, for the transaction.
    fn layer(&mut self) -> &mut dyn Layer;

    /// `Ok` if this outcome of the transaction counts as learned, otherwise the reason.
    fn learned(&self, outcome: &LayerOutcome) -> Result<(), String> {
        match outcome {
            LayerOutcome::Stepped(..) => Ok(()),
            LayerOutcome::LeftOut(why) => Err(why.to_string()),
            LayerOutcome::RolledBack => Err("rolled back".to_owned()),
        }
    }

    /// The part after the transaction: the gate, validation tasks, the layer's report.
    async fn after_step(
        &mut self,
        outcome: LayerOutcome,
        experience: &Experience,
        context: &StageContext<'_>,
    ) -> Staged<AfterStep>;

    /// Ends the run, or this session of it.
    async fn finish(&mut self, _: &StageContext<'_>) -> Staged<()> {
        Ok(())
    }

    /// The layer's report.
    fn report(&self) -> LayerReport;
}

/// Lets a computation of any layer stop when the run is cancelled.
pub(crate) fn stop_when_cancelled(stages: &mut [Box<dyn LearningStage>], cancel: &Cancel) {
    for stage in stages {
        let asked = cancel.clone();
        stage.layer().stop_when(Interrupt::new(move || asked.is_requested()));
    }
}
