//! Requests an episode that does not exist.
#![cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "exports exist on wasm alone"))]

use clawhost_sdk::bindings::observer::clawhost::episode::view;
use clawhost_sdk::bindings::observer::clawhost::types::types::Context;
use clawhost_sdk::bindings::reward::exports::clawhost::reward::reward::{Description, Guest, RewardError, Verdict};

struct Reacher;

impl Guest for Reacher {
    fn describe() -> Result<Description, RewardError> {
        clawhost_sdk::guest::RewardGuest::<Calm>::describe()
    }

    fn check(_: Vec<(String, String)>) -> Result<(), RewardError> {
        Ok(())
    }

    fn score(_: Context, group: view::Group) -> Result<Vec<Verdict>, RewardError> {
        Ok(vec![Verdict::NotApplicable(group.episode(1_000_000).id())])
    }
}

struct Calm;

impl clawhost_sdk::Reward for Calm {
    const NAME: &'static str = "hostile-index";

    fn score(_: &clawhost_sdk::Episode, _: &clawhost_sdk::Context) -> clawhost_sdk::Result<clawhost_sdk::Verdict> {
        Ok(clawhost_sdk::Verdict::scored(0.0))
    }
}

#[cfg(target_arch = "wasm32")]
clawhost_sdk::__export_reward_plugin_impl!(Reacher with_types_in clawhost_sdk::bindings::reward);
