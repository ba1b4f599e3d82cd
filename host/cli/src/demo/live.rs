//! `clawhost demo live`: a gateway learns from a crowd of users while it serves.

use super::args::LiveArgs;
use super::view::View;
use super::{live_summary, machine, proof, watched};
use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::demo::{DemoOutline, LiveDemo, demonstrate_live};
use clawhost_play::Cancel;
use std::ops::ControlFlow;

pub(super) async fn run(context: &Context, arguments: &LiveArgs) -> anyhow::Result<Exit> {
    let machine = machine(context)?;
    let usual = LiveDemo::default();
    let demo = LiveDemo {
        seed: arguments.seed.unwrap_or(usual.seed),
        rounds: arguments.rounds.unwrap_or(usual.rounds),
        plugins: arguments.plugins.clone(),
    };
    let play = async |cancel: &Cancel, view: &View| demonstrate_live(&demo, &machine, cancel, view).await;
    let found = match watched(DemoOutline::live(), arguments.quiet, play).await? {
        ControlFlow::Continue(found) => found,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    if context.json() {
        live_summary::json(&demo, &found)?;
    } else {
        live_summary::text(&found)?;
    }
    proof::check_live(&found.doubts(), demo.rounds)?;
    Ok(Exit::Ok)
}
