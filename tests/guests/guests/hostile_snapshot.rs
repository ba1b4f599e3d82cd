//! Its snapshot is larger than a snapshot may be.

use clawhost_sdk::{Action, MessageEnvironment, Opening, Params, Result, Signals, Step, export_environment};

struct Guest;

impl MessageEnvironment for Guest {
    const NAME: &'static str = "hostile-snapshot";
    const SNAPSHOT: bool = true;

    fn start(_params: &Params) -> Result<(Self, Opening)> {
        Ok((Guest, Opening::text("act")))
    }

    fn step(&mut self, _action: &Action, _signals: &mut Signals) -> Result<Step> {
        Ok(Step::running("on"))
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(vec![0; (4 << 20) + 1])
    }

    fn restore(_params: &Params, _state: &[u8]) -> Result<Self> {
        // Never returns: restoring must not wait for it.
        #[allow(clippy::empty_loop, reason = "that is its behaviour")]
        loop {}
    }
}

export_environment!(Guest);
