//! Describes a plugin and its permissions.

use crate::compiling::announced;
use crate::events::EventSink;
use crate::host::host;
use crate::modules::{ComponentHost, Modules};
use crate::plugin_folder::PluginFolder;
use crate::workspace::existing_cache;
use crate::{AppError, HostSettings};
use clawhost_core::Limits;
use clawhost_engine::Inspection;
use clawhost_run_config::PluginSpec;
use serde::Serialize;
use std::path::Path;

/// A plugin, and the limits under which it would run.
#[derive(Debug, Clone, Serialize)]
pub struct Inspected {
    /// The plugin.
    pub plugin: Inspection,
    /// The limits of this host, lowered to those of the plugin.
    pub limits: Limits,
    /// The readme in its folder, or the one that was published with it. `None`: there is none.
    pub readme: Option<String>,
}

/// The readme in a plugin's folder.
const README_FILE: &str = "README.md";
/// Largest readme that is read, in bytes: as large as one that can be published.
const README_BYTES: u64 = 1 << 20;

/// The readme of a plugin: in its folder, or beside a module. A component alone has none.
async fn readme(host: &ComponentHost, path: &str) -> Result<Option<String>, AppError> {
    if let Some(module) = Modules::named(path)? {
        return Ok(host.modules().readme(&module).await?);
    }
    let file = PluginFolder::open(Path::new(path)).and_then(|folder| folder.inside(README_FILE));
    Ok(file.ok().and_then(|file| clawhost_files::read_text(&file, README_BYTES).ok()))
}

/// Inspects a plugin. Creates no data folder; an existing one caches compiled code as usual.
///
/// # Errors
/// It cannot be used.
pub async fn inspect(
    folder: &Path,
    settings: &HostSettings,
    plugin: &PluginSpec,
    events: &dyn EventSink,
) -> Result<Inspected, AppError> {
    let cache = existing_cache(folder)?;
    // For a single plugin, no pool is reserved.
    let host = host(&HostSettings { on_demand: true, ..settings.clone() }, folder, cache)?;
    let bytes = host.component(&plugin.path).await?;
    let inspection = announced(&host, events, host.inspect(&plugin.path, &bytes)).await?;
    let limits = match &inspection.manifest {
        Some(manifest) => manifest.limits.lowered(manifest.plugin.kind, host.limits()),
        None => host.limits().clone(),
    };
    let readme = readme(&host, &plugin.path).await?;
    Ok(Inspected { plugin: inspection, limits, readme })
}
