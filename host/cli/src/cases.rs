//! `clawhost test`: plays the cases of a plugin.

use crate::args::{MachineArgs, TestArgs, here};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::terminal::Progress;
use clawhost_app::{AppError, Bench, PluginFolder};
use clawhost_core::{counted, escaped};
use clawhost_devkit::{CaseResult, TestReport, TestRequest, is_outdated};
use std::io::Write;
use std::sync::Mutex;

/// Characters of a text that a difference shows.
const SHOWN: usize = 400;

pub(crate) async fn run(context: &Context, args: &TestArgs) -> anyhow::Result<Exit> {
    let plugin = PluginFolder::open(here(args.folder.as_deref())).map_err(AppError::from)?;
    let machine = MachineArgs::trying(&here(args.folder.as_deref()).to_string_lossy(), args.allow_interpreters);
    let (folder, host) = (context.folder()?, context.host_settings(&machine)?);
    crate::build::note_outdated(is_outdated(&plugin))?;
    let progress = Progress::new(context, false, "tested");
    let request = TestRequest { filter: args.filter.clone(), accept: args.accept };
    let out = Mutex::new(crate::terminal::stdout());
    let is_text = !context.json();
    let told = |result: &CaseResult| {
        if let Ok(mut out) = out.lock()
            && is_text
        {
            // A closed output is noticed at the end.
            let _ = shown(&mut *out, result);
        }
    };
    let bench = Bench::open(&folder, &host, &progress)?;
    let tested = clawhost_devkit::test(&bench, &plugin, &request, &told).await;
    progress.finish();
    let report = tested?;
    if let Some(file) = &args.junit {
        let text = report.junit().map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))?;
        std::fs::write(file, text).map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    }
    match (&args.filter, report.cases.is_empty()) {
        (None, true) => {
            return Err(UsageError(format!(
                "{}: there are no cases; write tests/*.toml",
                here(args.folder.as_deref()).display()
            ))
            .into());
        }
        (Some(part), true) => {
            return Err(UsageError(format!("no case has `{}` in its name", escaped(part, SHOWN))).into());
        }
        _ => {}
    }
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "passed": report.failed() == 0, "test": report }))?;
    } else {
        summary(&mut crate::terminal::stdout(), &report)?;
    }
    Ok(if report.failed() == 0 { Exit::Ok } else { Exit::Other })
}

pub(crate) fn shown(out: &mut impl Write, result: &CaseResult) -> std::io::Result<()> {
    let mark = match (result.passed, result.accepted) {
        (true, _) => "\x1b[32mok\x1b[0m      ",
        (false, true) => "\x1b[33maccepted\x1b[0m",
        (false, false) => "\x1b[1;31mfailed\x1b[0m  ",
    };
    writeln!(out, "{mark}  {}: {}", escaped(&result.file, SHOWN), escaped(&result.name, SHOWN))?;
    if let Some(why) = &result.error {
        writeln!(out, "            {}", escaped(why, SHOWN))?;
    }
    for one in &result.differences {
        writeln!(out, "            {}", escaped(&one.what, SHOWN))?;
        writeln!(out, "              expected {}", escaped(&one.expected, SHOWN))?;
        writeln!(out, "              found    {}", escaped(&one.found, SHOWN))?;
    }
    for line in result.log.iter().filter(|_| !result.passed && !result.accepted) {
        writeln!(out, "            log: {}", escaped(line, SHOWN))?;
    }
    Ok(())
}

fn summary(out: &mut impl Write, report: &TestReport) -> std::io::Result<()> {
    let digest = crate::build::short(&report.digest);
    let (passed, failed) = (report.passed(), report.failed());
    let accepted = report.cases.iter().filter(|case| case.accepted).count();
    let more = if accepted > 0 {
        format!(", {accepted} of them accepted: read what was written before you commit it")
    } else {
        String::new()
    };
    writeln!(
        out,
        "{} {} ({digest}): {} of {} passed{more}",
        report.plugin,
        report.version,
        passed,
        counted(report.cases.len() as u64, "case"),
    )?;
    if failed > 0 {
        writeln!(out, "`clawhost test --accept` writes what happened as what is expected")?;
    }
    Ok(())
}
