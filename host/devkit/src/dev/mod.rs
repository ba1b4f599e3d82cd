//! `clawhost dev`: builds a plugin whenever a source changes, tries the new component, and puts it in the place of the old one if it works.
//!
//! The component in `build/` is replaced only by one that was loaded, that played an episode without a failure if it is an environment, and that
//! could play all test cases, whatever they expect. Plugins beside it are built in their places.

mod watch;

pub use watch::{Changes, FileWatch};

use crate::build::{BuildOptions, Built, build};
use crate::cases::{TestReport, TestRequest, test_component};
use crate::oracle::OpenOracle;
use crate::{DevkitError, TURNS};
use clawhost_app::{Bench, ModelGrants, PluginFolder, SystemClock};
use clawhost_core::{Context, Digest, Ending, Environment as _, Episode, Sampling};
use clawhost_engine::EnvironmentPlugin;
use clawhost_follower::RandomPlayer;
use clawhost_package::Kind;
use clawhost_play::{Alone, Cancel, ChatPolicy, fetch_tasks, play_alone, split_of};
use clawhost_run_config::PluginSpec;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The component that is tried, beside the one that works.
const DRAFT: &str = "build/.dev.wasm";

/// How a plugin is developed.
#[derive(Debug, Clone)]
pub struct DevOptions {
    /// The folder for what plugins share while they are built.
    pub shared: PathBuf,
    /// The seed of the episode that is played after each build.
    pub seed: u64,
    /// Build once, and end.
    pub once: bool,
}

/// What happens while a plugin is developed.
#[derive(Debug)]
pub enum DevEvent {
    /// A build begins, because these files changed. Empty: it is the first one.
    Changed(Vec<PathBuf>),
    /// A component was built.
    Built(Built),
    /// An episode was played with the new component.
    Played(Arc<Episode>),
    /// Its test cases were played.
    Tested(TestReport),
    /// The new component is in its place.
    Accepted {
        /// The component.
        component: PathBuf,
        /// Its digest.
        digest: Digest,
        /// Time since the change in milliseconds.
        took_ms: u64,
    },
    /// The new component was not taken. The old one stays.
    Refused {
        /// Why.
        why: String,
        /// Whether there is an old one.
        has_old: bool,
    },
    /// It waits for a change.
    Waiting,
}

/// Builds and tries a plugin, again whenever a source changes, until `cancel`. Returns whether the last component was taken.
///
/// # Errors
/// The folder is no plugin at the beginning, or its files cannot be watched. Later mistakes are events.
pub async fn dev(
    bench: &Bench<'_>,
    folder: &Path,
    options: &DevOptions,
    changes: &mut dyn Changes,
    cancel: &Cancel,
    told: &(dyn Fn(DevEvent) + Sync),
) -> Result<bool, DevkitError> {
    let mut plugin = PluginFolder::open(folder)?;
    let mut changed = Vec::new();
    loop {
        changes.watch(&plugin)?;
        told(DevEvent::Changed(std::mem::take(&mut changed)));
        let outcome = tried(bench, &plugin, options, (cancel, told)).await;
        let is_taken = outcome.is_ok();
        if let Err(error) = outcome {
            told(DevEvent::Refused { why: error, has_old: plugin.component().exists() });
        }
        if options.once || cancel.is_requested() {
            return Ok(is_taken);
        }
        told(DevEvent::Waiting);
        changed = tokio::select! {
            changed = changes.next() => changed,
            () = cancel.requested() => return Ok(is_taken),
        };
        // An invalid manifest is reported. The previous one is used until the file is valid again.
        loop {
            match PluginFolder::open(folder) {
                Ok(new) => {
                    plugin = new;
                    break;
                }
                Err(error) => {
                    told(DevEvent::Refused { why: error.to_string(), has_old: plugin.component().exists() });
                    told(DevEvent::Waiting);
                    changed = tokio::select! {
                        changed = changes.next() => changed,
                        () = cancel.requested() => return Ok(false),
                    };
                }
            }
        }
    }
}

/// Builds the plugin as a draft, tries it, and puts it in place.
async fn tried(
    bench: &Bench<'_>,
    plugin: &PluginFolder,
    options: &DevOptions,
    (cancel, told): (&Cancel, &(dyn Fn(DevEvent) + Sync)),
) -> Result<(), String> {
    let began = std::time::Instant::now();
    let draft = plugin.path(DRAFT);
    let build_options =
        BuildOptions { shared: Some(options.shared.clone()), is_quiet: false, draft: Some(draft.clone()) };
    let building = plugin.clone();
    let built = tokio::task::spawn_blocking(move || build(&building, &build_options)).await;
    let built = built.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let digest = built.last().map(|last| last.digest).ok_or("nothing was built")?;
    built.into_iter().for_each(|one| told(DevEvent::Built(one)));
    let spec = PluginSpec { path: draft.display().to_string(), ..plugin.spec() };
    let grants = ModelGrants { kv: plugin.manifest().grants.kv, ..ModelGrants::default() };
    let words = |error: clawhost_app::AppError| error.to_string();
    match plugin.manifest().plugin.kind {
        Kind::Environment => {
            let environment = bench.environment(&spec, grants.clone()).await.map_err(words)?;
            let episode = played(bench, plugin, &environment, &spec, (options.seed, cancel)).await?;
            let failure = match &episode.ending {
                Ending::Failed(failure) => Some(failure.to_string()),
                _ => None,
            };
            told(DevEvent::Played(episode));
            if let Some(failure) = failure {
                return Err(format!("the episode failed: {failure}"));
            }
        }
        Kind::Reward => drop(bench.reward(&spec, grants).await.map_err(words)?),
        Kind::Reflector => drop(bench.reflector(&spec, grants).await.map_err(words)?),
        Kind::Router => drop(bench.router(&spec).await.map_err(words)?),
    }
    // An author may change behaviour before the cases. So a difference is reported, and the component is accepted.
    let report = test_component(bench, plugin, &spec, &TestRequest::default(), &|_| {}).await;
    let report = report.map_err(|error| error.to_string())?;
    let unplayed = report.cases.iter().find_map(|case| Some((case.name.clone(), case.error.clone()?)));
    told(DevEvent::Tested(report));
    if let Some((name, why)) = unplayed {
        return Err(format!("the case `{name}` cannot be played: {why}"));
    }
    let component = plugin.component();
    std::fs::rename(&draft, &component).map_err(|error| format!("{}: {error}", component.display()))?;
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    told(DevEvent::Accepted { component, digest, took_ms });
    Ok(())
}

/// An episode of the first task, played by the oracle of the manifest, or at random.
async fn played(
    bench: &Bench<'_>,
    plugin: &PluginFolder,
    environment: &EnvironmentPlugin,
    spec: &PluginSpec,
    (seed, cancel): (u64, &Cancel),
) -> Result<Arc<Episode>, String> {
    let manifest = plugin.manifest();
    let grants = ModelGrants { kv: manifest.grants.kv, ..ModelGrants::default() };
    let rules = bench.rewards(&plugin.rewards(), &grants).await.map_err(|error| error.to_string())?;
    let splits = &environment.description().splits;
    let split = split_of(&environment.identity().name, splits, manifest.tasks.split.as_deref());
    let split = split.map_err(|error| error.to_string())?;
    let context = Context { seed, options: spec.options.clone() };
    let tasks = fetch_tasks(environment, &context, &split, 1).await.map_err(|error| error.to_string())?;
    let (task, _) = tasks.first().ok_or_else(|| format!("split {split} has no task"))?;
    let max_turns = manifest.tasks.max_turns.unwrap_or(TURNS);
    let policy = match &manifest.expect.oracle {
        Some(oracle) => OpenOracle::open(bench, plugin, oracle).await?.agent(task, context, max_turns)?,
        None => ChatPolicy::new(Arc::new(RandomPlayer), None, Sampling::default()),
    };
    let alone = Alone {
        task: (**task).clone(),
        seed,
        policy_seed: None,
        options: spec.options.clone(),
        max_turns,
        episode_bytes: bench.limits().episode_bytes,
    };
    Ok(play_alone(environment, &policy, &rules, alone, (&SystemClock::default(), cancel)).await)
}
