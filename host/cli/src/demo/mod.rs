//! `clawhost demo`: proofs that learning works. They need no API key, no server and no GPU.

mod args;
mod commands;
mod full;
mod full_summary;
mod harness;
mod harness_summary;
mod live;
mod live_summary;
mod proof;
mod router;
mod router_summary;
mod view;
mod weights;
mod weights_summary;
mod words;

pub(crate) use args::DemoCommand;

use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::signals::{Stopping, cancel_on_signal};
use clawhost_app::AppError;
use clawhost_app::demo::{DemoMachine, DemoOutcome, DemoOutline};
use clawhost_play::{Cancel, StopReason};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use view::View;

pub(crate) async fn run(context: &Context, command: &DemoCommand) -> anyhow::Result<Exit> {
    match command {
        DemoCommand::Harness(arguments) => harness::run(context, arguments).await,
        DemoCommand::Weights(arguments) => weights::run(context, arguments).await,
        DemoCommand::Router(arguments) => router::run(context, arguments).await,
        DemoCommand::Live(arguments) => live::run(context, arguments).await,
        DemoCommand::Full(arguments) => full::run(context, arguments).await,
    }
}

/// The data folder and the host settings of a demo.
fn machine(context: &Context) -> anyhow::Result<DemoMachine> {
    let host = context.host_settings(&MachineArgs::default())?;
    Ok(DemoMachine { folder: context.folder()?, host })
}

/// The path of the drawing: the named file, or the default one in the data folder. A path that cannot be written is refused before
/// an episode is played.
fn drawing(machine: &DemoMachine, named: Option<&Path>, usual: &str) -> anyhow::Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => machine.drawing(usual)?,
    };
    clawhost_app::plot::check(&path).map_err(|why| UsageError(format!("--svg: {why}")))?;
    Ok(path)
}

/// Plays a demo with its view, until it ends or somebody interrupts it. `Break`: it stopped early and has no result; the view says why.
async fn watched<T>(
    outline: DemoOutline,
    is_quiet: bool,
    play: impl AsyncFnOnce(&Cancel, &View) -> Result<DemoOutcome<T>, AppError>,
) -> anyhow::Result<ControlFlow<Exit, T>> {
    let view = View::new(outline, is_quiet);
    let work = cancel_on_signal(Stopping::Demo);
    let found = play(work.cancel(), &view).await;
    drop(work);
    view.finish();
    Ok(match found? {
        DemoOutcome::Finished(found) => ControlFlow::Continue(found),
        DemoOutcome::Stopped(reason) => ControlFlow::Break(stopped(&view, &reason)),
    })
}

/// Reports that a part of the demo stopped early. The demo then has no result.
fn stopped(view: &View, reason: &StopReason) -> Exit {
    view.say(match reason {
        StopReason::Cancelled => "interrupted: start it again",
        StopReason::ModelBudget => "the token or cost budget is spent",
        StopReason::FailureBudget { .. } | StopReason::Unscored { .. } | StopReason::Reflectors { .. } => {
            "an episode failed, so nothing is proved; build the plugins again with `cargo xtask guests`"
        }
    });
    Exit::of_stop(Some(reason))
}
