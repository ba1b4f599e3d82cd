//! `clawhost episodes tail`: follows what agents say through the gateway that runs.

use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::{GatewayTail, SessionEvent, TailLine, TailedExchange, time};
use clawhost_core::{counted, escaped};
use std::io::Write;

/// Bytes of a text on one line.
const SHOWN_BYTES: usize = 160;
/// Bytes of a name of a session.
const NAME_BYTES: usize = 40;

pub(crate) async fn run(context: &Context) -> anyhow::Result<Exit> {
    let mut tail = GatewayTail::new(&context.folder()?).await?;
    writeln!(crate::terminal::stderr(), "following the gateway of {}; Ctrl-C ends", context.folder()?.display())?;
    // One receiver for all exchanges: a signal between two of them is not lost.
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        let line = tokio::select! {
            biased;
            interrupted = &mut interrupted => return Ok(interrupted.map(|()| Exit::Ok)?),
            line = tail.next() => line?,
        };
        let Some(line) = line else {
            writeln!(crate::terminal::stderr(), "the gateway has ended")?;
            return Ok(Exit::Ok);
        };
        match context.json() {
            true => crate::terminal::json_line(&serde_json::to_value(&line)?)?,
            false => show(&mut crate::terminal::stdout(), &line)?,
        }
        std::io::stdout().flush()?;
    }
}

/// The time of day (UTC).
fn clock(at: u64) -> String {
    let shown = time(at);
    // The day is the same for hours.
    shown.split(['T', ' ']).nth(1).unwrap_or(&shown).trim_end_matches('Z').to_owned()
}

fn name(session: &SessionEvent) -> String {
    escaped(&session.session, NAME_BYTES)
}

fn show(out: &mut impl Write, line: &TailLine) -> std::io::Result<()> {
    match line {
        TailLine::Exchange(exchange) => show_exchange(out, exchange),
        TailLine::Episode { at, session } => {
            writeln!(out, "\x1b[2m{}\x1b[0m {} ended: episode {}", clock(*at), name(session), session.episode)
        }
        TailLine::Lost { events } => writeln!(out, "\x1b[33m{} not shown\x1b[0m", counted(*events, "event")),
    }
}

fn show_exchange(out: &mut impl Write, exchange: &TailedExchange) -> std::io::Result<()> {
    let TailedExchange { at, session, turn, recorded, complete, why, said } = exchange;
    writeln!(
        out,
        "\x1b[2m{}\x1b[0m \x1b[1m{}\x1b[0m turn {turn} \x1b[2m({} asks for {})\x1b[0m",
        clock(*at),
        name(session),
        escaped(&session.agent, NAME_BYTES),
        escaped(&session.alias, NAME_BYTES)
    )?;
    for said in said {
        writeln!(out, "  \x1b[2m{:<10}\x1b[0m {}", said.who, escaped(&said.text, SHOWN_BYTES))?;
    }
    if !complete {
        let why = why.as_deref().unwrap_or("the answer is not whole");
        writeln!(out, "  \x1b[33m{:<10}\x1b[0m {}", "incomplete", escaped(why, SHOWN_BYTES))?;
    }
    if !recorded {
        writeln!(out, "  \x1b[33m{:<10}\x1b[0m the exchange could not be recorded", "missed")?;
    }
    Ok(())
}
