//! Offers an invalid tool, as the task says.

use clawhost_sdk::{Action, MessageEnvironment, Opening, Params, Result, Signals, Step, ToolSpec, export_environment};

struct Guest;

impl MessageEnvironment for Guest {
    const NAME: &'static str = "hostile-offers";

    fn start(params: &Params) -> Result<(Self, Opening)> {
        let look = |schema: String| vec![ToolSpec::new("look", "looks", schema)];
        let tools = match params.task.input.as_str() {
            "a space" => vec![ToolSpec::new("look around", "looks", "{}")],
            "no name" => vec![ToolSpec::new("", "looks", "{}")],
            "a hidden name" => vec![ToolSpec::new("look\u{202e}", "looks", "{}")],
            "a long name" => vec![ToolSpec::new("l".repeat(65), "looks", "{}")],
            "a schema that is text" => look("\"anything\"".into()),
            "a schema of 1 MiB" => look(format!("{{\"title\":\"{}\"}}", "x".repeat(1 << 20))),
            "a deep schema" => look(format!("{}{}", "{\"not\":".repeat(100_000), "}".repeat(100_000))),
            "a schema that refers to itself" => look("{\"$ref\":\"#\"}".into()),
            "too many" => (0..129).map(|number| ToolSpec::new(format!("look-{number}"), "looks", "{}")).collect(),
            _ => look("{}".into()),
        };
        Ok((Guest, Opening { tools, ..Opening::text("act") }))
    }

    fn step(&mut self, _: &Action, _: &mut Signals) -> Result<Step> {
        Ok(Step::done("done"))
    }
}

export_environment!(Guest);
