//! The learning loop: each iteration takes experience, gives every layer its batch, steps all layers or none, runs each layer's own stages, and writes a checkpoint.
//!
//! ```text
//! source of experience ─▶ every layer observes ─▶ batches ─▶ transaction (all layers, or none)
//!                                                                 │
//!        checkpoint ◀── every layer after its step (gate, validation) ◀┘      at the end: evaluation ─▶ report
//! ```
//!
//! All decisions are functions of the plan, the seed and the models' answers. An iteration is checkpointed as a whole. Its phases have names, so that a resumed run
//! finds the episodes that were already played.

use crate::evaluation::{Baseline, EvaluationStage};
use crate::experience::{Experience, mean_reward};
use crate::parts::{part_rewards, unscored};
use crate::plan::{LearnPlan, LearnPorts, learn_basis};
use crate::report::{Evaluation, IterationReport, LearnReport, Outcome};
use crate::rollouts::Rollouts;
use crate::source::{ExperienceRequest, ExperienceSource};
use crate::splits::{Splits, listed};
use crate::stage::{CurrentTurn, LayerState, LearningStage, StageContext, WarmUp};
use crate::training_thread::TrainingThread;
use crate::{Halt, LearnObserver, LearningError, Staged, Stopped};
use clawhost_core::{
    Checkpoint, Context, Digest, LearningStore, PlaybookVersion, RunId, RunKind, RunLabels, RunRecord, SpecDocument,
    content_root_of_phases,
};
use clawhost_learn::playbook::Lineage;
use clawhost_learn::{Applied, Batch, LayerOutcome, LearnError, learn_each};
use clawhost_play::{Cancel, ChatPolicy, Ports, StopReason, Tasks, fetch_shuffled};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The loop's own part of a checkpoint.
#[derive(Clone, Default, Serialize, Deserialize)]
struct LoopState {
    /// Completed iterations.
    iteration: u64,
    /// Iterations in which a layer learned.
    learned: u64,
    /// Whether all layers completed their warm-up.
    warm: bool,
    /// Whether the source has no more experience.
    exhausted: bool,
    /// Groups at the end of the plan that were not played, because its only turn ended early.
    #[serde(default)]
    skipped: u64,
    /// The state of the experience source.
    source: Value,
    /// The state of every layer, by name.
    layers: BTreeMap<String, Value>,
    /// Test results from before the first reward, if they are measured then.
    baseline: Option<Baseline>,
    /// What earlier runs of the playbook used. This run begins behind it.
    lineage: Lineage,
    /// Whether the test split was played to the end.
    tested: bool,
}

/// How a learning run starts.
pub enum LearnStart {
    /// As a new run, with its specification.
    New(SpecDocument),
    /// As a new run, with its specification, its name and its tags.
    Labelled(SpecDocument, RunLabels),
    /// From its last checkpoint, with the episodes that were played since.
    Resumed,
}

struct LearningLoop<'a> {
    run: RunId,
    plan: LearnPlan,
    ports: Ports,
    learning: Arc<dyn LearningStore>,
    stages: Vec<Box<dyn LearningStage>>,
    source: Box<dyn ExperienceSource>,
    splits: Splits,
    train: Tasks,
    val: Tasks,
    training: TrainingThread,
    turn: CurrentTurn,
    state: LoopState,
    cancel: &'a Cancel,
    observer: &'a dyn LearnObserver,
}

/// The context of one stage: everything in the loop except the stages. A macro, because it borrows field by field.
macro_rules! context {
    ($of:expr, $policy:expr) => {
        StageContext {
            run: &$of.run,
            plan: &$of.plan,
            ports: &$of.ports,
            learning: $of.learning.as_ref(),
            splits: &$of.splits,
            train: &$of.train,
            val: &$of.val,
            iteration: $of.state.iteration,
            turn: &$of.turn,
            policy: $policy,
            training: &$of.training,
            cancel: $of.cancel,
            observer: $of.observer,
            lineage: &$of.state.lineage,
        }
    };
}

/// Runs the plan to its end, or until it is stopped. A resumed run gives the same result as an uninterrupted one.
///
/// # Errors
/// There is nothing to learn from, or the store fails.
pub async fn learn(
    run: RunId,
    plan: LearnPlan,
    ports: LearnPorts,
    start: LearnStart,
    cancel: &Cancel,
    observer: &dyn LearnObserver,
) -> Result<LearnReport, LearningError> {
    let basis = learn_basis(&plan, &ports)?;
    let known = match start {
        LearnStart::Resumed => {
            ports.learning.last_checkpoint(&run).await?.map(|(_, state)| saved(&run, state)).transpose()?
        }
        LearnStart::New(_) | LearnStart::Labelled(..) => None,
    };
    let mut learning_loop = LearningLoop::new(run, plan, ports, known, (cancel, observer)).await?;
    match learning_loop.start(start, basis).await {
        Ok(()) => learning_loop.conduct().await,
        // There is no checkpoint yet that a report could describe.
        Err(Halt::Stopped(_)) => Err(clawhost_play::PlayError::Cancelled.into()),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// The loop's part of a checkpoint of a run.
fn saved(run: &RunId, state: Value) -> Result<LoopState, LearningError> {
    serde_json::from_value(state)
        .map_err(|error| LearningError::Checkpoint { run: run.clone(), why: error.to_string() })
}

/// What earlier runs used of the playbook that a layer learns.
async fn begun(
    stages: &mut [Box<dyn LearningStage>],
    learning: &dyn LearningStore,
    seed: u64,
) -> Result<Lineage, LearningError> {
    for stage in stages {
        if let Some(lineage) = stage.lineage(learning).await? {
            return Ok(lineage);
        }
    }
    Ok(Lineage::new(seed))
}

impl<'a> LearningLoop<'a> {
    /// `known`: the state of a run that is resumed.
    async fn new(
        run: RunId,
        plan: LearnPlan,
        ports: LearnPorts,
        known: Option<LoopState>,
        (cancel, observer): (&'a Cancel, &'a dyn LearnObserver),
    ) -> Result<Self, LearningError> {
        let LearnPorts { play: ports, learning, mut stages, source } = ports;
        let lineage = match known {
            Some(state) => state.lineage,
            None => begun(&mut stages, learning.as_ref(), plan.play.seed).await?,
        };
        let environments = ports.environments.clone();
        let splits = Splits::of(&environments, plan.play.split.as_deref())?;
        let context = Context { seed: plan.play.seed, options: plan.play.options.clone() };
        let needs = stages.iter().map(|stage| stage.needs(&plan));
        let (shown, decided) = needs.fold((0, 0), |(train, val), one| (one.train.max(train), one.val.max(val)));
        let wanted = plan.schedule.groups(plan.iterations, &plan.play).max(shown);
        let (order, wanted) = (lineage.order, listed(lineage.train, wanted));
        let train = fetch_shuffled(&environments, &context, (&splits.train, order), wanted, |_| true).await?;
        let decided = listed(lineage.gate, decided.max(1));
        let val = splits.val.fetch(&environments, &context, order, decided).await?;
        if plan.test_pairs > 0 {
            // Fail now rather than after hours of training.
            splits.test.fetch(&environments, &context, order, plan.test_pairs).await?;
        }
        let (training, state) = (TrainingThread::start()?, LoopState { lineage, ..LoopState::default() });
        let (source, turn) = (source.unwrap_or_else(|| Box::new(Rollouts)), turn(&plan, &state));
        crate::stage::stop_when_cancelled(&mut stages, cancel);
        Ok(Self {
            run,
            plan,
            ports,
            learning,
            stages,
            source,
            splits,
            train,
            val,
            training,
            turn,
            state,
            cancel,
            observer,
        })
    }

    /// Whether a layer learns in the current iteration.
    fn is_active(&self, place: usize) -> bool {
        let position = self.plan.schedule.at(self.state.iteration);
        self.stages.get(place).is_some_and(|stage| position.is_active(stage.name()))
    }

    async fn start(&mut self, start: LearnStart, basis: Value) -> Staged<()> {
        match start {
            LearnStart::New(config) => self.begin(config, RunLabels::default(), basis).await?,
            LearnStart::Labelled(config, labels) => self.begin(config, labels, basis).await?,
            LearnStart::Resumed => {
                let is_new = !self.reload().await?;
                if is_new {
                    // The run was interrupted before its first checkpoint.
                    self.begin_stages().await?;
                }
                // Only after restoring succeeded: a run that cannot be resumed is left unchanged.
                self.learning.resume_run(&self.run).await?;
                if is_new {
                    // A later stop returns to this checkpoint.
                    self.checkpoint(None, Vec::new()).await?;
                }
            }
        }
        Ok(())
    }

    /// Begins a new run.
    async fn begin(&mut self, config: SpecDocument, labels: RunLabels, basis: Value) -> Staged<()> {
        self.begin_stages().await?;
        let record = RunRecord {
            id: self.run.clone(),
            parent: None,
            kind: RunKind::Learn,
            environment: self.ports.environments.identity().name.clone(),
            state_id: self.ports.policy.state_id(),
            config,
            basis,
            planned: 0,
            created_at: self.ports.clock.now_ms(),
            labels,
        };
        self.learning.begin_run(&record).await?;
        self.checkpoint(None, Vec::new()).await?;
        Ok(())
    }

    async fn begin_stages(&mut self) -> Staged<()> {
        for place in 0..self.stages.len() {
            let policy = self.serving(Some(place));
            if let Some(stage) = self.stages.get_mut(place) {
                stage.begin(&context!(self, policy)).await?;
            }
        }
        Ok(())
    }

    /// Restores the last checkpoint. False if there is none.
    async fn reload(&mut self) -> Staged<bool> {
        let Some((_, state)) = self.learning.last_checkpoint(&self.run).await? else { return Ok(false) };
        self.state = saved(&self.run, state)?;
        for place in 0..self.stages.len() {
            let policy = self.ports.policy.clone();
            let Some(stage) = self.stages.get_mut(place) else { continue };
            let state = self.state.layers.get(stage.name()).cloned();
            let state = state.ok_or_else(|| LearningError::Checkpoint {
                run: self.run.clone(),
                why: format!("it holds no layer {}", stage.name()),
            })?;
            stage.restore(state, &context!(self, policy)).await?;
        }
        self.source.restore(self.state.source.clone())?;
        Ok(true)
    }

    /// The policy as all layers but one serve it now.
    fn serving(&self, except: Option<usize>) -> ChatPolicy {
        let others = self.stages.iter().enumerate().filter(|(place, _)| Some(*place) != except);
        others.fold(self.ports.policy.clone(), |policy, (_, stage)| stage.serving_policy(policy, LayerState::Now))
    }

    async fn conduct(mut self) -> Result<LearnReport, LearningError> {
        let mut stopped = None;
        let mut evaluation = None;
        match self.play_out().await {
            Ok(found) => evaluation = found,
            Err(Halt::Stopped(why)) => stopped = Some(why),
            Err(Halt::Failed(error)) => return Err(error),
        }
        if stopped.is_some() {
            // Only complete iterations count: the report describes the state from which the run can be resumed.
            self.reload().await.map_err(failed)?;
        }
        for place in 0..self.stages.len() {
            let policy = self.serving(Some(place));
            if let Some(stage) = self.stages.get_mut(place) {
                stage.finish(&context!(self, policy)).await.map_err(failed)?;
            }
        }
        let report = self.report(evaluation, stopped).await?;
        self.learning.finish_run(&self.run, &report.summary(), report.usage).await?;
        Ok(report)
    }

    async fn play_out(&mut self) -> Staged<Option<Evaluation>> {
        self.warm_up().await?;
        while self.state.iteration < self.plan.iterations && !self.state.exhausted {
            if let Some(report) = self.iterate().await? {
                self.observer.iteration(&report, self.plan.iterations);
            }
        }
        self.evaluate().await
    }

    async fn warm_up(&mut self) -> Staged<()> {
        for place in 0..self.stages.len() {
            loop {
                let policy = self.serving(Some(place));
                let Some(stage) = self.stages.get_mut(place) else { break };
                match stage.warm_up(&context!(self, policy)).await? {
                    WarmUp::Done => break,
                    WarmUp::Again(versions) => self.checkpoint(None, versions).await?,
                }
            }
        }
        if self.state.warm || self.plan.test_pairs == 0 {
            return Ok(());
        }
        let evaluation = EvaluationStage::new(&self.stages);
        if evaluation.begins_with_baseline() {
            let policy = self.serving(None);
            self.state.baseline = Some(evaluation.baseline(&context!(self, policy)).await?);
        } else if evaluation.goes_back() {
            for stage in &mut self.stages {
                let policy = self.ports.policy.clone();
                stage.remember_before(&context!(self, policy)).await?;
            }
        }
        self.state.warm = true;
        self.checkpoint(None, Vec::new()).await
    }

    /// Runs one iteration; `None` if the source has no more experience.
    async fn iterate(&mut self) -> Staged<Option<IterationReport>> {
        let number = self.state.iteration;
        self.turn = turn(&self.plan, &self.state);
        let Some(experience) = self.next_experience().await? else {
            self.state.exhausted = true;
            self.checkpoint(None, Vec::new()).await?;
            return Ok(None);
        };
        let episodes = experience.episodes();
        self.observer.played(number + 1, &episodes);
        let reward = mean_reward(&episodes);
        // Without rewards the rest of the run would only cost money.
        if number == 0
            && let Some(why) = unscored(&episodes)
        {
            return Err(StopReason::Unscored { why }.into());
        }
        let active: Vec<usize> = (0..self.stages.len()).filter(|place| self.is_active(*place)).collect();
        let mut batches = Vec::with_capacity(active.len());
        for place in active.iter().copied() {
            let policy = self.serving(Some(place));
            if let Some(stage) = self.stages.get_mut(place) {
                batches.push((place, stage.observe(&experience, &context!(self, policy)).await?));
            }
        }
        let (mut report, outcomes) = self.step(batches, &experience, reward).await?;
        let (mut versions, mut ends_turn) = (Vec::new(), !active.is_empty());
        for (place, outcome) in active.into_iter().zip(outcomes) {
            let policy = self.serving(Some(place));
            if let Some(stage) = self.stages.get_mut(place) {
                let after = stage.after_step(outcome, &experience, &context!(self, policy)).await?;
                report.layers.push(after.report);
                versions.extend(after.versions);
                // Only if none of the layers that learn needs more of it.
                ends_turn &= after.ends_turn;
            }
        }
        self.state.iteration = number + 1;
        if ends_turn {
            let end = self.plan.schedule.end_of_turn(number, self.plan.iterations);
            if end == self.plan.iterations {
                // No later turn plays behind them, so the next run of the playbook may.
                let groups = |iteration| self.plan.schedule.groups(iteration, &self.plan.play);
                self.state.skipped = groups(end).saturating_sub(groups(number + 1));
            }
            self.state.iteration = end;
        }
        report.usage = self.ports.meter.spent();
        self.checkpoint(Some(&mut report), versions).await?;
        Ok(Some(report))
    }

    async fn next_experience(&mut self) -> Staged<Option<Experience>> {
        let seed = self.plan.play.seed;
        let position = self.plan.schedule.at(self.state.iteration);
        let (active, others): (Vec<_>, Vec<_>) = self.stages.iter().partition(|stage| position.is_active(stage.name()));
        // The layers that learn come last: how they act overrides the others.
        let policy = others
            .into_iter()
            .fold(self.ports.policy.clone(), |policy, stage| stage.serving_policy(policy, LayerState::Now));
        let policy = active.into_iter().fold(policy, |policy, stage| stage.training_policy(policy, seed));
        let serving = self.serving(None);
        let mut active = self.stages.iter_mut().filter(|stage| position.is_active(stage.name()));
        let curriculum = active.find_map(|stage| stage.curriculum());
        let request = ExperienceRequest { policy, curriculum };
        self.source.next(request, &context!(self, serving)).await
    }

    /// Gives layers their batches, by their places, on the training thread. The others are not part of the transaction.
    async fn step(
        &mut self,
        batches: Vec<(usize, Batch)>,
        experience: &Experience,
        reward: Option<f64>,
    ) -> Staged<(IterationReport, Vec<LayerOutcome>)> {
        let played = experience.episodes();
        let scored = played.iter().filter(|episode| episode.reward.is_some()).count() as u64;
        let mut report = IterationReport {
            iteration: experience.number + 1,
            reward,
            parts: part_rewards(&played),
            episodes: scored,
            removed: played.len() as u64 - scored,
            revised: experience.played.values().flatten().filter(|episode| episode.revision() > 0).count() as u64,
            learned: Ok(()),
            layers: Vec::new(),
            state: Digest::of(b""),
            usage: clawhost_core::Usage::default(),
        };
        let mut stages = std::mem::take(&mut self.stages);
        let active: Vec<usize> = batches.iter().map(|(place, _)| *place).collect();
        let job = move || {
            let applied = {
                let mut layers = Vec::with_capacity(batches.len());
                let mut batches = batches.iter().peekable();
                for (place, stage) in stages.iter_mut().enumerate() {
                    if let Some((_, batch)) = batches.next_if(|(of, _)| *of == place) {
                        layers.push((stage.layer(), batch));
                    }
                }
                learn_each(&mut layers)
            };
            (stages, applied)
        };
        let (stages, applied) = self.training.run(job).await?;
        self.stages = stages;
        let active: Vec<_> = active.into_iter().filter_map(|place| self.stages.get(place)).collect();
        let outcomes = match applied {
            Ok(Applied { outcomes, rolled_back }) => {
                let judged = active.iter().zip(&outcomes).map(|(stage, outcome)| stage.learned(outcome));
                report.learned = match rolled_back {
                    Some(why) => Err(why.to_string()),
                    None => together(judged),
                };
                outcomes
            }
            // As if the iteration had not begun to learn: it does so again when the run is resumed.
            Err(LearnError::Interrupted) => return Err(StopReason::Cancelled.into()),
            // The state of the layer is unknown: nothing may be recorded after this.
            Err(broken @ LearnError::Restore { .. }) => return Err(broken.into()),
            Err(why) => {
                report.learned = Err(why.to_string());
                active.iter().map(|_| LayerOutcome::RolledBack).collect()
            }
        };
        self.state.learned += u64::from(report.learned.is_ok());
        Ok((report, outcomes))
    }

    /// Writes a checkpoint, with the report of an iteration.
    async fn checkpoint(&mut self, report: Option<&mut IterationReport>, versions: Vec<PlaybookVersion>) -> Staged<()> {
        let (mut large, mut digest) = (BTreeMap::new(), Digest::of(b"layers"));
        self.state.layers.clear();
        for place in 0..self.stages.len() {
            let policy = self.ports.policy.clone();
            let Some(stage) = self.stages.get_mut(place) else { continue };
            let saved = stage.save(&context!(self, policy)).await?;
            digest = digest.extended(stage.name().as_bytes()).extended(saved.digest.hex().as_bytes());
            self.state.layers.insert(stage.name().to_owned(), saved.state);
            large.extend(saved.large);
        }
        self.state.source = self.source.save();
        // An iteration that ended its turn early has its own number, and not that of the next one.
        let number = report.as_ref().map_or(self.state.iteration, |report| report.iteration);
        let report = match report {
            Some(report) => {
                report.state = digest;
                serde_json::json!(report)
            }
            None => Value::Null,
        };
        let checkpoint = Checkpoint {
            run: self.run.clone(),
            iteration: number,
            state: serde_json::json!(self.state),
            large,
            report,
            versions,
            ledger: self.stages.iter().find_map(|stage| stage.ledger(self.used())),
            spent: self.ports.meter.spent(),
        };
        Ok(self.learning.checkpoint(checkpoint).await?)
    }

    async fn evaluate(&mut self) -> Staged<Option<Evaluation>> {
        if self.plan.test_pairs == 0 {
            return Ok(None);
        }
        let evaluation = EvaluationStage::new(&self.stages);
        let policy = self.ports.policy.clone();
        let context = context!(self, policy);
        let found = evaluation.evaluate(&mut self.stages, self.state.baseline.as_ref(), &context).await?;
        self.state.tested = true;
        if self.stages.iter().any(|stage| stage.ledger(self.used()).is_some()) {
            // The next run of the playbook tests other tasks.
            self.checkpoint(None, Vec::new()).await?;
        }
        Ok(Some(found))
    }

    /// What the playbook's runs have used after this much of this one, without what layers use on their own.
    fn used(&self) -> Lineage {
        let LoopState { lineage, iteration, tested, skipped, .. } = self.state;
        let played = self.plan.schedule.groups(iteration, &self.plan.play).saturating_sub(skipped);
        let tests = if tested { self.plan.test_pairs } else { 0 };
        Lineage {
            runs: lineage.runs.saturating_add(1),
            train: lineage.train.saturating_add(played),
            test: lineage.test.saturating_add(tests),
            ..lineage
        }
    }

    /// Takes `&mut self` so that the future is `Send`: stages need not be `Sync`.
    async fn report(
        &mut self,
        evaluation: Option<Evaluation>,
        stopped: Option<Stopped>,
    ) -> Result<LearnReport, LearningError> {
        let iterations = self.learning.iterations(&self.run).await?;
        let damaged =
            |error: serde_json::Error| LearningError::Checkpoint { run: self.run.clone(), why: error.to_string() };
        let iterations =
            iterations.into_iter().map(serde_json::from_value).collect::<Result<_, _>>().map_err(damaged)?;
        let (stopped, failures) =
            stopped.map_or((None, Vec::new()), |stopped| (Some(stopped.reason), stopped.failures));
        let roots = self.learning.content_roots(&self.run).await?;
        Ok(LearnReport {
            content_root: content_root_of_phases(&roots),
            outcome: evaluation.as_ref().map_or(Outcome::NotMeasured, Evaluation::outcome),
            evaluation,
            iterations,
            reached: self.state.iteration,
            learned: self.state.learned,
            layers: self.stages.iter().map(|stage| stage.report()).collect(),
            stopped,
            failures,
            usage: self.ports.meter.spent(),
        })
    }
}

/// The iteration that comes next, for the layers that learn in it.
fn turn(plan: &LearnPlan, state: &LoopState) -> CurrentTurn {
    let position = plan.schedule.at(state.iteration);
    CurrentTurn {
        own: position.own,
        is_last: plan.schedule.is_last(state.iteration, plan.iterations),
        play: position.play(&plan.play),
        first_group: state.lineage.train.saturating_add(plan.schedule.groups(state.iteration, &plan.play)),
    }
}

/// Whether any layer learned; otherwise all reasons.
fn together(judged: impl Iterator<Item = Result<(), String>>) -> Result<(), String> {
    let mut reasons = Vec::new();
    for one in judged {
        match one {
            Ok(()) => return Ok(()),
            Err(why) => reasons.push(why),
        }
    }
    Err(if reasons.is_empty() { "no layer learns".to_owned() } else { reasons.join("; ") })
}

fn failed(halt: Halt) -> LearningError {
    match halt {
        Halt::Failed(error) => error,
        Halt::Stopped(stopped) => LearningError::Host(format!("stopped while it ended: {:?}", stopped.reason)),
    }
}
