//! Explains a verdict at a length that each of its texts alone may have.
#![cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "exports exist on wasm alone"))]

use clawhost_sdk::bindings::observer::clawhost::episode::view;
use clawhost_sdk::bindings::observer::clawhost::types::types::Context;
use clawhost_sdk::bindings::reward::exports::clawhost::reward::reward::{
    Description, Guest, RewardError, ScoreCard, Verdict,
};

struct Long;

impl Guest for Long {
    fn describe() -> Result<Description, RewardError> {
        clawhost_sdk::guest::RewardGuest::<Calm>::describe()
    }

    fn check(_: Vec<(String, String)>) -> Result<(), RewardError> {
        Ok(())
    }

    fn score(_: Context, group: view::Group) -> Result<Vec<Verdict>, RewardError> {
        let card = || ScoreCard {
            value: 0.5,
            confidence: 1.0,
            parts: Vec::new(),
            rationale: String::new(),
            per_turn: Vec::new(),
            extra: (0..10).map(|number| (format!("attribute-{number}"), "x".repeat(60_000))).collect(),
        };
        Ok((0..group.size()).map(|_| Verdict::Scored(card())).collect())
    }
}

struct Calm;

impl clawhost_sdk::Reward for Calm {
    const NAME: &'static str = "hostile-verdict";

    fn score(_: &clawhost_sdk::Episode, _: &clawhost_sdk::Context) -> clawhost_sdk::Result<clawhost_sdk::Verdict> {
        Ok(clawhost_sdk::Verdict::scored(0.0))
    }
}

#[cfg(target_arch = "wasm32")]
clawhost_sdk::__export_reward_plugin_impl!(Long with_types_in clawhost_sdk::bindings::reward);
