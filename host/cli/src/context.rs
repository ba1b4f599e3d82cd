//! The context of every command: the data folder, the output format, and the commands for its child processes.

use crate::args::{Common, MachineArgs};
use crate::exit::UsageError;
use crate::subprocess;
use clawhost_app::routers::routers_folder;
use clawhost_app::{ConfirmedEndpoints, HubCache, TextHost};
use clawhost_app::{HostSettings, ModelSettings, STORE_BYTES, Workspace, WorkspaceSettings, default_folder};
use clawhost_core::StoreReader;
use clawhost_registry::Location;
use std::path::PathBuf;

/// The context of every command.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Common options.
    pub(crate) common: Common,
}

impl Context {
    pub(crate) fn new(common: Common) -> Self {
        Self { common }
    }

    /// Whether one JSON document is printed instead of text.
    pub(crate) fn json(&self) -> bool {
        self.common.json
    }

    /// The data folder: `--data`, `CLAWHOST_HOME`, or the platform's.
    ///
    /// # Errors
    /// None is given, and there is no home folder.
    pub(crate) fn folder(&self) -> anyhow::Result<PathBuf> {
        let folder = self.common.data.clone().or_else(default_folder);
        Ok(folder.ok_or_else(|| {
            UsageError("there is no home folder; name a data folder with --data or CLAWHOST_HOME".to_owned())
        })?)
    }

    /// A reader of the data folder, which is not created.
    ///
    /// # Errors
    /// It does not exist, or cannot be read.
    pub(crate) fn reader(&self) -> anyhow::Result<Box<dyn StoreReader>> {
        Ok(Workspace::read(&self.folder()?)?)
    }

    /// The data folder, open for writing.
    ///
    /// # Errors
    /// It cannot be used.
    pub(crate) fn workspace(&self, machine: &MachineArgs) -> anyhow::Result<Workspace> {
        let settings = WorkspaceSettings {
            store_bytes: Some(machine.store_limit.map_or(STORE_BYTES, |mib| mib << 20)),
            host: self.host_settings(machine)?,
            models: self.model_settings(machine)?,
            ..WorkspaceSettings::new(self.folder()?)
        };
        Ok(Workspace::open(settings)?)
    }

    /// The registry that is asked for modules, if one is named.
    ///
    /// # Errors
    /// The text names none.
    pub(crate) fn registry(&self) -> anyhow::Result<Option<Location>> {
        let location = self.common.registry.as_deref().map(str::parse::<Location>).transpose();
        Ok(location.map_err(clawhost_app::AppError::from)?)
    }

    /// The settings of the host: this program compiles components in child processes.
    ///
    /// # Errors
    /// The path of this program is unknown.
    pub(crate) fn host_settings(&self, machine: &MachineArgs) -> anyhow::Result<HostSettings> {
        Ok(HostSettings {
            on_demand: machine.on_demand,
            allow_interpreters: machine.allow_interpreters,
            compiler: Some(subprocess::child(subprocess::COMPILE)?),
            registry: self.registry()?,
        })
    }

    /// The settings of models: this program tries devices, and interprets the texts of model folders, in child processes.
    ///
    /// # Errors
    /// The path of this program is unknown.
    pub(crate) fn model_settings(&self, machine: &MachineArgs) -> anyhow::Result<ModelSettings> {
        let usual = ModelSettings::default();
        let endpoint = &machine.endpoint;
        Ok(ModelSettings {
            device: machine.device.choice(),
            probe: Some(subprocess::child(subprocess::PROBE)?),
            texts: texts()?,
            confirmed: ConfirmedEndpoints::read(&self.folder()?)?,
            api_key_files: endpoint.api_key_file.clone(),
            timeout_seconds: endpoint.model_timeout.unwrap_or(usual.timeout_seconds),
            retries: endpoint.retries.unwrap_or(usual.retries),
            routers: Some(routers_folder(&self.folder()?)),
            hub: hub_cache(),
        })
    }
}

/// The cache of Hugging Face's programs, which the environment names.
pub(crate) fn hub_cache() -> HubCache {
    HubCache::of_environment(|name| std::env::var_os(name), std::env::home_dir())
}

/// Where the texts of model folders are interpreted: in child processes of this program.
///
/// # Errors
/// The path of this program is unknown.
pub(crate) fn texts() -> anyhow::Result<TextHost> {
    Ok(TextHost::Process(subprocess::child(subprocess::TEXTS)?))
}
