//! Evaluation: the rewards of a run's layers on held-out tasks, each layer alone and all together, with equal seeds.
//!
//! An *arm* is a set of layers that act in their current state, while the others act in their state before the first reward.
//! Arms that differ only in the policy's guidance are played as members of one group, so that drift over time (of a model
//! endpoint, for example) affects all of them equally. A layer that can act in only one state at a time (weights) splits the
//! arms into phases. If such a layer is the only one, the first arm is played before the first reward.

use crate::experience::by_group;
use crate::factorial::effects;
use crate::parts::{PartEvaluation, of_part};
use crate::playbook_guidance::Arms;
use crate::report::{ArmReport, Evaluation, Mean, Missing, SideTries};
use crate::sides::Sides;
use crate::splits::{Splits, listed};
use crate::stage::{LayerState, LearningStage, StageContext};
use crate::test_phase::{AFTER, BEFORE, TEST};
use crate::{LearningError, Staged};
use clawhost_core::{Context, RunId, RunKind, RunLabels, SpecDocument};
use clawhost_learn::harness::PlaybookView;
use clawhost_play::{
    Cancel, ChatPolicy, GroupTries, Guidance, Observer, Part, Plan, Ports, RunReport, RunRequest, ScoringRule, Tasks,
    TriesMeasure, play_run, range, tries_measures,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// First position of a test on half of a split: far beyond every position of the gate, which uses the other half, so that no
/// seed serves both. Below 2^53, the largest integer that every JSON reader represents exactly.
const BEHIND: u64 = 1 << 40;

/// The position of a test's first group: behind those that earlier runs of the playbook tested (`used`).
fn first_position(splits: &Splits, used: u64, tasks: &Tasks) -> u64 {
    let behind = if splits.test.half.is_some() { BEHIND } else { 0 };
    // A multiple of the number of tasks, so that the first position plays the first task.
    let round = (tasks.len() as u64).max(1);
    (behind - behind % round).saturating_add(used)
}

/// The plan of a phase: `pairs` groups with a member per arm, with seeds that neither training nor the gate uses. If some
/// arms are `paired`, all are, including one in a phase of its own: then all arms sample answers with the same seeds.
fn test_plan(play: &Plan, splits: &Splits, (first_group, pairs): (u64, u64), arms: u32, paired: bool) -> Plan {
    Plan {
        episodes: pairs.saturating_mul(u64::from(arms)),
        group: arms,
        first_group,
        paired,
        branch_at: None,
        split: Some(splits.test.split.clone()),
        ..play.clone()
    }
}

/// Results of test episodes by position: the task, and the reward if it was scored.
pub(crate) type Tested = BTreeMap<u64, (String, Option<f64>)>;

/// Test results from before the first reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baseline(Tested);

/// Per layer: whether it acts in its current state.
pub(crate) type Arm = Vec<bool>;

/// Compares the layers of a run.
pub(crate) struct EvaluationStage {
    names: Vec<String>,
    exclusive: Vec<bool>,
}

/// What the numbers of an evaluation depend on beside the rewards of its episodes.
#[derive(Clone, Copy)]
pub(crate) struct Scale<'a> {
    /// What the split is called.
    pub(crate) split: &'a str,
    /// The parts of a mixture.
    pub(crate) parts: &'a [Part],
    /// The rewards that scored the episodes.
    pub(crate) rewards: &'a [ScoringRule],
}

impl EvaluationStage {
    pub(crate) fn new(stages: &[Box<dyn LearningStage>]) -> Self {
        let names = stages.iter().map(|stage| stage.name().to_owned()).collect();
        Self { names, exclusive: stages.iter().map(|stage| stage.is_exclusive()).collect() }
    }

    /// Layers by their names, each with whether it acts in one state at a time.
    pub(crate) fn of_layers(layers: &[(String, bool)]) -> Self {
        let (names, exclusive) = layers.iter().cloned().unzip();
        Self { names, exclusive }
    }

    /// Whether the first arm is played before the first reward, because the only layer is exclusive.
    pub(crate) fn begins_with_baseline(&self) -> bool {
        self.names.len() == 1 && self.exclusive.iter().all(|exclusive| *exclusive)
    }

    /// Whether layers must act in their earlier state at the end.
    pub(crate) fn goes_back(&self) -> bool {
        !self.begins_with_baseline() && self.exclusive.iter().any(|exclusive| *exclusive)
    }

    /// Every set of layers: none, each layer alone, pairs, and so on to all of them.
    pub(crate) fn arms(&self) -> Vec<Arm> {
        let layers = self.names.len();
        let sets = 1u32.checked_shl(u32::try_from(layers).unwrap_or(u32::MAX)).unwrap_or(0);
        let arm = |set: u32| (0..layers).map(|layer| set >> layer & 1 == 1).collect();
        let mut arms: Vec<Arm> = (0..sets).map(arm).collect();
        arms.sort_by_key(|arm| arm.iter().filter(|now| **now).count());
        arms
    }

    /// The states of the exclusive layers in an arm. They determine its phase.
    pub(crate) fn acting(&self, arm: &Arm) -> Vec<bool> {
        arm.iter().zip(&self.exclusive).filter(|(_, exclusive)| **exclusive).map(|(now, _)| *now).collect()
    }

    pub(crate) fn phase_name(&self, acting: &[bool]) -> String {
        let exclusive = self.names.iter().zip(&self.exclusive).filter(|(_, exclusive)| **exclusive);
        let state = |now: &bool| if *now { AFTER } else { BEFORE };
        match acting {
            [] => TEST.to_owned(),
            [now] if self.names.len() == 1 => format!("{TEST}{}", state(now)),
            _ => exclusive
                .zip(acting)
                .fold(TEST.to_owned(), |name, ((layer, _), now)| format!("{name}-{layer}{}", state(now))),
        }
    }

    /// Plays the test tasks before the first reward.
    pub(crate) async fn baseline(&self, context: &StageContext<'_>) -> Staged<Baseline> {
        let acting = self.acting(&vec![false; self.names.len()]);
        let policies = vec![context.policy.clone()];
        let mut tested = play_arms(&self.phase_name(&acting), policies, false, context).await?;
        Ok(Baseline(tested.pop().unwrap_or_default()))
    }

    /// Plays the arms without results, and compares all arms.
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
        // Phases with the current state come first.
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
        let split = split_name(context.splits);
        let (parts, rewards) = (context.ports.environments.parts(), &context.ports.rewards);
        let mut evaluation = self.compared(&arms, &tested, Scale { split: &split, parts, rewards });
        let tasks = test_tasks(context).await?;
        evaluation.reused = reused(context.lineage.test, context.plan.test_pairs, &tasks);
        Ok(evaluation)
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

    /// Compares the results of all arms.
    pub(crate) fn compared(&self, arms: &[Arm], tested: &[Tested], scale: Scale<'_>) -> Evaluation {
        let nothing = Tested::new();
        let (first, last) = (tested.first().unwrap_or(&nothing), tested.last().unwrap_or(&nothing));
        let against = |other: &Tested| compare(scale, (first, other), 1);
        let mut evaluation = against(last);
        evaluation.parts = compare_parts(scale, (first, last), 1);
        if self.names.len() > 1 {
            let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
            evaluation.effects = effects(&names, arms, tested);
            let names = |arm: &Arm| -> Vec<String> {
                let acting = self.names.iter().zip(arm).filter(|(_, now)| **now);
                acting.map(|(name, _)| name.clone()).collect()
            };
            let report = |(arm, tested): (&Arm, &Tested)| {
                let Evaluation { after, lift, missing, .. } = against(tested);
                let behind = compare(scale, (tested, last), 1).lift;
                ArmReport { layers: names(arm), mean: after, lift, behind, missing }
            };
            evaluation.arms = arms.iter().zip(tested).skip(1).map(report).collect();
        }
        evaluation
    }
}

/// The policy of an arm, with every layer's contribution.
fn policy_of(stages: &[Box<dyn LearningStage>], arm: &Arm, policy: ChatPolicy) -> ChatPolicy {
    let state = |now: &bool| if *now { LayerState::Now } else { LayerState::Before };
    stages.iter().zip(arm).fold(policy, |policy, (stage, now)| stage.serving_policy(policy, state(now)))
}

/// The test tasks of a run, in the order of its playbook.
async fn test_tasks(context: &StageContext<'_>) -> Staged<Tasks> {
    let (environments, play) = (&context.ports.environments, &context.plan.play);
    let asked = Context { seed: play.seed, options: play.options.clone() };
    let wanted = listed(context.lineage.test, context.plan.test_pairs);
    Ok(context.splits.test.fetch(environments, &asked, context.lineage.order, wanted).await?)
}

/// Plays arms side by side on the test tasks. They differ only in their guidance.
async fn play_arms(
    name: &str,
    policies: Vec<ChatPolicy>,
    paired: bool,
    context: &StageContext<'_>,
) -> Staged<Vec<Tested>> {
    let pairs = context.plan.test_pairs;
    let tasks = test_tasks(context).await?;
    let first = first_position(context.splits, context.lineage.test, &tasks);
    let arms = u32::try_from(policies.len()).unwrap_or(u32::MAX).max(1);
    let plan = test_plan(&context.plan.play, context.splits, (first, pairs), arms, paired);
    let policy = match policies.as_slice() {
        [alone] => alone.clone(),
        // Everything but the guidance is the same in all arms.
        [first, ..] => {
            let arms = policies.iter().map(ChatPolicy::guidance).collect();
            first.guided(Arc::new(Arms::new(arms, plan.seed)))
        }
        [] => context.ports.policy.clone(),
    };
    let sides = Sides::new(plan.seed, policies.len());
    let phase = context.phase(name, plan, policy, tasks).await?;
    let arm = |group: u64, member| sides.of(first.saturating_add(group), member);
    Ok(tested(&phase.episodes, (policies.len(), 1), arm))
}

/// The results of every arm, where `arm` maps a group and a member to the arm that it played. Each try of a group has a position of
/// its own.
fn tested(
    episodes: &[Arc<clawhost_core::Episode>],
    (arms, tries): (usize, u64),
    arm: impl Fn(u64, u64) -> usize,
) -> Vec<Tested> {
    let mut tested = vec![Tested::new(); arms.max(1)];
    for (place, members) in by_group(episodes) {
        for member in members {
            let number = member.index / arms.max(1) as u64 % tries;
            if let Some(tested) = tested.get_mut(arm(place, member.index)) {
                tested.insert(place.saturating_mul(tries).saturating_add(number), (member.task.key(), member.reward));
            }
        }
    }
    tested
}

/// What several tries of an arm give. Empty: there is one, or nothing is scored.
fn tries_of(tested: &Tested, tries: u64, rewards: &[ScoringRule]) -> Vec<TriesMeasure> {
    let mut groups: BTreeMap<u64, GroupTries> = BTreeMap::new();
    for (place, (task, reward)) in tested {
        let first = || GroupTries { task: task.clone(), rewards: Vec::new() };
        groups.entry(place / tries).or_insert_with(first).rewards.extend(*reward);
    }
    let groups: Vec<GroupTries> = groups.into_values().collect();
    range(rewards).map_or_else(Vec::new, |(_, best)| tries_measures(&groups, best))
}

/// Values by task.
type ByTask = BTreeMap<String, Vec<f64>>;

pub(crate) fn split_name(splits: &Splits) -> String {
    match splits.test.half {
        Some(_) => format!("half of {}", splits.test.split),
        None => splits.test.split.clone(),
    }
}

/// Compares two arms, position by position.
fn compare(scale: Scale<'_>, (before, after): (&Tested, &Tested), tries: u64) -> Evaluation {
    let rows = after.iter().map(|(place, (task, is))| {
        let was = before.get(place).and_then(|(_, was)| *was);
        (task.clone(), was, *is)
    });
    evaluation(scale, rows, tries)
}

/// The same for each part of a mixture.
fn compare_parts(scale: Scale<'_>, (before, after): (&Tested, &Tested), tries: u64) -> Vec<PartEvaluation> {
    let compared = |part: &Part| {
        let sides = (of_part(part, before), of_part(part, after));
        let rules: Vec<ScoringRule> =
            scale.rewards.iter().filter(|rule| rule.applies_to(Some(&part.name))).cloned().collect();
        let Evaluation { pairs, tasks, missing, before, after, lift, .. } =
            compare(Scale { rewards: &rules, ..scale }, (&sides.0, &sides.1), tries);
        PartEvaluation { part: part.name.clone(), pairs, tasks, missing, before, after, lift }
    };
    scale.parts.iter().map(compared).collect()
}

/// How many different tasks of a test that begins at position `first` were tested at earlier positions. Position `p` plays task `p`
/// modulo their number.
fn reused(first: u64, pairs: u64, tasks: &Tasks) -> u64 {
    let round = tasks.len() as u64;
    let of = |positions: std::ops::Range<u64>| -> BTreeSet<String> {
        let task =
            |position: u64| tasks.get(usize::try_from(position % round.max(1)).ok()?).map(|(task, _)| task.key());
        positions.filter_map(task).collect()
    };
    let (earlier, now) = (of(0..first.min(round)), of(first..first.saturating_add(pairs.min(round))));
    earlier.intersection(&now).count() as u64
}

/// Compares rewards before and after, by task.
fn evaluation(
    scale: Scale<'_>,
    rows: impl Iterator<Item = (String, Option<f64>, Option<f64>)>,
    tries: u64,
) -> Evaluation {
    // Tasks repeat if there are more pairs than tasks. The task is the unit of the intervals.
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
    let range = range(scale.rewards);
    let mean = |values: ByTask| Mean::of(values).map(|mean| mean.within(range));
    Evaluation {
        split: scale.split.to_owned(),
        pairs,
        tasks: lift.len() as u64,
        missing,
        before: mean(before),
        after: mean(after),
        // A policy that draws nothing repeats itself: several tries are no more than one.
        lift: Mean::of(lift).map(|lift| {
            // A difference of bounded rewards is bounded; for few pairs the interval exceeds the bounds.
            let bounds = range.map(|(least, most)| (least - most, most - least));
            lift.widened(pairs.div_ceil(tries)).within(bounds)
        }),
        parts: Vec::new(),
        arms: Vec::new(),
        effects: Vec::new(),
        reused: 0,
        tries: None,
    }
}

/// Compares two playbooks on the test split, as a run of its own. Each side plays every task and seed as often as the plan has tries.
///
/// # Errors
/// There is nothing to play, or the run cannot be recorded.
pub async fn evaluate_playbooks(
    run: RunId,
    play: &Plan,
    pairs: u64,
    mut ports: Ports,
    [before, after]: [PlaybookView; 2],
    (config, labels): (SpecDocument, RunLabels),
    (cancel, observer): (&Cancel, &dyn Observer),
) -> Result<(Evaluation, RunReport), LearningError> {
    let splits = Splits::of(&ports.environments, None)?;
    let context = Context { seed: play.seed, options: play.options.clone() };
    let tasks = splits.test.fetch(&ports.environments, &context, play.seed, pairs).await?;
    let (rewards, environments) = (ports.rewards.clone(), ports.environments.clone());
    let arm = |view: PlaybookView| Some(Arc::new(crate::UniformPlaybook(view)) as Arc<dyn Guidance>);
    ports.policy = ports.policy.guided(Arc::new(Arms::new(vec![arm(before), arm(after)], play.seed)));
    let tries = play.tries.max(1);
    let first = first_position(&splits, 0, &tasks);
    let plan = test_plan(play, &splits, (first, pairs), tries.saturating_mul(2), true);
    let (sides, tries) = (Sides::new(play.seed, 2), u64::from(tries));
    let request = RunRequest {
        kind: RunKind::Evaluate,
        tasks: Some(tasks),
        config,
        labels,
        keeps_episodes: true,
        ..RunRequest::new(run, plan, ports)
    };
    let played = play_run(request, cancel, observer).await?;
    let arm = |group: u64, member| sides.of(first.saturating_add(group), member);
    let arms = tested(&played.episodes, (2, tries), arm);
    let nothing = Tested::new();
    let (first, second) = (arms.first().unwrap_or(&nothing), arms.get(1).unwrap_or(&nothing));
    let split = split_name(&splits);
    let scale = Scale { split: &split, parts: environments.parts(), rewards: &rewards };
    let mut evaluation = compare(scale, (first, second), tries);
    evaluation.parts = compare_parts(scale, (first, second), tries);
    if tries > 1 {
        let [before, after] = [first, second].map(|side| tries_of(side, tries, &rewards));
        evaluation.tries = Some(SideTries { before, after });
    }
    Ok((evaluation, played.report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Digest, Task};

    #[test]
    fn the_tasks_that_earlier_runs_tested_are_counted() {
        let check = |names: &str, first: u64, pairs: u64, expect: u64| {
            let task = |name: char| (Arc::new(Task::new("test", name.to_string())), Digest::of(b"task"));
            let tasks: Tasks = names.chars().map(task).collect();
            assert_eq!(reused(first, pairs, &tasks), expect, "{names} from {first}, {pairs} pairs");
        };
        check("abcd", 0, 4, 0);
        check("abcd", 2, 2, 0);
        check("abcd", 2, 3, 1);
        check("abcd", 4, 4, 4);
        check("abcd", 9, 2, 2);
        check("abcd", 3, 100, 3);
        // A part of a mixture with one task repeats it.
        check("axbxcx", 2, 4, 1);
        check("", 3, 3, 0);
    }
}
