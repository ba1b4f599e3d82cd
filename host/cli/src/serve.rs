//! `clawhost serve`: a gateway in front of models that records what agents say.

use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::terminal::Progress;
use clap::Args;
use clawhost_app::{
    GATEWAY_LISTEN, LiveMode, MOST_RETRIES, NoLiveMode, ServeRequest, SystemClock, TlsSection, finish_forgetting,
    plugin_spec, return_freed_memory, serve,
};
use clawhost_core::counted;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

const HELP: &str = "An agent reaches the gateway by its base_url and is recorded without being changed:
  clawhost serve --upstream openai:gpt-5@https://api.openai.com/v1
  OPENAI_BASE_URL=http://127.0.0.1:8700/v1 your-agent

Models, their keys, time limits, retries and lists of models that stand in for each other are
configured in the file gateway.toml of the data folder; see the gateway's guide.

Every conversation becomes an episode: see `clawhost episodes list`, or the page at
http://127.0.0.1:8700/dashboard. It ends after half an hour without a request, or by
  curl -X POST http://127.0.0.1:8700/s/NAME/end
if the agent names its session, by the address http://127.0.0.1:8700/s/NAME/v1 or the header
X-Clawhost-Session.";

/// The line that says where the page is.
pub(crate) fn page_line(origin: &str) -> String {
    format!("sessions are shown on {origin}/dashboard; its key is in admin.key of the data folder")
}

/// Says what the option is for a gateway: agents try again themselves, so by default it does not.
fn retries(argument: clap::Arg) -> clap::Arg {
    argument
        .help("Further attempts at the models of --upstream, if one fails for a while: from 0 to 10 [default: 0]")
        .value_parser(clap::value_parser!(u32).range(..=i64::from(MOST_RETRIES)))
}

#[derive(Debug, Args)]
#[command(after_help = HELP, mut_arg("retries", retries))]
pub(crate) struct ServeArgs {
    /// A model to serve, again for each: SPEC as of `--policy` (openai:MODEL@ADDRESS, anthropic:MODEL@ADDRESS, local:DIR), behind
    /// the name by which agents ask for it [default name: the model's]
    #[arg(long, value_name = "[ALIAS=]SPEC")]
    upstream: Vec<String>,
    #[arg(long, value_name = "ADDRESS:PORT", help = format!("Where to listen; port 0 takes a free one [default: {GATEWAY_LISTEN}]"))]
    listen: Option<String>,
    /// A name under which the gateway may be addressed, beside localhost; again for each
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// End a session this many seconds after its last request [default: 1800]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=30 * 24 * 3600))]
    session_idle: Option<u64>,
    /// The certificate to show, a file in the form PEM: connections are encrypted then
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<String>,
    /// The private key of the certificate, a file in the form PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<String>,
    /// Pass the key of the client that asks on to the models of --upstream, instead of a key of this machine
    #[arg(long)]
    pass_key: bool,
    /// Append a JSON line for each request to a file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    /// A reward for `POST /compute_reward`, again for each, as in `clawhost run`: trainers send answers and get its verdict
    #[arg(long, value_name = "REWARD.wasm")]
    reward: Vec<String>,
    /// How much it does beside recording: observe changes nothing of what models see; skills gives sessions guidance, and remembers
    /// corrections; rl trains a local model on sessions, too, and auto learns lessons beside [default: observe, or as gateway.toml says]
    #[arg(long, value_name = "MODE", value_parser = mode, help_heading = "Guidance")]
    mode: Option<LiveMode>,
    /// The playbook of the guidance [default: the only one, if there is one alone]
    #[arg(long, value_name = "NAME", help_heading = "Guidance")]
    playbook: Option<String>,
    /// A folder with a SKILL.md for each skill, again for each
    #[arg(long, value_name = "FOLDER", help_heading = "Guidance")]
    skills: Vec<String>,
    /// Use the general skills that come with the program, too
    #[arg(long, help_heading = "Guidance")]
    skill_bank: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

fn mode(text: &str) -> Result<LiveMode, String> {
    text.parse().map_err(|error: NoLiveMode| error.to_string())
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

/// SIGHUP. It is received before the gateway prints its address, so that an early `clawhost reload` does not end the process.
struct HangUps {
    #[cfg(unix)]
    received: tokio::signal::unix::Signal,
    /// Whether the gateway was started on a terminal.
    has_terminal: bool,
}

impl HangUps {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            received: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?,
            has_terminal: std::io::stdin().is_terminal(),
        })
    }

    /// Waits for Ctrl-C, SIGTERM, or the end of the terminal. Another SIGHUP reads the configuration again.
    async fn until_signal(mut self, reload: impl Fn()) -> std::io::Result<()> {
        let mut ended = std::pin::pin!(signal());
        loop {
            tokio::select! {
                ended = &mut ended => return ended,
                () = self.next() => {
                    if self.has_terminal && !std::io::stdin().is_terminal() {
                        return Ok(());
                    }
                    reload();
                }
            }
        }
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        if self.received.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}

/// Finishes a forgetting that was interrupted, and says so.
pub(crate) async fn finish_interrupted(context: &Context) -> anyhow::Result<()> {
    if let Some(episodes) = finish_forgetting(&context.folder()?, Arc::new(SystemClock::default())).await? {
        let what = counted(episodes, "episode");
        tracing::warn!("a forgetting of {what} had been interrupted; it is finished now");
    }
    Ok(())
}

pub(crate) async fn run(context: &Context, arguments: &ServeArgs) -> anyhow::Result<Exit> {
    return_freed_memory();
    finish_interrupted(context).await?;
    let workspace = context.workspace(&arguments.machine)?;
    let request = ServeRequest {
        listen: arguments.listen.clone(),
        hosts: arguments.host.clone(),
        upstreams: arguments.upstream.clone(),
        session_idle: arguments.session_idle,
        pass_key: arguments.pass_key,
        retries: arguments.machine.endpoint.retries.unwrap_or_default(),
        rewards: arguments.reward.iter().map(|text| plugin_spec(text)).collect::<Result<_, _>>()?,
        tls: arguments
            .tls_certificate
            .clone()
            .zip(arguments.tls_key.clone())
            .map(|(certificate, key)| TlsSection { certificate, key }),
        access_log: arguments.access_log.is_some(),
        mode: arguments.mode,
        playbook: arguments.playbook.clone(),
        skills: arguments.skills.clone(),
        skill_bank: arguments.skill_bank,
    };
    let progress = Progress::new(context, arguments.machine.quiet, "served");
    let unusable = |error: std::io::Error| UsageError(format!("signals cannot be received: {error}"));
    let hang_ups = HangUps::new().map_err(unusable)?;
    let serving = serve(&workspace, request, &progress).await?;
    progress.finish();
    let address = serving.address();
    if context.json() {
        let guidance = serving.guidance();
        crate::terminal::json(&serde_json::json!({
            "format": 1, "address": address.to_string(), "guidance": guidance, "weights": serving.weights(),
        }))?;
    } else {
        let mut out = crate::terminal::stdout();
        writeln!(out, "serving on {0}/v1 (OpenAI) and {0} (Anthropic)", serving.origin())?;
        if let Some(guidance) = serving.guidance() {
            writeln!(out, "guiding sessions: {guidance}")?;
        }
        if let Some(weights) = serving.weights() {
            writeln!(out, "training {weights}")?;
        }
        writeln!(out, "{}", page_line(&serving.origin()))?;
        // In the background no terminal sends it.
        let stops = if std::io::stdin().is_terminal() { "; Ctrl-C stops" } else { "" };
        writeln!(out, "recording into {}{stops}", workspace.folder().display())?;
        out.flush()?;
    }
    hang_ups.until_signal(|| serving.reload()).await.map_err(unusable)?;
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
