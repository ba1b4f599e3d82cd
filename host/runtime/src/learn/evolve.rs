//! Evolution, conducted: sections of the prompt evolve on training tasks, and what comes out goes to the gate.
//!
//! [`clawhost_learn::evolve`] says what to do; this plays it, asks the reflector, and answers. It is a stage of its own,
//! once, before the first iteration: lessons are measured in the prompt that they will stand in, so the prompt comes first.
//!
//! ```text
//! Evaluate ─▶ a phase on these training positions ─▶ rewards ─▶ evaluated
//! Reflect ──▶ reflector, with the parent's episodes ─▶ safety ─▶ reflected ─▶ checkpoint
//! Done ─────▶ gate on val tasks ─▶ deployed, turned down, or kept for the next session ─▶ checkpoint
//! ```
//!
//! *Items are positions.* A position of the train split has a task and an environment's seed, so a phase can play exactly
//! the items that are asked for. The seed of the answers follows from the position too, so candidates differ by what they are
//! told alone.
//!
//! *Interrupted, it goes on.* What a reflector answered is stored before anything is played with it, and what was played
//! since is found in its phases: nothing is paid for twice, and nothing beyond the budget.

use super::conductor::{LearningLoop, Stopped};
use super::gate::GateReport;
use super::guide::UniformPlaybook;
use super::phase::phase_id;
use super::plan::{EvolvePlan, Reflecting};
use super::reflect::shown;
use super::splits::fetch;
use crate::RuntimeError;
use crate::plan::Plan;
use crate::report::StopReason;
use crate::run::{Tasks, environment_seed, run_digest};
use clawhost_core::{
    Change, Context, Digest, Ending, Episode, Failure, FailureKind, Proposal, RewardScope, Verdict, code, derive_seed,
};
use clawhost_learn::LearnError;
use clawhost_learn::evolve::{Cache, Candidate, Evolution, Item, Next, Outcome, Report, Settings, Why};
use clawhost_learn::gate::Decision;
use clawhost_learn::playbook::safety::{TextLimits, check_section};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tasks that minibatches are drawn from, beside the fixed set. Many, so that a candidate is no answer to a few of them;
/// not all, so that parents meet tasks again whose evaluations are known.
const TRAINING_TASKS: u64 = 100;
/// Phases whose episodes stay at hand for the reflector, a minibatch each; older ones are read from the store.
const AT_HAND: usize = 512;
/// Bytes of a section per token of the budget of a prompt: a section is always shown, so it must fit.
const BYTES_PER_TOKEN: u64 = 4;

/// What came of asking the reflector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReflectorAnswers {
    /// Proposals that were about something else.
    pub ignored: u64,
    /// Texts that were refused, by why.
    pub refused: BTreeMap<String, u64>,
    /// Calls that failed, by how.
    pub failed: BTreeMap<String, u64>,
}

/// What an evolution came to, so far or in the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvolutionReport {
    /// Evaluations, candidates, the curve, failures.
    #[serde(flatten)]
    pub progress: Report,
    /// Sections of the best candidate.
    pub best: BTreeMap<String, String>,
    /// Why it ended; none: it did not come to its end.
    pub why: Option<Why>,
    /// What came of asking the reflector.
    pub reflector: ReflectorAnswers,
    /// What the gate said of the best candidate; none: it was not asked, because nothing better was found or the run
    /// stopped.
    pub gate: Option<GateReport>,
}

/// How far the evolution of a run has come.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Candidates are played.
    Evolving(Box<Evolving>),
    /// The best waits for the gate.
    AtTheGate(EvolutionReport),
    /// The gate has spoken.
    Over(EvolutionReport),
}

impl Stage {
    pub(crate) fn report(&self) -> EvolutionReport {
        match self {
            Self::Evolving(evolving) => evolving.report(None),
            Self::AtTheGate(report) | Self::Over(report) => report.clone(),
        }
    }
}

/// An evolution under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Evolving {
    evolution: Evolution,
    /// Phases that were played: the next one's name follows.
    phases: u64,
    /// Where a candidate's episodes of training items are: the number of the phase, in order.
    played: BTreeMap<Digest, Vec<u64>>,
    answers: ReflectorAnswers,
    /// Episodes of training items by phase, of this process.
    #[serde(skip)]
    at_hand: BTreeMap<u64, Vec<Arc<Episode>>>,
}

impl Evolving {
    fn report(&self, why: Option<Why>) -> EvolutionReport {
        EvolutionReport {
            progress: self.evolution.report(),
            best: self.evolution.best().0.clone(),
            why,
            reflector: self.answers.clone(),
            gate: None,
        }
    }
}

/// The tasks of an evolution, and where they are in the split.
struct Course {
    tasks: Tasks,
    positions: BTreeMap<Item, u64>,
}

fn phase_name(number: u64) -> String {
    format!("evolve-{number:05}")
}

/// Whether another try might go well: what the guest did will happen again, what the machine, an endpoint or the operator did
/// need not.
fn is_transient(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Host | FailureKind::Llm | FailureKind::Cancelled => true,
        FailureKind::Limit => failure.code == code::DEADLINE || failure.code == code::BUSY,
        FailureKind::Trap | FailureKind::Invalid | FailureKind::Plugin => false,
    }
}

/// What an episode says about its candidate. What has no reward is a failure, and never a number.
fn outcome(episode: &Episode) -> Outcome {
    if let Some(reward) = episode.reward {
        return Outcome::Scored(reward);
    }
    let transient = match &episode.ending {
        Ending::Failed(failure) => is_transient(failure),
        Ending::Terminated | Ending::Truncated(_) => episode
            .verdicts
            .iter()
            .any(|record| matches!(&record.verdict, Verdict::Failed(failure) if is_transient(failure))),
    };
    Outcome::Failed { transient }
}

/// The text that a reflector proposes for a section, in the form in which it is stored; everything else is counted.
fn text(
    answer: Result<Vec<Proposal>, Failure>,
    section: &str,
    limits: TextLimits<'_>,
    answers: &mut ReflectorAnswers,
) -> Option<String> {
    let proposals = match answer {
        Ok(proposals) => proposals,
        Err(failure) => {
            *answers.failed.entry(failure.to_string()).or_default() += 1;
            return None;
        }
    };
    let mut chosen = None;
    for proposal in proposals {
        match proposal.change {
            Change::RewriteSection(name, text) if name == section && chosen.is_none() => chosen = Some(text),
            _ => answers.ignored += 1,
        }
    }
    match check_section(&chosen?, limits) {
        Ok(text) => Some(text),
        Err(refusal) => {
            *answers.refused.entry(refusal.to_string()).or_default() += 1;
            None
        }
    }
}

fn refused(why: &str) -> RuntimeError {
    LearnError::Evolution(why.to_owned()).into()
}

impl LearningLoop<'_> {
    /// Makes ready what the plan says, unless it has begun; plays nothing.
    ///
    /// # Errors
    /// It could not evolve, for lack of a reflector, of tasks or of budget.
    pub(crate) async fn begin_evolution(&mut self) -> Result<(), RuntimeError> {
        if let Some(plan) = &self.plan.evolve
            && self.state.evolution.is_none()
        {
            let evolving = self.begin(plan, &self.course(plan).await?)?;
            self.state.evolution = Some(Stage::Evolving(Box::new(evolving)));
        }
        Ok(())
    }

    /// Evolves what the plan says, and takes what comes out to the gate; what is over stays over.
    pub(crate) async fn evolve(&mut self) -> Result<Result<(), Stopped>, RuntimeError> {
        let (Some(plan), Some(evolver)) = (self.plan.evolve.clone(), self.ports.evolver.clone()) else {
            return Ok(Ok(()));
        };
        if matches!(self.state.evolution, None | Some(Stage::Over(_))) {
            return Ok(Ok(()));
        }
        let course = self.course(&plan).await?;
        while let Some(Stage::Evolving(evolving)) = &self.state.evolution {
            let step = match evolving.evolution.next() {
                Next::Evaluate { candidate, items } => self.play_candidate(&plan, &course, &candidate, &items).await?,
                Next::Reflect { parent, items, .. } => self.ask_about(&plan, &evolver, &parent, &items).await?,
                Next::Done { best, why } => {
                    let report = evolving.report(Some(why));
                    self.state.harness.propose_sections(best.0);
                    self.state.evolution = Some(Stage::AtTheGate(report));
                    Ok(())
                }
            };
            if let Err(stopped) = step {
                return Ok(Err(stopped));
            }
        }
        self.judge_evolved().await
    }

    async fn judge_evolved(&mut self) -> Result<Result<(), Stopped>, RuntimeError> {
        let Some(Stage::AtTheGate(report)) = self.state.evolution.clone() else { return Ok(Ok(())) };
        let gate = match self.judge_candidate("evolve").await? {
            Ok(gate) => gate,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let promoted = gate.as_ref().filter(|gate| gate.decision == Decision::Promote);
        let versions = promoted.map(|gate| self.version(gate.why())).into_iter().collect();
        let report = EvolutionReport { gate, ..report };
        self.observer.evolved(&report);
        self.state.evolution = Some(Stage::Over(report));
        self.checkpoint(serde_json::Value::Null, versions).await?;
        Ok(Ok(()))
    }

    /// The first tasks of the train split, one item each.
    async fn course(&self, plan: &EvolvePlan) -> Result<Course, RuntimeError> {
        let play = &self.plan.play;
        let context = Context { seed: play.seed, options: play.options.clone() };
        let wanted = TRAINING_TASKS.saturating_add(plan.pareto);
        let tasks = fetch(self.ports.play.environment.as_ref(), &context, &self.splits.train, wanted).await?;
        let item = |(position, (task, _)): (u64, &(Arc<clawhost_core::Task>, Digest))| {
            let seed = environment_seed(play.seed, &self.splits.train, position);
            (Item { task: task.id.clone(), seed }, position)
        };
        let positions = (0..).zip(tasks.iter()).map(item).collect();
        Ok(Course { tasks, positions })
    }

    fn begin(&self, plan: &EvolvePlan, course: &Course) -> Result<Evolving, RuntimeError> {
        if self.ports.evolver.is_none() {
            return Err(refused("nobody rewrites sections; name a reflector that does"));
        }
        let groups = |rule: &crate::run::ScoringRule| rule.reward.description().scope == RewardScope::Group;
        if let Some(rule) = self.ports.play.rewards.iter().find(|rule| groups(rule)) {
            let name = &rule.reward.identity().name;
            return Err(refused(&format!(
                "{name} compares the episodes of a group, and a candidate plays each task once; evolve with a reward that \
                 judges episodes one by one"
            )));
        }
        let deployed = self.state.harness.deployed();
        let play = Plan { split: Some(self.splits.train.clone()), ..self.plan.play.clone() };
        let entries = clawhost_learn::playbook::Playbook { sections: BTreeMap::new(), ..deployed.clone() };
        let policy = run_digest(&play, &self.ports.play)?.extended(entries.digest().hex().as_bytes());
        // Where there are few tasks, half of them train.
        let fixed = plan.pareto.min(course.positions.len() as u64 / 2);
        let settings = Settings {
            budget: plan.budget,
            minibatch: usize::try_from(plan.minibatch).unwrap_or(usize::MAX),
            pareto: usize::try_from(fixed).unwrap_or(usize::MAX),
            section: plan.section.clone(),
            seed: derive_seed(play.seed, "evolve", 0),
            policy,
        };
        let items = course.positions.keys().cloned().collect();
        let evolution = Evolution::new(settings, items, Candidate(deployed.sections), Cache::default())?;
        let (phases, answers, played, at_hand) = Default::default();
        Ok(Evolving { evolution, phases, played, answers, at_hand })
    }

    fn evolving(&mut self) -> Result<&mut Evolving, RuntimeError> {
        match &mut self.state.evolution {
            Some(Stage::Evolving(evolving)) => Ok(evolving),
            _ => Err(RuntimeError::Host("no evolution is under way".to_owned())),
        }
    }

    /// Plays a candidate on items, as a phase, and answers each.
    async fn play_candidate(
        &mut self,
        plan: &EvolvePlan,
        course: &Course,
        candidate: &Candidate,
        items: &[Item],
    ) -> Result<Result<(), Stopped>, RuntimeError> {
        let positions: Option<Vec<u64>> = items.iter().map(|item| course.positions.get(item).copied()).collect();
        let gone = || refused("the environment gives other tasks than before; begin a new run without --resume");
        let play = Plan {
            episodes: items.len() as u64,
            group: 1,
            positions: Some(positions.ok_or_else(gone)?),
            first_group: 0,
            paired: false,
            branch_at: None,
            split: Some(self.splits.train.clone()),
            // A few items make no share: failures are counted over the whole evolution, below.
            failure_budget: 1.0,
            ..self.plan.play.clone()
        };
        let mut playbook = self.state.harness.deployed();
        playbook.sections.clone_from(&candidate.0);
        let guidance = Arc::new(UniformPlaybook(self.state.harness.serving(playbook)));
        let number = self.evolving()?.phases;
        let phase = match self.phase(&phase_name(number), play, guidance, course.tasks.clone()).await? {
            Ok(phase) => phase,
            Err(stopped) => return Ok(Err(stopped)),
        };
        for reward in phase.episodes.iter().filter_map(|episode| episode.reward) {
            self.state.values.add(reward);
        }
        let evolving = self.evolving()?;
        evolving.phases += 1;
        let digest = candidate.digest();
        for (place, item) in (0..).zip(items) {
            let episode = phase.episodes.iter().find(|episode| episode.index == place);
            let came_to = episode.map_or(Outcome::Failed { transient: true }, |episode| outcome(episode));
            evolving.evolution.evaluated(&digest, item, came_to)?;
            // Nobody is asked about the fixed set.
            if let Some(episode) = episode.filter(|_| !evolving.evolution.fixed_set().contains(item)) {
                let phases = evolving.played.entry(digest).or_default();
                if phases.last() != Some(&number) {
                    phases.push(number);
                }
                evolving.at_hand.entry(number).or_default().push(episode.clone());
            }
        }
        while evolving.at_hand.len() > AT_HAND {
            evolving.at_hand.pop_first();
        }
        let failures = evolving.evolution.report().failures;
        let failed = failures.transient + failures.permanent;
        let allowed = Plan { episodes: plan.budget, ..self.plan.play.clone() }.failures_allowed();
        if failed > allowed {
            return Ok(Err(StopReason::FailureBudget { failed, allowed }.into()));
        }
        Ok(Ok(()))
    }

    /// Asks the reflector about a parent's episodes, and takes its answer.
    async fn ask_about(
        &mut self,
        plan: &EvolvePlan,
        evolver: &Reflecting,
        parent: &Candidate,
        items: &[Item],
    ) -> Result<Result<(), Stopped>, RuntimeError> {
        let episodes = self.episodes_of(parent, items).await?;
        let mut playbook = self.state.harness.deployed();
        playbook.sections.clone_from(&parent.0);
        let playbook = shown(&playbook);
        let times = self.evolving()?.evolution.report().reflections;
        let seed = derive_seed(self.plan.play.seed, "evolve reflect", times);
        let context = Context { seed, options: evolver.options.clone() };
        let answer = tokio::select! {
            biased;
            () = self.cancel.requested() => return Ok(Err(StopReason::Cancelled.into())),
            answer = evolver.reflector.reflect(&context, &playbook, &episodes) => answer,
        };
        // Stopped while it waited for a model, it has said nothing.
        if self.cancel.is_requested() {
            return Ok(Err(StopReason::Cancelled.into()));
        }
        if let Err(failure) = &answer
            && failure.kind == FailureKind::Llm
            && failure.code == code::BUDGET
        {
            return Ok(Err(StopReason::ModelBudget.into()));
        }
        let settings = &self.plan.harness;
        let bytes = usize::try_from(settings.token_budget.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
        let withheld = settings.forbidden.clone();
        let evolving = self.evolving()?;
        let limits = TextLimits { bytes, withheld: &withheld };
        let text = text(answer, &plan.section, limits, &mut evolving.answers);
        evolving.evolution.reflected(text.map(|text| (plan.section.clone(), text)))?;
        // Before anything is played with it: another answer would be another evolution.
        self.checkpoint(serde_json::Value::Null, Vec::new()).await?;
        Ok(Ok(()))
    }

    /// A candidate's scored episodes of training items, in the order of the items.
    async fn episodes_of(&mut self, candidate: &Candidate, items: &[Item]) -> Result<Vec<Arc<Episode>>, RuntimeError> {
        let numbers = self.evolving()?.played.get(&candidate.digest()).cloned().unwrap_or_default();
        let mut found: BTreeMap<&Item, Arc<Episode>> = BTreeMap::new();
        // The newest first: an item that failed was played again.
        for number in numbers.into_iter().rev() {
            if found.len() == items.len() {
                break;
            }
            let episodes = match self.evolving()?.at_hand.get(&number) {
                Some(episodes) => episodes.clone(),
                None => self.ports.learning.episodes(&phase_id(&self.run, &phase_name(number))).await?,
            };
            for episode in episodes.into_iter().filter(|episode| episode.reward.is_some()) {
                let item = items.iter().find(|item| item.task == episode.task.id && item.seed == episode.seed);
                if let Some(item) = item {
                    found.entry(item).or_insert(episode);
                }
            }
        }
        Ok(items.iter().filter_map(|item| found.remove(item)).collect())
    }
}
