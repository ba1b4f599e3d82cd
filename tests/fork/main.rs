//! Forks: an episode that continues from the middle of another, by replay or by snapshot, behaves like the original.
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
    Context, Digest, Environment as _, FailureKind, Limits, LiveEpisode, Message, ModelCallSource, ModelError,
    ModelRequest, ModelResponse, Origin, Role, Snapshot, StartParams, Status, StepResult, code,
};
use clawhost_engine::{Allocation, EnvironmentPlugin, Host, HostConfig, ModelGrants};
use proptest::prelude::*;
use std::path::Path;

fn host(allocation: Allocation) -> Host {
    // Small, because tests run concurrently, each with its own host.
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
    StartParams { task, context, max_turns: 64, answers: ModelCallSource::Live }
}

/// The outcome of a step: its result, the host calls, and the fuel.
type Seen = (Result<StepResult, String>, Digest, Option<u64>);

/// Takes steps until the episode ends.
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

/// Plays the actions; forks at `at` by a new instance and by a snapshot; all three must agree.
async fn check(plugin: &EnvironmentPlugin, other: &EnvironmentPlugin, seed: u64, actions: &[String], at: usize) {
    let params = params(plugin, seed).await;
    let (mut live, opening) = plugin.start(params.clone()).await.unwrap();
    let original = walk(live.as_mut(), actions).await;
    let records = live.take_records();
    drop(live);
    // A finished episode has no middle.
    let at = at.min(original.len().saturating_sub(1));

    // By replay, on another host, including fuel.
    let (mut live, again) = other.start(params.clone()).await.unwrap();
    assert_eq!(opening, again);
    let before = walk(live.as_mut(), &actions[..at]).await;
    assert_eq!(before, original[..at], "a fork by replay");
    // Taking a snapshot has no effect except on the guest's heap, which affects fuel.
    let snapshot = live.snapshot().await.unwrap();
    assert_eq!(snapshot.turn as usize, at);
    let after = walk(live.as_mut(), &actions[at..]).await;
    assert_eq!(without_fuel(&original[at..]), without_fuel(&after), "after a snapshot");
    assert_eq!(live.take_records(), records, "log, journal and notes");
    drop(live);

    // By snapshot, after serialisation. Fuel depends on the history of the guest's heap and is not compared.
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
fn a_fork_with_the_same_actions_equals_the_original() {
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

/// A model that counts its calls.
#[derive(Default)]
struct Judge(std::sync::atomic::AtomicU64);

#[async_trait::async_trait]
impl clawhost_core::Llm for Judge {
    fn identity(&self) -> clawhost_core::LlmIdentity {
        clawhost_core::LlmIdentity { provider: "test".into(), model: "judge".into(), version: "1".into() }
    }

    async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let asked = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let message = Message::text(Role::Assistant, Origin::Policy, format!("answer {asked}"));
        Ok(ModelResponse::new(message, Default::default(), "stop"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn model_answers_come_from_the_journal_as_far_as_it_goes() {
    let Some(folder) = guests::folder_or_skip("answers_come_from_the_record") else { return };
    let host = host(Allocation::Pooled);
    let judge = std::sync::Arc::new(Judge::default());
    let mut grants = ModelGrants { kv: true, ..ModelGrants::default() };
    grants.models.insert("judge".into(), judge.clone());
    let bytes = guests::bytes(&folder, "odd_services");
    let plugin = host.environment("odd_services", &bytes, grants).await.unwrap();
    let live = params(&plugin, 1).await;
    let actions: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    let asked = || judge.0.load(std::sync::atomic::Ordering::Relaxed);

    let (mut first, _) = plugin.start(live.clone()).await.unwrap();
    let original = walk(first.as_mut(), &actions).await;
    let journal = first.take_records().journal;
    assert_eq!((journal.len(), asked()), (3, 3));

    let with = |journal: &[clawhost_core::JournalEntry], through| StartParams {
        answers: ModelCallSource::Recorded { journal: journal.into(), through },
        ..live.clone()
    };
    // All answers from the journal.
    let (mut again, _) = plugin.start(with(&journal, u32::MAX)).await.unwrap();
    assert_eq!(walk(again.as_mut(), &actions).await, original);
    assert_eq!(again.take_records().journal, journal, "the journal is unchanged");
    assert_eq!(asked(), 3, "the model was not called");
    // Two turns from the journal, then the model.
    let (mut on, _) = plugin.start(with(&journal, 2)).await.unwrap();
    let forked = walk(on.as_mut(), &actions).await;
    assert_eq!((&forked[..2], asked()), (&original[..2], 4));
    assert_ne!(forked[2], original[2], "another answer");
    // A journal that does not match: another turn, another request, or none.
    let mut moved = journal.clone();
    moved[1].turn = 1;
    let mut other = journal.clone();
    other[1].request = serde_json::json!({});
    for wrong in [&journal[..1], &moved, &other] {
        let (mut live, _) = plugin.start(with(wrong, u32::MAX)).await.unwrap();
        let action = |text: &String| Message::text(Role::Assistant, Origin::Policy, text.clone());
        live.step(&action(&actions[0]), &[]).await.unwrap();
        let failure = live.step(&action(&actions[1]), &[]).await.unwrap_err();
        assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Host, code::JOURNAL), "{failure}");
        assert!(failure.message.contains("asks `judge` something that the record holds no answer to"), "{failure}");
    }
    assert_eq!(asked(), 4, "the model was not called");
}

/// A model whose budget is exhausted.
struct Spent;

#[async_trait::async_trait]
impl clawhost_core::Llm for Spent {
    fn identity(&self) -> clawhost_core::LlmIdentity {
        Judge::default().identity()
    }

    async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        Err(ModelError::Budget("9 of 9 tokens".into()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_episode_with_an_exhausted_model_budget_fails_for_this_reason() {
    let Some(folder) = guests::folder_or_skip("an_environment_whose_model_is_out_of_budget") else { return };
    let host = host(Allocation::Pooled);
    let mut grants = ModelGrants::default();
    grants.models.insert("judge".into(), std::sync::Arc::new(Spent));
    let bytes = guests::bytes(&folder, "odd_services");
    let plugin = host.environment("odd_services", &bytes, grants).await.unwrap();
    let (mut live, _) = plugin.start(params(&plugin, 1).await).await.unwrap();
    let action = Message::text(Role::Assistant, Origin::Policy, "a");
    // The guest would have used the error as an answer; then the budget would have changed a result.
    let failure = live.step(&action, &[]).await.unwrap_err();
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Llm, code::BUDGET), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_snapshots_are_rejected() {
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
    // Arbitrary bytes.
    for guest in [vec![], vec![0xff; 100], b"{\"a\": 1}".to_vec(), good.guest[..good.guest.len() / 2].to_vec()] {
        let failure = refused(&shop, Snapshot { guest, ..good.clone() }).await;
        assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Plugin, code::PLUGIN_ERROR), "{failure}");
    }
    // Too many bytes.
    let failure = refused(&shop, Snapshot { guest: vec![0; 5 << 20], ..good.clone() }).await;
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Invalid, code::LENGTH), "{failure}");
    // A snapshot of another component.
    let math = load(&host, &folder, "env_math").await;
    let failure = refused(&math, good.clone()).await;
    assert_eq!(failure.code, code::MALFORMED, "{failure}");
    assert!(failure.message.contains("a snapshot of another component"), "{failure}");
    // A guest whose restore does not terminate.
    let hostile = load(&host, &folder, "hostile_snapshot").await;
    let failure = refused(&hostile, Snapshot { environment: hostile.identity().digest, ..good }).await;
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Limit, code::FUEL), "{failure}");
    let (mut live, _) = hostile.start(params.clone()).await.unwrap();
    let failure = live.snapshot().await.unwrap_err();
    assert!(["length", "transfer"].contains(&failure.code.as_str()), "{failure}");
}
