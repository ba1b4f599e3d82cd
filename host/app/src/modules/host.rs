//! The engine, and where components come from.

use super::Modules;
use crate::AppError;
use crate::plugin_folder::PluginFolder;
use clawhost_engine::Host;
use std::ops::Deref;
use std::path::Path;

/// The engine with the modules of a data folder: what loads plugins.
#[derive(Debug, Clone)]
pub struct ComponentHost {
    engine: Host,
    modules: Modules,
}

impl ComponentHost {
    pub(crate) fn new(engine: Host, modules: Modules) -> Self {
        Self { engine, modules }
    }

    /// The modules that are found by name.
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// The bytes of a plugin: of a component, of the one in a plugin's folder, or of a module.
    ///
    /// # Errors
    /// It cannot be read, the folder is no plugin that is built, or the module cannot be used.
    pub async fn component(&self, text: &str) -> Result<Vec<u8>, AppError> {
        if let Some(request) = Modules::named(text)? {
            return Ok(self.modules.component(&request).await?);
        }
        let path = Path::new(text);
        match path.is_dir() {
            true => Ok(self.engine.read(&PluginFolder::open(path)?.built()?)?),
            false => Ok(self.engine.read(path)?),
        }
    }
}

impl Deref for ComponentHost {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.engine
    }
}
