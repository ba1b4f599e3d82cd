//! `clawhost demo router`: in simulated worlds, a router learns which request needs the dear model.

use super::args::RouterArgs;
use super::view::View;
use super::{machine, proof, router_summary, watched};
use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::demo::{DemoOutline, RouterDemo, demonstrate_router};
use clawhost_play::Cancel;
use std::ops::ControlFlow;

pub(super) async fn run(context: &Context, arguments: &RouterArgs) -> anyhow::Result<Exit> {
    let machine = machine(context)?;
    let usual = RouterDemo::default();
    let demo = RouterDemo { seed: arguments.seed.unwrap_or(usual.seed), into: arguments.into.clone() };
    let outline = DemoOutline::router(&demo);
    let play = async |cancel: &Cancel, view: &View| demonstrate_router(&demo, &machine, cancel, view).await;
    let found = match watched(outline, arguments.quiet, play).await? {
        ControlFlow::Continue(found) => found,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    if context.json() {
        router_summary::json(&demo, &found)?;
    } else {
        router_summary::text(&demo, &found)?;
    }
    proof::check_router(&found.doubts())?;
    Ok(Exit::Ok)
}
