//! `clawhost train-step`: one step of weights that learn from live sessions, by hand.

use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::Exit;
use clap::Args;
use clawhost_app::{TrainStep, settle_live, train_step};
use clawhost_core::escaped;
use std::io::Write as _;

/// Longest scope that is shown.
const SCOPE: usize = 600;

const HELP: &str = "The section [weights] of gateway.toml says which model learns, and how. The step takes the oldest
sessions that wait, at least two, whatever the hour. A gateway that serves the model goes on with
the new weights within seconds. A step that diverges is taken back, and the sessions are not taken
again.

Exit codes: 0 a step was taken, or fewer sessions wait; 1 the step made no version.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct TrainStepArgs {
    /// A model as of `clawhost serve`, if gateway.toml does not name it
    #[arg(long, value_name = "[ALIAS=]SPEC")]
    upstream: Vec<String>,
    #[command(flatten)]
    machine: MachineArgs,
}

pub(crate) async fn run(context: &Context, args: &TrainStepArgs) -> anyhow::Result<Exit> {
    context.reader()?;
    let workspace = context.workspace(&args.machine)?;
    // A gateway may have answered just now.
    settle_live(&workspace, false).await?;
    let step = train_step(&workspace, &args.upstream).await?;
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "train_step": step }))?;
    } else {
        writeln!(crate::terminal::stdout(), "{}", text(step.as_ref()))?;
    }
    Ok(match step {
        Some(step) if step.version.is_none() => Exit::Other,
        _ => Exit::Ok,
    })
}

fn text(step: Option<&TrainStep>) -> String {
    let Some(TrainStep { scope, version, sessions, note, metrics }) = step else {
        return "nothing to learn from yet: fewer than two sessions with feedback wait".to_owned();
    };
    let told = metrics.iter().map(|(name, value)| format!("\n  {name:<20} {value:.4}")).collect::<String>();
    let whose = scope.as_ref().map(|scope| format!(" of {}", escaped(&scope.to_string(), SCOPE))).unwrap_or_default();
    match version {
        Some(version) => format!("weights version {version}{whose}: {note}, {sessions} of them{told}"),
        None => format!("no new version{whose} from {sessions} sessions: {note}{told}"),
    }
}
