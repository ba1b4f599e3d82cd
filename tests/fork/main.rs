//! A fork is a replay, or a snapshot that can be relied on: whoever goes on from the middle of an episode comes to what the
//! original came to.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

#[path = "../common/guests.rs"]
mod guests;

use clawhost_core::{
    Answers, Context, Digest, Environment as _, FailureKind, Limits, LiveEpisode, Message, Origin, Role, Snapshot,
    StartParams, Status, StepResult, code,
};
use clawhost_engine::{Allocation, EnvironmentPlugin, Host, HostConfig, ModelGrants};
use proptest::prelude::*;
use std::path::Path;

fn host(allocation: Allocation) -> Host {
    // Small: tests run side by side, and each has a host of its own.
    let limits = Limits { live_instances: 32, ..Limits::default() };
    Host::new(HostConfig { limits, allocation, ..HostConfig::default() }).unwrap()
}

async fn load(host: &Host, folder: &Path, guest: &str) -> EnvironmentPlugin {
    let grants = ModelGrants { kv: true, ..ModelGrants::default() };
    host.environment(guest, &guests::bytes(folder, guest), grants).await.unwrap()
}

async fn params(plugin: &EnvironmentPlugin, seed: u64) -> StartParams {
    let context = Context { seed, options: vec![] };
    let task = plugin.tasks(&context, "train", seed % 7, 1).await.unwrap().remove(0).without_reference();
    StartParams { task, context, max_turns: 64, answers: Answers::Live }
}

/// What a step came to: its result, the calls to the host, and the fuel.
type Seen = (Result<StepResult, String>, Digest, Option<u64>);

/// Takes steps until the episode is over.
async fn walk(live: &mut dyn LiveEpisode, actions: &[String]) -> Vec<Seen> {
    let mut seen = Vec::new();
    for text in actions {
        let action = Message::text(Role::Assistant, Origin::Policy, text.clone());
        let result = live.step(&action, &[]).await.map_err(|failure| failure.to_string());
        let over = result.as_ref().map_or(true, |result| result.status != Status::Running);
        seen.push((result, live.host_calls(), live.last_fuel()));
        if over {
            break;
        }
    }
    seen
}

fn without_fuel(seen: &[Seen]) -> Vec<(Result<StepResult, String>, Digest)> {
    seen.iter().map(|(result, calls, _)| (result.clone(), *calls)).collect()
}

/// Plays the actions; branches at `at` by a fresh instance and by a snapshot; all three must agree.
async fn check(plugin: &EnvironmentPlugin, other: &EnvironmentPlugin, seed: u64, actions: &[String], at: usize) {
    let params = params(plugin, seed).await;
    let (mut live, opening) = plugin.start(params.clone()).await.unwrap();
    let original = walk(live.as_mut(), actions).await;
    let records = live.take_records();
    drop(live);
    // An episode that is over has no middle.
    let at = at.min(original.len().saturating_sub(1));

    // By replay, on another host: fuel and all.
    let (mut live, again) = other.start(params.clone()).await.unwrap();
    assert_eq!(opening, again);
    let before = walk(live.as_mut(), &actions[..at]).await;
    assert_eq!(before, original[..at], "a fork by replay");
    // Taking a snapshot leaves no trace but on the guest's heap, which fuel knows of.
    let snapshot = live.snapshot().await.unwrap();
    assert_eq!(snapshot.turn as usize, at);
    let after = walk(live.as_mut(), &actions[at..]).await;
    assert_eq!(without_fuel(&original[at..]), without_fuel(&after), "after a snapshot");
    assert_eq!(live.take_records(), records, "log, journal and notes");
    drop(live);

    // By snapshot, as it comes back from a disk: fuel depends on how the guest's heap came about, and is left out.
    let text = serde_json::to_string(&snapshot).unwrap();
    let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
    let mut live = plugin.restore(params, &snapshot).await.unwrap();
    let restored = walk(live.as_mut(), &actions[at..]).await;
    assert_eq!(without_fuel(&original[at..]), without_fuel(&restored), "a fork by snapshot");
    assert_eq!(live.take_records(), records, "log, journal and notes");
}

fn actions() -> impl Strategy<Value = Vec<String>> {
    let said = prop_oneof!["[0-9]{1,3}", "[a-z ]{0,12}", Just("end".to_owned()), Just("50".to_owned())];
    prop::collection::vec(said, 1..12)
}

#[test]
fn a_fork_with_the_same_actions_is_the_original() {
    let Some(folder) = guests::folder_or_skip("a_fork_with_the_same_actions") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (pooled, on_demand) = (host(Allocation::Pooled), host(Allocation::OnDemand));
    for guest in ["odd_snapshot", "env_guess", "env_math", "env_shop"] {
        let (one, other) =
            runtime.block_on(async { (load(&pooled, &folder, guest).await, load(&on_demand, &folder, guest).await) });
        let config = ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() };
        proptest!(config, |(seed in 0u64..1000, actions in actions(), at in 0usize..12)| {
            runtime.block_on(check(&one, &other, seed, &actions, at));
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_none_is_refused() {
    let Some(folder) = guests::folder_or_skip("a_snapshot_that_is_none") else { return };
    let host = host(Allocation::Pooled);
    let shop = load(&host, &folder, "env_shop").await;
    let params = params(&shop, 1).await;
    let (mut live, _) = shop.start(params.clone()).await.unwrap();
    let good = live.snapshot().await.unwrap();
    drop(live);
    let refused = async |plugin: &EnvironmentPlugin, snapshot: Snapshot| {
        plugin.restore(params.clone(), &snapshot).await.map(|_| ()).unwrap_err()
    };
    // Bytes from anywhere.
    for guest in [vec![], vec![0xff; 100], b"{\"a\": 1}".to_vec(), good.guest[..good.guest.len() / 2].to_vec()] {
        let failure = refused(&shop, Snapshot { guest, ..good.clone() }).await;
        assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Plugin, code::PLUGIN_ERROR), "{failure}");
    }
    // A GiB of them.
    let failure = refused(&shop, Snapshot { guest: vec![0; 5 << 20], ..good.clone() }).await;
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Invalid, code::LENGTH), "{failure}");
    // Another component's.
    let math = load(&host, &folder, "env_math").await;
    let failure = refused(&math, good.clone()).await;
    assert_eq!(failure.code, code::MALFORMED, "{failure}");
    assert!(failure.message.contains("a snapshot of another component"), "{failure}");
    // One that never comes to an end.
    let hostile = load(&host, &folder, "hostile_snapshot").await;
    let failure = refused(&hostile, Snapshot { environment: hostile.identity().digest, ..good }).await;
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Limit, code::FUEL), "{failure}");
    let (mut live, _) = hostile.start(params.clone()).await.unwrap();
    let failure = live.snapshot().await.unwrap_err();
    assert!(["length", "transfer"].contains(&failure.code.as_str()), "{failure}");
}
