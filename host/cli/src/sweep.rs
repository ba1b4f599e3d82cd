//! `clawhost sweep`: many variants of one run within a budget, compared at the end.

use crate::args::MachineArgs;
use crate::compare;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::signals::{Stopping, cancel_on_signal};
use crate::terminal::{Progress, line};
use clap::Args;
use clawhost_app::{AppError, RoundPlan, SweepPlan, Swept, SweptRun, check_run_file, plan_sweep, sweep};
use clawhost_core::{counted, escaped, thousands};
use clawhost_run_config::{Problems, SweepPatch};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Largest file: a text of keys and lists of values.
const SWEEP_FILE_BYTES: u64 = 1 << 20;
/// Longest shown value in bytes.
const SHOWN_BYTES: usize = 80;

const HELP: &str = "The file has the options of a run under [run], as in run.toml, and lists of values under [vary]:

  version = 1
  command = \"learn\"       # or \"run\"
  method = \"halving\"      # or \"grid\"
  budget = 4000           # most episodes of all runs together
  [run]
  plugin = \"env_shop.wasm\"
  rewards = [\"reward_state.wasm\"]
  [[run.learn]]
  layer = \"harness\"
  reflectors = [\"reflector_rules.wasm\"]
  budget = 300
  [vary]
  temperature = [0.7, 1.0]
  [vary.harness]
  alpha = [0.05, 0.1]

A grid plays every combination. Halving begins with short runs of all combinations; the better half goes on with runs twice as long. Runs that played \
are chosen by their mean reward, runs that learned by their last training reward: test tasks decide nothing. The same command again continues an interrupted \
sweep; runs that have finished are not played again.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct SweepArgs {
    /// The file that describes the sweep
    #[arg(value_name = "SWEEP.toml")]
    file: PathBuf,
    /// Check every run, print the plan, and play nothing
    #[arg(long)]
    dry_run: bool,
    /// Let the file name files outside of its folder: prompts, models and plugins
    #[arg(long)]
    trust_run_file: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Problems of a file, a line each.
fn told(file: &Path, problems: &Problems) -> UsageError {
    let lines: Vec<String> = problems.iter().map(|problem| format!("{}, {problem}", file.display())).collect();
    UsageError(match lines.as_slice() {
        [one] => one.clone(),
        several => format!("{} problems:\n{}", several.len(), several.join("\n")),
    })
}

fn read(arguments: &SweepArgs) -> Result<SweepPatch, UsageError> {
    let file = &arguments.file;
    let text = clawhost_files::read_text(file, SWEEP_FILE_BYTES)
        .map_err(|error| UsageError(format!("{}: {error}", file.display())))?;
    let folder = file.parent().unwrap_or(Path::new("")).display().to_string();
    let patch = SweepPatch::from_toml(&text, &folder).map_err(|problems| told(file, &problems))?;
    if !arguments.trust_run_file {
        for point in patch.points() {
            check_run_file(file, &point.patch).map_err(|problems| {
                let UsageError(told) = told(file, &problems);
                UsageError(format!("{told}; move it there, or trust the file with --trust-run-file"))
            })?;
        }
    }
    Ok(patch)
}

pub(crate) async fn run(context: &Context, arguments: &SweepArgs) -> anyhow::Result<Exit> {
    let patch = read(arguments)?;
    let workspace = context.workspace(&arguments.machine)?;
    // A line for each run is enough; warnings are shown.
    let progress = Progress::new(context, true, "played");
    let exists = |name: &str| Path::new(name).exists();
    let placed = |error: AppError| match error {
        AppError::Spec(problems) => anyhow::Error::from(told(&arguments.file, &problems)),
        error => error.into(),
    };
    if arguments.dry_run {
        let plan = plan_sweep(&workspace, &patch, &exists, &progress).await.map_err(placed)?;
        match context.json() {
            true => crate::terminal::json(&json!({ "format": 1, "dry_run": true, "plan": plan }))?,
            false => planned(&mut crate::terminal::stdout(), &plan, patch.method.name())?,
        }
        return Ok(Exit::Ok);
    }
    let is_quiet = arguments.machine.quiet;
    let mut number = 0;
    let mut done = |run: &SweptRun, all: u64| {
        number += 1;
        if !is_quiet {
            line(&format!("run {number} of {all}: {}", words(run)));
        }
    };
    let work = cancel_on_signal(Stopping::Run);
    let swept = sweep(&workspace, &patch, &exists, (work.cancel(), &progress), &mut done).await;
    drop(work);
    progress.finish();
    let swept = swept.map_err(placed)?;
    match context.json() {
        true => crate::terminal::json(&document(&swept))?,
        false => text(&mut crate::terminal::stdout(), &swept)?,
    }
    Ok(if swept.is_interrupted { Exit::Interrupted } else { Exit::Ok })
}

fn values(values: &[(String, String)]) -> String {
    let shown: Vec<String> =
        values.iter().map(|(name, value)| format!("{name} = {}", escaped(value, SHOWN_BYTES))).collect();
    shown.join(", ")
}

fn words(run: &SweptRun) -> String {
    let score = run.score.map_or_else(|| "no score".to_owned(), |score| format!("{score:.3}"));
    let how = match (&run.stopped, run.found) {
        (Some(reason), _) => format!(", stopped: {}", crate::learn_summary::stopped(reason)),
        (None, true) => ", finished before".to_owned(),
        (None, false) => String::new(),
    };
    format!("{}: {score}{how}", values(&run.values))
}

fn planned(out: &mut impl Write, plan: &SweepPlan, method: &str) -> std::io::Result<()> {
    let SweepPlan { points, rounds, episodes, budget } = plan;
    writeln!(out, "method      {method}")?;
    for point in points {
        writeln!(out, "run         {}", values(point))?;
    }
    for (number, RoundPlan { runs, episodes }) in rounds.iter().enumerate() {
        writeln!(out, "round {:<6}{}, {} at most", number + 1, counted(*runs, "run"), counted(*episodes, "episode"))?;
    }
    writeln!(out, "at most     {} of {} episodes", thousands(*episodes), thousands(*budget))?;
    writeln!(out, "nothing was played: leave --dry-run out")
}

fn document(swept: &Swept) -> serde_json::Value {
    let Swept { plan, runs, is_interrupted, comparison } = swept;
    let (compared, differences) =
        comparison.as_ref().map(|found| (json!(found.runs), json!(found.differences))).unwrap_or_default();
    json!({
        "format": 1, "sweep": { "plan": plan, "runs": runs, "interrupted": is_interrupted },
        "runs": compared, "differences": differences,
    })
}

fn text(out: &mut impl Write, swept: &Swept) -> std::io::Result<()> {
    if let Some(comparison) = &swept.comparison {
        for run in &comparison.runs {
            let known = swept.runs.iter().find(|known| known.run == run.run);
            if let Some(known) = known {
                writeln!(out, "{}  {}", run.run, words(known))?;
            }
        }
        writeln!(out)?;
        compare::text(out, comparison)?;
    }
    if swept.is_interrupted {
        writeln!(out, "\nstopped by you; everything above is recorded, and the same command continues")?;
    } else if let Some(best) = swept.runs.iter().rev().max_by(|one, other| {
        let order = |run: &SweptRun| (run.round, run.score.unwrap_or(f64::NEG_INFINITY));
        order(one).0.cmp(&order(other).0).then(order(one).1.total_cmp(&order(other).1))
    }) {
        writeln!(
            out,
            "\nbest        {} ({}); the best of several looks better than it is: confirm it with another seed",
            best.run,
            values(&best.values)
        )?;
    }
    Ok(())
}
