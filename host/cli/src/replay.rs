//! `clawhost replay`: replays stored episodes, and compares them with their records.

use crate::args::{MachineArgs, ReplayArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use crate::terminal::Progress;
use clawhost_app::{Finding, REPLAY_CONCURRENCY, ReplayOf, ReplayRequest, ReplayedRun, Tally};
use clawhost_core::{LedgerReport, counted, escaped, thousands};
use clawhost_play::{Difference, ReplayOutcome};
use std::io::Write as _;

/// Number of differences that are shown. The others are counted.
const SHOWN: usize = 5;

impl ReplayArgs {
    fn request(&self) -> ReplayRequest {
        ReplayRequest {
            of: match &self.episode {
                Some(episode) => ReplayOf::Episode(episode.clone()),
                None => ReplayOf::Runs(self.runs.choice()),
            },
            concurrency: self.concurrency.unwrap_or(REPLAY_CONCURRENCY),
        }
    }
}

pub(crate) async fn run(context: &Context, args: &ReplayArgs) -> anyhow::Result<Exit> {
    // The data folder must exist: a replay needs recorded episodes.
    context.reader()?;
    let workspace = context.workspace(&MachineArgs { on_demand: args.on_demand, ..MachineArgs::default() })?;
    let progress = Progress::new(context, args.quiet || args.episode.is_some(), "replayed");
    let signals = cancel_on_signal(Stopping::Replay);
    let replayed = clawhost_app::replay(&workspace, &args.request(), signals.cancel(), &progress).await;
    drop(signals);
    progress.finish();
    let replayed = replayed?;
    match (context.json(), &replayed.runs[..]) {
        (true, [one]) if !args.runs.is_all() => {
            let document = serde_json::json!({ "format": 1, "run": one.run, "report": one.report });
            crate::terminal::json(&document)?;
        }
        (true, all) => {
            let document = serde_json::json!({ "format": 1, "runs": all, "ledger": replayed.ledger });
            crate::terminal::json(&document)?;
        }
        (false, all) => {
            for (position, one) in all.iter().enumerate() {
                if position > 0 {
                    writeln!(crate::terminal::stdout())?;
                }
                text(one)?;
            }
            if let Some(ledger) = &replayed.ledger {
                if !all.is_empty() {
                    writeln!(crate::terminal::stdout())?;
                }
                told(&mut crate::terminal::stdout(), ledger)?;
            }
        }
    }
    if let (Some(file), Some(episode)) = (&args.save, &args.episode) {
        let reader = context.reader()?;
        let saved = clawhost_devkit::save(&clawhost_app::find_episode(&*reader, episode)?, file)?;
        // Beside a JSON document, so on the other stream.
        writeln!(crate::terminal::stderr(), "saved       {} in {}", escaped(&saved.name, 200), saved.file.display())?;
    }
    Ok(if replayed.is_clean() { Exit::Ok } else { Exit::Differs })
}

fn row(label: &str) -> String {
    format!("\x1b[2m{label:<12}\x1b[0m")
}

fn text(ReplayedRun { run, episode, report }: &ReplayedRun) -> anyhow::Result<()> {
    let mut out = crate::terminal::stdout();
    let what = episode.as_ref().map_or_else(|| run.to_string(), |episode| format!("{run}/{episode}"));
    writeln!(out, "{}{what}", row("replayed"))?;
    writeln!(out, "{}{} ({})", row("episodes"), tally(&report.episodes), counted(report.turns, "turn"))?;
    for (ending, count) in &report.host_endings {
        writeln!(out, "{}{count} x {}", row(""), escaped(ending, 200))?;
    }
    if report.missing > 0 {
        let missing = counted(report.missing, "episode");
        writeln!(out, "\x1b[31mmissing\x1b[0m     {missing} of this run cannot be found any more")?;
    }
    if report.pruned > 0 {
        let pruned = counted(report.pruned, "episode");
        writeln!(out, "{}{pruned} of this run removed by `clawhost data prune`", row("pruned"))?;
    }
    writeln!(out, "{}{}", row("verdicts"), tally(&report.verdicts))?;
    for found in report.findings.iter().take(SHOWN) {
        finding(&mut out, found)?;
    }
    if let Some(ledger) = &report.ledger {
        told(&mut out, ledger)?;
    }
    for unlike in report.discrepancies.iter().take(SHOWN) {
        writeln!(out, "\x1b[31mrecords\x1b[0m     {}", escaped(&unlike.to_string(), 1000))?;
    }
    if report.discrepancies.len() > SHOWN {
        let more = report.discrepancies.len() - SHOWN;
        writeln!(out, "{}and {more} more contradictions of records; --json lists all", row(""))?;
    }
    if report.findings.len() > SHOWN {
        writeln!(out, "{}and {} more; --json lists all", row(""), report.findings.len() - SHOWN)?;
    }
    Ok(())
}

fn told(out: &mut impl std::io::Write, ledger: &LedgerReport) -> std::io::Result<()> {
    let LedgerReport { entries, head, forgotten, unchecked, findings } = ledger;
    let head = head.as_ref().map(|head| format!("; the last has the code {}", head.code));
    writeln!(out, "{}{}{}", row("ledger"), counted(*entries, "entry"), head.unwrap_or_default())?;
    if *forgotten > 0 {
        writeln!(out, "{}{} forgotten on request", row(""), counted(*forgotten, "episode"))?;
    }
    if let Some(why) = unchecked {
        writeln!(out, "\x1b[33munchecked\x1b[0m   {why}")?;
    }
    for found in findings.iter().take(SHOWN) {
        writeln!(out, "\x1b[31mledger\x1b[0m      {}", escaped(&found.to_string(), 1000))?;
    }
    if findings.len() > SHOWN {
        writeln!(out, "{}and {} more of the ledger; --json lists all", row(""), findings.len() - SHOWN)?;
    }
    Ok(())
}

fn finding(out: &mut impl std::io::Write, Finding { episode, plugin, outcome }: &Finding) -> std::io::Result<()> {
    match outcome {
        ReplayOutcome::Differs(Difference { turn, what, recorded, replayed }) => {
            let at = turn.map_or_else(|| "after its turns".to_owned(), |turn| format!("in turn {turn}"));
            writeln!(out, "\x1b[31mdiffers\x1b[0m     {episode}, {} {at}: {what}", escaped(plugin, 80))?;
            writeln!(out, "{}recorded {recorded}", row(""))?;
            writeln!(out, "{}replayed {replayed}", row(""))?;
            if what == "host_calls" {
                writeln!(out, "{}from this turn on it calls the host otherwise than it did", row(""))?;
            }
            Ok(())
        }
        ReplayOutcome::NotReplayed(why) => {
            writeln!(out, "\x1b[33mnot replayed\x1b[0m {episode}, {}: {}", escaped(plugin, 80), escaped(why, 500))
        }
        ReplayOutcome::Exact | ReplayOutcome::ExactTurns(_) => Ok(()),
    }
}

fn tally(tally: &Tally) -> String {
    let counts = [
        (tally.exact, "exact"),
        (tally.exact_turns, "exact up to an ending that the host caused"),
        (tally.not_begun, "stopped before there was anything to compare"),
        (tally.differ, "differ"),
        (tally.not_replayed, "not replayed"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", thousands(count)))
        .collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}
