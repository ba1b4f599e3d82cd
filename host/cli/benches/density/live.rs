//! Many live episodes, stepped in turn on one core, and their memory.

use crate::figures::{Footprint, ROUNDS, line, max_mappings, percentile, rates, shown, spread, table};
use crate::plugins::{action, environment, kibibyte, params, roomy_host, target};
use clawhost_core::{Environment as _, LiveEpisode};
use clawhost_engine::EnvironmentPlugin;
use std::path::Path;
use std::time::{Duration, Instant};

/// Steps per round, so that every row measures the same work.
const STEPS: usize = 40_000;

/// Steps all episodes in turn, repeatedly.
async fn steps(live: &mut [Box<dyn LiveEpisode>], count: usize) -> Duration {
    let action = action(kibibyte());
    let began = Instant::now();
    let mut left = count;
    while left > 0 {
        for episode in live.iter_mut().take(left) {
            episode.step(&action, &[]).await.unwrap();
        }
        left -= left.min(live.len());
    }
    began.elapsed()
}

/// The same with a time for every step.
async fn samples(live: &mut [Box<dyn LiveEpisode>], count: usize) -> Vec<u64> {
    let action = action(kibibyte());
    let mut samples = Vec::with_capacity(count);
    while samples.len() < count {
        for episode in live.iter_mut() {
            let began = Instant::now();
            episode.step(&action, &[]).await.unwrap();
            samples.push(began.elapsed().as_nanos() as u64);
        }
    }
    samples
}

/// Live episodes of the largest row.
const MOST: usize = 10_000;

/// The variable with the path of the cache that the parent process has filled.
const WARM: &str = "CLAWHOST_BENCH_CACHE";

/// The part that runs in its own process.
pub(crate) const HOLD: &str = "hold";

/// Starts this many live episodes.
async fn start(plugin: &EnvironmentPlugin, count: usize) -> Vec<Box<dyn LiveEpisode>> {
    let mut live = Vec::with_capacity(count);
    for seed in 0..count as u64 {
        live.push(plugin.start(params(seed)).await.unwrap().0);
    }
    live
}

/// Steps per second with 1, 100, 1,000 and 10,000 live episodes, and the memory of the largest row.
pub(crate) async fn measure() {
    table(
        "Live episodes, stepped in turn on one core, 1 KiB each way",
        &["guest", "live", "steps/s", "least to greatest", "p50", "p99"],
    );
    for name in ["odd_echo", "env_guess"] {
        for count in [1, 100, 1_000, MOST] {
            let host = roomy_host(None);
            let plugin = environment(&host, name).await;
            let mut live = start(&plugin, count.min(host.live_instances())).await;
            steps(&mut live, count).await;
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                rounds.push(steps(&mut live, STEPS).await);
            }
            let mut each = samples(&mut live, STEPS.max(2 * count)).await;
            let (least, median, most) = spread(rates(&rounds, STEPS));
            line(&[
                name.to_owned(),
                shown(live.len() as f64),
                shown(median),
                format!("{} to {}", shown(least), shown(most)),
                format!("{} us", shown(percentile(&mut each, 0.5))),
                format!("{} us", shown(percentile(&mut each, 0.99))),
            ]);
        }
    }
    table(
        "Memory of 10,000 live episodes, each stepped once, in a separate process with cached code",
        &["what", "VmRSS", "RssAnon", "VmPTE", "VmRSS + VmPTE", "mappings", "left of the kernel's limit"],
    );
    for name in ["odd_echo", "env_guess"] {
        let this = std::env::current_exe().unwrap();
        let status = std::process::Command::new(this).args([HOLD, name]).status().unwrap();
        assert!(status.success());
    }
}

/// Holds as many live episodes as there are slots, up to 10,000, and prints the rows of the table.
pub(crate) async fn hold(name: &str) {
    let folder = tempfile::tempdir_in(target()).unwrap();
    // A process compiles once: memory of the compiler must not count as memory of episodes.
    if std::env::var_os(WARM).is_none() {
        let host = roomy_host(Some(folder.path()));
        environment(&host, name).await;
        let this = std::env::current_exe().unwrap();
        let status = std::process::Command::new(this).args([HOLD, name]).env(WARM, folder.path()).status().unwrap();
        assert!(status.success());
        return;
    }
    let host = roomy_host(std::env::var_os(WARM).as_deref().map(Path::new));
    let plugin = environment(&host, name).await;
    drop(plugin.start(params(0)).await.unwrap());
    let before = Footprint::now();
    let mut live = start(&plugin, MOST.min(host.live_instances())).await;
    let count = live.len();
    steps(&mut live, count).await;
    let after = Footprint::now();
    let mib = |kib: u64| format!("{:.1} MiB", kib as f64 / 1024.0);
    let row = |what: String, now: Footprint| {
        line(&[
            what,
            mib(now.resident),
            mib(now.anonymous),
            mib(now.page_tables),
            mib(now.resident + now.page_tables),
            shown(now.mappings as f64),
            shown(max_mappings().saturating_sub(now.mappings) as f64),
        ]);
    };
    row(format!("{name}, before"), before);
    row(format!("{name}, {} live", shown(count as f64)), after);
    let each = |after: u64, before: u64| format!("{:.1} KiB", after.saturating_sub(before) as f64 / count as f64);
    line(&[
        format!("{name}, each"),
        each(after.resident, before.resident),
        each(after.anonymous, before.anonymous),
        each(after.page_tables, before.page_tables),
        each(after.resident + after.page_tables, before.resident + before.page_tables),
        format!("{:.2}", after.mappings as f64 / count as f64),
        String::new(),
    ]);
}
