//! A reward that tries to answer differently every time: it mixes in everything that could differ.

use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

struct Guest;

/// State that an earlier call would leave.
static CALLS: AtomicU64 = AtomicU64::new(0);

impl Reward for Guest {
    const NAME: &'static str = "odd-moody";

    fn score(episode: &Episode, context: &Context) -> Result<Verdict> {
        let now = wasip2::clocks::wall_clock::now();
        let left = clawhost_sdk::kv::get("mood").map_err(|error| error.message().to_owned());
        let kept = clawhost_sdk::kv::set("mood", b"worse").map_err(|error| error.message().to_owned());
        let order: Vec<u32> = (0..20).map(|number| (number, ())).collect::<HashMap<_, _>>().into_keys().collect();
        let place = Box::new(0u8);
        let mood = format!(
            "{} calls, {}.{} and {} s, {:?} {} {:?}, notes {left:?} {kept:?}, order {order:?}, place {:p}, {} {}",
            CALLS.fetch_add(1, Ordering::Relaxed),
            now.seconds,
            now.nanoseconds,
            wasip2::clocks::monotonic_clock::now(),
            wasip2::random::random::get_random_bytes(16),
            wasip2::random::insecure::get_insecure_random_u64(),
            wasip2::random::insecure_seed::insecure_seed(),
            &*place,
            episode.id(),
            context.seed,
        );
        let value = mood.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte))) % 1000;
        Ok(Verdict::scored(value as f64 / 1000.0).because(mood))
    }
}

export_reward!(Guest);
