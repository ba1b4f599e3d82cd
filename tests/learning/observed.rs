//! A stage that delegates to another one and records its batches.

use async_trait::async_trait;
use clawhost_core::{LearningStore, PlaybookLedger};
use clawhost_learn::playbook::Lineage;
use clawhost_learn::{Batch, Layer, LayerOutcome};
use clawhost_learning::{
    AfterStep, Curriculum, Experience, LayerReport, LayerState, LearnPlan, LearningError, LearningStage, SavedLayer,
    StageContext, Staged, TaskNeeds, WarmUp,
};
use clawhost_play::ChatPolicy;
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// Batches in the order of the iterations.
pub(crate) type Batches = Arc<Mutex<Vec<Batch>>>;

struct Observed {
    inner: Box<dyn LearningStage>,
    batches: Batches,
}

/// The wrapped stage, and the batches it will learn from.
pub(crate) fn observed(inner: Box<dyn LearningStage>) -> (Box<dyn LearningStage>, Batches) {
    let batches = Batches::default();
    (Box::new(Observed { inner, batches: batches.clone() }), batches)
}

#[async_trait]
impl LearningStage for Observed {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn plan(&self) -> Value {
        self.inner.plan()
    }

    fn needs(&self, plan: &LearnPlan) -> TaskNeeds {
        self.inner.needs(plan)
    }

    fn is_exclusive(&self) -> bool {
        self.inner.is_exclusive()
    }

    async fn begin(&mut self, context: &StageContext<'_>) -> Staged<()> {
        self.inner.begin(context).await
    }

    async fn restore(&mut self, state: Value, context: &StageContext<'_>) -> Staged<()> {
        self.inner.restore(state, context).await
    }

    async fn save(&mut self, context: &StageContext<'_>) -> Staged<SavedLayer> {
        self.inner.save(context).await
    }

    async fn lineage(&mut self, learning: &dyn LearningStore) -> Result<Option<Lineage>, LearningError> {
        self.inner.lineage(learning).await
    }

    fn ledger(&self, used: Lineage) -> Option<PlaybookLedger> {
        self.inner.ledger(used)
    }

    async fn warm_up(&mut self, context: &StageContext<'_>) -> Staged<WarmUp> {
        self.inner.warm_up(context).await
    }

    fn training_policy(&self, policy: ChatPolicy, seed: u64) -> ChatPolicy {
        self.inner.training_policy(policy, seed)
    }

    fn serving_policy(&self, policy: ChatPolicy, state: LayerState) -> ChatPolicy {
        self.inner.serving_policy(policy, state)
    }

    async fn act_as(&mut self, state: LayerState, context: &StageContext<'_>) -> Staged<()> {
        self.inner.act_as(state, context).await
    }

    async fn remember_before(&mut self, context: &StageContext<'_>) -> Staged<()> {
        self.inner.remember_before(context).await
    }

    fn curriculum(&mut self) -> Option<&mut Curriculum> {
        self.inner.curriculum()
    }

    async fn observe(&mut self, experience: &Experience, context: &StageContext<'_>) -> Staged<Batch> {
        let batch = self.inner.observe(experience, context).await?;
        self.batches.lock().unwrap().push(batch.clone());
        Ok(batch)
    }

    fn layer(&mut self) -> &mut dyn Layer {
        self.inner.layer()
    }

    fn learned(&self, outcome: &LayerOutcome) -> Result<(), String> {
        self.inner.learned(outcome)
    }

    async fn after_step(
        &mut self,
        outcome: LayerOutcome,
        experience: &Experience,
        context: &StageContext<'_>,
    ) -> Staged<AfterStep> {
        self.inner.after_step(outcome, experience, context).await
    }

    async fn finish(&mut self, context: &StageContext<'_>) -> Staged<()> {
        self.inner.finish(context).await
    }

    fn report(&self) -> LayerReport {
        self.inner.report()
    }
}
