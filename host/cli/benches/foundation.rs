//! The first figures: loading, instantiating, stepping, and whole recorded episodes.
//!
//! `cargo xtask guests && cargo bench -p clawhost-cli --bench foundation` prints a table; every figure is the median of
//! several rounds with the least and the greatest beside it. It asserts nothing: machines differ.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark that fails has failed"
)]

use clawhost_core::{
    Answers, Attributes, Clock, Context, Environment, EpisodeStore, Message, Origin, Reward, Role, Sampling,
    StartParams, Task,
};
use clawhost_engine::{Allocation, CacheKey, Host, HostConfig, ModelGrants};
use clawhost_follower::Follower;
use clawhost_runtime::{Cancel, ChatPolicy, EpisodeSummary, Observer, Plan, Ports, ScoringRule, play_run};
use clawhost_store::{Store, StoreOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

const ROUNDS: usize = 9;

struct Wall(Instant);

impl Clock for Wall {
    fn now_ms(&self) -> u64 {
        std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
    }
    fn monotonic_us(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }
}

struct Silent;

impl Observer for Silent {
    fn recorded(&self, _: &EpisodeSummary, _: u64, _: u64) {}
}

fn guests() -> PathBuf {
    match std::env::var_os("CLAWHOST_GUESTS") {
        Some(folder) => folder.into(),
        None => std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("guests"),
    }
}

fn guest(name: &str) -> Vec<u8> {
    let path = guests().join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|_| panic!("{}: run `cargo xtask guests` first", path.display()))
}

/// One row: the median of the rounds, in microseconds per item or items per second.
fn row(name: &str, per_round: usize, mut rounds: Vec<Duration>, rate: bool) {
    rounds.sort();
    let figure = |round: &Duration| {
        let each = round.as_secs_f64() / per_round as f64;
        if rate { 1.0 / each } else { each * 1e6 }
    };
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    let unit = if rate { "/s" } else { "us" };
    let (least, median, most) = (figures[0], figures[figures.len() / 2], figures[figures.len() - 1]);
    println!("| {name} | {median:.2} {unit} | {least:.2} to {most:.2} |");
}

fn host(allocation: Allocation, cache: Option<&Path>) -> Host {
    let cache = cache.map(|folder| (folder.to_owned(), CacheKey([1; 32])));
    Host::new(HostConfig { allocation, cache, ..HostConfig::default() }).unwrap()
}

fn params(seed: u64) -> StartParams {
    let task = Task {
        id: "train-0".into(),
        split: "train".into(),
        input: String::new(),
        reference: None,
        tags: vec![],
        extra: vec![],
    };
    StartParams { task, context: Context { seed, options: Attributes::new() }, max_turns: 64, answers: Answers::Live }
}

async fn loading() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(Allocation::Pooled, Some(folder.path()));
    let bytes = guest("env_guess");
    let mut cold = Vec::new();
    for _ in 0..ROUNDS {
        std::fs::remove_dir_all(folder.path()).ok();
        let began = Instant::now();
        host.environment("env_guess", &bytes, ModelGrants::default()).await.unwrap();
        cold.push(began.elapsed());
    }
    row("load, compiling (env-guess)", 1, cold, false);
    let mut cached = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..20 {
            host.environment("env_guess", &bytes, ModelGrants::default()).await.unwrap();
        }
        cached.push(began.elapsed());
    }
    row("load, cached (digest, tag check, describe included)", 20, cached, false);
}

async fn starting(name: &str, host: &Host, guest_name: &str) {
    let plugin = host.environment(guest_name, &guest(guest_name), ModelGrants::default()).await.unwrap();
    for seed in 0..500 {
        plugin.start(params(seed)).await.unwrap();
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for seed in 0..2000 {
            plugin.start(params(seed)).await.unwrap();
        }
        rounds.push(began.elapsed());
    }
    row(name, 2000, rounds, false);
}

async fn stepping(name: &str, host: &Host, bytes: usize) {
    let plugin = host.environment("odd_echo", &guest("odd_echo"), ModelGrants::default()).await.unwrap();
    let (mut live, _) = plugin.start(params(1)).await.unwrap();
    let action = Message::text(Role::Assistant, Origin::Policy, "x".repeat(bytes));
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..20_000 {
            live.step(&action, &[]).await.unwrap();
        }
        rounds.push(began.elapsed());
    }
    row(name, 20_000, rounds, false);
}

async fn episodes(name: &str, environment: &str, reward: Option<&str>) {
    let host = host(Allocation::Pooled, None);
    let plugin: Arc<dyn Environment> =
        Arc::new(host.environment(environment, &guest(environment), ModelGrants::default()).await.unwrap());
    let mut rewards = Vec::new();
    if let Some(reward) = reward {
        let reward: Arc<dyn Reward> =
            Arc::new(host.reward(reward, &guest(reward), ModelGrants::default()).await.unwrap());
        rewards.push(ScoringRule::new(reward, vec![]));
    }
    let clock = Arc::new(Wall(Instant::now()));
    let count = 5000;
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn EpisodeStore> = Arc::new(Store::open(folder.path(), StoreOptions::default()).unwrap());
        let ports = Ports {
            environment: plugin.clone(),
            rewards: rewards.clone(),
            policy: ChatPolicy::new(Arc::new(Follower), None, Sampling::default()),
            store,
            clock: clock.clone(),
            meter: Arc::new(clawhost_providers::Ledger(Default::default())),
        };
        let plan = Plan {
            episodes: count,
            group: 1,
            concurrency: 16,
            seed: round as u64,
            split: None,
            options: vec![],
            max_turns: 64,
            branch_at: None,
            episode_bytes: 1 << 20,
            failure_budget: 0.0,
        };
        let run = clawhost_core::RunId(format!("bench-{round}"));
        let began = Instant::now();
        let report = play_run(run, plan, ports, serde_json::json!({}), &Cancel::default(), &Silent).await.unwrap();
        rounds.push(began.elapsed());
        assert_eq!(report.failed, 0);
    }
    row(name, count as usize, rounds, true);
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu =
        cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown processor").to_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cpu}, {cores} cores; median of {ROUNDS} rounds\n");
    println!("| what | median | least to greatest |\n|---|---|---|");
    // One thread for everything but SQLite's writer: figures per core.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        loading().await;
        let pooled = host(Allocation::Pooled, None);
        let on_demand = host(Allocation::OnDemand, None);
        starting("instantiate + start, warm, pooled (hello-guess)", &pooled, "hello_guess").await;
        starting("instantiate + start, warm, pooled (env-guess)", &pooled, "env_guess").await;
        starting("instantiate + start, warm, on demand (env-guess)", &on_demand, "env_guess").await;
        stepping("step, 8 B there and back", &pooled, 8).await;
        stepping("step, 1 KiB there and back", &pooled, 1024).await;
        episodes("recorded episodes, one turn (env-math)", "env_math", None).await;
        episodes("recorded and scored episodes, one turn (env-math, reward-exact)", "env_math", Some("reward_exact"))
            .await;
        episodes("recorded episodes, 7 turns (env-guess)", "env_guess", None).await;
        episodes(
            "recorded and scored episodes, one tool call (env-shop, reward-state)",
            "env_shop",
            Some("reward_state"),
        )
        .await;
    });
}
