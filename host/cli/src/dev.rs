//! `clawhost dev`: builds and tries a plugin whenever a source changes.

use crate::args::{DevArgs, MachineArgs, here};
use crate::build::SHARED;
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use crate::terminal::Progress;
use clawhost_app::Bench;
use clawhost_core::{Episode, Message, Turn, counted, escaped, script_turn};
use clawhost_devkit::{DevEvent, DevOptions, FileWatch, TestReport};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Characters of a text that a row of the table shows.
const CELL: usize = 56;
/// Characters of a message that are shown.
const SHOWN: usize = 1000;
/// Turns that the table shows. The others are counted.
const TURNS: usize = 20;

pub(crate) async fn run(context: &Context, args: &DevArgs) -> anyhow::Result<Exit> {
    let machine = MachineArgs::trying(&here(args.folder.as_deref()).to_string_lossy(), args.allow_interpreters);
    let (folder, host) = (context.folder()?, context.host_settings(&machine)?);
    let progress = Progress::new(context, true, "tried");
    let bench = Bench::open(&folder, &host, &progress)?;
    let options = DevOptions { shared: folder.join(SHARED), seed: args.seed.unwrap_or_default(), once: args.once };
    let signals = cancel_on_signal(Stopping::Trying);
    let is_json = context.json();
    let told = |event: DevEvent| {
        // A closed output ends nothing: the component is what counts.
        let _ = match is_json {
            true => crate::terminal::json_line(&document(&event)),
            false => shown(&mut crate::terminal::stdout(), &event),
        };
    };
    let mut changes = FileWatch::default();
    let taken =
        clawhost_devkit::dev(&bench, here(args.folder.as_deref()), &options, &mut changes, signals.cancel(), &told)
            .await;
    drop(signals);
    progress.finish();
    Ok(if taken? || !args.once { Exit::Ok } else { Exit::Other })
}

/// An event as a line of JSON.
fn document(event: &DevEvent) -> serde_json::Value {
    match event {
        DevEvent::Changed(files) => serde_json::json!({ "event": "changed", "files": files }),
        DevEvent::Built(built) => serde_json::json!({ "event": "built", "built": built }),
        DevEvent::Played(episode) => serde_json::json!({ "event": "played", "episode": **episode }),
        DevEvent::Tested(report) => serde_json::json!({ "event": "tested", "test": report }),
        DevEvent::Accepted { component, digest, took_ms } => {
            serde_json::json!({ "event": "accepted", "component": component, "digest": digest, "took_ms": took_ms })
        }
        DevEvent::Refused { why, has_old } => serde_json::json!({ "event": "refused", "why": why, "has_old": has_old }),
        DevEvent::Waiting => serde_json::json!({ "event": "waiting" }),
    }
}

fn shown(out: &mut impl Write, event: &DevEvent) -> std::io::Result<()> {
    match event {
        DevEvent::Changed(files) if files.is_empty() => Ok(()),
        DevEvent::Changed(files) => {
            writeln!(out)?;
            writeln!(out, "changed     {}", files.iter().map(|file| named(file)).collect::<Vec<_>>().join(", "))
        }
        DevEvent::Built(built) => crate::build::line(out, built),
        DevEvent::Played(episode) => table(out, episode),
        DevEvent::Tested(report) => tested(out, report),
        DevEvent::Accepted { component, digest, took_ms } => {
            let seconds = *took_ms as f64 / 1000.0;
            writeln!(
                out,
                "\x1b[32mready\x1b[0m       {} ({}), {seconds:.1} s after the change",
                component.display(),
                digest.short()
            )
        }
        DevEvent::Refused { why, has_old } => {
            let old = if *has_old { "; the component before stays" } else { "" };
            writeln!(out, "\x1b[1;31mnot taken\x1b[0m   {}{old}", escaped(why, SHOWN))
        }
        DevEvent::Waiting => writeln!(out, "waiting     for a change (Ctrl-C ends it)"),
    }
}

/// A file as people know it: relative to the working folder.
fn named(file: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    escaped(&file.strip_prefix(&here).unwrap_or(file).display().to_string(), SHOWN)
}

/// A text in one row of the table.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(CELL).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{}{more}", escaped(&short, CELL * 4))
}

fn said<'m>(messages: impl IntoIterator<Item = &'m Message>) -> String {
    messages.into_iter().map(Message::plain_text).collect::<Vec<_>>().join(" ")
}

fn table(out: &mut impl Write, episode: &Episode) -> std::io::Result<()> {
    let opening = episode.turns.first().map_or(&episode.closing, |turn| &turn.observation);
    writeln!(out, "\x1b[2mtask\x1b[0m        {}", escaped(&episode.task.id, 100))?;
    writeln!(out, "\x1b[2mturn  fuel (M)  text\x1b[0m")?;
    writeln!(out, "{:>4}  {:>8}  {}", 0, "", cell(&said(opening)))?;
    for (index, turn) in episode.turns.iter().enumerate().take(TURNS) {
        let Turn { action, tool_results, signals, fuel, .. } = turn;
        let next = episode.turns.get(index.saturating_add(1)).map_or(&episode.closing, |next| &next.observation);
        writeln!(out, "{:>4}  {:>8}  \x1b[1m> {}\x1b[0m", index.saturating_add(1), "", cell(&script_turn(action)))?;
        let fuel = fuel.map(|fuel| format!("{:.3}", fuel as f64 / 1e6)).unwrap_or_default();
        let signals: Vec<String> =
            signals.iter().map(|one| format!("{} {}", escaped(&one.name, 60), one.value)).collect();
        let signals =
            if signals.is_empty() { String::new() } else { format!("  \x1b[2m[{}]\x1b[0m", signals.join(", ")) };
        writeln!(out, "{:>4}  {fuel:>8}  {}{signals}", "", cell(&said(tool_results.iter().chain(next))))?;
    }
    if let Some(more) = episode.turns.len().checked_sub(TURNS).filter(|more| *more > 0) {
        writeln!(out, "            and {more} more")?;
    }
    let reward = episode.reward.map_or_else(|| "no reward".to_owned(), |reward| format!("reward {reward}"));
    writeln!(
        out,
        "ended       {}, {}, {reward}",
        escaped(&episode.ending.to_string(), SHOWN),
        counted(episode.turns.len() as u64, "turn")
    )?;
    for line in &episode.log {
        writeln!(out, "log         {}", escaped(line, SHOWN))?;
    }
    Ok(())
}

fn tested(out: &mut impl Write, report: &TestReport) -> std::io::Result<()> {
    if report.cases.is_empty() {
        return Ok(());
    }
    for case in report.cases.iter().filter(|case| !case.passed) {
        crate::cases::shown(out, case)?;
    }
    writeln!(out, "tests       {} of {} passed", report.passed(), counted(report.cases.len() as u64, "case"))
}
