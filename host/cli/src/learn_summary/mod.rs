//! The results of a learning run, for people and for machines.

mod ending;
mod entries;
mod gate;
mod harness;
mod numbers;
mod proof;

pub(crate) use ending::{next, stopped, verdict};
pub(crate) use entries::{entries, legend, never_applied, terminal_columns};
pub(crate) use gate::{evolution, gate, gate_notes};
pub(crate) use numbers::signed;
pub(crate) use proof::{lift, mean, proof};

pub(crate) use crate::weights::weights;

use crate::{plot, summary, weights as model};
use clawhost_app::plot::smoothed;
use clawhost_app::routers::RouterUse;
use clawhost_app::{Learned, learning_iterations, time};
use clawhost_core::{escaped, thousands};
use clawhost_learning::{IterationReport, LearnReport, Outcome};
use serde_json::json;
use std::io::Write as _;

/// The curve is smoothed over this share of the iterations.
const SMOOTHING: usize = 20;

/// The means of one constant over several numbers of episodes differ by less.
const ROUNDING: f64 = 1e-9;

/// The smoothed rewards of all iterations that have one.
pub(crate) fn curve(report: &LearnReport) -> Vec<(f64, f64)> {
    let scored = report.iterations.iter().filter_map(|one| Some((one.iteration as f64, one.reward?)));
    let (numbers, rewards): (Vec<f64>, Vec<f64>) = scored.unzip();
    let smoothed = smoothed(&rewards, (rewards.len() / SMOOTHING).max(1));
    numbers.into_iter().zip(smoothed).map(|(number, (_, reward))| (number, reward)).collect()
}

/// The mean reward of every batch, if it never differed: such rewards teach nothing. `None` also for a single batch.
fn constant(report: &LearnReport) -> Option<f64> {
    // Of what was played first, and of what weights learned from: groups without variance were played anew.
    let learned = |iteration: &IterationReport| iteration.metrics().get("weights.reward_mean").copied();
    let both =
        |iteration: &IterationReport| [iteration.reward, learned(iteration)].into_iter().flatten().collect::<Vec<_>>();
    let rewards: Vec<f64> = report.iterations.iter().flat_map(both).collect();
    let (first, rest) = rewards.split_first()?;
    let batches = report.iterations.iter().filter(|iteration| iteration.reward.is_some()).count();
    (batches > 1 && rest.iter().all(|reward| (reward - first).abs() < ROUNDING)).then_some(*first)
}

/// The text for people. `play` is the command that plays with the learned model.
pub(crate) fn text(learned: &Learned, play: Option<&str>) -> anyhow::Result<()> {
    let Learned { run, spec, report, .. } = learned;
    let mut out = crate::terminal::stdout();
    writeln!(out, "run         {run}")?;
    if let Some(plot) = plot::text(&curve(report), 0.0, 1.0) {
        let is_recorded = spec.learn().is_some_and(|learn| learn.from.is_some());
        let title = match (is_recorded, report.harness().is_some()) {
            (true, _) => "reward of the recorded episodes, by the iteration that learned from them",
            (false, true) => {
                let has_trials = spec.harness().is_some_and(|harness| !harness.divides());
                if has_trials {
                    "training reward by iteration (while lessons are on trial, half of the episodes miss them)"
                } else {
                    "training reward by iteration"
                }
            }
            (false, false) => "training reward by iteration",
        };
        writeln!(out, "{title}")?;
        writeln!(out, "{plot}")?;
    }
    if let Some(report) = report.harness() {
        harness::lessons(&mut out, report)?;
    }
    if let Some(weights) = &learned.weights {
        model::episodes(&mut out, weights, report)?;
    }
    writeln!(
        out,
        "batches     {} learned of {}",
        thousands(report.learned),
        thousands(report.iterations.len() as u64)
    )?;
    if let Some(reward) = constant(report) {
        writeln!(
            out,
            "            every batch had the reward {reward:.3}: does this reward judge what the environment asks for?"
        )?;
    }
    if learned.weights.is_some() {
        model::batches(&mut out, report)?;
    }
    if report.harness().is_some() {
        harness::cost(&mut out, learned)?;
    }
    test(&mut out, learned)?;
    let routed = learned.router.filter(|used| *used != RouterUse::Nothing).map(|_| "the router");
    let changed: Vec<&str> = learned.weights.as_ref().and_then(model::changed).into_iter().chain(routed).collect();
    match &report.stopped {
        None => {
            writeln!(out, "verdict     {}", verdict(report, &changed))?;
            if report.outcome == Outcome::NotMeasured && report.evaluation.is_none() && learned.weights.is_some() {
                writeln!(out, "            --test-pairs 200 measures it")?;
            }
        }
        Some(reason) => {
            writeln!(out, "verdict     none: {}", stopped(reason))?;
            let most = report.failures.iter().max_by_key(|failure| failure.episodes);
            // If the harness learns, all failures are listed above.
            if let Some(most) = most.filter(|_| report.harness().is_none()) {
                writeln!(out, "            most failed so: {}", escaped(&most.message, 500))?;
            }
            writeln!(out, "            {}", next(reason, report.reached, learning_iterations(spec)))?;
        }
    }
    if let Some(harness) = report.harness() {
        writeln!(out, "playbook    {}: see `clawhost playbook show {}`", harness.name, harness.name)?;
    }
    if let Some(router) = spec.policy.model.strip_prefix("router:").filter(|_| spec.routes()) {
        let router = escaped(router, 200);
        writeln!(out, "router      {router}: see `clawhost router show {router}`")?;
        if let Some(told) = learned.router.and_then(|used| router_use(used, &router)) {
            writeln!(out, "            {told}")?;
        }
    }
    if let Some(weights) = &learned.weights {
        model::files(&mut out, weights, report, play)?;
    }
    Ok(())
}

/// What became of what a router has learned.
fn router_use(used: RouterUse, router: &str) -> Option<String> {
    match used {
        RouterUse::Served => None,
        RouterUse::Candidate => Some(format!(
            "what it learned is a candidate, and nothing is replaced; `clawhost router promote {router}` judges it once there are \
             decisions that it did not learn from"
        )),
        RouterUse::Behind => Some(format!(
            "a candidate waits, and the decisions of this run judge it: `clawhost router promote {router}`; what this run learned \
             waits behind it"
        )),
        RouterUse::Settled => Some("its result was served or dropped before the run was resumed".to_owned()),
        RouterUse::Nothing => Some("it has learned nothing".to_owned()),
    }
}

/// The test results, if there are any.
fn test(out: &mut impl std::io::Write, learned: &Learned) -> std::io::Result<()> {
    let Some(evaluation) = &learned.report.evaluation else { return Ok(()) };
    let began = match learned.playbook_before {
        Some(number) => format!("with version {number} of the playbook, as the run began"),
        None => "without a playbook".to_owned(),
    };
    let others = [(learned.weights.is_some(), "the weights"), (learned.spec.routes(), "the router")];
    let others: Vec<&str> = others.into_iter().filter(|(learns, _)| *learns).map(|(_, name)| name).collect();
    let others = others.join(" and ");
    let (before, after) = match (learned.report.harness().is_some(), others.as_str()) {
        (true, "") => (began, "with the playbook as it is now".to_owned()),
        (true, others) => (
            format!("{began}, and with {others} of before the first reward"),
            format!("with the playbook and {others} as they are now"),
        ),
        (false, others) => (format!("with {others} of before the first reward"), "with what was learned".to_owned()),
    };
    proof(out, evaluation, [&before, &after])
}

/// One JSON document. Only `timing` differs between equal runs.
pub(crate) fn json(learned: &Learned) -> anyhow::Result<()> {
    let Learned { run, spec, report, weights, router, timing, .. } = learned;
    // The cost differs if a run was interrupted: calls in progress were lost.
    let usage: Vec<_> = report.iterations.iter().map(|iteration| iteration.usage).collect();
    let mut document = json!({
        "format": 1,
        "episodes": report.episodes(),
        "heldout_before": report.evaluation.as_ref().and_then(|evaluation| evaluation.before),
        "heldout_after": report.evaluation.as_ref().and_then(|evaluation| evaluation.after),
        "allowance": spec.harness().and_then(|harness| harness.allowance.as_ref()),
        "learn": report.published(),
        "config": spec.published(),
        "timing": {
            "usage": report.usage,
            "usage_by_iteration": usage,
            "run": run,
            "started": time(timing.started_ms),
            "wall_seconds": timing.wall.as_secs_f64(),
            "concurrency": spec.play.concurrency,
            "spent": summary::spent(timing),
            "out": weights.as_ref().map(|weights| &weights.out),
        },
    });
    if let (Some(timing), Some(router)) = (document.get_mut("timing").and_then(|one| one.as_object_mut()), router) {
        // Whether it is a candidate depends on the runs before it.
        timing.insert("router".to_owned(), json!(router));
    }
    if let (Some(document), Some(weights)) = (document.as_object_mut(), weights) {
        document.insert("weights".to_owned(), json!({ "before": weights.before, "after": weights.after }));
    }
    crate::terminal::json(&document)?;
    Ok(())
}
