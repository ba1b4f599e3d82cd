//! The plugins that decide in the place of what routers have learned. They are loaded before the models of a router are opened.

use super::config::RouterFile;
use super::files::router_file;
use super::routed::described;
use crate::events::EventSink;
use crate::host::host;
use crate::modules::ComponentHost;
use crate::plugins::{Plugins, plugin_spec};
use crate::workspace::compile_cache;
use crate::{AppError, HostSettings, RequestError, Workspace};
use clawhost_core::RoutingPlugin;
use clawhost_engine::ModelGrants;
use clawhost_store::Store;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Router plugins that are loaded.
#[derive(Debug, Default)]
pub(crate) struct RouterPlugins(BTreeMap<String, (String, RoutingPlugin)>);

impl RouterPlugins {
    /// Loads the plugins that the files of these routers name. A file that cannot be used is skipped here; opening its router reports the reason.
    ///
    /// # Errors
    /// A plugin cannot be loaded, or refuses its options.
    pub(crate) async fn load<'n>(
        plugins: &Plugins<'_>,
        folder: Option<&Path>,
        routers: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, AppError> {
        let mut loaded = BTreeMap::new();
        for (name, text) in named(folder, routers) {
            let plugin = plugins.router(&plugin_spec(&text)?).await?;
            loaded.insert(name, (text, plugin));
        }
        Ok(Self(loaded))
    }

    /// These and others.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// The plugin of a router, if its file names one.
    ///
    /// # Errors
    /// It is not loaded: the file has just been changed, or what opens the router cannot use plugins.
    pub(crate) fn of(&self, name: &str, file: &RouterFile) -> Result<Option<RoutingPlugin>, AppError> {
        let Some(text) = &file.plugin else { return Ok(None) };
        let loaded = self.0.get(name).filter(|(known, _)| known == text).map(|(_, plugin)| plugin.clone());
        let why = || format!("the plugin of router `{name}` is not loaded; runs and gateways load it when they begin");
        loaded.map(Some).ok_or_else(|| RequestError::NoRouter { why: why() }.into())
    }
}

/// The plugins that the files of these routers name.
fn named<'n>(folder: Option<&Path>, routers: impl IntoIterator<Item = &'n str>) -> BTreeMap<String, String> {
    let named = |name: &str| Some((name.to_owned(), described(folder, name).ok()?.1.plugin?));
    routers.into_iter().filter_map(named).collect()
}

/// The component of the plugin that the file of a router names.
pub(crate) fn component_of(folder: &Path, router: &str) -> Option<PathBuf> {
    let file = RouterFile::read(&router_file(folder, router, "toml")).ok()?;
    Some(PathBuf::from(plugin_spec(&file.plugin?).ok()?.path))
}

/// Loads the plugins of a gateway, whose configuration may change while it runs.
pub(crate) struct RouterPluginSource {
    data: PathBuf,
    routers: PathBuf,
    settings: HostSettings,
    store: Arc<Store>,
    /// Made for the first plugin: it reserves memory.
    host: Option<ComponentHost>,
}

impl RouterPluginSource {
    /// For the data folder of a workspace.
    pub(crate) fn new(workspace: &Workspace) -> Self {
        let data = workspace.folder().to_owned();
        Self {
            routers: super::routers_folder(&data),
            data,
            settings: workspace.settings().host.clone(),
            store: workspace.store(),
            host: None,
        }
    }

    /// The plugins of these routers.
    ///
    /// # Errors
    /// As [`RouterPlugins::load`].
    pub(crate) async fn load<'n>(
        &mut self,
        routers: impl IntoIterator<Item = &'n str>,
        events: &dyn EventSink,
    ) -> Result<RouterPlugins, AppError> {
        let with_plugin = named(Some(&self.routers), routers);
        if with_plugin.is_empty() {
            return Ok(RouterPlugins::default());
        }
        let host = match self.host.take() {
            Some(host) => host,
            None => host(&self.settings, &self.data, Some(compile_cache(&self.data)?))?,
        };
        let plugins = Plugins { host: &host, store: &self.store, grants: &ModelGrants::default(), events };
        let loaded = RouterPlugins::load(&plugins, Some(&self.routers), with_plugin.keys().map(String::as_str)).await;
        self.host = Some(host);
        loaded
    }
}
