//! `clawhost demo full`: a playbook, a router and the weights of a tiny model learn in one run.

use super::args::FullArgs;
use super::view::View;
use super::{full_summary, machine, proof, stopped};
use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use clawhost_app::demo::{DemoOutcome, DemoOutline, FullDemo, SEED, demonstrate_full};

pub(super) async fn run(context: &Context, arguments: &FullArgs) -> anyhow::Result<Exit> {
    let machine = machine(context)?;
    let demo = FullDemo { seed: arguments.seed.unwrap_or(SEED), plugins: arguments.plugins.clone() };
    let models = context.model_settings(&MachineArgs { device: arguments.device, ..MachineArgs::default() })?;
    let view = View::new(DemoOutline::full(&demo), arguments.quiet);
    let work = cancel_on_signal(Stopping::Demo);
    let found = demonstrate_full(&demo, &machine, &models, work.cancel(), &view).await;
    drop(work);
    view.finish();
    let found = match found? {
        DemoOutcome::Finished(found) => found,
        DemoOutcome::Stopped(reason) => return Ok(stopped(&view, &reason)),
    };
    if context.json() {
        full_summary::json(&demo, &found)?;
    } else {
        full_summary::text(&demo, &found)?;
    }
    proof::check_full(&found.doubts())?;
    Ok(Exit::Ok)
}
