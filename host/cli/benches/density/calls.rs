//! Single calls: loading, starting, stepping.

use crate::figures::{ROUNDS, line_of, micros, table};
use crate::plugins::{action, environment, guest, host, params, target};
use clawhost_core::Environment as _;
use clawhost_engine::{Allocation, ModelGrants};
use std::time::{Duration, Instant};

/// Instances that are started one after the other before the measurement.
const WARM_UP: u64 = 500;
/// Starts per round.
const STARTS: u64 = 2000;

pub(crate) async fn measure() {
    table("Calls, one after the other", &["what", "median", "least to greatest"]);
    loading().await;
    for (name, allocation) in [("pooled", Allocation::Pooled), ("on demand", Allocation::OnDemand)] {
        for guest in ["hello_guess", "env_guess", "odd_echo"] {
            cold(&format!("instantiate + start, cold, {name} ({guest})"), allocation, guest).await;
            warm(&format!("instantiate + start, warm, {name} ({guest})"), allocation, guest).await;
        }
    }
    for (name, bytes, count) in
        [("nothing", 0, 20_000), ("1 KiB", 1 << 10, 20_000), ("64 KiB", 1 << 16, 2_000), ("1 MiB", 1 << 20, 100)]
    {
        step(&format!("step, {name} each way (odd_echo)"), bytes, count).await;
    }
}

async fn loading() {
    let folder = tempfile::tempdir_in(target()).unwrap();
    let host = host(Allocation::Pooled, Some(folder.path()));
    let bytes = guest("env_guess");
    host.environment("env_guess", &bytes, ModelGrants::default()).await.unwrap();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..20 {
            host.environment("env_guess", &bytes, ModelGrants::default()).await.unwrap();
        }
        rounds.push(began.elapsed());
    }
    line_of("load, cached: digest, tag check and describe included (env_guess)", micros(&rounds, 20), "us");
}

/// The first instance of a new host: no slot, stack or image has been used.
async fn cold(name: &str, allocation: Allocation, guest: &str) {
    let mut rounds: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let host = host(allocation, None);
        let plugin = environment(&host, guest).await;
        // `describe` has used the first slot. This one is unused.
        let held = plugin.start(params(0)).await.unwrap();
        let began = Instant::now();
        let next = plugin.start(params(1)).await.unwrap();
        rounds.push(began.elapsed());
        drop((held, next));
    }
    line_of(name, micros(&rounds, 1), "us");
}

/// An instance that replaces a dropped one: the start and the end of its life.
async fn warm(name: &str, allocation: Allocation, guest: &str) {
    let host = host(allocation, None);
    let plugin = environment(&host, guest).await;
    for seed in 0..WARM_UP {
        plugin.start(params(seed)).await.unwrap();
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for seed in 0..STARTS {
            plugin.start(params(seed)).await.unwrap();
        }
        rounds.push(began.elapsed());
    }
    line_of(name, micros(&rounds, STARTS as usize), "us");
}

async fn step(name: &str, bytes: usize, count: usize) {
    let host = host(Allocation::Pooled, None);
    let plugin = environment(&host, "odd_echo").await;
    let (mut live, _) = plugin.start(params(1)).await.unwrap();
    // An observation over 1 MiB is refused, so the longest message is slightly shorter than its name.
    let action = action("x".repeat(bytes.min(host.limits().observation_bytes)));
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..count {
            live.step(&action, &[]).await.unwrap();
        }
        rounds.push(began.elapsed());
    }
    line_of(name, micros(&rounds, count), "us");
}
