//! Reports 200,000 signals, which fit into its memory.
#![cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "exports exist on wasm alone"))]

use clawhost_sdk::bindings::environment::exports::clawhost::environment::environment as wit;
use clawhost_sdk::bindings::observer::clawhost::types::types::{Context, Signal, Task};
use clawhost_sdk::guest::EnvironmentGuest;
use clawhost_sdk::{Environment, Next, Result as SdkResult, Signals};

struct Flood;

struct Calm;

impl Environment for Calm {
    const NAME: &'static str = "hostile-signals-200000";

    fn start(_task: &str, _seed: u64) -> SdkResult<(Self, String)> {
        Ok((Calm, "act".into()))
    }

    fn step(&mut self, _: &str, _: &mut Signals) -> SdkResult<Next> {
        Ok(Next::Done("done".into()))
    }
}

impl wit::Guest for Flood {
    type Episode = Flood;

    fn describe() -> Result<wit::Description, wit::EnvError> {
        <EnvironmentGuest<Calm> as wit::Guest>::describe()
    }

    fn check(_: Vec<(String, String)>) -> Result<(), wit::EnvError> {
        Ok(())
    }

    fn tasks(context: Context, split: String, offset: u64, limit: u32) -> Result<Vec<Task>, wit::EnvError> {
        <EnvironmentGuest<Calm> as wit::Guest>::tasks(context, split, offset, limit)
    }
}

impl wit::GuestEpisode for Flood {
    fn start(_: wit::Params) -> Result<(wit::Episode, wit::Opening), wit::EnvError> {
        let opening =
            wit::Opening { observation: vec![], tools: vec![], system_hint: None, artefacts: vec![], extra: vec![] };
        Ok((wit::Episode::new(Flood), opening))
    }

    fn restore(_: wit::Params, _: Vec<u8>) -> Result<wit::Episode, wit::EnvError> {
        Err(wit::EnvError::Unsupported("no snapshots".into()))
    }

    fn step(&self, _: wit::Action) -> Result<wit::StepResult, wit::EnvError> {
        let signals = (0..200_000).map(|_| Signal { name: String::new(), value: f64::NAN }).collect();
        Ok(wit::StepResult {
            observation: vec![],
            status: wit::Status::Running,
            signals,
            artefacts: vec![],
            extra: vec![],
        })
    }

    fn snapshot(&self) -> Result<Vec<u8>, wit::EnvError> {
        Ok(vec![])
    }
}

#[cfg(target_arch = "wasm32")]
clawhost_sdk::__export_environment_plugin_impl!(Flood with_types_in clawhost_sdk::bindings::environment);
