//! `clawhost demo router`: in simulated worlds, a router learns which request needs the dear model.

use super::args::RouterArgs;
use super::view::View;
use super::{machine, proof, router_summary, stopped};
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Stopping, cancel_on_signal};
use clawhost_app::demo::{DemoOutcome, DemoOutline, RouterDemo, demonstrate_router};

pub(super) async fn run(context: &Context, arguments: &RouterArgs) -> anyhow::Result<Exit> {
    let machine = machine(context)?;
    let usual = RouterDemo::default();
    let demo = RouterDemo { seed: arguments.seed.unwrap_or(usual.seed), into: arguments.into.clone() };
    let view = View::new(DemoOutline::router(&demo), arguments.quiet);
    let work = cancel_on_signal(Stopping::Demo);
    let found = demonstrate_router(&demo, &machine, work.cancel(), &view).await;
    drop(work);
    view.finish();
    let found = match found? {
        DemoOutcome::Finished(found) => found,
        DemoOutcome::Stopped(reason) => return Ok(stopped(&view, &reason)),
    };
    if context.json() {
        router_summary::json(&demo, &found)?;
    } else {
        router_summary::text(&demo, &found)?;
    }
    proof::check_router(&found.doubts())?;
    Ok(Exit::Ok)
}
