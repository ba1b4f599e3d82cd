//! Offers two tools with one name.

use clawhost_sdk::{Action, MessageEnvironment, Opening, Params, Result, Signals, Step, ToolSpec, export_environment};

struct Guest;

impl MessageEnvironment for Guest {
    const NAME: &'static str = "hostile-tools-twins";

    fn start(_: &Params) -> Result<(Self, Opening)> {
        let tools = vec![ToolSpec::new("look", "looks", "{}"), ToolSpec::new("look", "looks elsewhere", "{}")];
        Ok((Guest, Opening { tools, ..Opening::text("act") }))
    }

    fn step(&mut self, _: &Action, _: &mut Signals) -> Result<Step> {
        Ok(Step::done("done"))
    }
}

export_environment!(Guest);
