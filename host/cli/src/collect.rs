//! `clawhost collect`: runs a command for every task, and collects what its agent does as trajectories.

use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use clap::Args;
use clawhost_app::{
    COLLECT_CONCURRENCY, COLLECT_MEMBERS, COLLECT_TIME, CollectReport, CollectRequest, Collected, GATEWAY_KEY_VARIABLE,
    collect,
};
use clawhost_core::{Channel, Secret, counted, escaped};
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Longest shown id or reason in bytes.
const SHOWN_BYTES: usize = 200;

const HELP: &str = "The gateway of the data folder must run (`clawhost start`). For each task the command finds a base URL of its own in OPENAI_BASE_URL and
ANTHROPIC_BASE_URL, the line of the task on standard input, and its id in CLAWHOST_TASK_ID. If its last line of output is a JSON object with
`reward`, that is the reward of the trajectory. A command that fails gives no reward, and nobody trains on what it did.

  clawhost collect tasks.jsonl --members 4 -- python agent.py

The same call again continues where it was interrupted. Trainers fetch the trajectories over HTTP: see the guide of the data pool.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct CollectArgs {
    /// The tasks: a JSON object per line, with an `id` if it has one
    #[arg(value_name = "TASKS.jsonl")]
    tasks: PathBuf,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256),
          help = format!("Trajectories of every task, which trainers compare [default: {COLLECT_MEMBERS}]"))]
    members: Option<u64>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256),
          help = format!("Commands that run at the same time [default: {COLLECT_CONCURRENCY}]"))]
    concurrency: Option<u16>,
    /// Collect to measure a policy (channel `val`), and not to train on
    #[arg(long)]
    val: bool,
    /// Name of the collection, which begins the names of its trajectories [default: the name of the file]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=7 * 24 * 3600),
          help = format!("End a command after so many seconds [default: {}]", COLLECT_TIME.as_secs()))]
    timeout: Option<u64>,
    /// Do not print each trajectory
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) async fn run(context: &Context, arguments: &CollectArgs) -> anyhow::Result<Exit> {
    let request = CollectRequest {
        folder: context.folder()?,
        tasks: arguments.tasks.clone(),
        command: arguments.command.clone(),
        name: arguments.name.clone(),
        members: arguments.members.unwrap_or(COLLECT_MEMBERS),
        concurrency: arguments.concurrency.map_or(COLLECT_CONCURRENCY, usize::from),
        channel: if arguments.val { Channel::Val } else { Channel::Train },
        timeout: arguments.timeout.map_or(COLLECT_TIME, Duration::from_secs),
        key: std::env::var(GATEWAY_KEY_VARIABLE).ok().and_then(|text| Secret::new(&text)),
    };
    let is_quiet = arguments.quiet;
    let mut told = |id: &str, collected: &Collected| {
        if !is_quiet {
            let _ = writeln!(crate::terminal::stderr(), "{}: {}", escaped(id, SHOWN_BYTES), words(collected));
        }
    };
    let signals = cancel_on_signal(Stopping::Collecting);
    let report = collect(request, signals.cancel(), &mut told).await;
    drop(signals);
    let report = report?;
    if context.json() {
        crate::terminal::json(&json!({"format": 1, "collected": report}))?;
    } else {
        shown(&report)?;
    }
    Ok(match (report.interrupted, report.failed) {
        (1.., _) => Exit::Interrupted,
        (0, 1..) => Exit::Other,
        (0, 0) => Exit::Ok,
    })
}

fn words(collected: &Collected) -> String {
    match collected {
        Collected::Completed { steps, reward: Some(reward) } => format!("{}, reward {reward}", counted(*steps, "step")),
        Collected::Completed { steps, reward: None } => format!("{}, no reward", counted(*steps, "step")),
        Collected::Failed { why } => format!("failed: {}", escaped(why, SHOWN_BYTES)),
        Collected::Skipped => "collected before".to_owned(),
        Collected::Interrupted => "interrupted".to_owned(),
    }
}

fn shown(report: &CollectReport) -> anyhow::Result<()> {
    let CollectReport { name, tasks, completed, failed, skipped, interrupted, reward_mean, failures } = report;
    let mut out = crate::terminal::stdout();
    let mut lines = vec![
        format!("collection    {}", escaped(name, SHOWN_BYTES)),
        format!("tasks         {tasks}"),
        format!(
            "trajectories  {completed} completed, {failed} failed, {skipped} collected before, {interrupted} interrupted"
        ),
    ];
    if let Some(mean) = reward_mean {
        lines.push(format!("reward        {mean:.3} on average"));
    }
    lines.extend(
        failures
            .iter()
            .map(|(id, why)| format!("failed        {}: {}", escaped(id, SHOWN_BYTES), escaped(why, SHOWN_BYTES))),
    );
    writeln!(out, "{}", lines.join("\n"))?;
    Ok(())
}
