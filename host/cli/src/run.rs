//! `clawhost run`.

use crate::args::{RunArgs, placed};
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use crate::summary;
use crate::terminal::Progress;

pub(crate) async fn run(context: &Context, arguments: &RunArgs) -> anyhow::Result<Exit> {
    let described = arguments.spec.resolve()?;
    let workspace =
        context.workspace(&arguments.machine.with(described.spec.plugins().map(|plugin| plugin.path.as_str())))?;
    let progress = Progress::new(context, arguments.machine.quiet, "played");
    let work = cancel_on_signal(Stopping::Run);
    let start = arguments.resume.start();
    let played = clawhost_app::run(&workspace, described.spec, start, work.cancel(), &progress).await;
    drop(work);
    progress.finish();
    let played = played.map_err(|error| placed(error, &described.said, described.file.as_deref()))?;
    if context.json() {
        summary::json(&played)?;
    } else {
        summary::text(&played)?;
    }
    Ok(Exit::of_stop(played.report.stopped.as_ref()))
}
