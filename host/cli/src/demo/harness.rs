//! `clawhost demo harness`: learns a playbook from nothing in a shop with hidden rules. Control arms run the same loop with
//! placebos in place of its parts.

use super::args::{HARNESS_SVG, HarnessArgs};
use super::view::View;
use super::{drawing, harness_summary, machine, proof, stopped};
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use clawhost_app::demo::{DemoOutcome, DemoOutline, HarnessDemo, demonstrate_harness};

pub(super) async fn run(context: &Context, arguments: &HarnessArgs) -> anyhow::Result<Exit> {
    let machine = machine(context)?;
    let drawing = drawing(&machine, arguments.svg.as_deref(), HARNESS_SVG)?;
    let usual = HarnessDemo::default();
    let demo = HarnessDemo {
        seed: arguments.seed.unwrap_or(usual.seed),
        iterations: arguments.iterations.unwrap_or(usual.iterations),
        concurrency: arguments.concurrency.unwrap_or(usual.concurrency),
        plugins: arguments.plugins.clone(),
    };
    let view = View::new(DemoOutline::harness(&demo), arguments.quiet);
    let work = cancel_on_signal(Stopping::Demo);
    let found = demonstrate_harness(&demo, &machine, work.cancel(), &view).await;
    drop(work);
    view.finish();
    let found = match found? {
        DemoOutcome::Finished(found) => found,
        DemoOutcome::Stopped(reason) => return Ok(stopped(&view, &reason)),
    };
    if context.json() {
        harness_summary::json(&demo, &found, &drawing)?;
    } else {
        harness_summary::text(context, &demo, &found, &drawing)?;
    }
    harness_summary::draw(&drawing, &found)?;
    // A failed proof is an error, so the exit code shows it as well.
    proof::check(&found.doubts(), (demo.iterations, demo.seed))?;
    Ok(Exit::Ok)
}
