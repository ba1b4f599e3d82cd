//! `clawhost check`: measures what a plugin promises.

use crate::args::{CheckArgs, MachineArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::terminal::Progress;
use clawhost_app::{Bench, HERE, Trial};
use clawhost_core::escaped;
use clawhost_devkit::{CHECK_SEED, CheckReport, CheckRequest, Checked, Outcome, is_outdated};
use std::io::Write;

/// Characters of a finding that are shown.
const SHOWN: usize = 1000;

pub(crate) async fn run(context: &Context, args: &CheckArgs) -> anyhow::Result<Exit> {
    let machine = MachineArgs::trying(args.plugin.as_deref().unwrap_or(HERE), args.allow_interpreters);
    let (folder, host) = (context.folder()?, context.host_settings(&machine)?);
    let plugin = Trial::of(args.plugin.as_deref().unwrap_or(HERE), &args.reward)?;
    let outdated = plugin.folder.as_ref().and_then(is_outdated);
    crate::build::note_outdated(outdated)?;
    let request = CheckRequest { plugin, seed: args.seed.unwrap_or(CHECK_SEED) };
    // Results are shown as they come, so there is no bar.
    let progress = Progress::new(context, true, "checked");
    let bench = Bench::open(&folder, &host, &progress)?;
    let is_text = !context.json();
    let told = |one: &Checked| {
        if is_text {
            // A closed output is noticed at the end.
            let _ = shown(&mut crate::terminal::stdout(), one);
        }
    };
    let checked = clawhost_devkit::check(&bench, &request, &told).await;
    progress.finish();
    let report = checked?;
    if context.json() {
        crate::terminal::json(&serde_json::to_value(&report)?)?;
    } else {
        summary(&mut crate::terminal::stdout(), &report)?;
    }
    Ok(if report.passed { Exit::Ok } else { Exit::Other })
}

fn shown(out: &mut impl Write, one: &Checked) -> std::io::Result<()> {
    let Checked { check, outcome, says, remedy, .. } = one;
    let mark = match outcome {
        Outcome::Passed => "\x1b[32mok\x1b[0m     ",
        Outcome::Failed => "\x1b[1;31mfailed\x1b[0m ",
        Outcome::Skipped => "\x1b[33mskipped\x1b[0m",
    };
    writeln!(out, "{mark} \x1b[1m{check:<15}\x1b[0m {}", escaped(says, SHOWN))?;
    if let Some(remedy) = remedy {
        let what = if *outcome == Outcome::Failed { "to fix it" } else { "it needs" };
        writeln!(out, "                        {what}: {}", escaped(remedy, SHOWN))?;
    }
    Ok(())
}

fn summary(out: &mut impl Write, report: &CheckReport) -> std::io::Result<()> {
    let count = |outcome| report.checks.iter().filter(|one| one.outcome == outcome).count();
    let plugin = &report.plugin;
    let digest = crate::build::short(&plugin.digest);
    writeln!(
        out,
        "{} {} ({digest}): {} passed, {} failed, {} skipped",
        escaped(&plugin.name, 100),
        escaped(&plugin.version, 100),
        count(Outcome::Passed),
        count(Outcome::Failed),
        count(Outcome::Skipped),
    )
}
