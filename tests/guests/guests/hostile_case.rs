//! Returns a verdict of an unknown kind.
#![cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "exports exist on wasm alone"))]

use clawhost_sdk::bindings::observer::clawhost::episode::view;
use clawhost_sdk::bindings::observer::clawhost::types::types::Context;
use clawhost_sdk::bindings::reward::exports::clawhost::reward::reward::{Description, Guest, RewardError, Verdict};

struct Newer;

impl Guest for Newer {
    fn describe() -> Result<Description, RewardError> {
        clawhost_sdk::guest::RewardGuest::<Calm>::describe()
    }

    fn check(_: Vec<(String, String)>) -> Result<(), RewardError> {
        Ok(())
    }

    fn score(_: Context, group: view::Group) -> Result<Vec<Verdict>, RewardError> {
        Ok((0..group.size()).map(|_| Verdict::Other("perhaps\u{1b}[2J".into())).collect())
    }
}

struct Calm;

impl clawhost_sdk::Reward for Calm {
    const NAME: &'static str = "hostile-case";

    fn score(_: &clawhost_sdk::Episode, _: &clawhost_sdk::Context) -> clawhost_sdk::Result<clawhost_sdk::Verdict> {
        Ok(clawhost_sdk::Verdict::scored(0.0))
    }
}

#[cfg(target_arch = "wasm32")]
clawhost_sdk::__export_reward_plugin_impl!(Newer with_types_in clawhost_sdk::bindings::reward);
