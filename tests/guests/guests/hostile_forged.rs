//! Uses handles that it did not get, or has dropped, as the option `attack` says.

use clawhost_sdk::bindings::observer::clawhost::episode::view::{EpisodeView, Group};
use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};

struct Guest;

/// The first episode's handle: the group has the previous one.
const EPISODE: u32 = 2;

fn episode(handle: u32) -> EpisodeView {
    // SAFETY: forging handles is the purpose of this guest. The host accepts no handle that it did not issue.
    unsafe { EpisodeView::from_handle(handle) }
}

fn group(handle: u32) -> Group {
    // SAFETY: as above.
    unsafe { Group::from_handle(handle) }
}

impl Reward for Guest {
    const NAME: &'static str = "hostile-forged";

    fn score(_: &Episode, context: &Context) -> Result<Verdict> {
        let read = match context.option("attack").unwrap_or_default() {
            "0" => episode(0).id(),
            "2^31" => episode(1 << 31).id(),
            "the greatest" => episode(u32::MAX - 1).id(),
            "one more" => episode(1_000).id(),
            "given back" => {
                drop(episode(EPISODE));
                episode(EPISODE).id()
            }
            "given back twice" => {
                drop(episode(EPISODE));
                drop(episode(EPISODE));
                String::new()
            }
            "another kind" => group(EPISODE).size().to_string(),
            _ => {
                let honest = episode(EPISODE);
                let id = honest.id();
                std::mem::forget(honest);
                id
            }
        };
        Ok(Verdict::scored(0.5).because(read))
    }
}

export_reward!(Guest);
