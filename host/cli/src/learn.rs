//! `clawhost learn`.

use crate::args::{LearnArgs, placed};
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use crate::terminal::{LEARNED, Progress};
use crate::{learn_summary, rehearsal, weights};
use std::io::Write as _;

pub(crate) async fn run(context: &Context, arguments: &LearnArgs) -> anyhow::Result<Exit> {
    if arguments.sample {
        write!(crate::terminal::stdout(), "{}", clawhost_run_config::sample())?;
        return Ok(Exit::Ok);
    }
    let described = arguments.spec.resolve()?;
    let workspace =
        context.workspace(&arguments.machine.with(described.spec.plugins().map(|plugin| plugin.path.as_str())))?;
    let progress = Progress::new(context, arguments.machine.quiet, LEARNED);
    if arguments.dry_run {
        let rehearsal = clawhost_app::rehearse(&workspace, described.spec, &progress).await;
        progress.finish();
        let rehearsal = rehearsal.map_err(|error| placed(error, &described.said, described.file.as_deref()))?;
        if context.json() {
            rehearsal::json(&rehearsal)?;
        } else {
            rehearsal::text(&rehearsal)?;
        }
        return Ok(Exit::Ok);
    }
    let work = cancel_on_signal(Stopping::Run);
    let start = arguments.resume.start();
    let learned = clawhost_app::learn(&workspace, described.spec, start, work.cancel(), &progress).await;
    drop(work);
    progress.finish();
    let learned = learned.map_err(|error| placed(error, &described.said, described.file.as_deref()))?;
    if context.json() {
        learn_summary::json(&learned)?;
    } else {
        let play = weights::command(context, &arguments.machine, &learned, &described.said);
        learn_summary::text(&learned, play.as_deref())?;
    }
    Ok(Exit::of_stop(learned.report.stopped.as_ref()))
}
