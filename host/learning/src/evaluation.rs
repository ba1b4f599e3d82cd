//! Evaluation: what the layers of a run achieve on held-out tasks, each alone and all together, with the same seeds.
//!
//! An *arm* is a set of layers that act as they are now, while the others act as they did before the first reward. Arms whose
//! policies differ only by what the policy reads are played side by side, as members of one group, so that nothing that drifts
//! over time falls on one of them. A layer that can act in one state at a time (weights) splits the arms into phases. Where such a
//! layer learns alone, the first arm is played before the first reward.

use crate::experience::by_group;
use crate::playbook_guidance::Arms;
use crate::report::{ArmReport, Evaluation, Mean, Missing};
use crate::splits::Splits;
use crate::stage::{LayerState, LearningStage, StageContext};
use crate::{LearningError, Staged};
use clawhost_core::{Context, RunId, RunKind, SpecDocument};
use clawhost_learn::harness::PlaybookView;
use clawhost_play::{
    Cancel, ChatPolicy, Guidance, Observer, Plan, Ports, RunReport, RunRequest, ScoringRule, play_run, range,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Position of the first pair of a test on half of a split: far behind every pair of the gate, which has the other half, so that
/// no seed decides and reports. Below 2^53, as all numbers in records are.
const BEHIND: u64 = 1 << 40;

/// The plan of a phase: so many pairs, each with every arm of the phase, with seeds that neither training nor the gate ever
/// sees. Where some arms are `paired`, all are, also one that has a phase of its own: its answers are drawn with their seeds.
fn test_plan(play: &Plan, splits: &Splits, pairs: u64, arms: u32, paired: bool) -> Plan {
    Plan {
        episodes: pairs.saturating_mul(u64::from(arms)),
        group: arms,
        first_group: if splits.test.half.is_some() { BEHIND } else { 0 },
        paired,
        branch_at: None,
        split: Some(splits.test.split.clone()),
        ..play.clone()
    }
}

/// What test episodes scored, by their place: the task, and the reward if there is one.
pub(crate) type Tested = BTreeMap<u64, (String, Option<f64>)>;

/// What was measured before the first reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baseline(Tested);

/// Layers that act as they are now, by their places.
type Arm = Vec<bool>;

/// How the layers of a run are compared.
pub(crate) struct EvaluationStage {
    names: Vec<&'static str>,
    exclusive: Vec<bool>,
}

impl EvaluationStage {
    pub(crate) fn new(stages: &[Box<dyn LearningStage>]) -> Self {
        let names = stages.iter().map(|stage| stage.name()).collect();
        Self { names, exclusive: stages.iter().map(|stage| stage.is_exclusive()).collect() }
    }

    /// Whether the arm in which nothing has learned is played before the first reward: no layer could be shown beside it.
    pub(crate) fn begins_with_baseline(&self) -> bool {
        self.names.len() == 1 && self.exclusive.iter().all(|exclusive| *exclusive)
    }

    /// Whether layers act again as they did before.
    pub(crate) fn goes_back(&self) -> bool {
        !self.begins_with_baseline() && self.exclusive.iter().any(|exclusive| *exclusive)
    }

    /// No layer, each layer alone, and all layers.
    fn arms(&self) -> Vec<Arm> {
        let layers = self.names.len();
        let mut arms = vec![vec![false; layers]];
        if layers > 1 {
            arms.extend((0..layers).map(|alone| (0..layers).map(|layer| layer == alone).collect()));
        }
        arms.push(vec![true; layers]);
        arms
    }

    /// The states of exclusive layers in an arm, which name its phase.
    fn acting(&self, arm: &Arm) -> Vec<bool> {
        arm.iter().zip(&self.exclusive).filter(|(_, exclusive)| **exclusive).map(|(now, _)| *now).collect()
    }

    fn phase_name(&self, acting: &[bool]) -> String {
        let exclusive = self.names.iter().zip(&self.exclusive).filter(|(_, exclusive)| **exclusive);
        match acting {
            [] => "test".to_owned(),
            [now] if self.names.len() == 1 => (if *now { "test-after" } else { "test-before" }).to_owned(),
            _ => exclusive.zip(acting).fold("test".to_owned(), |name, ((layer, _), now)| {
                format!("{name}-{layer}-{}", if *now { "after" } else { "before" })
            }),
        }
    }

    /// Plays the test tasks before the first reward.
    pub(crate) async fn baseline(&self, context: &StageContext<'_>) -> Staged<Baseline> {
        let acting = self.acting(&vec![false; self.names.len()]);
        let policies = vec![context.policy.clone()];
        let mut tested = play_arms(&self.phase_name(&acting), policies, false, context).await?;
        Ok(Baseline(tested.pop().unwrap_or_default()))
    }

    /// Plays every arm that is not known yet, and compares them.
    pub(crate) async fn evaluate(
        &self,
        stages: &mut [Box<dyn LearningStage>],
        baseline: Option<&Baseline>,
        context: &StageContext<'_>,
    ) -> Staged<Evaluation> {
        let arms = self.arms();
        let mut tested: Vec<Option<Tested>> = arms.iter().map(|_| None).collect();
        if let (Some(first), Some(Baseline(known))) = (tested.first_mut(), baseline) {
            *first = Some(known.clone());
        }
        let mut phases: BTreeMap<Vec<bool>, Vec<usize>> = BTreeMap::new();
        for (place, arm) in arms.iter().enumerate() {
            if tested.get(place).is_some_and(Option::is_none) {
                phases.entry(self.acting(arm)).or_default().push(place);
            }
        }
        // What acts now plays first.
        for (acting, places) in phases.iter().rev() {
            self.act(stages, acting, context).await?;
            let policy =
                |place: &usize| arms.get(*place).map(|arm| policy_of(stages, arm, context.ports.policy.clone()));
            let policies = places.iter().filter_map(policy).collect();
            let paired = !self.begins_with_baseline();
            let found = play_arms(&self.phase_name(acting), policies, paired, context).await?;
            for (place, found) in places.iter().zip(found) {
                if let Some(slot) = tested.get_mut(*place) {
                    *slot = Some(found);
                }
            }
        }
        let now = vec![true; self.exclusive.iter().filter(|exclusive| **exclusive).count()];
        self.act(stages, &now, context).await?;
        let tested: Vec<Tested> = tested.into_iter().map(Option::unwrap_or_default).collect();
        Ok(self.compared(&arms, &tested, context))
    }

    async fn act(
        &self,
        stages: &mut [Box<dyn LearningStage>],
        acting: &[bool],
        context: &StageContext<'_>,
    ) -> Staged<()> {
        let exclusive = stages.iter_mut().filter(|stage| stage.is_exclusive());
        for (stage, now) in exclusive.zip(acting) {
            stage.act_as(if *now { LayerState::Now } else { LayerState::Before }, context).await?;
        }
        Ok(())
    }

    fn compared(&self, arms: &[Arm], tested: &[Tested], context: &StageContext<'_>) -> Evaluation {
        let nothing = Tested::new();
        let (first, last) = (tested.first().unwrap_or(&nothing), tested.last().unwrap_or(&nothing));
        let rules = &context.ports.rewards;
        let against = |other: &Tested| compare(context.splits, first, other, rules);
        let mut evaluation = against(last);
        if self.names.len() > 1 {
            let names = |arm: &Arm| -> Vec<String> {
                let acting = self.names.iter().zip(arm).filter(|(_, now)| **now);
                acting.map(|(name, _)| (*name).to_owned()).collect()
            };
            let report = |(arm, tested): (&Arm, &Tested)| {
                let Evaluation { after, lift, missing, .. } = against(tested);
                ArmReport { layers: names(arm), mean: after, lift, missing }
            };
            evaluation.arms = arms.iter().zip(tested).skip(1).map(report).collect();
        }
        evaluation
    }
}

/// The policy of an arm, as every layer shapes it.
fn policy_of(stages: &[Box<dyn LearningStage>], arm: &Arm, policy: ChatPolicy) -> ChatPolicy {
    let state = |now: &bool| if *now { LayerState::Now } else { LayerState::Before };
    stages.iter().zip(arm).fold(policy, |policy, (stage, now)| stage.serving_policy(policy, state(now)))
}

/// Plays arms side by side on the test tasks. They differ by their guidance alone.
async fn play_arms(
    name: &str,
    policies: Vec<ChatPolicy>,
    paired: bool,
    context: &StageContext<'_>,
) -> Staged<Vec<Tested>> {
    let pairs = context.plan.test_pairs;
    let asked = Context { seed: context.plan.play.seed, options: context.plan.play.options.clone() };
    let tasks = context.splits.test.fetch(context.ports.environment.as_ref(), &asked, pairs).await?;
    let arms = u32::try_from(policies.len()).unwrap_or(u32::MAX).max(1);
    let plan = test_plan(&context.plan.play, context.splits, pairs, arms, paired);
    let policy = match policies.as_slice() {
        [alone] => alone.clone(),
        // What layers shape beside the guidance is the same in all of them.
        [first, ..] => first.guided(Arc::new(Arms(policies.iter().map(ChatPolicy::guidance).collect()))),
        [] => context.ports.policy.clone(),
    };
    let phase = context.phase(name, plan, policy, tasks).await?;
    Ok(tested(&phase.episodes, arms))
}

/// What every arm scored: members of a group are the arms in order.
fn tested(episodes: &[Arc<clawhost_core::Episode>], arms: u32) -> Vec<Tested> {
    let mut tested = vec![Tested::new(); arms as usize];
    for (place, members) in by_group(episodes) {
        for member in members {
            let arm = usize::try_from(member.index % u64::from(arms)).unwrap_or(0);
            if let Some(tested) = tested.get_mut(arm) {
                tested.insert(place, (member.task.id.clone(), member.reward));
            }
        }
    }
    tested
}

/// Values of every task.
type ByTask = BTreeMap<String, Vec<f64>>;

fn split_name(splits: &Splits) -> String {
    match splits.test.half {
        Some(_) => format!("half of {}", splits.test.split),
        None => splits.test.split.clone(),
    }
}

/// Compares two arms, place by place.
fn compare(splits: &Splits, before: &Tested, after: &Tested, rewards: &[ScoringRule]) -> Evaluation {
    let rows = after.iter().map(|(place, (task, is))| {
        let was = before.get(place).and_then(|(_, was)| *was);
        (task.clone(), was, *is)
    });
    evaluation(splits, rows, rewards)
}

/// Of tasks, with their rewards before and after.
fn evaluation(
    splits: &Splits,
    rows: impl Iterator<Item = (String, Option<f64>, Option<f64>)>,
    rewards: &[ScoringRule],
) -> Evaluation {
    // Where there are more pairs than tasks, tasks come again: they are the unit.
    let (mut before, mut after, mut lift) = (ByTask::new(), ByTask::new(), ByTask::new());
    let mut missing = Missing::default();
    let mut pairs = 0;
    for (task, was, is) in rows {
        match (was, is) {
            (Some(was), Some(is)) => {
                pairs += 1;
                before.entry(task.clone()).or_default().push(was);
                after.entry(task.clone()).or_default().push(is);
                lift.entry(task).or_default().push(is - was);
            }
            (was, is) => missing.add(was.is_none(), is.is_none()),
        }
    }
    let range = range(rewards);
    let mean = |values: ByTask| Mean::of(values).map(|mean| mean.within(range));
    Evaluation {
        split: split_name(splits),
        pairs,
        tasks: lift.len() as u64,
        missing,
        before: mean(before),
        after: mean(after),
        lift: Mean::of(lift).map(|lift| lift.widened(pairs)),
        arms: Vec::new(),
    }
}

/// Plays one playbook against another on the test split, as a run of its own.
///
/// # Errors
/// There is nothing to play, or nothing can be recorded.
pub async fn evaluate_playbooks(
    run: RunId,
    play: &Plan,
    pairs: u64,
    mut ports: Ports,
    [before, after]: [PlaybookView; 2],
    config: SpecDocument,
    (cancel, observer): (&Cancel, &dyn Observer),
) -> Result<(Evaluation, RunReport), LearningError> {
    let splits = Splits::of(ports.environment.as_ref(), None)?;
    let context = Context { seed: play.seed, options: play.options.clone() };
    let tasks = splits.test.fetch(ports.environment.as_ref(), &context, pairs).await?;
    let rewards = ports.rewards.clone();
    let arm = |view: PlaybookView| Some(Arc::new(crate::UniformPlaybook(view)) as Arc<dyn Guidance>);
    ports.policy = ports.policy.guided(Arc::new(Arms(vec![arm(before), arm(after)])));
    let plan = test_plan(play, &splits, pairs, 2, true);
    let request = RunRequest {
        kind: RunKind::Evaluate,
        tasks: Some(tasks),
        config,
        keeps_episodes: true,
        ..RunRequest::new(run, plan, ports)
    };
    let played = play_run(request, cancel, observer).await?;
    let arms = tested(&played.episodes, 2);
    let nothing = Tested::new();
    let (first, second) = (arms.first().unwrap_or(&nothing), arms.get(1).unwrap_or(&nothing));
    Ok((compare(&splits, first, second, &rewards), played.report))
}
