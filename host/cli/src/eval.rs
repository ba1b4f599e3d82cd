//! `clawhost eval`: evaluates a playbook on the test split, pair by pair, against no playbook or an older version.

use crate::args::{EvalArgs, placed};
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use crate::terminal::Progress;
use crate::{learn_summary, summary};
use clawhost_app::{Evaluated, time};
use clawhost_core::PlaybookVersion;
use serde_json::{Value, json};
use std::io::Write as _;

pub(crate) async fn run(context: &Context, arguments: &EvalArgs) -> anyhow::Result<Exit> {
    let described = arguments.spec.resolve()?;
    let workspace =
        context.workspace(&arguments.machine.with(described.spec.plugins().map(|plugin| plugin.path.as_str())))?;
    let progress = Progress::new(context, arguments.machine.quiet, "played");
    let work = cancel_on_signal(Stopping::Run);
    let evaluated = clawhost_app::evaluate(&workspace, described.spec, work.cancel(), &progress).await;
    drop(work);
    progress.finish();
    let evaluated = evaluated.map_err(|error| placed(error, &described.said, described.file.as_deref()))?;
    if context.json() {
        crate::terminal::json(&document(&evaluated))?;
    } else {
        text(&evaluated)?;
    }
    Ok(Exit::of_stop(evaluated.report.stopped.as_ref()))
}

/// The identity of a playbook's version.
fn version(version: &PlaybookVersion) -> Value {
    json!({ "name": version.name, "number": version.number, "digest": version.digest })
}

/// One JSON document. Only `timing` differs between equal runs.
fn document(evaluated: &Evaluated) -> Value {
    let Evaluated { run, spec, before, after, evaluation, outcome, report, timing } = evaluated;
    let mut config = spec.published();
    if let Some(config) = config.as_object_mut() {
        let measured = json!({ "before": before.as_ref().map(version), "after": version(after) });
        config.insert("evaluation".to_owned(), measured);
    }
    json!({
        "format": 1, "evaluation": evaluation, "outcome": outcome, "config": config,
        "endings": report.endings, "failed": report.failed, "failures": report.failures,
        "stopped": report.stopped, "usage": report.usage,
        "timing": {
            "run": run, "started": time(timing.started_ms), "wall_seconds": timing.wall.as_secs_f64(),
            "concurrency": spec.play.concurrency,
        },
    })
}

fn text(evaluated: &Evaluated) -> anyhow::Result<()> {
    let Evaluated { run, before, after, evaluation, outcome, report, .. } = evaluated;
    let mut out = crate::terminal::stdout();
    writeln!(out, "run         {run}")?;
    writeln!(
        out,
        "playbook    {}, version {} against {}",
        after.name,
        after.number,
        before.as_ref().map_or("none".to_owned(), |version| format!("version {}", version.number))
    )?;
    let first =
        before.as_ref().map_or("without a playbook".to_owned(), |version| format!("with version {}", version.number));
    learn_summary::proof(&mut out, evaluation, [&first, &format!("with version {}", after.number)])?;
    summary::failures(&mut out, run, report)?;
    match &report.stopped {
        None => writeln!(out, "verdict     {}", outcome.words())?,
        Some(reason) => writeln!(out, "verdict     none: {}", learn_summary::stopped(reason))?,
    }
    Ok(())
}
