//! `clawhost demo weights`: creates a tiny model from a seed, trains it on demonstrations, and then improves it beyond the
//! demonstrator with rewards alone.

use super::args::{WEIGHTS_SVG, WeightsArgs};
use super::view::View;
use super::{drawing, machine, proof, stopped, weights_summary};
use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use clawhost_app::demo::{DemoOutcome, DemoOutline, SEED, WeightsDemo, demonstrate_weights};

pub(super) async fn run(context: &Context, arguments: &WeightsArgs) -> anyhow::Result<Exit> {
    let machine = machine(context)?;
    let drawing = drawing(&machine, arguments.svg.as_deref(), WEIGHTS_SVG)?;
    let demo = WeightsDemo {
        seed: arguments.seed.unwrap_or(SEED),
        quick: arguments.quick,
        plugins: arguments.plugins.clone(),
    };
    let models = context.model_settings(&MachineArgs { device: arguments.device, ..MachineArgs::default() })?;
    let view = View::new(DemoOutline::weights(&demo), arguments.quiet);
    let work = cancel_on_signal(Stopping::Demo);
    let found = demonstrate_weights(&demo, &machine, &models, work.cancel(), &view).await;
    drop(work);
    view.finish();
    let found = match found? {
        DemoOutcome::Finished(found) => found,
        DemoOutcome::Stopped(reason) => return Ok(stopped(&view, &reason)),
    };
    if context.json() {
        weights_summary::json(&demo, &found, &drawing)?;
    } else {
        weights_summary::text(&demo, &found, &drawing)?;
    }
    weights_summary::draw(&drawing, &found)?;
    proof::check_weights(&found.doubts())?;
    Ok(Exit::Ok)
}
