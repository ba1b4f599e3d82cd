//! `clawhost demo full`: a playbook, a router and the weights of a tiny model learn in one run.

use super::args::FullArgs;
use super::view::View;
use super::{full_summary, machine, proof, watched};
use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::demo::{DemoOutline, FullDemo, SEED, demonstrate_full};
use clawhost_play::Cancel;
use std::ops::ControlFlow;

pub(super) async fn run(context: &Context, arguments: &FullArgs) -> anyhow::Result<Exit> {
    let machine = machine(context)?;
    let demo = FullDemo { seed: arguments.seed.unwrap_or(SEED), plugins: arguments.plugins.clone() };
    let models = context.model_settings(&MachineArgs { device: arguments.device, ..MachineArgs::default() })?;
    let outline = DemoOutline::full(&demo);
    let play = async |cancel: &Cancel, view: &View| demonstrate_full(&demo, &machine, &models, cancel, view).await;
    let found = match watched(outline, arguments.quiet, play).await? {
        ControlFlow::Continue(found) => found,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    if context.json() {
        full_summary::json(&demo, &found)?;
    } else {
        full_summary::text(&demo, &found)?;
    }
    proof::check_full(&found.doubts())?;
    Ok(Exit::Ok)
}
