//! `clawhost top`: what a gateway does, refreshed each second on a terminal.

use crate::context::Context;
use crate::exit::Exit;
use clap::Args;
use clawhost_app::{GatewayStats, GatewaySummary, GatewayWatch, dollars};
use clawhost_core::{counted, escaped};
use comfy_table::CellAlignment;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

/// How often it is refreshed.
const REFRESH: Duration = Duration::from_secs(1);
/// Bytes of a name.
const NAME_BYTES: usize = 40;
/// Begins a screen of its own without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Returns to the screen before, with the cursor.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the upper left corner.
const HOME: &str = "\x1b[H";
/// Clears the rest of a line, and below the last one the rest of the screen.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

const HELP: &str = "Without a terminal, or with --json, it prints one snapshot. Added latency is all of a request but the time of the client's body and of
models. Latencies are those of the last second with requests, or else since the start.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct TopArgs {
    /// The gateway's address [default: that of the gateway of the data folder]
    #[arg(long, value_name = "ADDRESS:PORT")]
    address: Option<SocketAddr>,
}

/// A screen of its own. Dropped, it is left.
struct Screen(std::io::Stdout);

impl Screen {
    fn enter() -> std::io::Result<Self> {
        // Styles may be turned off; these are none.
        let mut out = std::io::stdout();
        write!(out, "{ENTER}")?;
        out.flush()?;
        Ok(Self(out))
    }

    /// Draws a text over the one before, line by line, so that nothing flickers.
    fn draw(&mut self, text: &str) -> std::io::Result<()> {
        // The terminal's own control characters go past the sink; the text goes through it.
        write!(self.0, "{HOME}")?;
        for line in text.lines() {
            crate::terminal::stdout().write_all(line.as_bytes())?;
            writeln!(self.0, "{CLEAR_LINE}")?;
        }
        write!(self.0, "{CLEAR_BELOW}")?;
        self.0.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is closed needs nothing.
        let _ = write!(self.0, "{LEAVE}");
        let _ = self.0.flush();
    }
}

pub(crate) async fn run(context: &Context, arguments: &TopArgs) -> anyhow::Result<Exit> {
    let watch = GatewayWatch::new(&context.folder()?, arguments.address)?;
    if context.json() {
        let stats = watch.stats().await?;
        let summary = GatewaySummary::new(&stats, None);
        let document =
            json!({"format": 1, "address": watch.address().to_string(), "summary": summary, "counts": stats});
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    if !std::io::stdout().is_terminal() {
        let stats = watch.stats().await?;
        let text = frame(&watch, &stats, &GatewaySummary::new(&stats, None));
        write!(crate::terminal::stdout(), "{text}")?;
        return Ok(Exit::Ok);
    }
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let mut clock = tokio::time::interval(REFRESH);
    let (mut screen, mut earlier) = (None, None);
    loop {
        // Polled first, so that Ctrl-C is received before the screen changes.
        tokio::select! {
            biased;
            interrupted = &mut interrupted => return Ok(interrupted.map(|()| Exit::Ok)?),
            _ = clock.tick() => {}
        }
        // An error is shown on the screen before, which the drop of this one restores.
        let stats = watch.stats().await?;
        let text = frame(&watch, &stats, &GatewaySummary::new(&stats, earlier.as_ref()));
        let text = format!("{text}\n\x1b[2mCtrl-C leaves\x1b[0m\n");
        let drawn = match screen.take() {
            Some(screen) => screen,
            None => Screen::enter()?,
        };
        screen.insert(drawn).draw(&text)?;
        earlier = Some(stats);
    }
}

/// Microseconds as milliseconds.
fn milliseconds(us: Option<f64>) -> String {
    us.map_or_else(|| "-".to_owned(), |us| format!("{:.2} ms", us / 1000.0))
}

/// A rate, if there is one.
fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}/s"))
}

/// The text of a snapshot.
fn frame(watch: &GatewayWatch, stats: &GatewayStats, summary: &GatewaySummary) -> String {
    let mut text = String::new();
    let mut row = |label: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\x1b[2m{label:<10}\x1b[0m {value}");
    };
    let rates = summary.rates;
    row("gateway", watch.origin());
    let all = counted(summary.requests, "request");
    let now = format!("{} active, {}", stats.active_requests, counted(stats.active_streams, "stream"));
    row(
        "requests",
        format!("{}, {now}; {all}, {}", rate(rates.map(|rates| rates.requests)), counted(summary.errors, "error")),
    );
    let (p50, p99) = (milliseconds(summary.added_p50_us), milliseconds(summary.added_p99_us));
    row("added", format!("p50 {p50}, p99 {p99}; first token p50 {}", milliseconds(summary.first_token_p50_us)));
    let (input, output) = (rates.map(|rates| rates.input_tokens), rates.map(|rates| rates.output_tokens));
    row(
        "tokens",
        format!("in {} ({}), out {} ({})", rate(input), summary.input_tokens, rate(output), summary.output_tokens),
    );
    // Without prices nothing is known of the cost.
    if let Some(micros) = summary.cost_micros {
        row("cost", format!("{} US dollars", dollars(micros)));
    }
    row("sessions", format!("{} open, {}", stats.open_sessions, counted(stats.episodes, "episode")));
    let missed = match stats.missed {
        0 => "0 missed".to_owned(),
        missed => format!("\x1b[31m{missed} missed\x1b[0m"),
    };
    row("exchanges", format!("{} recorded, {missed}, {} waiting", stats.recorded, counted(stats.spool_bytes, "byte")));
    if let Some(bytes) = stats.memory_bytes {
        row("memory", format!("{} MiB", bytes >> 20));
    }
    if stats.router_failures > 0 {
        row("routers", format!("{} that a router did not make", counted(stats.router_failures, "choice")));
    }
    if stats.refused_keys > 0 {
        row("keys", format!("{} with a missing or wrong one", counted(stats.refused_keys, "request")));
    }
    text.push('\n');
    let mut table = crate::episodes::table(&["model", "name", "asked", "failed", "state"]);
    for model in &stats.models {
        let state = if model.is_down { "rests after failures" } else { "up" };
        table.add_row([
            escaped(&model.alias, NAME_BYTES),
            escaped(&format!("{}:{}", model.provider, model.model), NAME_BYTES),
            model.attempts.to_string(),
            model.failures.to_string(),
            state.to_owned(),
        ]);
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().for_each(|line| {
        let _ = writeln!(text, "{}", line.trim_end());
    });
    text
}
