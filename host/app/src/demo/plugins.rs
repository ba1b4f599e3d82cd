//! Finds and loads the plugins of a demonstration.

use super::halted::Part;
use crate::modules::ComponentHost;
use crate::{AppError, RequestError};
use clawhost_core::Attributes;
use clawhost_engine::{EnvironmentPlugin, ModelGrants, ReflectorPlugin};
use clawhost_play::ScoringRule;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The environment variable that names the folder of the plugins.
pub const PLUGINS_VARIABLE: &str = "CLAWHOST_GUESTS";
/// The folder of built plugins in a checkout.
const BUILT: &str = "target/guests";

/// The folder of the plugins: the given one, the one that `CLAWHOST_GUESTS` names, or `target/guests`.
///
/// # Errors
/// The needed plugin is not in the folder.
pub fn plugin_folder(given: Option<&Path>, needed: &str) -> Result<PathBuf, AppError> {
    let given = given.map(Path::to_owned).or_else(|| std::env::var_os(PLUGINS_VARIABLE).map(PathBuf::from));
    let folder = given.unwrap_or_else(|| PathBuf::from(BUILT));
    if folder.join(needed).exists() {
        return Ok(folder);
    }
    let (folder, file) = (folder.display().to_string(), needed.to_owned());
    Err(RequestError::NoPlugin { folder, file }.into())
}

/// Loads the plugins of a demonstration, without any grants.
pub(super) struct DemoPlugins<'a> {
    pub(super) host: &'a ComponentHost,
    pub(super) folder: &'a Path,
}

impl DemoPlugins<'_> {
    fn read(&self, file: &str) -> Result<(String, Vec<u8>), AppError> {
        let path = self.folder.join(file);
        Ok((path.display().to_string(), self.host.read(&path)?))
    }

    pub(super) async fn environment(&self, file: &str) -> Part<Arc<EnvironmentPlugin>> {
        let (name, bytes) = self.read(file)?;
        Ok(Arc::new(self.host.environment(&name, &bytes, ModelGrants::default()).await?))
    }

    pub(super) async fn reward(&self, file: &str, options: &Attributes) -> Part<ScoringRule> {
        let (name, bytes) = self.read(file)?;
        let reward = Arc::new(self.host.reward(&name, &bytes, ModelGrants::default()).await?);
        Ok(ScoringRule::new(reward, options.clone()))
    }

    pub(super) async fn reflector(&self, file: &str) -> Part<Arc<ReflectorPlugin>> {
        let (name, bytes) = self.read(file)?;
        Ok(Arc::new(self.host.reflector(&name, &bytes, ModelGrants::default()).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_folder_without_plugins_is_refused_with_the_first_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let error = plugin_folder(Some(folder.path()), "env_shop.wasm").unwrap_err();
        assert!(error.to_string().contains("no env_shop.wasm there; build the plugins with `cargo xtask guests`"));
        assert_eq!(error.kind(), ErrorKind::Usage);
        std::fs::write(folder.path().join("env_shop.wasm"), b"").unwrap();
        assert_eq!(plugin_folder(Some(folder.path()), "env_shop.wasm").unwrap(), folder.path());
    }
}
