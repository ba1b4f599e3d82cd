//! `clawhost data`: shows the contents of the data folder, and removes old runs.

use crate::context::Context;
use crate::episodes::{print, table};
use crate::exit::Exit;
use clap::{Args, Subcommand};
use clawhost_app::{
    Amount, DataReport, HeldRun, Kept, KeptBecause, PruneReport, PruneRequest, PruneRule, SystemClock, holdings, prune,
    time,
};
use clawhost_core::{Clock as _, Removed, RunId, RunState, counted, escaped, thousands};
use comfy_table::CellAlignment;
use std::io::Write;

#[derive(Debug, Args)]
pub(crate) struct DataCommand {
    #[command(subcommand)]
    verb: Option<DataVerb>,
}

#[derive(Debug, Subcommand)]
enum DataVerb {
    /// Show the contents: runs, checkpoints, plugins, playbooks, compiled code; this is the default
    Show,
    /// Remove runs with their episodes and checkpoints, and everything that loses its last reference. Runs that can be
    /// resumed are removed only with --run; what playbooks refer to is always kept
    Prune(PruneArgs),
}

#[derive(Debug, Args)]
struct PruneArgs {
    #[command(flatten)]
    which: PruneWhich,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct PruneWhich {
    /// Runs that began more than this many days ago
    #[arg(long, value_name = "DAYS")]
    older_than: Option<u64>,
    /// This run (its id, its name, or the beginning of its id), even if it could be resumed; may be repeated
    #[arg(long, value_name = "RUN")]
    run: Vec<String>,
    /// The oldest runs, until the database and the files beside it take at most this size in MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(..=1 << 43))]
    keep_size: Option<u64>,
}

impl PruneWhich {
    fn rule(&self) -> PruneRule {
        match (self.older_than, self.keep_size) {
            (Some(days), _) => PruneRule::OlderThan { days },
            (None, Some(mib)) => PruneRule::KeepSize { bytes: mib << 20 },
            (None, None) => PruneRule::Runs(self.run.iter().cloned().map(RunId).collect()),
        }
    }
}

pub(crate) async fn run(context: &Context, command: &DataCommand) -> anyhow::Result<Exit> {
    let folder = context.folder()?;
    let mut out = crate::terminal::stdout();
    match &command.verb {
        None | Some(DataVerb::Show) => {
            let report = holdings(&folder).await?;
            if context.json() {
                let document = serde_json::json!({ "format": 1, "data": report });
                crate::terminal::json(&document)?;
            } else {
                show(&mut out, &report)?;
            }
        }
        Some(DataVerb::Prune(PruneArgs { which, dry_run })) => return remove(context, which.rule(), *dry_run).await,
    }
    Ok(Exit::Ok)
}

/// Removes the runs that match a rule, or shows what would be removed.
pub(crate) async fn remove(context: &Context, rule: PruneRule, dry_run: bool) -> anyhow::Result<Exit> {
    let request = PruneRequest { rule, is_rehearsal: dry_run };
    let report = prune(&context.folder()?, &request, SystemClock::default().now_ms()).await?;
    let mut out = crate::terminal::stdout();
    if context.json() {
        let document = serde_json::json!({ "format": 1, "prune": report });
        crate::terminal::json(&document)?;
    } else {
        pruned(&mut out, &report)?;
    }
    Ok(Exit::Ok)
}

fn row(label: &str) -> String {
    format!("\x1b[2m{label:<12}\x1b[0m")
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

fn amount(Amount { count, bytes }: Amount, what: &str) -> String {
    format!("{} {what}, {}", thousands(count), size(bytes))
}

fn show(out: &mut impl Write, report: &DataReport) -> std::io::Result<()> {
    if !report.runs.is_empty() {
        let mut table = table(&["run", "begun", "kind", "environment", "episodes", "records", "files", "finished"]);
        for run in &report.runs {
            let holdings = &run.holdings;
            table.add_row([
                holdings.run.to_string(),
                time(holdings.created_at),
                holdings.kind.name().to_owned(),
                escaped(&holdings.environment, 60),
                thousands(holdings.episodes),
                size(holdings.bytes),
                size(holdings.blob_bytes),
                finished(run).to_owned(),
            ]);
        }
        for column in [4, 5, 6] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        print(out, &table)?;
        writeln!(out)?;
    }
    writeln!(out, "{}{}, {}", row("folder"), escaped(&report.folder, 500), size(report.bytes()))?;
    writeln!(out, "{}{}", row("database"), size(report.database_bytes))?;
    writeln!(out, "{}{}", row("files"), amount(report.blobs, "with large content of records"))?;
    if report.unused_blobs.count > 0 {
        writeln!(out, "{}{}; `clawhost data prune` removes them", row(""), amount(report.unused_blobs, "not in use"))?;
    }
    writeln!(out, "{}{}", row("plugins"), amount(report.plugins, "kept"))?;
    let versions = counted(report.playbook_versions, "version");
    writeln!(out, "{}{} with {versions}", row("playbooks"), thousands(report.playbooks))?;
    writeln!(out, "{}{} of compiled code; deleting it loses nothing", row("cache"), size(report.cache_bytes))
}

fn finished(run: &HeldRun) -> &'static str {
    match (run.holdings.state, run.can_be_resumed) {
        (RunState::Finished, _) => "yes",
        (_, true) => "no, can be resumed",
        (_, false) => "no",
    }
}

fn pruned(out: &mut impl Write, report: &PruneReport) -> std::io::Result<()> {
    let verb = if report.is_rehearsal { "would go" } else { "removed" };
    for run in &report.runs {
        let holdings = &run.holdings;
        let episodes = holdings.episodes.saturating_sub(run.kept_episodes);
        let bytes = size(holdings.bytes.saturating_add(holdings.blob_bytes));
        let stays = if run.keeps_record { "; its record stays" } else { "" };
        writeln!(
            out,
            "{}{}, begun {}, {}: {}, about {bytes}{stays}",
            row(verb),
            holdings.run,
            time(holdings.created_at),
            escaped(&holdings.environment, 60),
            counted(episodes, "episode"),
        )?;
    }
    for Kept { run, because } in &report.kept {
        let why = match because {
            KeptBecause::CanBeResumed => "it can be resumed; --run removes it".to_owned(),
            KeptBecause::MadeVersions { playbooks } => {
                let names: Vec<String> = playbooks.iter().map(|name| escaped(name, 80)).collect();
                format!("its record, because it made versions of {}", names.join(", "))
            }
            KeptBecause::Cited { episodes } => {
                format!("{} that lessons cite as evidence", counted(episodes.len() as u64, "episode"))
            }
        };
        writeln!(out, "{}{run}: {why}", row("kept"))?;
    }
    let Removed { runs, episodes, plugins, blobs, .. } = report.removed.unwrap_or_default();
    let counts = [(runs, "run"), (episodes, "episode"), (plugins, "plugin"), (blobs, "file")];
    let counts: Vec<String> = counts.into_iter().map(|(count, what)| counted(count, what)).collect();
    writeln!(out, "{}{}", row("in all"), counts.join(", "))?;
    if plugins > 0 {
        writeln!(out, "{}plugins go if no remaining run and no playbook uses them", row(""))?;
    }
    match report.bytes_after {
        Some(after) => writeln!(out, "{}{}, before {}", row("size"), size(after), size(report.bytes_before)),
        None => {
            let (now, bytes) = (size(report.bytes_before), size(report.bytes()));
            writeln!(out, "{}{now}, about {bytes} of it would go; nothing was removed", row("size"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        let check = |bytes, expected: &str| assert_eq!(size(bytes), expected);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1025, "2 KiB");
        check(1 << 20, "1.0 MiB");
        check(5_500_000_000, "5245.2 MiB");
    }
}
