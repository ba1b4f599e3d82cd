//! Evaluation: two playbooks on the same test tasks, with the same seeds.

use super::batch::by_group;
use super::guide::Arms;
use super::report::{Evaluation, Mean, Missing};
use super::splits::Splits;
use super::weights::Tested;
use crate::RuntimeError;
use crate::plan::{Cancel, Plan};
use crate::report::RunReport;
use crate::run::{Earlier, Observer, Ports, ScoringRule, Tasks, begin, play_rest, prepare, range};
use clawhost_core::{Context, Episode, RunId};
use clawhost_learn::harness::PlaybookView;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Position of the first pair of a test on half of a split: far behind every pair of the gate, which has the other half, so that
/// no seed decides and reports. Below 2^53, as all numbers in records are.
const BEHIND: u64 = 1 << 40;

/// The plan of an evaluation: pairs, with seeds that neither training nor the gate ever sees.
pub(crate) fn test_plan(play: &Plan, splits: &Splits, pairs: u64) -> Plan {
    Plan {
        episodes: pairs * 2,
        group: 2,
        first_group: if splits.test.half.is_some() { BEHIND } else { 0 },
        paired: true,
        branch_at: None,
        split: Some(splits.test.split.clone()),
        ..play.clone()
    }
}

/// Values of every task.
type ByTask = BTreeMap<String, Vec<f64>>;

fn split_name(splits: &Splits) -> String {
    match splits.test.half {
        Some(_) => format!("half of {}", splits.test.split),
        None => splits.test.split.clone(),
    }
}

/// Compares the members of every group: the first is as it was, the second as it is. These rewards judged them.
pub(crate) fn compare(splits: &Splits, episodes: &[Arc<Episode>], rewards: &[ScoringRule]) -> Evaluation {
    let groups = by_group(episodes);
    let rows = groups.values().filter_map(|members| {
        let reward = |member: u64| members.iter().find(|one| one.index % 2 == member).and_then(|one| one.reward);
        Some((members.first()?.task.id.clone(), reward(0), reward(1)))
    });
    evaluation(splits, rows, rewards)
}

/// Compares what was played before with what was played after, place by place.
pub(crate) fn compare_arms(splits: &Splits, before: &Tested, after: &Tested, rewards: &[ScoringRule]) -> Evaluation {
    let rows = after.iter().map(|(place, (task, is))| {
        let was = before.get(place).and_then(|(_, was)| *was);
        (task.clone(), was, *is)
    });
    evaluation(splits, rows, rewards)
}

/// Of tasks, with their rewards as it was and as it is.
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
    }
}

/// Plays one playbook against another on the test split, as a run of its own.
///
/// # Errors
/// There is nothing to play, or nothing can be recorded.
pub async fn evaluate(
    run: RunId,
    play: &Plan,
    pairs: u64,
    mut ports: Ports,
    [before, after]: [PlaybookView; 2],
    config: serde_json::Value,
    (cancel, observer): (&Cancel, &dyn Observer),
) -> Result<(Evaluation, RunReport), RuntimeError> {
    let splits = Splits::of(ports.environment.as_ref(), None)?;
    let context = Context { seed: play.seed, options: play.options.clone() };
    let tasks = splits.test.fetch(ports.environment.as_ref(), &context, pairs).await?;
    let rewards = ports.rewards.clone();
    ports.policy = ports.policy.guided(Arc::new(Arms(vec![Arc::new(before), Arc::new(after)])));
    let plan = test_plan(play, &splits, pairs);
    let (report, episodes) = play_and_keep(run, plan, ports, Some(tasks), config, (cancel, observer)).await?;
    Ok((compare(&splits, &episodes, &rewards), report))
}

/// Plays a plan to its end, and gives its episodes too. Tasks are those of the plan's split, unless they are given.
///
/// # Errors
/// There is nothing to play, or nothing can be recorded.
pub async fn play_and_keep(
    run: RunId,
    plan: Plan,
    ports: Ports,
    tasks: Option<Tasks>,
    config: serde_json::Value,
    (cancel, observer): (&Cancel, &dyn Observer),
) -> Result<(RunReport, Vec<Arc<Episode>>), RuntimeError> {
    let mut shared = prepare(run, plan, ports, tasks, cancel).await?;
    shared.kept = Some(Mutex::default());
    let shared = Arc::new(shared);
    begin(&shared, None, config).await?;
    let report = play_rest(&shared, Earlier::default(), cancel, observer).await?;
    let kept =
        shared.kept.as_ref().map(|kept| std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner)));
    Ok((report, kept.unwrap_or_default().into_values().collect()))
}
