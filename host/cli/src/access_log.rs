//! Where diagnostics and the access log of a gateway are written.

use crate::args::Command;
use crate::exit::UsageError;
use clawhost_app::ACCESS_LOG;
use std::fmt::Debug;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{EnvFilter, FilterExt as _, Targets, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

/// Lines that wait to be written. More of them are lost: a full disk or a reader that stands still holds no request up.
const WAITING: usize = 16_384;

/// The name of standard output.
const STANDARD_OUTPUT: &str = "-";

/// The message of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Writes the message of an event as a line, and nothing else.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> std::fmt::Result {
        let mut message = Message(String::new());
        event.record(&mut message);
        writeln!(writer, "{}", message.0)
    }
}

/// The file of the access log that a command names.
fn named(command: &Command) -> Option<&PathBuf> {
    let serve = match command {
        Command::Serve(serve) => serve,
        // The process in the background has the same options.
        Command::Start(start) if start.foreground => &start.serve,
        _ => return None,
    };
    serve.access_log.as_ref()
}

fn opened(path: &Path) -> anyhow::Result<Box<dyn Write + Send>> {
    if path == Path::new(STANDARD_OUTPUT) {
        return Ok(Box::new(std::io::stdout()));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    // It says who asks when.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let unusable = |error| UsageError(format!("{}: the access log cannot be written: {error}", path.display()));
    Ok(Box::new(options.open(path).map_err(unusable)?))
}

/// Writes diagnostics to standard error, and the access log of a gateway where the command says: to standard error too, if it says
/// nothing and the configuration asks for it. Dropping the result writes what waits.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn start(command: &Command) -> anyhow::Result<Option<WorkerGuard>> {
    let serves = match command {
        Command::Serve(_) => true,
        Command::Start(start) => start.foreground,
        _ => false,
    };
    let (access, guard) = if serves {
        let out = match named(command) {
            Some(path) => opened(path)?,
            None => Box::new(std::io::stderr()),
        };
        let (writer, guard) = NonBlockingBuilder::default().buffered_lines_limit(WAITING).lossy(true).finish(out);
        (Some(writer), Some(guard))
    } else {
        (None, None)
    };
    let lines = |writer: NonBlocking| {
        let only = Targets::new().with_target(ACCESS_LOG, LevelFilter::INFO);
        fmt::layer().event_format(Lines).with_writer(writer).with_ansi(false).with_filter(only)
    };
    let chosen = EnvFilter::try_from_env("CLAWHOST_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let others = filter_fn(|metadata| metadata.target() != ACCESS_LOG);
    let layer = fmt::layer().with_writer(crate::terminal::stderr).with_target(false);
    // A gateway runs for days. The messages of other commands are read at once.
    let layer = if serves { layer.boxed() } else { layer.without_time().boxed() };
    let diagnostics = layer.with_filter(chosen.and(others));
    tracing_subscriber::registry().with(diagnostics).with(access.map(lines)).init();
    Ok(guard)
}
