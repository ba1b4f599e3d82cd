//! Whole episodes through the runtime and the store, durable on disk.

use crate::figures::{ROUNDS, line_of, micros, rates, table};
use crate::plugins::{environment, guest, host, target};
use clawhost_core::{Clock, Environment, EpisodeStore, Reward, RunId, Sampling};
use clawhost_engine::{Allocation, Host, ModelGrants};
use clawhost_follower::Follower;
use clawhost_play::{
    Cancel, ChatPolicy, Environments, EpisodeSummary, Observer, Plan, Ports, RunRequest, ScoringRule, play_run,
};
use clawhost_store::{Store, StoreOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Episodes per round: enough that beginning and ending a run take a small part of the time.
const EPISODES: u64 = 10_000;
/// Concurrent episodes.
const CONCURRENCY: usize = 64;

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

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.worker_threads(threads).enable_all().build().unwrap()
}

async fn run(host: &Host, name: &str, reward: Option<&str>) -> Vec<Duration> {
    let plugin: Arc<dyn Environment> = Arc::new(environment(host, name).await);
    let mut rewards = Vec::new();
    if let Some(name) = reward {
        let reward = host.reward(name, &guest(name), ModelGrants::default()).await.unwrap();
        rewards.push(ScoringRule::new(Arc::new(reward) as Arc<dyn Reward>, vec![]));
    }
    let clock = Arc::new(Wall(Instant::now()));
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir_in(target()).unwrap();
        let store: Arc<dyn EpisodeStore> = Arc::new(Store::open(folder.path(), StoreOptions::default()).unwrap());
        let ports = Ports {
            environments: Environments::One(plugin.clone()),
            rewards: rewards.clone(),
            policy: ChatPolicy::new(Arc::new(Follower), None, Sampling::default()),
            store,
            clock: clock.clone(),
            meter: Arc::new(clawhost_providers::Ledger(Default::default())),
        };
        let plan = Plan {
            episodes: EPISODES,
            group: 1,
            concurrency: CONCURRENCY,
            seed: round as u64,
            split: None,
            options: vec![],
            max_turns: 64,
            branch_at: None,
            first_group: 0,
            positions: None,
            expects: Vec::new(),
            paired: false,
            tries: 1,
            episode_bytes: 1 << 20,
            failure_budget: 0.0,
        };
        let began = Instant::now();
        let id = RunId(format!("bench-{round}"));
        let request = RunRequest::new(id, plan, ports);
        // On a worker, not on the thread that blocks on the runtime, which would be an additional one.
        let played = tokio::spawn(async move { play_run(request, &Cancel::default(), &Silent).await });
        let report = played.await.unwrap().unwrap().report;
        rounds.push(began.elapsed());
        assert_eq!(report.failed, 0);
    }
    rounds
}

/// The time of the disk for one durable write of a page.
fn disk() -> Vec<Duration> {
    let mut file = tempfile::tempfile_in(target()).unwrap();
    let write = |_| {
        let began = Instant::now();
        for _ in 0..50 {
            file.write_all(&[7; 4096]).unwrap();
            file.sync_data().unwrap();
        }
        began.elapsed()
    };
    (0..ROUNDS).map(write).collect()
}

pub(crate) fn measure() {
    table(
        &format!("Durable episodes: runtime and store, {EPISODES} per round, {CONCURRENCY} concurrent"),
        &["what", "median", "least to greatest"],
    );
    for (name, environment, reward) in [
        ("env_math, one turn", "env_math", None),
        ("env_math, one turn, scored by reward_exact", "env_math", Some("reward_exact")),
        ("env_guess, 7 turns", "env_guess", None),
    ] {
        for threads in [1, 2] {
            let host = host(Allocation::Pooled, None);
            let rounds = runtime(threads).block_on(run(&host, environment, reward));
            let threads = if threads == 1 { "one thread" } else { "two threads" };
            line_of(&format!("{name}, {threads}"), rates(&rounds, EPISODES as usize), "/s");
        }
    }
    line_of("the disk alone: 4 KiB written and synchronised", micros(&disk(), 50), "us");
}
