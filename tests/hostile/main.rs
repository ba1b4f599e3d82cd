//! Misbehaving guests: each ends with its failure, and the next episode works.
//!
//! One guest program per behaviour, in `tests/guests`; every one of them must occur in a table here.
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
mod limits;
mod load;
mod outside;
mod refused;
mod routes;
mod services;
mod text;
mod values;
mod world;

use clawhost_core::{
    Context, Environment as _, Episode, Failure, Limits, Message, ModelCallSource, Origin, Role, StartParams,
    StepResult, Task,
};
use clawhost_engine::{Allocation, EngineError, Host, HostConfig, ModelGrants};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn host(limits: Limits, allocation: Allocation) -> Host {
    // Small, because tests run concurrently, each with its own host.
    let limits = Limits { live_instances: 32, ..limits };
    Host::new(HostConfig { limits, allocation, ..HostConfig::default() }).unwrap()
}

pub(crate) fn pooled() -> Host {
    host(Limits::default(), Allocation::Pooled)
}

/// The folder of built guests, or `None` to skip.
pub(crate) fn folder(test: &str) -> Option<PathBuf> {
    guests::folder_or_skip(test)
}

pub(crate) fn task() -> Task {
    Task {
        id: "train-0".into(),
        part: None,
        split: "train".into(),
        input: String::new(),
        reference: Some("\"the gold answer\"".into()),
        tags: vec![],
        extra: vec![],
    }
}

pub(crate) fn params(seed: u64) -> StartParams {
    StartParams {
        task: task(),
        context: Context { seed, options: vec![] },
        max_turns: 10,
        answers: ModelCallSource::Live,
    }
}

pub(crate) fn action(text: &str) -> Message {
    Message::text(Role::Assistant, Origin::Policy, text)
}

/// Starts an environment and takes one step.
pub(crate) async fn one_step(
    host: &Host,
    folder: &Path,
    guest: &str,
    grants: ModelGrants,
) -> Result<StepResult, Failure> {
    one_step_logged(host, folder, guest, grants).await.0
}

/// The same, with the guest's log.
pub(crate) async fn one_step_logged(
    host: &Host,
    folder: &Path,
    guest: &str,
    grants: ModelGrants,
) -> (Result<StepResult, Failure>, Vec<String>) {
    let plugin = host.environment(guest, &guests::bytes(folder, guest), grants).await.unwrap();
    match plugin.start(params(7)).await {
        Err(failure) => (Err(failure), Vec::new()),
        Ok((mut live, _)) => {
            let result = live.step(&action("50"), &[]).await;
            (result, live.take_records().log)
        }
    }
}

/// A well-behaved guest still works on this host.
pub(crate) async fn next_episode_works(host: &Host, folder: &Path) {
    let result = one_step(host, folder, "env_guess", ModelGrants::default()).await.unwrap();
    assert!(!result.observation.is_empty());
}

/// A recorded episode of two turns.
pub(crate) fn recorded() -> Arc<Episode> {
    let json = include_str!("../golden/episode-2.json");
    Arc::new(serde_json::from_str(json).unwrap())
}

pub(crate) fn text(result: &StepResult) -> String {
    result.observation.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_guest_occurs_in_a_table() {
    let Some(folder) = folder("every_guest_occurs_in_a_table") else { return };
    let sources = [
        include_str!("limits.rs"),
        include_str!("refused.rs"),
        include_str!("routes.rs"),
        include_str!("world.rs"),
        include_str!("load.rs"),
        include_str!("outside.rs"),
        include_str!("services.rs"),
        include_str!("text.rs"),
        include_str!("values.rs"),
        include_str!("../fork/main.rs"),
        include_str!("../program/replay.rs"),
        include_str!("../author/checks.rs"),
    ]
    .concat();
    let built = std::fs::read_dir(folder).unwrap().flatten();
    let built = built.map(|entry| entry.file_name().to_string_lossy().trim_end_matches(".wasm").to_owned());
    for name in built.chain(text::names()) {
        if ["hostile_", "odd_", "weak_"].iter().any(|kind| name.starts_with(kind)) {
            // Used by the program's own test suite.
            let elsewhere = ["odd_no_tasks", "odd_echo", "odd_group_reward"].contains(&name.as_str());
            assert!(elsewhere || sources.contains(&format!("\"{name}\"")), "{name} is built, but no test runs it");
        }
    }
}
