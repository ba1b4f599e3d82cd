//! Loads plugins: reads them, checks their options, stores them by digest, and warns of permissions that are missing.

use crate::compiling::announced;
use crate::events::{Event, EventSink, Warning};
use crate::modules::ComponentHost;
use crate::{AppError, RequestError};
use clawhost_core::{
    About, Attributes, Digest, Environment as _, ModelRouter as _, PluginIdentity, PluginStore, Reflector as _,
    Reward as _, RoutingPlugin, nearest,
};
use clawhost_engine::{ComponentOutline, EnvironmentPlugin, ModelGrants, ReflectorPlugin, RewardPlugin, RouterPlugin};
use clawhost_learning::Reflecting;
use clawhost_play::ScoringRule;
use clawhost_run_config::{Key, PluginSpec, RewardSpec};
use clawhost_store::Store;
use std::path::Path;
use std::sync::Arc;

/// Loads a router plugin, and checks its options. Returns its component, too.
///
/// # Errors
/// It cannot be read or loaded, or refuses the options.
pub(crate) async fn open_router(
    host: &ComponentHost,
    spec: &PluginSpec,
    events: &dyn EventSink,
) -> Result<(RouterPlugin, Vec<u8>), AppError> {
    let bytes = host.component(&spec.path).await?;
    let router = announced(host, events, host.router(&spec.path, &bytes)).await?;
    check_options(router.about(), &spec.options)?;
    router.check_options(&spec.options).await?;
    Ok((router, bytes))
}

/// Loads an environment, and checks its options. Returns its component, too.
///
/// # Errors
/// It cannot be read or loaded, or refuses the options.
pub(crate) async fn load_environment(
    host: &ComponentHost,
    events: &dyn EventSink,
    spec: &PluginSpec,
    grants: ModelGrants,
) -> Result<(EnvironmentPlugin, Vec<u8>), AppError> {
    let bytes = host.component(&spec.path).await?;
    let environment = announced(host, events, host.environment(&spec.path, &bytes, grants)).await?;
    check_options(&environment.description().about, &spec.options)?;
    environment.check_options(&spec.options).await?;
    Ok((environment, bytes))
}

/// The same for a reward.
///
/// # Errors
/// As [`load_environment`].
pub(crate) async fn load_reward(
    host: &ComponentHost,
    events: &dyn EventSink,
    spec: &PluginSpec,
    grants: ModelGrants,
) -> Result<(RewardPlugin, Vec<u8>), AppError> {
    let bytes = host.component(&spec.path).await?;
    let reward = announced(host, events, host.reward(&spec.path, &bytes, grants)).await?;
    check_options(&reward.description().about, &spec.options)?;
    reward.check_options(&spec.options).await?;
    Ok((reward, bytes))
}

/// The same for a reflector.
///
/// # Errors
/// As [`load_environment`].
pub(crate) async fn load_reflector(
    host: &ComponentHost,
    events: &dyn EventSink,
    spec: &PluginSpec,
    grants: ModelGrants,
) -> Result<(ReflectorPlugin, Vec<u8>), AppError> {
    let bytes = host.component(&spec.path).await?;
    let reflector = announced(host, events, host.reflector(&spec.path, &bytes, grants)).await?;
    check_options(reflector.about(), &spec.options)?;
    reflector.check_options(&spec.options).await?;
    Ok((reflector, bytes))
}

/// Loads plugins for one operation.
pub(crate) struct Plugins<'a> {
    pub(crate) host: &'a ComponentHost,
    pub(crate) store: &'a Store,
    pub(crate) grants: &'a ModelGrants,
    pub(crate) events: &'a dyn EventSink,
}

impl Plugins<'_> {
    /// Loads the environment of an option.
    pub(crate) async fn environment(&self, spec: &PluginSpec, key: Key) -> Result<EnvironmentPlugin, AppError> {
        self.open_environment(spec).await.map_err(|error| error.of_option(key))
    }

    async fn open_environment(&self, spec: &PluginSpec) -> Result<EnvironmentPlugin, AppError> {
        let (environment, bytes) = load_environment(self.host, self.events, spec, self.grants.clone()).await?;
        self.warn(environment.identity(), "environment", environment.outline()).await?;
        keep_plugin(self.store, environment.identity(), "environment", bytes).await?;
        Ok(environment)
    }

    /// Loads rewards. Two with equal options would count twice in every mean, so they are refused.
    pub(crate) async fn rewards(&self, specs: &[RewardSpec]) -> Result<Vec<ScoringRule>, AppError> {
        self.open_rewards(specs).await.map_err(|error| error.of_option(Key::Rewards))
    }

    async fn open_rewards(&self, specs: &[RewardSpec]) -> Result<Vec<ScoringRule>, AppError> {
        let mut rewards: Vec<ScoringRule> = Vec::new();
        let mut seen: Vec<(Digest, Attributes, Option<String>)> = Vec::new();
        for RewardSpec { plugin, weight, source, part } in specs {
            let (reward, bytes) = load_reward(self.host, self.events, plugin, self.grants.clone()).await?;
            self.warn(reward.identity(), "reward", reward.outline()).await?;
            keep_plugin(self.store, reward.identity(), "reward", bytes).await?;
            let mut options = plugin.options.clone();
            options.sort();
            let key = (reward.identity().digest, options, part.clone());
            // One for all parts judges the episodes of each.
            let counts_twice = |(digest, options, of): &(Digest, Attributes, Option<String>)| {
                (digest, options) == (&key.0, &key.1) && (of.is_none() || key.2.is_none() || *of == key.2)
            };
            if seen.iter().any(counts_twice) {
                return Err(RequestError::RewardTwice { reward: reward.identity().name.clone() }.into());
            }
            seen.push(key);
            let rule = ScoringRule::new(Arc::new(reward), plugin.options.clone());
            let source = source.unwrap_or(rule.source);
            rewards.push(ScoringRule { weight: *weight, source, part: part.clone(), ..rule });
        }
        Ok(rewards)
    }

    /// Loads the reflector of an option.
    pub(crate) async fn reflector(&self, spec: &PluginSpec, key: Key) -> Result<Reflecting, AppError> {
        self.open_reflector(spec).await.map_err(|error| error.of_option(key))
    }

    async fn open_reflector(&self, spec: &PluginSpec) -> Result<Reflecting, AppError> {
        let (reflector, bytes) = load_reflector(self.host, self.events, spec, self.grants.clone()).await?;
        self.warn(reflector.identity(), "reflector", reflector.outline()).await?;
        keep_plugin(self.store, reflector.identity(), "reflector", bytes).await?;
        Ok(Reflecting { reflector: Arc::new(reflector), options: spec.options.clone() })
    }

    /// Loads a router. It gets no grants, so none can be missing.
    pub(crate) async fn router(&self, spec: &PluginSpec) -> Result<RoutingPlugin, AppError> {
        let (router, bytes) = open_router(self.host, spec, self.events).await?;
        self.warn_of_namesakes(router.identity(), "router").await?;
        keep_plugin(self.store, router.identity(), "router", bytes).await?;
        Ok(RoutingPlugin { router: Arc::new(router), options: spec.options.clone() })
    }

    /// Compares what the plugin asks for with what is granted, and warns of other components with its name and version.
    async fn warn(&self, plugin: &PluginIdentity, world: &str, outline: &ComponentOutline) -> Result<(), AppError> {
        crate::asked::compare(self.events, plugin, outline, self.grants)?;
        self.warn_of_namesakes(plugin, world).await
    }

    async fn warn_of_namesakes(&self, plugin: &PluginIdentity, world: &str) -> Result<(), AppError> {
        let others = self.store.namesakes(plugin, world).await?;
        if !others.is_empty() {
            self.events.event(Event::Warning(Warning::SameNameAndVersion { plugin: plugin.clone(), others }));
        }
        Ok(())
    }
}

/// Refuses options that a plugin does not read, with the nearest one that it does.
pub(crate) fn check_options(about: &About, options: &Attributes) -> Result<(), AppError> {
    clawhost_core::check_options(about, options).map_err(|unknown| {
        let nearest = nearest(&unknown.option, unknown.known.iter().map(String::as_str)).map(str::to_owned);
        RequestError::UnknownOption { unknown, nearest }.into()
    })
}

/// Stores a plugin by its digest, so that its episodes can be replayed.
///
/// # Errors
/// It cannot be written.
pub async fn keep_plugin(
    store: &dyn PluginStore,
    plugin: &PluginIdentity,
    world: &str,
    bytes: Vec<u8>,
) -> Result<(), AppError> {
    Ok(store.keep_plugin(plugin, world, bytes).await?)
}

/// Parses a plugin: `PLUGIN.wasm?name=value&name=value`. Existing files decide where a path ends.
///
/// # Errors
/// The text is not a plugin.
pub fn plugin_spec(text: &str) -> Result<PluginSpec, AppError> {
    let spec = PluginSpec::parse(text, |path| Path::new(path).exists());
    Ok(spec.map_err(|error| RequestError::Other(error.to_string()))?)
}
