//! `clawhost demo harness`: learns a playbook from nothing in a shop with hidden rules. Control arms run the same loop with
//! placebos in place of its parts.

use super::args::{HARNESS_SVG, HarnessArgs};
use super::view::View;
use super::{drawing, harness_summary, machine, proof, watched};
use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::demo::{DemoOutline, HarnessDemo, demonstrate_harness};
use clawhost_play::Cancel;
use std::ops::ControlFlow;

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
    let outline = DemoOutline::harness(&demo);
    let play = async |cancel: &Cancel, view: &View| demonstrate_harness(&demo, &machine, cancel, view).await;
    let found = match watched(outline, arguments.quiet, play).await? {
        ControlFlow::Continue(found) => found,
        ControlFlow::Break(exit) => return Ok(exit),
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
