//! Many live episodes, stepped in turn on one core, and what they hold.

use crate::figures::{Footprint, ROUNDS, line, max_mappings, micros, percentile, shown, spread, table};
use crate::plugins::{action, environment, kibibyte, params, roomy_host};
use clawhost_core::{Environment as _, LiveEpisode};
use std::time::{Duration, Instant};

/// Steps of a round, so that every row measures the same work.
const STEPS: usize = 40_000;

/// All episodes once over, again and again.
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

/// The same with a clock around every step.
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

/// Steps a second with 1, 100, 1,000 and 10,000 live episodes, and the footprint of the most.
pub(crate) async fn measure() {
    table(
        "Live episodes, stepped in turn on one core, 1 KiB there and back",
        &["guest", "live", "steps/s", "least to greatest", "p50", "p99"],
    );
    let mut footprints = Vec::new();
    for name in ["odd_echo", "env_guess"] {
        for count in [1, 100, 1_000, 10_000] {
            let host = roomy_host();
            let slots = host.live_instances();
            let plugin = environment(&host, name).await;
            // Warm: what the first instance brings in for all belongs to none.
            drop(plugin.start(params(0)).await.unwrap());
            let before = Footprint::now();
            let mut live = Vec::new();
            for seed in 0..count.min(slots) as u64 {
                live.push(plugin.start(params(seed)).await.unwrap().0);
            }
            steps(&mut live, count).await;
            let after = Footprint::now();
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                rounds.push(steps(&mut live, STEPS).await);
            }
            let mut each = samples(&mut live, STEPS.max(2 * count)).await;
            let (least, median, most) = spread(micros(&rounds, STEPS).iter().map(|each| 1e6 / each).collect());
            line(&[
                name.to_owned(),
                shown(live.len() as f64),
                shown(median),
                format!("{} to {}", shown(least), shown(most)),
                format!("{} us", shown(percentile(&mut each, 0.5))),
                format!("{} us", shown(percentile(&mut each, 0.99))),
            ]);
            if count == 10_000 {
                footprints.push((name, slots, live.len(), before, after));
            }
        }
    }
    table(
        "What live episodes hold (each stepped once), and the whole process",
        &["guest", "slots", "live", "VmRSS", "RssAnon", "VmPTE", "VmRSS + VmPTE", "mappings", "kernel's limit", "left"],
    );
    let mib = |kib: u64| format!("{:.1} MiB", kib as f64 / 1024.0);
    for (name, slots, count, before, after) in &footprints {
        line(&[
            (*name).to_owned(),
            shown(*slots as f64),
            shown(*count as f64),
            mib(after.resident),
            mib(after.anonymous),
            mib(after.page_tables),
            mib(after.resident + after.page_tables),
            shown(after.mappings as f64),
            shown(max_mappings() as f64),
            shown(max_mappings().saturating_sub(after.mappings) as f64),
        ]);
        let each = |after: u64, before: u64| format!("{:.1} KiB", after.saturating_sub(before) as f64 / *count as f64);
        line(&[
            format!("{name}, each"),
            String::new(),
            "1".to_owned(),
            each(after.resident, before.resident),
            each(after.anonymous, before.anonymous),
            each(after.page_tables, before.page_tables),
            each(after.resident + after.page_tables, before.resident + before.page_tables),
            format!("{:.2}", after.mappings.saturating_sub(before.mappings) as f64 / *count as f64),
            String::new(),
            String::new(),
        ]);
    }
}
