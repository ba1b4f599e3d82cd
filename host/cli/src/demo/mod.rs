//! `clawhost demo`: proofs that run anywhere, without a key, a server or a GPU.

mod args;
mod commands;
mod harness;
mod harness_summary;
mod proof;
mod view;
mod weights;
mod weights_summary;
mod words;

pub(crate) use args::DemoCommand;

use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use clawhost_app::demo::DemoMachine;
use clawhost_play::StopReason;
use std::path::{Path, PathBuf};
use view::View;

pub(crate) async fn run(context: &Context, command: &DemoCommand) -> anyhow::Result<Exit> {
    match command {
        DemoCommand::Harness(arguments) => harness::run(context, arguments).await,
        DemoCommand::Weights(arguments) => weights::run(context, arguments).await,
    }
}

/// Where a demo runs.
fn machine(context: &Context) -> anyhow::Result<DemoMachine> {
    let host = context.host_settings(&MachineArgs::default())?;
    Ok(DemoMachine { folder: context.folder()?, host })
}

/// Where the drawing goes: the file that is named, or one in the data folder. One that cannot be written is refused before
/// anything is played.
fn drawing(machine: &DemoMachine, named: Option<&Path>, usual: &str) -> anyhow::Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => machine.drawing(usual)?,
    };
    clawhost_app::plot::check(&path).map_err(|why| UsageError(format!("--svg: {why}")))?;
    Ok(path)
}

/// Says that a part of a demo did not come to its end, so that nothing is said about any.
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
