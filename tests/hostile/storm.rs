//! Two hundred hostile episodes beside twenty honest ones, in a separate process whose resources can be compared before and
//! after.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot continue has failed"
)]

#[path = "../common/guests.rs"]
mod guests;

use clawhost_core::{
    Context, Digest, Environment as _, Limits, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse,
    Origin, Role, Signal, StartParams, Status, Task, Usage,
};
use clawhost_engine::{CacheKey, EnvironmentPlugin, Host, HostConfig, ModelGrants, World};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const HONEST: u64 = 20;
const HOSTILE: usize = 200;

/// Largest mean growth of resident memory per episode of the second storm. The first storm fills what stays allocated on
/// purpose: pool slots and allocator caches. A leaked guest would leave at least its stack and its memory.
const RESIDENT_GROWTH: usize = 512 << 10;

/// The attacks of guests that take them as options.
const ATTACKS: [(&str, &[&str]); 5] = [
    ("hostile_files", &["list", "3"]),
    ("hostile_kv", &["a million keys", "a value of 32 MiB", "keys until it is full"]),
    ("hostile_llm", &["1000 calls", "a batch of 10000", "5 batches of 64", "a prompt of 10 MiB"]),
    ("hostile_offers", &["a schema of 1 MiB", "a deep schema", "a space"]),
    ("hostile_text", &["nested json", "hidden", "torn json"]),
];

/// A model with a fixed answer.
struct Judge;

#[async_trait::async_trait]
impl Llm for Judge {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "test".into(), model: "judge".into(), version: "1".into() }
    }

    async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let message = Message::text(Role::Assistant, Origin::Policy, "four");
        Ok(ModelResponse::new(message, Usage::default(), "stop"))
    }
}

fn params(seed: u64, input: &str) -> StartParams {
    let task = Task { input: input.to_owned(), ..Task::new("train", "train-0") };
    StartParams {
        task,
        context: Context { seed, options: vec![] },
        max_turns: 20,
        answers: clawhost_core::ModelCallSource::Live,
    }
}

fn action(text: &str) -> Message {
    Message::text(Role::Assistant, Origin::Policy, text)
}

fn said(messages: &[Message]) -> String {
    messages.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n")
}

/// Everything in a turn that must not depend on other episodes.
#[derive(Debug, Clone, PartialEq)]
struct Recorded {
    observation: String,
    signals: Vec<Signal>,
    fuel: Option<u64>,
    host_calls: Digest,
    status: Status,
}

/// Bisects the range that the environment reports until the number is found.
async fn play_honestly(plugin: &EnvironmentPlugin, seed: u64) -> Vec<Recorded> {
    let (mut live, opening) = plugin.start(params(seed, "")).await.unwrap();
    let mut observation = said(&opening.observation);
    let mut turns = Vec::new();
    loop {
        let numbers: Vec<u64> = observation
            .split(|character: char| !character.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        let [.., low, high] = numbers[..] else { panic!("no range in `{observation}`") };
        let result = live.step(&action(&((low + high) / 2).to_string()), &[]).await.unwrap();
        observation = said(&result.observation);
        turns.push(Recorded {
            observation: observation.clone(),
            signals: result.signals,
            fuel: live.last_fuel(),
            host_calls: live.host_calls(),
            status: result.status.clone(),
        });
        if result.status != Status::Running {
            return turns;
        }
        tokio::task::yield_now().await;
    }
}

/// A hostile environment: a loaded one, or bytes that are rejected at load.
enum Hostile {
    Playable(Box<EnvironmentPlugin>),
    Unloadable(Vec<u8>),
}

/// Plays some turns of a hostile environment; returns whether anything was rejected or ended.
async fn play(host: &Host, name: &str, hostile: &Hostile, round: usize) -> bool {
    let plugin = match hostile {
        Hostile::Unloadable(bytes) => return host.environment(name, bytes, ModelGrants::default()).await.is_err(),
        Hostile::Playable(plugin) => plugin,
    };
    let attacks = ATTACKS.iter().find(|(guest, _)| *guest == name).map_or(&["50"][..], |(_, attacks)| attacks);
    let attack = attacks[round % attacks.len()];
    let Ok((mut live, _)) = plugin.start(params(round as u64, attack)).await else { return true };
    for _ in 0..3 {
        if live.step(&action(attack), &[]).await.is_err() {
            return true;
        }
    }
    false
}

async fn hostile_environments(host: &Host, folder: &Path) -> Vec<(String, Hostile)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".wasm").filter(|name| name.starts_with("hostile_")) else { continue };
        let bytes = guests::bytes(folder, name);
        if host.outline(name, &bytes).unwrap().world != World::Environment {
            continue;
        }
        let mut grants = ModelGrants { kv: true, ..ModelGrants::default() };
        grants.models.insert("judge".into(), Arc::new(Judge));
        let hostile = match host.environment(name, &bytes, grants).await {
            Ok(plugin) => Hostile::Playable(Box::new(plugin)),
            Err(_) => Hostile::Unloadable(bytes),
        };
        found.push((name.to_owned(), hostile));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// Resources of this process: open files, threads, resident bytes.
fn held() -> (usize, usize, usize) {
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kibibytes: usize = resident.trim_end_matches("kB").trim().parse().unwrap();
    (count("/proc/self/fd"), count("/proc/self/task"), kibibytes * 1024)
}

/// Plays all hostile episodes concurrently, while the honest ones are repeated until the last hostile one has ended. Returns
/// the number of hostile episodes that were rejected or ended early.
async fn storm(
    host: &Host,
    hostile: &Arc<Vec<(String, Hostile)>>,
    honest: &Arc<EnvironmentPlugin>,
    alone: &[Vec<Recorded>],
) -> usize {
    let (over, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let storm: Vec<_> = (0..HOSTILE)
        .map(|number| {
            let (host, hostile, ended) = (host.clone(), hostile.clone(), ended.clone());
            tokio::spawn(async move {
                let (name, guest) = &hostile[number % hostile.len()];
                let refused = play(&host, name, guest, number / hostile.len()).await;
                ended.fetch_add(usize::from(refused), Ordering::Relaxed);
            })
        })
        .collect();
    let players: Vec<_> = (0..HONEST)
        .map(|seed| {
            let (honest, over) = (honest.clone(), over.clone());
            tokio::spawn(async move {
                // Repeated, so that it overlaps with every kind of attack.
                let mut records = vec![play_honestly(&honest, seed).await];
                while !over.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    records.push(play_honestly(&honest, seed).await);
                }
                records
            })
        })
        .collect();
    for episode in storm {
        episode.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    for (player, alone) in players.into_iter().zip(alone) {
        for beside in player.await.unwrap() {
            assert_eq!(beside, *alone, "equal with and without a storm");
        }
    }
    ended.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_hostile_episodes_change_nothing_for_twenty_honest_ones() {
    let Some(folder) = guests::folder_or_skip("two_hundred_hostile_episodes") else { return };
    let cache = tempfile::tempdir().unwrap();
    // Slots for all of them, so that none waits.
    let limits = Limits { live_instances: 256, ..Limits::default() };
    let limits = Limits { host_memory_bytes: limits.live_instances * limits.memory_bytes, ..limits };
    let cache = Some((cache.path().to_owned(), CacheKey([7; 32])));
    let host = Host::new(HostConfig { limits, cache, ..HostConfig::default() }).unwrap();
    let honest =
        host.environment("env_guess", &guests::bytes(&folder, "env_guess"), ModelGrants::default()).await.unwrap();
    let honest = Arc::new(honest);
    let hostile = Arc::new(hostile_environments(&host, &folder).await);
    assert!(hostile.len() > 25, "{} hostile environments", hostile.len());

    let mut alone = Vec::new();
    for seed in 0..HONEST {
        let turns = play_honestly(&honest, seed).await;
        assert_eq!(turns.last().unwrap().status, Status::Terminated);
        alone.push(turns);
    }

    let mut before = (0, 0, 0);
    for _ in ["fills what is kept", "is measured"] {
        before = held();
        let ended = storm(&host, &hostile, &honest, &alone).await;
        assert!(ended > HOSTILE / 2, "most of them were ended: {ended}");
        assert_eq!(host.guest_memory(), 0, "all guest memory was returned");
    }
    let after = held();
    assert_eq!(after.0, before.0, "the number of open files is unchanged");
    // Fewer are possible: initial compiler threads have ended.
    assert!(after.1 <= before.1, "{} threads, and {} before", after.1, before.1);
    let growth = after.2.saturating_sub(before.2);
    let allowed = RESIDENT_GROWTH * HOSTILE;
    assert!(growth < allowed, "{} MiB of memory were left behind, {} are allowed", growth >> 20, allowed >> 20);
}
