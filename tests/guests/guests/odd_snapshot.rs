//! Uses everything that a snapshot must contain: virtual time, both random sources, notes, and the log.

use clawhost_sdk::{Action, MessageEnvironment, Opening, Params, Result, Signals, Step, export_environment};

struct Guest {
    steps: u32,
}

impl MessageEnvironment for Guest {
    const NAME: &'static str = "odd-snapshot";
    const SNAPSHOT: bool = true;

    fn start(_params: &Params) -> Result<(Self, Opening)> {
        Ok((Guest { steps: 0 }, Opening::text("act")))
    }

    fn step(&mut self, action: &Action, signals: &mut Signals) -> Result<Step> {
        self.steps += 1;
        let said = action.plain_text();
        let now = wasip2::clocks::monotonic_clock::now();
        // Random numbers are drawn in pieces of different sizes, so that the position matters.
        let random = wasip2::random::random::get_random_bytes(1 + said.len() as u64 % 7);
        let insecure = wasip2::random::insecure::get_insecure_random_u64();
        if said.len() % 2 == 1 {
            wasip2::clocks::monotonic_clock::subscribe_duration(1_000_000 * said.len() as u64).block();
        }
        let noted = clawhost_sdk::kv::get("said").ok().flatten().map_or(0, |bytes| bytes.len());
        let _ = clawhost_sdk::kv::set("said", &vec![b'x'; noted + said.len()]);
        clawhost_sdk::log::info(&format!("step {}", self.steps));
        signals.set("noted", noted as f64);
        let text = format!("step {} at {now}: {random:?} {insecure} noted {noted}", self.steps);
        Ok(if said == "end" { Step::done(text) } else { Step::running(text) })
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        // None of this may have a visible effect.
        clawhost_sdk::log::info("a snapshot is taken");
        let _ = clawhost_sdk::kv::set("said", b"by the snapshot");
        wasip2::random::random::get_random_u64();
        Ok(self.steps.to_le_bytes().to_vec())
    }

    fn restore(_params: &Params, state: &[u8]) -> Result<Self> {
        wasip2::clocks::monotonic_clock::now();
        clawhost_sdk::log::info("restored");
        let state = state.try_into().map_err(|_| format!("{} bytes are no state", state.len()))?;
        Ok(Guest { steps: u32::from_le_bytes(state) })
    }
}

export_environment!(Guest);
