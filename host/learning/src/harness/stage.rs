//! The stages of the harness layer: evolution of a section, reflection on played episodes, learning, and the gate.

use super::allowance::{Allowance, Spent};
use super::evolve::EvolutionStage;
use super::gate::GateState;
use super::reflect::{Knowledge, Reflections, reflect};
use super::reward_scale::RewardScale;
use super::waiting::Waiting;
use crate::experience::{Experience, reward_bounds};
use crate::playbook_guidance::UniformPlaybook;
use crate::report::{HarnessIteration, HarnessReport, LayerDetails, LayerIteration, LayerReport};
use crate::stage::{AfterStep, LayerState, LearningStage, SavedLayer, StageContext, TaskNeeds, WarmUp};
use crate::{LearnPlan, LearningError, Staged};
use async_trait::async_trait;
use clawhost_core::{Attributes, Episode, LearningStore, PlaybookLedger, PlaybookVersion, Reflector};
use clawhost_learn::budget::BudgetPlan;
use clawhost_learn::gate::Decision;
use clawhost_learn::harness::{Admission, EntryRow, Harness, HarnessSettings, Memory};
use clawhost_learn::playbook::{Embedder, Lineage, Playbook};
use clawhost_learn::{Batch, EntryId, Layer, LayerOutcome, Lesson, LessonUse, ReflectionSchedule, lesson_use};
use clawhost_play::{ChatPolicy, StopReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Settings of the gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatePlan {
    /// Iterations between two sessions.
    pub every: u64,
    /// Most pairs of episodes per session.
    pub pairs: u64,
    /// Probability of promoting any candidate that is not better, over all candidates of the playbook.
    pub alpha: f64,
}

impl Default for GatePlan {
    fn default() -> Self {
        Self { every: 10, pairs: 512, alpha: clawhost_learn::gate::ALPHA }
    }
}

/// Settings of an evolution, which runs once before the first iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EvolvePlan {
    /// Most evaluations; one is one candidate on one task. Failures count.
    pub budget: u64,
    /// Training tasks on which a child is compared with its parent.
    pub minibatch: u64,
    /// Training tasks of the fixed set that selects candidates; at most half of the tasks.
    pub pareto: u64,
    /// The section.
    pub section: String,
}

/// Settings of a harness that learns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HarnessPlan {
    /// Settings of the layer.
    pub settings: HarnessSettings,
    /// Reflectors are called after the first batch and after every n-th one from there on.
    pub reflect_every: u64,
    /// The gate.
    pub gate: GatePlan,
    /// Evolution of a section first; `None`: no evolution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evolve: Option<EvolvePlan>,
    /// A small number of episodes: lessons are proposed from all episodes so far and judged together, by the exact sign test. `None`: each
    /// is measured alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetPlan>,
    /// What training and gate may cost, beside the budget. `None`: what its episodes cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowance: Option<Allowance>,
    /// Lessons that are tried before all proposals.
    pub planted: Vec<Lesson>,
}

impl Default for HarnessPlan {
    fn default() -> Self {
        Self {
            settings: HarnessSettings::default(),
            reflect_every: 1,
            gate: GatePlan::default(),
            evolve: None,
            budget: None,
            allowance: None,
            planted: Vec::new(),
        }
    }
}

/// A reflector with its options.
#[derive(Clone)]
pub struct Reflecting {
    /// The reflector.
    pub reflector: Arc<dyn Reflector>,
    /// Its options.
    pub options: Attributes,
}

/// Ports of the harness layer.
#[derive(Clone)]
pub struct HarnessPorts {
    /// The reflectors that propose lessons.
    pub reflectors: Vec<Reflecting>,
    /// The reflector that rewrites sections, if one evolves.
    pub evolver: Option<Reflecting>,
    /// Embeddings for comparing lessons in prose; `None`: they are compared by their words.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// The name of the playbook.
    pub playbook: String,
    /// The initial playbook if the store has no version; usually empty.
    pub initial: Playbook,
}

/// What the store keeps about a playbook besides its versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// A row per entry.
    pub entries: Vec<EntryRow>,
    /// Lower bounds of the entries' effects.
    pub worth: BTreeMap<EntryId, f64>,
    /// Knowledge for later runs.
    pub memory: Memory,
    /// What its runs have used.
    pub lineage: Lineage,
}

/// The state of the layer between iterations.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct HarnessState {
    pub(super) harness: Harness,
    pub(super) gate: GateState,
    schedule: ReflectionSchedule,
    waiting: Waiting,
    reflections: Reflections,
    /// Reward values of the run.
    pub(super) scale: RewardScale,
    /// The playbook that was deployed when the run started.
    pub(super) before: Playbook,
    /// `None`: no evolution is planned.
    #[serde(default)]
    pub(super) evolution: Option<EvolutionStage>,
    /// Candidates that earlier runs tested.
    candidates_before: u32,
    /// The first position of the training split that no evolution played.
    pub(super) evolved_to: u64,
    /// What training and gate have cost, if there is an allowance.
    #[serde(default)]
    pub(super) spent: Spent,
    /// How often each entry could apply in training, of those that were open.
    #[serde(default)]
    uses: BTreeMap<EntryId, LessonUse>,
}

impl HarnessState {
    fn new(plan: &HarnessPlan, deployed: Playbook, lineage: &Lineage) -> Self {
        Self {
            harness: Harness::new(plan.settings.clone(), deployed.clone()),
            gate: GateState::new(lineage),
            schedule: ReflectionSchedule::new(plan.reflect_every),
            waiting: if plan.budget.is_some() { Waiting::together() } else { Waiting::default() },
            reflections: Reflections::default(),
            scale: RewardScale::default(),
            before: deployed,
            evolution: None,
            candidates_before: lineage.candidates,
            evolved_to: 0,
            spent: Spent::default(),
            uses: BTreeMap::new(),
        }
    }

    /// Looks at training episodes for where lessons could apply.
    fn note_uses(&mut self, episodes: &[Arc<Episode>]) {
        for entry in self.harness.known().entries {
            self.uses.entry(entry.id).or_insert_with(|| LessonUse::new(&entry.lesson));
        }
        for episode in episodes.iter().filter(|episode| episode.ending.is_complete()) {
            // Entries that were turned down keep what was seen while they were open.
            let open = self.uses.iter_mut().filter(|(id, _)| self.harness.is_open(id));
            lesson_use::observe(open, episode);
        }
    }

    /// A line about every entry.
    fn rows(&self) -> Vec<EntryRow> {
        let mut rows = self.harness.rows();
        rows.iter_mut().for_each(|row| row.usage = self.uses.get(&row.id).cloned());
        rows
    }
}

/// The harness layer in a learning run.
pub struct HarnessStage {
    pub(super) plan: HarnessPlan,
    pub(super) ports: HarnessPorts,
    pub(super) state: HarnessState,
    /// Reflections and proposals of the current iteration.
    recent: Reflections,
    proposals: u64,
    /// What other runs of the playbook used while this one was interrupted.
    elsewhere: Lineage,
}

impl HarnessStage {
    /// A harness that learns by this plan.
    pub fn new(plan: HarnessPlan, ports: HarnessPorts) -> Self {
        let state = HarnessState::new(&plan, ports.initial.clone(), &Lineage::default());
        Self { plan, ports, state, recent: Reflections::default(), proposals: 0, elsewhere: Lineage::default() }
    }

    /// Difference between the best and the worst possible reward.
    pub(super) fn range(context: &StageContext<'_>) -> f64 {
        let (worst, best) = reward_bounds(&context.ports.rewards);
        best - worst
    }

    /// Whether another batch of training would leave too little of the allowance for the gate.
    fn ends_training(&self, context: &StageContext<'_>) -> bool {
        let pairs = self.plan.gate.pairs;
        let allowance = self.plan.allowance.as_ref();
        let (batch, serves) = (context.turn.play.episodes, !self.state.before.entries.is_empty());
        allowance.is_some_and(|allowance| self.state.spent.ends_training(allowance, (batch, pairs), serves))
    }

    fn compare_by_embedder(&mut self) {
        if let Some(embedder) = &self.ports.embedder {
            self.state.harness.compare_by(embedder.clone());
        }
    }

    /// The deployed playbook as a version.
    pub(super) fn version(&self, why: String, context: &StageContext<'_>) -> PlaybookVersion {
        let playbook = self.state.harness.deployed();
        PlaybookVersion {
            name: self.ports.playbook.clone(),
            number: 0,
            digest: playbook.digest(),
            document: serde_json::json!(playbook),
            why,
            run: Some(context.run.clone()),
            created_at: context.ports.clock.now_ms(),
        }
    }
}

/// What the store keeps about a playbook.
async fn stored_ledger(playbook: &str, learning: &dyn LearningStore) -> Result<Option<Ledger>, LearningError> {
    let Some(stored) = learning.ledger(playbook).await? else { return Ok(None) };
    serde_json::from_value(stored.document).map(Some).map_err(|error| broken(playbook, &error))
}

fn broken(playbook: &str, error: &serde_json::Error) -> LearningError {
    LearningError::Playbook { playbook: playbook.to_owned(), why: error.to_string() }
}

#[async_trait]
impl LearningStage for HarnessStage {
    fn name(&self) -> &'static str {
        "harness"
    }

    fn plan(&self) -> Value {
        let name = |one: &Reflecting| {
            serde_json::json!((one.reflector.identity().digest, &one.options, one.reflector.grants()))
        };
        serde_json::json!({
            "plan": self.plan, "playbook": self.ports.playbook,
            "reflectors": self.ports.reflectors.iter().map(name).collect::<Vec<_>>(),
            "evolver": self.ports.evolver.as_ref().map(name),
        })
    }

    fn needs(&self, plan: &LearnPlan) -> TaskNeeds {
        let own = plan.schedule.iterations_of(self.name(), plan.iterations);
        let sessions = own.div_ceil(self.plan.gate.every.max(1)).saturating_add(1);
        let sessions = sessions.saturating_add(u64::from(self.plan.evolve.is_some()));
        TaskNeeds { train: 0, val: sessions.saturating_mul(self.plan.gate.pairs) }
    }

    async fn begin(&mut self, context: &StageContext<'_>) -> Staged<()> {
        let deployed = match context.learning.playbook(&self.ports.playbook).await? {
            Some(version) => {
                serde_json::from_value(version.document).map_err(|error| broken(&self.ports.playbook, &error))?
            }
            None => self.ports.initial.clone(),
        };
        self.state = HarnessState::new(&self.plan, deployed, context.lineage);
        if let Some(ledger) = stored_ledger(&self.ports.playbook, context.learning).await? {
            self.state.harness.remember(ledger.memory);
        }
        let harness = &mut self.state.harness;
        self.plan.planted.iter().for_each(|lesson| harness.plant(lesson.clone(), "planted"));
        self.compare_by_embedder();
        self.begin_evolution(context).await
    }

    async fn restore(&mut self, state: Value, context: &StageContext<'_>) -> Staged<()> {
        let damaged =
            |error: serde_json::Error| LearningError::Checkpoint { run: context.run.clone(), why: error.to_string() };
        self.state = serde_json::from_value(state).map_err(damaged)?;
        // A new version would undo what the operator changed meanwhile.
        let newest = context.learning.playbook(&self.ports.playbook).await?.map(|version| version.digest);
        if newest.is_some_and(|newest| newest != self.state.harness.deployed().digest()) {
            let (playbook, run) = (self.ports.playbook.clone(), context.run.clone());
            return Err(LearningError::PlaybookChanged { playbook, run }.into());
        }
        // Another run of the playbook may have tested candidates since.
        let used = self.lineage(context.learning).await?.unwrap_or_default();
        self.state.gate.candidates = self.state.gate.candidates.max(used.candidates);
        self.elsewhere = used;
        self.compare_by_embedder();
        Ok(())
    }

    async fn save(&mut self, _: &StageContext<'_>) -> Staged<SavedLayer> {
        let state = serde_json::json!(self.state);
        Ok(SavedLayer { state, large: BTreeMap::new(), digest: self.state.harness.digest() })
    }

    async fn lineage(&mut self, learning: &dyn LearningStore) -> Result<Option<Lineage>, LearningError> {
        Ok(stored_ledger(&self.ports.playbook, learning).await?.map(|ledger| ledger.lineage))
    }

    fn ledger(&self, used: Lineage) -> Option<PlaybookLedger> {
        let (harness, gate) = (&self.state.harness, &self.state.gate);
        let train = used.train.max(self.state.evolved_to);
        let lineage = Lineage { candidates: gate.candidates, train, gate: gate.pairs, ..used }.merged(self.elsewhere);
        let ledger = Ledger { entries: self.state.rows(), worth: harness.worth(), memory: harness.memory(), lineage };
        Some(PlaybookLedger { name: self.ports.playbook.clone(), document: serde_json::json!(ledger) })
    }

    async fn warm_up(&mut self, context: &StageContext<'_>) -> Staged<WarmUp> {
        self.evolve(context).await
    }

    fn training_policy(&self, policy: ChatPolicy, seed: u64) -> ChatPolicy {
        policy.guided(Arc::new(UniformPlaybook(self.state.harness.training(seed))))
    }

    fn serving_policy(&self, policy: ChatPolicy, state: LayerState) -> ChatPolicy {
        let harness = &self.state.harness;
        let playbook = match state {
            LayerState::Before => self.state.before.clone(),
            LayerState::Now => harness.deployed(),
        };
        policy.guided(Arc::new(UniformPlaybook(harness.serving(playbook))))
    }

    async fn observe(&mut self, experience: &Experience, context: &StageContext<'_>) -> Staged<Batch> {
        let (_, best) = reward_bounds(&context.ports.rewards);
        let episodes = experience.episodes();
        for reward in episodes.iter().filter_map(|episode| episode.reward) {
            self.state.scale.add(reward);
        }
        self.state.note_uses(&episodes);
        if let Some(allowance) = &self.plan.allowance {
            self.state.spent.train(allowance, &episodes);
        }
        self.state.waiting.add(&experience.id, &experience.played, best);
        let batch = experience.batch(&experience.played);
        let earlier = self.state.reflections.clone();
        let mut answers = Vec::new();
        if self.state.schedule.ask() {
            let HarnessState { waiting, reflections, harness, .. } = &mut self.state;
            let knowledge = Knowledge::of(harness);
            let (seed, learning) = (context.plan.play.seed, context.learning);
            let reflectors = &self.ports.reflectors;
            let asked = reflect(reflectors, (&knowledge, seed), waiting, learning, context.cancel, reflections).await?;
            if asked.out_of_budget {
                return Err(StopReason::ModelBudget.into());
            }
            answers = asked.answers;
        }
        self.state.reflections.given_up += self.state.waiting.shorten();
        if context.cancel.is_requested() {
            return Err(StopReason::Cancelled.into());
        }
        self.state.reflections.waiting = self.state.waiting.len();
        self.recent = self.state.reflections.since(&earlier);
        // No call ever succeeded, which indicates a configuration error (a missing grant, a wrong address). Later failures
        // may be temporary.
        let recent = &self.recent;
        if earlier.calls == earlier.failures() && recent.calls > 0 && recent.calls == recent.failures() {
            let why = recent.usual_failure().unwrap_or_default().to_owned();
            return Err(StopReason::Reflectors { failed: recent.calls, why }.into());
        }
        let batch = Batch { answers, ..batch };
        self.proposals = batch.proposals() as u64;
        Ok(batch)
    }

    fn layer(&mut self) -> &mut dyn Layer {
        &mut self.state.harness
    }

    async fn after_step(
        &mut self,
        outcome: LayerOutcome,
        experience: &Experience,
        context: &StageContext<'_>,
    ) -> Staged<AfterStep> {
        let (proposals, reflections) = (self.proposals, std::mem::take(&mut self.recent));
        let mut details = HarnessIteration { proposals, reflections, gate: None };
        let done = experience.number + 1;
        let is_due = (context.turn.own + 1).is_multiple_of(self.plan.gate.every.max(1)) || context.turn.is_last;
        let is_early = !is_due && self.ends_training(context);
        if is_due || is_early {
            details.gate = self.judge_candidate(&format!("i{done:05}"), context).await?;
        }
        let promoted = details.gate.as_ref().filter(|gate| gate.decision == Decision::Promote);
        let everything = self.plan.settings.admission == Admission::Everything && proposals > 0;
        let why = match promoted {
            Some(gate) => Some(gate.why()),
            None => everything.then(|| "all proposals, without measuring".to_owned()),
        };
        let versions = why.map(|why| self.version(why, context)).into_iter().collect();
        let mut report = LayerIteration::of(self.name(), outcome);
        report.details = LayerDetails::Harness(Box::new(details));
        Ok(AfterStep { report, versions, ends_turn: is_early })
    }

    fn report(&self) -> LayerReport {
        let harness = &self.state.harness;
        LayerReport::Harness(Box::new(HarnessReport {
            name: self.ports.playbook.clone(),
            entries: self.state.rows(),
            proposals: harness.counts().clone(),
            reflections: self.state.reflections.clone(),
            evolution: self.state.evolution.as_ref().map(EvolutionStage::report),
            budget: self
                .plan
                .budget
                .map(|plan| plan.after(self.state.candidates_before, self.plan.gate.alpha).unwrap_or(plan)),
            spent: self.plan.allowance.map(|_| self.state.spent.all),
            playbook: harness.deployed().digest(),
        }))
    }
}
