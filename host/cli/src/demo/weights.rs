//! `clawhost demo weights`: creates a tiny model from a seed, trains it on demonstrations, and then improves it beyond the
//! demonstrator with rewards alone.

use super::args::{WEIGHTS_SVG, WeightsArgs};
use super::view::View;
use super::{drawing, machine, proof, watched, weights_summary};
use crate::args::MachineArgs;
use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::demo::{DemoOutline, SEED, WeightsDemo, demonstrate_weights};
use clawhost_play::Cancel;
use std::ops::ControlFlow;

pub(super) async fn run(context: &Context, arguments: &WeightsArgs) -> anyhow::Result<Exit> {
    let machine = machine(context)?;
    let drawing = drawing(&machine, arguments.svg.as_deref(), WEIGHTS_SVG)?;
    let demo = WeightsDemo {
        seed: arguments.seed.unwrap_or(SEED),
        quick: arguments.quick,
        plugins: arguments.plugins.clone(),
    };
    let models = context.model_settings(&MachineArgs { device: arguments.device, ..MachineArgs::default() })?;
    let outline = DemoOutline::weights(&demo);
    let play = async |cancel: &Cancel, view: &View| demonstrate_weights(&demo, &machine, &models, cancel, view).await;
    let found = match watched(outline, arguments.quiet, play).await? {
        ControlFlow::Continue(found) => found,
        ControlFlow::Break(exit) => return Ok(exit),
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
