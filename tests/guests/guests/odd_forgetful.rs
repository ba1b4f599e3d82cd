//! Declares snapshots, and forgets its position.

use clawhost_sdk::{Action, MessageEnvironment, Opening, Params, Result, Signals, Step, export_environment};

struct Guest {
    steps: u32,
}

impl MessageEnvironment for Guest {
    const NAME: &'static str = "odd-forgetful";
    const SNAPSHOT: bool = true;

    fn start(_params: &Params) -> Result<(Self, Opening)> {
        Ok((Guest { steps: 0 }, Opening::text("act")))
    }

    fn step(&mut self, _action: &Action, _signals: &mut Signals) -> Result<Step> {
        self.steps += 1;
        let text = format!("step {}", self.steps);
        Ok(if self.steps == 8 { Step::done(text) } else { Step::running(text) })
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn restore(_params: &Params, _state: &[u8]) -> Result<Self> {
        Ok(Guest { steps: 0 })
    }
}

export_environment!(Guest);
