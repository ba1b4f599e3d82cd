//! Well-behaved episodes beside hostile ones: the effect on their latency.

use crate::figures::{line, percentile, shown, table};
use crate::plugins::{action, environment, host, params};
use clawhost_core::{Environment as _, Status};
use clawhost_engine::{Allocation, EnvironmentPlugin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HONEST: u64 = 20;
const HOSTILE: usize = 200;
/// Duration of each of the two measurements.
const WATCH: Duration = Duration::from_secs(12);
/// Think time of a well-behaved policy between two steps: episodes wait for models, not for each other.
const THINKING: Duration = Duration::from_millis(2);

/// The hostile guests.
const VILLAINS: [&str; 9] = [
    "hostile_loop",
    "hostile_memory",
    "hostile_recursion",
    "hostile_calls",
    "hostile_log",
    "hostile_signals_200000",
    "hostile_panic",
    "hostile_log_errors",
    "hostile_stdout",
];

/// Nanoseconds of every step: of the call alone, and from the time at which the answer was ready.
#[derive(Default)]
struct Times {
    call: Vec<u64>,
    turn: Vec<u64>,
}

async fn honest(plugin: Arc<EnvironmentPlugin>, first: u64, until: Instant) -> Times {
    let mut times = Times::default();
    let mut seed = first;
    while Instant::now() < until {
        let (mut live, _) = plugin.start(params(seed)).await.unwrap();
        seed += HONEST;
        for guess in ["50", "25", "75", "12", "37", "62", "87"] {
            let wake = tokio::time::Instant::now() + THINKING;
            tokio::time::sleep_until(wake).await;
            let began = Instant::now();
            let status = live.step(&action(guess), &[]).await.unwrap().status;
            times.call.push(began.elapsed().as_nanos() as u64);
            times.turn.push(wake.elapsed().as_nanos() as u64);
            if status != Status::Running {
                break;
            }
        }
    }
    times
}

async fn hostile(plugin: Arc<EnvironmentPlugin>, stop: Arc<AtomicBool>, ended: Arc<AtomicU64>) {
    while !stop.load(Ordering::Relaxed) {
        // Failures are expected here.
        if let Ok((mut live, _)) = plugin.start(params(1)).await {
            drop(live.step(&action("go"), &[]).await);
        }
        ended.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
}

/// One measurement: well-behaved episodes, and this number of hostile ones.
async fn watch(
    villains: &[Arc<EnvironmentPlugin>],
    honest_plugin: &Arc<EnvironmentPlugin>,
    count: usize,
) -> (Times, u64) {
    let (stop, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut others = tokio::task::JoinSet::new();
    for villain in villains.iter().cycle().take(count) {
        others.spawn(hostile(villain.clone(), stop.clone(), ended.clone()));
    }
    let until = Instant::now() + WATCH;
    let mut players = tokio::task::JoinSet::new();
    for first in 0..HONEST {
        players.spawn(honest(honest_plugin.clone(), first, until));
    }
    let mut times = Times::default();
    for of_one in players.join_all().await {
        times.call.extend(of_one.call);
        times.turn.extend(of_one.turn);
    }
    stop.store(true, Ordering::Relaxed);
    // A call in progress ends at its next yield.
    others.shutdown().await;
    (times, ended.load(Ordering::Relaxed))
}

pub(crate) fn measure() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        table(
            &format!("{HONEST} honest episodes (env_guess) alone and beside {HOSTILE} hostile ones, two threads"),
            &["what", "p50 alone", "p50 beside", "p99 alone", "p99 beside", "p99, times"],
        );
        let host = host(Allocation::Pooled, None);
        let guess = Arc::new(environment(&host, "env_guess").await);
        let mut villains = Vec::new();
        for name in VILLAINS {
            villains.push(Arc::new(environment(&host, name).await));
        }
        let (guess, villains) = (&guess, &villains);
        let task = async { (watch(villains, guess, 0).await, watch(villains, guess, HOSTILE).await) };
        let ((mut alone, _), (mut beside, ended)) = task.await;
        let steps = (alone.call.len(), beside.call.len());
        for (name, alone, beside) in [
            ("step, the call itself", &mut alone.call, &mut beside.call),
            ("turn, from the time at which the answer is ready", &mut alone.turn, &mut beside.turn),
        ] {
            let of = |samples: &mut Vec<u64>, share| percentile(samples, share);
            let (p50, p50_beside) = (of(alone, 0.5), of(beside, 0.5));
            let (p99, p99_beside) = (of(alone, 0.99), of(beside, 0.99));
            let us = |value: f64| format!("{} us", shown(value));
            let times = shown(p99_beside / p99.max(0.001));
            line(&[name.to_owned(), us(p50), us(p50_beside), us(p99), us(p99_beside), times]);
        }
        println!("\nHonest steps: {} alone, {} beside; hostile episodes that ended: {ended}.", steps.0, steps.1);
    });
}
