//! The conductor: iteration by iteration it plays, reflects, hands the batch to the layers, asks the gate, and stores where
//! it stands.
//!
//! ```text
//! train tasks ─▶ groups of episodes ─▶ reflectors ─▶ proposals ┐
//!                        └────────────▶ rewards, draws ────────┴▶ batch ─▶ layers (all or none)
//! val tasks ──▶ pairs: candidate against deployed ─▶ gate ─▶ deployed                  │
//! test tasks ─▶ pairs: before against after ─▶ report                    checkpoint ◀──┘
//! ```
//!
//! Everything that decides is a function of the plan, the seed and the models' answers. An iteration is checkpointed as a
//! whole; its phases have names, so whoever takes the run up again finds what was played of it.

use super::batch::{batch, forward_metrics, why_unmoved, why_unscored};
use super::choice::TaskSampler;
use super::evaluate::{compare, test_plan};
use super::evolve::{EvolutionReport, Stage};
use super::gate::GateState;
use super::guide::{Arms, UniformPlaybook};
use super::phase::{Phase, play_phase};
use super::plan::{LearnPlan, LearnPorts, WarmStart, learn_digest};
use super::reflect::{Asked, Reflections, Waiting, reflect};
use super::report::{Evaluation, IterationReport, LearnReport, Outcome};
use super::splits::{Splits, fetch};
use super::values::RewardScale;
use super::weights::{Best, Tested, WarmStartReport};
use crate::RuntimeError;
use crate::guidance::Guidance;
use crate::plan::{Cancel, Plan};
use crate::policy::ChatPolicy;
use crate::report::{FailureCount, StopReason};
use crate::run::{Observer, Tasks};
use clawhost_core::{Checkpoint, Context, Episode, PlaybookLedger, PlaybookVersion, RunId, RunRecord};
use clawhost_learn::gate::Decision;
use clawhost_learn::harness::{Harness, Memory};
use clawhost_learn::playbook::Playbook;
use clawhost_learn::policy::SignalMonitor;
use clawhost_learn::{ReflectionSchedule, CheckpointKind, Layer, LayerOutcome, LearnError, learn};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// Watches a learning run.
pub trait LearnObserver: Observer {
    /// A phase begins that plays so many episodes.
    fn phase(&self, name: &str, episodes: u64);
    /// A section of the prompt has evolved.
    fn evolved(&self, _: &EvolutionReport) {}
    /// The model was looked at while it learns from demonstrations.
    fn warmed(&self, _: &WarmStartReport, _: &WarmStart) {}
    /// The training episodes of an iteration were played and scored; nothing was learned from them yet.
    fn played(&self, _: u64, _: &[Arc<Episode>]) {}
    /// An iteration is over, of so many.
    fn iteration(&self, report: &IterationReport, of: u64);
}

/// Why a phase did not come to its end.
pub(crate) struct Stopped {
    pub(crate) reason: StopReason,
    /// What failed in it.
    pub(crate) failures: Vec<FailureCount>,
}

impl From<StopReason> for Stopped {
    fn from(reason: StopReason) -> Self {
        Self { reason, failures: Vec::new() }
    }
}

/// All that the next iteration needs.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct State {
    /// Iterations that are over.
    pub(crate) iteration: u64,
    pub(crate) harness: Harness,
    pub(crate) gate: GateState,
    intensity: ReflectionSchedule,
    waiting: Waiting,
    reflections: Reflections,
    learned: u64,
    /// Every value that a reward of the run took, while they are at most two.
    pub(crate) values: RewardScale,
    /// What was deployed when the run began.
    before: Playbook,
    /// None: not begun.
    #[serde(default)]
    pub(crate) evolution: Option<Stage>,
    /// How far learning from demonstrations came; none: not begun.
    #[serde(default)]
    pub(crate) warm_start: Option<WarmStartReport>,
    /// What the weights came to on the test split before the first reward.
    #[serde(default)]
    pub(crate) tested: Option<Tested>,
    /// Which training tasks come next, where weights learn.
    #[serde(default)]
    pub(crate) choice: TaskSampler,
    /// Whether rewards still say anything.
    #[serde(default)]
    pub(crate) signal: SignalMonitor,
    /// The best weights so far, by the validation tasks.
    #[serde(default)]
    pub(crate) best: Option<Best>,
}

pub(crate) struct LearningLoop<'a> {
    pub(crate) run: RunId,
    pub(crate) plan: LearnPlan,
    pub(crate) ports: LearnPorts,
    pub(crate) splits: Splits,
    pub(crate) train: Tasks,
    pub(crate) val: Tasks,
    /// Difference between the best and the worst reward.
    pub(crate) range: f64,
    /// The best reward.
    pub(crate) best: f64,
    pub(crate) state: State,
    pub(crate) cancel: &'a Cancel,
    pub(crate) observer: &'a dyn LearnObserver,
}

/// Learns to the end of the plan, or until it is stopped.
///
/// # Errors
/// There is nothing to learn from, or nothing can be stored.
pub async fn learn_run(
    run: RunId,
    plan: LearnPlan,
    ports: LearnPorts,
    config: serde_json::Value,
    cancel: &Cancel,
    observer: &dyn LearnObserver,
) -> Result<LearnReport, RuntimeError> {
    let digest = learn_digest(&plan, &ports)?;
    let (clock, store) = (ports.play.clock.clone(), ports.learning.clone());
    let conductor = LearningLoop::new(run.clone(), plan, ports, None, cancel, observer).await?;
    let state_id = conductor.ports.play.policy.state_id();
    store.begin_run(&RunRecord { id: run, parent: None, state_id, config, digest, created_at: clock.now_ms() }).await?;
    conductor.checkpoint(serde_json::Value::Null, Vec::new()).await?;
    conductor.conduct().await
}

/// Takes a learning run up again: from its last checkpoint on, with what was played since.
///
/// # Errors
/// There is nothing to take up, or nothing can be stored.
pub async fn resume_learning(
    run: RunId,
    plan: LearnPlan,
    ports: LearnPorts,
    cancel: &Cancel,
    observer: &dyn LearnObserver,
) -> Result<LearnReport, RuntimeError> {
    let state = match ports.learning.last_checkpoint(&run).await? {
        Some((_, state)) => {
            let damaged = |error: serde_json::Error| RuntimeError::Checkpoint(run.clone(), error.to_string());
            Some(serde_json::from_value::<State>(state).map_err(damaged)?)
        }
        None => None,
    };
    // Its next version would undo what the operator did meanwhile.
    let newest = ports.learning.playbook(&ports.playbook).await?.map(|version| version.digest);
    if let (Some(state), Some(newest)) = (&state, newest)
        && newest != state.harness.deployed().digest()
    {
        return Err(RuntimeError::Moved { playbook: ports.playbook, run });
    }
    super::weights::restore(&run, &ports).await?;
    ports.learning.resume_run(&run).await?;
    let is_new = state.is_none();
    let conductor = LearningLoop::new(run, plan, ports, state, cancel, observer).await?;
    if is_new {
        // It was killed before its first: whoever stops it now needs one to go back to.
        conductor.checkpoint(serde_json::Value::Null, Vec::new()).await?;
    }
    conductor.conduct().await
}

impl<'a> LearningLoop<'a> {
    async fn new(
        run: RunId,
        plan: LearnPlan,
        ports: LearnPorts,
        state: Option<State>,
        cancel: &'a Cancel,
        observer: &'a dyn LearnObserver,
    ) -> Result<Self, RuntimeError> {
        let environment = ports.play.environment.clone();
        let splits = Splits::of(environment.as_ref(), plan.play.split.as_deref())?;
        let context = Context { seed: plan.play.seed, options: plan.play.options.clone() };
        let groups = plan.play.episodes.div_ceil(u64::from(plan.play.group.max(1)));
        let warm = plan.weights.as_ref().and_then(|weights| weights.warm_start.as_ref());
        let shown = warm.map_or(0, |warm| warm.demonstrations.max(warm.episodes));
        let wanted = groups.saturating_mul(plan.iterations).max(shown);
        let train = fetch(environment.as_ref(), &context, &splits.train, wanted).await?;
        let sessions = plan.iterations.div_ceil(plan.gate.every.max(1)).saturating_add(1);
        let sessions = sessions.saturating_add(u64::from(plan.evolve.is_some()));
        let looked_at = plan.weights.as_ref().map_or(0, |weights| weights.evaluate_episodes);
        let val = splits
            .val
            .fetch(environment.as_ref(), &context, sessions.saturating_mul(plan.gate.pairs).max(looked_at))
            .await?;
        if plan.test_pairs > 0 {
            // Nobody should learn for hours to find that nothing can be reported.
            splits.test.fetch(environment.as_ref(), &context, plan.test_pairs).await?;
        }
        let bounds = |pick: fn(f64, f64) -> f64, of: fn(&clawhost_core::RewardDescription) -> f64| {
            ports.play.rewards.iter().map(|rule| of(rule.reward.description())).reduce(pick)
        };
        let best = bounds(f64::max, |reward| reward.maximum).unwrap_or(1.0);
        let worst = bounds(f64::min, |reward| reward.minimum).unwrap_or(-1.0);
        let mut state = match state {
            Some(state) => state,
            None => first_state(&plan, &ports).await?,
        };
        if let Some(embedder) = &ports.embedder {
            state.harness.compare_by(embedder.clone());
        }
        let range = best - worst;
        let mut conductor = Self { run, range, best, plan, ports, splits, train, val, state, cancel, observer };
        conductor.begin_evolution().await?;
        Ok(conductor)
    }

    /// Plays one phase; stopped early it counts for nothing yet.
    pub(crate) async fn phase(
        &self,
        name: &str,
        plan: Plan,
        guidance: Arc<dyn Guidance>,
        tasks: Tasks,
    ) -> Result<Result<Phase, Stopped>, RuntimeError> {
        self.phase_by(name, plan, self.ports.play.policy.guided(guidance), tasks).await
    }

    /// The same with another policy.
    pub(crate) async fn phase_by(
        &self,
        name: &str,
        plan: Plan,
        policy: ChatPolicy,
        tasks: Tasks,
    ) -> Result<Result<Phase, Stopped>, RuntimeError> {
        if self.cancel.is_requested() {
            return Ok(Err(StopReason::Cancelled.into()));
        }
        self.observer.phase(name, plan.episodes);
        let mut ports = self.ports.play.clone();
        ports.policy = policy;
        let learning = self.ports.learning.as_ref();
        let watched: &dyn Observer = self.observer;
        let phase = play_phase((&self.run, name), plan, ports, tasks, learning, (self.cancel, watched)).await?;
        let ended = phase.report.as_ref().and_then(|report| Some((report.stopped.clone()?, report.failures.clone())));
        match ended {
            Some((reason, failures)) => Ok(Err(Stopped { reason, failures })),
            None => Ok(Ok(phase)),
        }
    }

    async fn conduct(mut self) -> Result<LearnReport, RuntimeError> {
        let mut stopped = self.warm_up().await?.err();
        if stopped.is_none() {
            stopped = self.test_beforehand().await?.err();
        }
        if stopped.is_none() {
            stopped = self.evolve().await?.err();
        }
        while self.state.iteration < self.plan.iterations && stopped.is_none() {
            let before = self.state.clone();
            match self.iterate().await? {
                Ok(report) => self.observer.iteration(&report, self.plan.iterations),
                Err(why) => {
                    // An iteration counts as a whole: what is told is where the run goes on from.
                    self.state = before;
                    stopped = Some(why);
                }
            }
        }
        let mut evaluation = None;
        if stopped.is_none() && self.plan.test_pairs > 0 {
            let found = match self.ports.weights {
                Some(_) => self.evaluate_weights().await?,
                None => self.evaluate([self.state.before.clone(), self.state.harness.deployed()]).await?,
            };
            match found {
                Ok(found) => evaluation = Some(found),
                Err(why) => stopped = Some(why),
            }
        }
        if stopped.is_some() {
            // Of an iteration, or of demonstrations, that count for nothing yet.
            super::weights::restore(&self.run, &self.ports).await?;
        }
        self.keep_weights(CheckpointKind::Last)?;
        let report = self.report(evaluation, stopped).await?;
        self.ports.learning.finish_run(&self.run, &report.summary(), report.usage).await?;
        Ok(report)
    }

    async fn iterate(&mut self) -> Result<Result<IterationReport, Stopped>, RuntimeError> {
        let number = self.state.iteration;
        let seed = self.plan.play.seed;
        let guidance = Arc::new(UniformPlaybook(self.state.harness.training(seed)));
        let state_id = self.ports.play.policy.guided(guidance.clone()).state_id();
        let rollout = match self.rollout(guidance).await? {
            Ok(rollout) => rollout,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let episodes: Vec<Arc<Episode>> = rollout.played.values().flatten().cloned().collect();
        self.observer.played(number + 1, &episodes);
        for reward in episodes.iter().filter_map(|episode| episode.reward) {
            self.state.values.add(reward);
        }
        self.state.waiting.add(&rollout.id, &rollout.played, self.best);
        let reward = batch(number, state_id, &rollout.played, Vec::new()).mean();
        let taught = batch(number, state_id, &rollout.taught, Vec::new());
        if number == 0 && reward.is_none() {
            // It would play to the end, and pay for it, to find that nothing was measured.
            return Ok(Err(StopReason::Unscored { why: why_unscored(&episodes) }.into()));
        }
        let mut proposals = Vec::new();
        let earlier = self.state.reflections.clone();
        if self.state.intensity.ask(reward) {
            let asked = self.ask(seed).await?;
            if asked.out_of_budget {
                return Ok(Err(StopReason::ModelBudget.into()));
            }
            proposals = asked.proposals;
        }
        self.state.reflections.given_up += self.state.waiting.shorten();
        if self.cancel.is_requested() {
            return Ok(Err(StopReason::Cancelled.into()));
        }
        self.state.reflections.waiting = self.state.waiting.len();
        let reflections = self.state.reflections.since(&earlier);
        // None has answered yet: a grant that is missing, an address with a typo. Later it may be an outage, which passes.
        if earlier.calls == earlier.failures() && reflections.calls > 0 && reflections.calls == reflections.failures() {
            let why = reflections.usual_failure().unwrap_or_default().to_owned();
            return Ok(Err(StopReason::Reflectors { failed: reflections.calls, why }.into()));
        }
        let taught = clawhost_learn::Batch { proposals, ..taught };
        // Over what was played as it came: groups that were chosen because they vary say nothing about how good anybody is.
        let mut report = IterationReport { reflections, reward, ..self.learn(&taught)? };
        self.watch_weights(&rollout, &mut report);
        if (number + 1).is_multiple_of(self.plan.gate.every.max(1)) || number + 1 == self.plan.iterations {
            match self.judge_candidate(&format!("i{:05}", number + 1)).await? {
                Ok(gate) => report.gate = gate,
                Err(stopped) => return Ok(Err(stopped)),
            }
        }
        if let Err(stopped) = self.evaluate_on_the_way(&mut report).await? {
            return Ok(Err(stopped));
        }
        self.state.iteration += 1;
        report.state = self.state.harness.digest();
        report.usage = self.ports.play.meter.spent();
        let versions = self.new_version(&report);
        self.checkpoint(serde_json::json!(report), versions).await?;
        Ok(Ok(report))
    }

    async fn ask(&mut self, seed: u64) -> Result<Asked, RuntimeError> {
        let known = self.state.harness.known();
        let State { waiting, reflections, .. } = &mut self.state;
        let (reflectors, learning) = (&self.ports.reflectors, self.ports.learning.as_ref());
        Ok(reflect(reflectors, (&known, seed), waiting, learning, self.cancel, reflections).await?)
    }

    /// Hands a batch to the layers.
    fn learn(&mut self, taught: &clawhost_learn::Batch) -> Result<IterationReport, RuntimeError> {
        let mut report = IterationReport {
            iteration: taught.number + 1,
            reward: taught.mean(),
            episodes: taught.episodes() as u64,
            removed: taught.removed.failed + taught.removed.unscored,
            learned: Ok(()),
            proposals: taught.proposals.len() as u64,
            reflections: Reflections::default(),
            metrics: BTreeMap::new(),
            events: Vec::new(),
            gate: None,
            signal: None,
            state: self.state.harness.digest(),
            usage: clawhost_core::Usage::default(),
        };
        let weights = self.ports.weights.clone();
        let mut weights = weights.as_ref().map(|weights| weights.lock().unwrap_or_else(PoisonError::into_inner));
        let mut layers: Vec<&mut dyn Layer> = Vec::new();
        if learns_lessons(&self.plan, &self.ports) {
            layers.push(&mut self.state.harness);
        }
        if let Some(weights) = &mut weights {
            layers.push(&mut **weights);
        }
        let names: Vec<String> = layers.iter().map(|layer| layer.name().to_owned()).collect();
        match learn(&mut layers, taught) {
            Ok(applied) => {
                let left_out: Vec<String> = applied
                    .outcomes
                    .iter()
                    .filter_map(|outcome| match outcome {
                        LayerOutcome::LeftOut(why) => Some(why.to_string()),
                        _ => None,
                    })
                    .collect();
                report.learned = match (&applied.rolled_back, applied.learned()) {
                    (Some(why), _) => Err(why.to_string()),
                    // Lessons are weighed by every batch; weights either move or do not.
                    (None, true) if !learns_lessons(&self.plan, &self.ports) && !applied.moved() => {
                        Err(why_unmoved(applied.outcomes.iter().filter_map(forward_metrics)))
                    }
                    (None, true) => Ok(()),
                    (None, false) if left_out.is_empty() => Err("no layer could make use of it".to_owned()),
                    (None, false) => Err(left_out.join("; ")),
                };
                report.events.extend(left_out);
                for (layer, outcome) in names.iter().zip(applied.outcomes) {
                    if let LayerOutcome::Stepped(forward, step) = outcome {
                        let named = |(name, value): (String, f64)| (format!("{layer}.{name}"), value);
                        report.metrics.extend(forward.metrics.into_iter().chain(step.metrics).map(named));
                        report.events.extend(step.events);
                    }
                }
            }
            // Its state is unknown: nothing may be recorded after that.
            Err(broken @ LearnError::Restore { .. }) => return Err(broken.into()),
            Err(why) => report.learned = Err(why.to_string()),
        }
        self.state.learned += u64::from(report.learned.is_ok());
        Ok(report)
    }

    fn new_version(&self, report: &IterationReport) -> Vec<PlaybookVersion> {
        let promoted = report.gate.as_ref().filter(|gate| gate.decision == Decision::Promote);
        let everything = self.plan.harness.admission == clawhost_learn::harness::Admission::Everything;
        let why = match promoted {
            Some(gate) => gate.why(),
            None if everything && report.proposals > 0 => "everything that was proposed".to_owned(),
            None => return Vec::new(),
        };
        vec![self.version(why)]
    }

    /// What is deployed, as a version.
    pub(crate) fn version(&self, why: String) -> PlaybookVersion {
        let playbook = self.state.harness.deployed();
        PlaybookVersion {
            name: self.ports.playbook.clone(),
            number: 0,
            digest: playbook.digest(),
            document: serde_json::json!(playbook),
            why,
            run: Some(self.run.clone()),
            created_at: self.ports.play.clock.now_ms(),
        }
    }

    pub(crate) async fn checkpoint(
        &self,
        report: serde_json::Value,
        versions: Vec<PlaybookVersion>,
    ) -> Result<(), RuntimeError> {
        let ledger = Ledger {
            entries: self.state.harness.rows(),
            worth: self.state.harness.worth(),
            memory: self.state.harness.memory(),
        };
        let checkpoint = Checkpoint {
            run: self.run.clone(),
            iteration: self.state.iteration,
            state: serde_json::json!(self.state),
            weights: self.weights_snapshot()?,
            report,
            versions,
            // Where weights alone learn, the playbook stays whose it is.
            ledger: learns_lessons(&self.plan, &self.ports)
                .then(|| PlaybookLedger { name: self.ports.playbook.clone(), document: serde_json::json!(ledger) }),
            spent: self.ports.play.meter.spent(),
        };
        Ok(self.ports.learning.checkpoint(checkpoint).await?)
    }

    /// The first playbook against the second, on the test split.
    async fn evaluate(&self, [before, after]: [Playbook; 2]) -> Result<Result<Evaluation, Stopped>, RuntimeError> {
        let showing = |playbook: Playbook| Arc::new(self.state.harness.serving(playbook));
        let arms = Arms(vec![showing(before), showing(after)]);
        let context = Context { seed: self.plan.play.seed, options: self.plan.play.options.clone() };
        let tasks =
            self.splits.test.fetch(self.ports.play.environment.as_ref(), &context, self.plan.test_pairs).await?;
        let plan = test_plan(&self.plan.play, &self.splits, self.plan.test_pairs);
        let phase = match self.phase("test", plan, Arc::new(arms), tasks).await? {
            Ok(phase) => phase,
            Err(stopped) => return Ok(Err(stopped)),
        };
        Ok(Ok(compare(&self.splits, &phase.episodes, &self.ports.play.rewards)))
    }

    /// Who changed what is deployed.
    fn layers(&self, evolution: Option<&EvolutionReport>) -> Vec<String> {
        let gate = evolution.and_then(|evolution| evolution.gate.as_ref());
        let evolved = gate.is_some_and(|gate| gate.decision == Decision::Promote);
        let harness = learns_lessons(&self.plan, &self.ports);
        let all = [("harness", harness), ("evolution", evolved), ("weights", self.ports.weights.is_some())];
        all.into_iter().filter(|(_, learns)| *learns).map(|(name, _)| name.to_owned()).collect()
    }

    async fn report(
        &self,
        evaluation: Option<Evaluation>,
        stopped: Option<Stopped>,
    ) -> Result<LearnReport, RuntimeError> {
        let iterations = self.ports.learning.iterations(&self.run).await?;
        let damaged = |error: serde_json::Error| RuntimeError::Checkpoint(self.run.clone(), error.to_string());
        let iterations =
            iterations.into_iter().map(serde_json::from_value).collect::<Result<_, _>>().map_err(damaged)?;
        let evolution = self.state.evolution.as_ref().map(Stage::report);
        let (stopped, failures) =
            stopped.map_or((None, Vec::new()), |stopped| (Some(stopped.reason), stopped.failures));
        Ok(LearnReport {
            outcome: evaluation.as_ref().map_or(Outcome::NotMeasured, Evaluation::outcome),
            evaluation,
            iterations,
            entries: self.state.harness.rows(),
            proposals: self.state.harness.counts().clone(),
            reflections: self.state.reflections.clone(),
            learned: self.state.learned,
            layers: self.layers(evolution.as_ref()),
            evolution,
            warm_start: self.state.warm_start.clone(),
            best: self.state.best.clone(),
            playbook: self.state.harness.deployed().digest(),
            stopped,
            failures,
            usage: self.ports.play.meter.spent(),
        })
    }
}

/// Whether the playbook is learned.
fn learns_lessons(plan: &LearnPlan, ports: &LearnPorts) -> bool {
    plan.weights.is_none() || !ports.reflectors.is_empty() || plan.evolve.is_some() || !plan.planted.is_empty()
}

/// What is kept of a playbook beside what it says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// A line about every entry.
    pub entries: Vec<clawhost_learn::harness::EntryRow>,
    /// What is known for certain that entries are worth.
    pub worth: BTreeMap<clawhost_learn::EntryId, f64>,
    /// What a later run remembers.
    pub memory: Memory,
}

async fn first_state(plan: &LearnPlan, ports: &LearnPorts) -> Result<State, RuntimeError> {
    let broken = |error: serde_json::Error| RuntimeError::Playbook(ports.playbook.clone(), error.to_string());
    let deployed = match ports.learning.playbook(&ports.playbook).await? {
        Some(version) => serde_json::from_value(version.document).map_err(broken)?,
        None => ports.beginning.clone(),
    };
    let mut harness = Harness::new(plan.harness.clone(), deployed.clone());
    if let Some(ledger) = ports.learning.ledger(&ports.playbook).await? {
        let ledger: Ledger = serde_json::from_value(ledger.document).map_err(broken)?;
        harness.remember(ledger.memory);
    }
    plan.planted.iter().for_each(|lesson| harness.plant(lesson.clone(), "planted"));
    Ok(State {
        iteration: 0,
        harness,
        gate: GateState::default(),
        intensity: ReflectionSchedule::new(plan.reflect_every),
        waiting: Waiting::default(),
        reflections: Reflections::default(),
        learned: 0,
        values: RewardScale::default(),
        before: deployed,
        evolution: None,
        warm_start: None,
        tested: None,
        choice: TaskSampler::new(plan.weights.as_ref().and_then(|weights| weights.difficulty)),
        signal: SignalMonitor::default(),
        best: None,
    })
}
