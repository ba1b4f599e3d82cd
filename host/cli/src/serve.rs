//! `clawhost serve`: a gateway in front of models that records what agents say.

use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::terminal::Progress;
use clap::Args;
use clawhost_app::{GATEWAY_LISTEN, ServeRequest, serve};
use std::io::Write as _;

const HELP: &str = "An agent reaches the gateway by its base_url and is recorded without being changed:
  clawhost serve --upstream openai:gpt-5@https://api.openai.com/v1
  OPENAI_BASE_URL=http://127.0.0.1:8700/v1 your-agent

Every conversation becomes an episode: see `clawhost episodes list`. It ends after half an hour without a request, or by
  curl -X POST http://127.0.0.1:8700/s/NAME/end
if the agent names its session, by the address http://127.0.0.1:8700/s/NAME/v1 or the header X-Clawhost-Session.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ServeArgs {
    /// A model to serve, again for each: SPEC as of `--policy` (openai:MODEL@ADDRESS, anthropic:MODEL@ADDRESS, local:DIR), behind
    /// the name by which agents ask for it [default name: the model's]
    #[arg(long, value_name = "[ALIAS=]SPEC", required = true)]
    upstream: Vec<String>,
    #[arg(long, value_name = "ADDRESS:PORT", help = format!("Where to listen; port 0 takes a free one [default: {GATEWAY_LISTEN}]"))]
    listen: Option<String>,
    /// A name under which the gateway may be addressed, beside localhost; again for each
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// End a session this many seconds after its last request [default: 1800]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=30 * 24 * 3600))]
    session_idle: Option<u64>,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Waits for Ctrl-C or SIGTERM.
async fn signal() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

pub(crate) async fn run(context: &Context, arguments: &ServeArgs) -> anyhow::Result<Exit> {
    let workspace = context.workspace(&arguments.machine)?;
    let request = ServeRequest {
        listen: arguments.listen.clone(),
        hosts: arguments.host.clone(),
        upstreams: arguments.upstream.clone(),
        session_idle: arguments.session_idle,
    };
    let progress = Progress::new(context, arguments.machine.quiet, "served");
    let serving = serve(&workspace, request, &progress).await?;
    progress.finish();
    let address = serving.address();
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "address": address.to_string() }))?;
    } else {
        let mut out = crate::terminal::stdout();
        writeln!(out, "serving on http://{address}/v1 (OpenAI) and http://{address} (Anthropic)")?;
        writeln!(out, "recording into {}; Ctrl-C stops", workspace.folder().display())?;
        out.flush()?;
    }
    signal().await.map_err(|error| UsageError(format!("signals cannot be received: {error}")))?;
    // The first signal lets requests end; a second one ends the process.
    let ending = serving.stop();
    let counts = tokio::select! {
        counts = ending => counts,
        _ = signal() => return Ok(Exit::Interrupted),
    };
    let mut notes = crate::terminal::stderr();
    writeln!(notes, "recorded {} exchanges, missed {}", counts.recorded, counts.missed)?;
    Ok(Exit::Ok)
}
