//! `clawhost start`, `stop` and `status`: a gateway in the background.

use crate::context::Context;
use crate::exit::Exit;
use crate::serve::{self, ServeArgs};
use crate::terminal::NOTE;
use clap::Args;
use clawhost_app::{
    RequestError, gateway_is_ready, reload_gateway, running_gateway, start_gateway, start_log, stop_gateway, time,
};
use serde_json::json;
use std::io::Write as _;

/// The option by which the started process knows that it is the gateway.
const FOREGROUND: &str = "--foreground";

const HELP: &str = "The gateway goes on when the terminal closes, and not after a restart of the machine: for that, let your system start
`clawhost serve`. What it writes is in the file gateway.log of the data folder.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    /// Stay in the foreground, as `clawhost serve` does
    #[arg(long)]
    pub(crate) foreground: bool,
}

pub(crate) async fn start(context: &Context, arguments: &StartArgs) -> anyhow::Result<Exit> {
    if arguments.foreground {
        return serve::run(context, &arguments.serve).await;
    }
    // Before its log is opened: a forgetting removes logs.
    serve::finish_interrupted(context).await?;
    let program = std::env::current_exe()?;
    let given = std::env::args_os().skip(1).chain([FOREGROUND.into()]);
    let gateway = start_gateway(&program, &given.collect::<Vec<_>>(), &context.folder()?).await?;
    if context.json() {
        let document = json!({"format": 1, "address": gateway.address.to_string(), "process": gateway.process});
        crate::terminal::json(&document)?;
    } else {
        let origin = gateway.origin();
        let mut out = crate::terminal::stdout();
        writeln!(out, "serving on {origin}/v1 (OpenAI) and {origin} (Anthropic)")?;
        writeln!(out, "{}", serve::page_line(&origin))?;
        writeln!(out, "recording into {}; process {}", context.folder()?.display(), gateway.process)?;
    }
    // It has written them to its log.
    let mut notes = crate::terminal::stderr();
    for note in start_log(&context.folder()?).iter().filter(|line| line.starts_with(NOTE)) {
        writeln!(notes, "{note}")?;
    }
    Ok(Exit::Ok)
}

pub(crate) async fn stop(context: &Context) -> anyhow::Result<Exit> {
    let folder = context.folder()?;
    let stopped = stop_gateway(&folder).await?;
    let exit = if stopped.is_some() { Exit::Ok } else { Exit::Other };
    if context.json() {
        crate::terminal::json(&json!({"format": 1, "stopped": stopped.map(|gateway| gateway.process)}))?;
        return Ok(exit);
    }
    let mut out = crate::terminal::stdout();
    match stopped {
        Some(gateway) => writeln!(out, "stopped process {}; everything is recorded", gateway.process)?,
        None => writeln!(out, "no gateway runs in {}", folder.display())?,
    }
    Ok(exit)
}

pub(crate) async fn reload(context: &Context) -> anyhow::Result<Exit> {
    let folder = context.folder()?;
    let reloaded = reload_gateway(&folder).await?;
    if reloaded.is_some() {
        crate::keys::note_limits(&folder)?;
    }
    let waiting = reloaded.as_ref().map(|gateway| gateway.configuration.waits_for_restart.clone()).unwrap_or_default();
    if context.json() {
        let process = reloaded.map(|gateway| gateway.process);
        crate::terminal::json(&json!({"format": 1, "reloaded": process, "waits_for_restart": waiting}))?;
        return Ok(if process.is_some() { Exit::Ok } else { Exit::Other });
    }
    let mut out = crate::terminal::stdout();
    let Some(gateway) = reloaded else {
        writeln!(out, "no gateway runs in {}", folder.display())?;
        return Ok(Exit::Other);
    };
    writeln!(out, "process {} has taken gateway.toml, the keys and changed weights over", gateway.process)?;
    crate::config::waiting(&mut out, &waiting)?;
    Ok(Exit::Ok)
}

pub(crate) async fn status(context: &Context) -> anyhow::Result<Exit> {
    let folder = context.folder()?;
    let Some(gateway) = running_gateway(&folder)? else {
        if context.json() {
            crate::terminal::json(&json!({"format": 1, "running": false}))?;
        } else {
            writeln!(crate::terminal::stdout(), "no gateway runs in {}", folder.display())?;
        }
        return Ok(Exit::Other);
    };
    let is_ready = gateway_is_ready(&gateway).await;
    if context.json() {
        crate::terminal::json(&json!({
            "format": 1,
            "running": true,
            "ready": is_ready,
            "address": gateway.address.to_string(),
            "process": gateway.process,
            "started_at": gateway.started_at,
            "configuration": gateway.configuration,
        }))?;
    } else {
        let state = if is_ready { "ready" } else { "runs, and does not answer" };
        let since = time(gateway.started_at);
        let mut out = crate::terminal::stdout();
        writeln!(out, "{state}: {} since {since}, process {}", gateway.origin(), gateway.process)?;
        let configuration = &gateway.configuration;
        if let Some(why) = &configuration.problem {
            writeln!(out, "gateway.toml was not taken over: {why}")?;
        }
        crate::config::waiting(&mut out, &configuration.waits_for_restart)?;
        for former in &configuration.former_weights {
            writeln!(out, "{}", RequestError::from(former.clone()))?;
        }
    }
    Ok(if is_ready { Exit::Ok } else { Exit::Other })
}
