//! Runs an evolution: sections of the prompt evolve on training tasks, and the best candidate goes to the gate.
//!
//! [`clawhost_learn::evolve`] decides the next action; this module plays, calls the reflector, and reports the results. It
//! runs once, before the first iteration, because lessons are measured inside the evolved prompt.
//!
//! ```text
//! Evaluate ─▶ a phase on these training positions ─▶ rewards ─▶ evaluated
//! Reflect ──▶ reflector, with the parent's episodes ─▶ safety ─▶ reflected ─▶ checkpoint
//! Done ─────▶ gate on val tasks ─▶ deployed, rejected, or left open for the next session ─▶ checkpoint
//! ```
//!
//! *Items are positions.* A position of the train split determines a task and an environment seed, so a phase can play
//! exactly the requested items. The seed of the sampled answers follows from the position too, so candidates differ only in
//! their prompt.
//!
//! *Interruptions.* An answer of a reflector is checkpointed before it is used, and episodes played since are found in their
//! phases. So nothing is paid for twice, and the budget is never exceeded.

use super::gate::GateReport;
use super::reflect::Knowledge;
use super::stage::{EvolvePlan, HarnessStage, Reflecting};
use crate::phase::phase_id;
use crate::playbook_guidance::UniformPlaybook;
use crate::splits::listed;
use crate::stage::{StageContext, WarmUp};
use crate::{LearningError, Staged};
use clawhost_core::{
    Change, Context, Digest, Ending, Episode, Failure, FailureKind, Proposal, RewardScope, Verdict, code, derive_seed,
};
use clawhost_learn::LearnError;
use clawhost_learn::evolve::{Cache, Candidate, EndReason, Evolution, Item, Next, Outcome, Report, Settings};
use clawhost_learn::gate::Decision;
use clawhost_learn::playbook::safety::{TextLimits, check_section};
use clawhost_play::{Plan, ScoringRule, StopReason, Tasks, environment_seed, fetch_shuffled, run_digest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tasks for minibatches, besides the fixed set. Enough that candidates do not overfit them, few enough that parents meet
/// tasks whose results are cached.
const TRAINING_TASKS: u64 = 100;
/// Phases (a minibatch each) whose episodes stay in memory for the reflector; older ones are read from the store.
const AT_HAND: usize = 512;
/// Bytes of a section per token of the prompt's budget: a section is always shown, so it must fit.
const BYTES_PER_TOKEN: u64 = 4;

/// Counts of the reflector's answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReflectorAnswers {
    /// Proposals that were about something else.
    pub ignored: u64,
    /// Refused texts, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Failed calls, by failure.
    pub failed: BTreeMap<String, u64>,
}

/// Report of an evolution, during or after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvolutionReport {
    /// Statistics: evaluations, candidates, the curve, failures.
    #[serde(flatten)]
    pub progress: Report,
    /// Sections of the best candidate.
    pub best: BTreeMap<String, String>,
    /// Why it ended; `None` if it did not end.
    pub why: Option<EndReason>,
    /// Counts of the reflector's answers.
    pub reflector: ReflectorAnswers,
    /// The gate's report on the best candidate; `None` if nothing better was found or the run was stopped before.
    pub gate: Option<GateReport>,
}

/// Progress of a run's evolution.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum EvolutionStage {
    /// Candidates are being evaluated.
    Evolving(Box<Evolving>),
    /// The best candidate waits for the gate.
    AtTheGate(EvolutionReport),
    /// The gate has decided.
    Over(EvolutionReport),
}

impl EvolutionStage {
    pub(super) fn report(&self) -> EvolutionReport {
        match self {
            Self::Evolving(evolving) => evolving.report(None),
            Self::AtTheGate(report) | Self::Over(report) => report.clone(),
        }
    }
}

/// An evolution in progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Evolving {
    evolution: Evolution,
    /// Number of phases played; the name of the next one follows from it.
    phases: u64,
    /// By candidate: the numbers of the phases with its episodes of training items, in order.
    played: BTreeMap<Digest, Vec<u64>>,
    answers: ReflectorAnswers,
    /// Episodes of training items by phase, in memory only.
    #[serde(skip)]
    at_hand: BTreeMap<u64, Vec<Arc<Episode>>>,
}

impl Evolving {
    fn report(&self, why: Option<EndReason>) -> EvolutionReport {
        EvolutionReport {
            progress: self.evolution.report(),
            best: self.evolution.best().0.clone(),
            why,
            reflector: self.answers.clone(),
            gate: None,
        }
    }
}

/// The tasks of an evolution, and their positions in the split.
struct Course {
    tasks: Tasks,
    positions: BTreeMap<Item, u64>,
}

fn phase_name(number: u64) -> String {
    format!("evolve-{number:05}")
}

/// Whether a retry might succeed: failures of a guest repeat, those of the machine, an endpoint or the operator need not.
fn is_transient(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Host | FailureKind::Llm | FailureKind::Cancelled => true,
        FailureKind::Limit => failure.code == code::DEADLINE || failure.code == code::BUSY,
        FailureKind::Trap | FailureKind::Invalid | FailureKind::Plugin => false,
    }
}

/// The result of an episode for its candidate. An episode without a reward is a failure, never a score.
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

/// The reflector's text for a section in the form in which it is stored. Everything else is counted.
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

fn refused(why: &str) -> LearningError {
    LearnError::Evolution(why.to_owned()).into()
}

impl HarnessStage {
    /// Prepares the evolution that the plan asks for; plays nothing.
    ///
    /// # Errors
    /// There is no reflector, or tasks or budget do not suffice.
    pub(super) async fn begin_evolution(&mut self, context: &StageContext<'_>) -> Staged<()> {
        if let Some(plan) = self.plan.evolve.clone() {
            let course = course(&plan, context).await?;
            let evolving = self.new_evolution(&plan, &course, context)?;
            self.state.evolved_to = course.positions.values().max().map_or(0, |last| last.saturating_add(1));
            self.state.evolution = Some(EvolutionStage::Evolving(Box::new(evolving)));
        }
        Ok(())
    }

    /// Continues to the next point that must be checkpointed, then to the gate. Does nothing once the evolution is over.
    pub(super) async fn evolve(&mut self, context: &StageContext<'_>) -> Staged<WarmUp> {
        let (Some(plan), Some(evolver)) = (self.plan.evolve.clone(), self.ports.evolver.clone()) else {
            return Ok(WarmUp::Done);
        };
        if matches!(self.state.evolution, None | Some(EvolutionStage::Over(_))) {
            return Ok(WarmUp::Done);
        }
        let course = course(&plan, context).await?;
        while let Some(EvolutionStage::Evolving(evolving)) = &self.state.evolution {
            match evolving.evolution.next() {
                Next::Evaluate { candidate, items } => {
                    self.play_candidate(&plan, &course, (&candidate, &items), context).await?;
                }
                Next::Reflect { parent, items, .. } => {
                    self.ask_about(&plan, &evolver, (&parent, &items), context).await?;
                    // The checkpoint must precede the use of the answer: after a restart another answer would give another
                    // evolution.
                    return Ok(WarmUp::Again(Vec::new()));
                }
                Next::Done { best, why } => {
                    let report = evolving.report(Some(why));
                    self.state.harness.propose_sections(best.0);
                    self.state.evolution = Some(EvolutionStage::AtTheGate(report));
                }
            }
        }
        self.judge_evolved(context).await
    }

    async fn judge_evolved(&mut self, context: &StageContext<'_>) -> Staged<WarmUp> {
        let Some(EvolutionStage::AtTheGate(report)) = self.state.evolution.clone() else { return Ok(WarmUp::Done) };
        let gate = self.judge_candidate("evolve", context).await?;
        let promoted = gate.as_ref().filter(|gate| gate.decision == Decision::Promote);
        let versions = promoted.map(|gate| self.version(gate.why(), context)).into_iter().collect();
        let report = EvolutionReport { gate, ..report };
        context.observer.evolved(&report);
        self.state.evolution = Some(EvolutionStage::Over(report));
        Ok(WarmUp::Again(versions))
    }

    fn new_evolution(&self, plan: &EvolvePlan, course: &Course, context: &StageContext<'_>) -> Staged<Evolving> {
        if self.ports.evolver.is_none() {
            return Err(refused("no reflector rewrites sections; name one that does").into());
        }
        let groups = |rule: &ScoringRule| rule.reward.description().scope == RewardScope::Group;
        if let Some(rule) = context.ports.rewards.iter().find(|rule| groups(rule)) {
            let name = &rule.reward.identity().name;
            return Err(refused(&format!(
                "{name} compares the episodes of a group, but a candidate plays each task once; evolve with a reward that \
                 scores single episodes"
            ))
            .into());
        }
        let deployed = self.state.harness.deployed();
        let play = Plan { split: Some(context.splits.train.clone()), ..context.plan.play.clone() };
        let entries = clawhost_learn::playbook::Playbook { sections: BTreeMap::new(), ..deployed.clone() };
        let policy = run_digest(&play, context.ports)?.extended(entries.digest().hex().as_bytes());
        // With few tasks, half of them are for training.
        let fixed = plan.pareto.min(course.positions.len() as u64 / 2);
        let settings = Settings {
            budget: plan.budget,
            minibatch: usize::try_from(plan.minibatch).unwrap_or(usize::MAX),
            pareto: usize::try_from(fixed).unwrap_or(usize::MAX),
            section: plan.section.clone(),
            seed: derive_seed(play.seed, "evolve", context.lineage.runs),
            policy,
        };
        let items = course.positions.keys().cloned().collect();
        let evolution = Evolution::new(settings, items, Candidate(deployed.sections), Cache::default())?;
        let (phases, answers, played, at_hand) = Default::default();
        Ok(Evolving { evolution, phases, played, answers, at_hand })
    }

    fn evolving(&mut self) -> Result<&mut Evolving, LearningError> {
        match &mut self.state.evolution {
            Some(EvolutionStage::Evolving(evolving)) => Ok(evolving),
            _ => Err(LearningError::Host("no evolution is in progress".to_owned())),
        }
    }

    /// Plays a candidate on items in one phase, and reports the results.
    async fn play_candidate(
        &mut self,
        plan: &EvolvePlan,
        course: &Course,
        (candidate, items): (&Candidate, &[Item]),
        context: &StageContext<'_>,
    ) -> Staged<()> {
        let positions: Option<Vec<u64>> = items.iter().map(|item| course.positions.get(item).copied()).collect();
        let gone = || refused("the environment returns other tasks than before; start a new run");
        let play = Plan {
            episodes: items.len() as u64,
            group: 1,
            positions: Some(positions.ok_or_else(gone)?),
            first_group: 0,
            paired: false,
            branch_at: None,
            split: Some(context.splits.train.clone()),
            // A share of a few items means little: failures are counted over the whole evolution, below.
            failure_budget: 1.0,
            ..context.plan.play.clone()
        };
        let mut playbook = self.state.harness.deployed();
        playbook.sections.clone_from(&candidate.0);
        let policy = context.policy.guided(Arc::new(UniformPlaybook(self.state.harness.serving(playbook))));
        let number = self.evolving()?.phases;
        let phase = context.phase(&phase_name(number), play, policy, course.tasks.clone()).await?;
        for reward in phase.episodes.iter().filter_map(|episode| episode.reward) {
            self.state.scale.add(reward);
        }
        let evolving = self.evolving()?;
        evolving.phases += 1;
        let digest = candidate.digest();
        for (place, item) in (0..).zip(items) {
            let episode = phase.episodes.iter().find(|episode| episode.index == place);
            let result = episode.map_or(Outcome::Failed { transient: true }, |episode| outcome(episode));
            evolving.evolution.evaluated(&digest, item, result)?;
            // Reflectors never see the fixed set.
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
        let allowed = Plan { episodes: plan.budget, ..context.plan.play.clone() }.failures_allowed();
        if failed > allowed {
            return Err(StopReason::FailureBudget { failed, allowed }.into());
        }
        Ok(())
    }

    /// Calls the reflector about a parent's episodes, and processes its answer.
    async fn ask_about(
        &mut self,
        plan: &EvolvePlan,
        evolver: &Reflecting,
        (parent, items): (&Candidate, &[Item]),
        context: &StageContext<'_>,
    ) -> Staged<()> {
        let episodes = self.episodes_of(parent, items, context).await?;
        let mut playbook = self.state.harness.deployed();
        playbook.sections.clone_from(&parent.0);
        let playbook = Knowledge { playbook, ..Knowledge::default() }.shown(None);
        let times = self.evolving()?.evolution.report().reflections;
        let seed = derive_seed(context.plan.play.seed, "evolve reflect", times);
        let asked = Context { seed, options: evolver.options.clone() };
        let answer = tokio::select! {
            biased;
            () = context.cancel.requested() => return Err(StopReason::Cancelled.into()),
            answer = evolver.reflector.reflect(&asked, &playbook, &episodes) => answer,
        };
        // A cancelled call gives no answer.
        if context.cancel.is_requested() {
            return Err(StopReason::Cancelled.into());
        }
        if let Err(failure) = &answer
            && failure.kind == FailureKind::Llm
            && failure.code == code::BUDGET
        {
            return Err(StopReason::ModelBudget.into());
        }
        let settings = &self.plan.settings;
        let bytes = usize::try_from(settings.token_budget.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
        let withheld = settings.forbidden.clone();
        let evolving = self.evolving()?;
        let limits = TextLimits { bytes, withheld: &withheld };
        let text = text(answer, &plan.section, limits, &mut evolving.answers);
        evolving.evolution.reflected(text.map(|text| (plan.section.clone(), text)))?;
        Ok(())
    }

    /// A candidate's scored episodes of training items, in the order of the items.
    async fn episodes_of(
        &mut self,
        candidate: &Candidate,
        items: &[Item],
        context: &StageContext<'_>,
    ) -> Staged<Vec<Arc<Episode>>> {
        let numbers = self.evolving()?.played.get(&candidate.digest()).cloned().unwrap_or_default();
        let mut found: BTreeMap<&Item, Arc<Episode>> = BTreeMap::new();
        // Newest first: a failed item was played again.
        for number in numbers.into_iter().rev() {
            if found.len() == items.len() {
                break;
            }
            let episodes = match self.evolving()?.at_hand.get(&number) {
                Some(episodes) => episodes.clone(),
                None => context.learning.episodes(&phase_id(context.run, &phase_name(number))).await?,
            };
            for episode in episodes.into_iter().filter(|episode| episode.reward.is_some()) {
                let item = items.iter().find(|item| item.task == episode.task.key() && item.seed == episode.seed());
                if let Some(item) = item {
                    found.entry(item).or_insert(episode);
                }
            }
        }
        Ok(items.iter().filter_map(|item| found.remove(item)).collect())
    }
}

/// The first tasks of the train split behind those that earlier runs used, one item each.
async fn course(plan: &EvolvePlan, context: &StageContext<'_>) -> Staged<Course> {
    let play = &context.plan.play;
    let asked = Context { seed: play.seed, options: play.options.clone() };
    let (order, first) = (context.lineage.order, context.lineage.train);
    let wanted = TRAINING_TASKS.saturating_add(plan.pareto);
    let environments = &context.ports.environments;
    let split = (context.splits.train.as_str(), order);
    let tasks = fetch_shuffled(environments, &asked, split, listed(first, wanted), |_| true).await?;
    let item = |(position, (task, _)): (u64, &(Arc<clawhost_core::Task>, Digest))| {
        let seed = environment_seed(play.seed, &context.splits.train, position);
        (Item { task: task.key(), seed }, position)
    };
    // Position `p` plays task `p` modulo their number.
    let count = (tasks.len() as u64).min(wanted);
    let at = |position: u64| tasks.get(usize::try_from(position % (tasks.len() as u64).max(1)).ok()?);
    let course = first..first.saturating_add(count);
    let positions = course.filter_map(|position| Some(item((position, at(position)?)))).collect();
    Ok(Course { tasks, positions })
}
