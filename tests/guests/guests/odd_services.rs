//! Uses kv and a model, and reports their answers.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "odd-services";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        let noted = clawhost_sdk::kv::set("seen", _action.as_bytes()).map_err(|error| error.message().to_owned());
        let read = clawhost_sdk::kv::get("seen").map_err(|error| error.message().to_owned());
        let asked = clawhost_sdk::llm::ask("judge", "Calculate 2 + 2.").map_err(|error| error.message().to_owned());
        Ok(Next::Continue(format!("{noted:?} {read:?} {asked:?}")))
    }
}

export_environment!(Guest);
