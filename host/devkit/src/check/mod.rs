//! `clawhost check`: the proof of quality that somebody asks for who wants to use a plugin.
//!
//! Everything is played against the built component within the host's limits, from one seed, so that a report can be made again.

mod component;
mod environment;
mod hostile;
mod reflector;
mod report;
mod reward;
mod schemas;

pub use report::{CHECK_FORMAT, CheckReport, Checked, CheckedPlugin, Outcome};

use crate::DevkitError;
use clawhost_app::{AppError, Bench, ModelGrants, PluginFolder, Trial};
use clawhost_core::Digest;
use clawhost_engine::World;
use clawhost_package::{ExpectSection, Kind, Manifest};

/// Described episodes that are varied with every hostile text.
const VARIED: usize = 8;

/// The default seed of a check.
pub const CHECK_SEED: u64 = 1;

/// What is checked.
#[derive(Debug, Clone)]
pub struct CheckRequest {
    /// The plugin, with the rewards that judge it if it is an environment.
    pub plugin: Trial,
    /// The seed.
    pub seed: u64,
}

/// A check in progress.
pub(crate) struct Checking<'a> {
    pub(crate) bench: &'a Bench<'a>,
    pub(crate) folder: Option<&'a PluginFolder>,
    /// The manifest that is in the component.
    pub(crate) manifest: Option<&'a Manifest>,
    pub(crate) seed: u64,
    told: &'a (dyn Fn(&Checked) + Sync),
}

/// The results so far. Each one is passed to the observer at once.
pub(crate) struct Results<'a> {
    told: &'a (dyn Fn(&Checked) + Sync),
    all: Vec<Checked>,
}

impl Results<'_> {
    pub(crate) fn push(&mut self, checked: Checked) {
        (self.told)(&checked);
        self.all.push(checked);
    }
}

impl Checking<'_> {
    /// What the manifest promises.
    pub(crate) fn expected(&self) -> Option<&ExpectSection> {
        self.manifest.map(|manifest| &manifest.expect)
    }
}

/// Checks a plugin. Each result is passed to `told` at once.
///
/// # Errors
/// The plugin cannot be loaded at all, or its manifest has a mistake.
pub async fn check(
    bench: &Bench<'_>,
    request: &CheckRequest,
    told: &(dyn Fn(&Checked) + Sync),
) -> Result<CheckReport, DevkitError> {
    let Trial { plugin: spec, folder, rewards } = &request.plugin;
    let bytes = bench.read(&spec.path).await?;
    let outline = bench.host().outline(&spec.path, &bytes).map_err(AppError::from)?;
    let checking =
        Checking { bench, folder: folder.as_ref(), manifest: outline.manifest.as_ref(), seed: request.seed, told };
    let mut results = Results { told: checking.told, all: Vec::new() };
    // What is asked for is granted here, except for models, which answer as test cases say.
    let grants = ModelGrants { kv: outline.wants("clawhost:kv/kv"), ..ModelGrants::default() };
    let size = bytes.len();
    let (kind, about) = match outline.world {
        World::Environment => {
            let environment = bench.environment(spec, grants.clone()).await?;
            let rules = bench.rewards(rewards, &grants).await?;
            let about = clawhost_core::Environment::description(&environment).about.clone();
            component::checks(&checking, &mut results, Kind::Environment, &about, (&outline, size));
            environment::checks(&checking, &mut results, &environment, &rules, spec.options.clone()).await;
            (Kind::Environment, about)
        }
        World::Reward => {
            let reward = bench.reward(spec, grants).await?;
            let about = clawhost_core::Reward::description(&reward).about.clone();
            component::checks(&checking, &mut results, Kind::Reward, &about, (&outline, size));
            reward::checks(&checking, &mut results, reward, spec).await;
            (Kind::Reward, about)
        }
        World::Reflector => {
            let reflector = bench.reflector(spec, grants).await?;
            let about = clawhost_core::Reflector::about(&reflector).clone();
            component::checks(&checking, &mut results, Kind::Reflector, &about, (&outline, size));
            reflector::checks(&checking, &mut results, &reflector, spec).await;
            (Kind::Reflector, about)
        }
        World::Router => {
            let router = bench.router(spec).await?;
            let about = clawhost_core::ModelRouter::about(&router).clone();
            component::checks(&checking, &mut results, Kind::Router, &about, (&outline, size));
            (Kind::Router, about)
        }
    };
    let all = results.all;
    Ok(CheckReport {
        format: CHECK_FORMAT,
        host: env!("CARGO_PKG_VERSION").to_owned(),
        plugin: CheckedPlugin {
            name: about.name.clone(),
            version: about.version.clone(),
            kind,
            digest: Digest::of(&bytes).to_string(),
            bytes: bytes.len() as u64,
        },
        seed: request.seed,
        passed: all.iter().all(|one| one.outcome != Outcome::Failed),
        checks: all,
    })
}
