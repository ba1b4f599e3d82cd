//! Takes handles to episodes and drops none.
#![cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "exports exist on wasm alone"))]

use clawhost_sdk::bindings::observer::clawhost::episode::view;
use clawhost_sdk::bindings::observer::clawhost::types::types::Context;
use clawhost_sdk::bindings::reward::exports::clawhost::reward::reward::{Description, Guest, RewardError, Verdict};

struct Hoarder;

impl Guest for Hoarder {
    fn describe() -> Result<Description, RewardError> {
        clawhost_sdk::guest::RewardGuest::<Calm>::describe()
    }

    fn check(_: Vec<(String, String)>) -> Result<(), RewardError> {
        Ok(())
    }

    fn score(_: Context, group: view::Group) -> Result<Vec<Verdict>, RewardError> {
        let held: Vec<_> = (0..100_000).map(|_| group.episode(0)).collect();
        Ok(vec![Verdict::NotApplicable(held.len().to_string())])
    }
}

struct Calm;

impl clawhost_sdk::Reward for Calm {
    const NAME: &'static str = "hostile-handles";

    fn score(_: &clawhost_sdk::Episode, _: &clawhost_sdk::Context) -> clawhost_sdk::Result<clawhost_sdk::Verdict> {
        Ok(clawhost_sdk::Verdict::scored(0.0))
    }
}

#[cfg(target_arch = "wasm32")]
clawhost_sdk::__export_reward_plugin_impl!(Hoarder with_types_in clawhost_sdk::bindings::reward);
