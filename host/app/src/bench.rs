//! Plugins for trying out: loaded as in a run, and recorded nowhere.

use crate::events::EventSink;
use crate::host::host;
use crate::modules::ComponentHost;
use crate::plugins::{load_environment, load_reflector, load_reward, open_router};
use crate::workspace::{compile_cache, existing_cache};
use crate::{AppError, HostSettings};
use clawhost_core::Limits;
use clawhost_engine::{EnvironmentPlugin, ModelGrants, ReflectorPlugin, RewardPlugin, RouterPlugin};
use clawhost_play::ScoringRule;
use clawhost_run_config::{PluginSpec, RewardSpec};
use std::path::Path;
use std::sync::Arc;

/// Loads plugins to try them out. Creates no data folder; an existing one caches compiled code as usual. Without one, compiled code is kept as long as
/// the bench.
pub struct Bench<'a> {
    host: ComponentHost,
    _compiled: Option<tempfile::TempDir>,
    events: &'a dyn EventSink,
}

impl<'a> Bench<'a> {
    /// A bench with the limits of this host.
    ///
    /// # Errors
    /// The engine cannot be set up, or the cache cannot be used.
    pub fn open(folder: &Path, settings: &HostSettings, events: &'a dyn EventSink) -> Result<Self, AppError> {
        let (cache, compiled) = match existing_cache(folder)? {
            Some(cache) => (cache, None),
            None => {
                let own = tempfile::tempdir()
                    .map_err(|error| AppError::Io { path: "a temporary folder".to_owned(), error })?;
                (compile_cache(own.path())?, Some(own))
            }
        };
        // A few instances at once need no pool.
        let settings = HostSettings { on_demand: true, ..settings.clone() };
        Ok(Self { host: host(&settings, folder, Some(cache))?, events, _compiled: compiled })
    }

    /// The host.
    pub fn host(&self) -> &ComponentHost {
        &self.host
    }

    /// All limits.
    pub fn limits(&self) -> &Limits {
        self.host.limits()
    }

    /// The bytes of a component, of the one in a plugin's folder, or of a module.
    ///
    /// # Errors
    /// As [`ComponentHost::component`].
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, AppError> {
        self.host.component(path).await
    }

    /// An environment.
    ///
    /// # Errors
    /// It cannot be used, or refuses its options.
    pub async fn environment(&self, spec: &PluginSpec, grants: ModelGrants) -> Result<EnvironmentPlugin, AppError> {
        Ok(load_environment(&self.host, self.events, spec, grants).await?.0)
    }

    /// A reward.
    ///
    /// # Errors
    /// As [`Self::environment`].
    pub async fn reward(&self, spec: &PluginSpec, grants: ModelGrants) -> Result<RewardPlugin, AppError> {
        Ok(load_reward(&self.host, self.events, spec, grants).await?.0)
    }

    /// Rewards, each as on a command line.
    ///
    /// # Errors
    /// As [`Self::environment`], or a text names no reward.
    pub async fn rewards(&self, texts: &[String], grants: &ModelGrants) -> Result<Vec<ScoringRule>, AppError> {
        let mut rules = Vec::new();
        for text in texts {
            let spec = RewardSpec::parse(text, |path| Path::new(path).exists());
            let spec = spec.map_err(|error| crate::RequestError::Other(error.to_string()))?;
            let reward = self.reward(&spec.plugin, grants.clone()).await?;
            let rule = ScoringRule::new(Arc::new(reward), spec.plugin.options.clone());
            rules.push(ScoringRule { weight: spec.weight, source: spec.source.unwrap_or(rule.source), ..rule });
        }
        Ok(rules)
    }

    /// A router, which gets no grants.
    ///
    /// # Errors
    /// As [`Self::environment`].
    pub async fn router(&self, spec: &PluginSpec) -> Result<RouterPlugin, AppError> {
        Ok(open_router(&self.host, spec, self.events).await?.0)
    }

    /// A reflector.
    ///
    /// # Errors
    /// As [`Self::environment`].
    pub async fn reflector(&self, spec: &PluginSpec, grants: ModelGrants) -> Result<ReflectorPlugin, AppError> {
        Ok(load_reflector(&self.host, self.events, spec, grants).await?.0)
    }
}
