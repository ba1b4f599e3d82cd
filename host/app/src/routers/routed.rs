//! A router as a model of runs: `router:NAME`.

use super::config::RouterFile;
use super::files::{add_to_router, is_name, read_state, router_file};
use crate::{AppError, EventSink, ModelFactory, RequestError};
use clawhost_core::escaped;
use clawhost_learn::router::{Logged, RewardRange, Router};
use clawhost_learning::{RoutedModel, RoutedModels, RouterKeeper};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The kind of a policy that a router chooses.
pub(crate) const ROUTER: &str = "router";
/// The range of rewards of a router that has learned nothing: that of most rewards, and narrower than any could be.
const REWARDS: RewardRange = RewardRange { low: 0.0, high: 1.0 };
/// Longest part of a name that a message repeats, in bytes.
const SHOWN_BYTES: usize = 80;

/// A router with its models, ready to be asked.
pub(crate) struct OpenRouter {
    pub(crate) name: String,
    pub(crate) router: Router,
    pub(crate) models: Arc<RoutedModels>,
    folder: PathBuf,
}

/// The name of a router, from the text of a policy.
pub(crate) fn router_name(spec: &str) -> Option<&str> {
    spec.split_once(':').filter(|(kind, name)| *kind == ROUTER && !name.is_empty()).map(|(_, name)| name)
}

/// The folder of routers and the file of one.
///
/// # Errors
/// There is no such router, or its file cannot be used.
pub(crate) fn described(folder: Option<&Path>, name: &str) -> Result<(PathBuf, RouterFile), AppError> {
    let folder = folder.ok_or_else(|| RequestError::NoRouter { why: "there is no folder of routers".to_owned() })?;
    let path = router_file(folder, name, "toml");
    if !is_name(name) || !path.exists() {
        let shown = escaped(name, SHOWN_BYTES);
        let why = format!("there is no router `{shown}` for a policy; name its models in {}", path.display());
        return Err(RequestError::NoRouter { why }.into());
    }
    let file = RouterFile::read(&path)?;
    if let Some((alias, _)) = file.models.iter().find(|(_, section)| router_name(&section.model).is_some()) {
        let why = format!("{}: the model `{alias}` is a router itself", path.display());
        return Err(RequestError::NoRouter { why }.into());
    }
    Ok((folder.to_owned(), file))
}

impl OpenRouter {
    /// Opens the router of this name with its models. `rewards`: the range of rewards, if it has learned nothing yet.
    ///
    /// # Errors
    /// There is no such router, its files cannot be used, or one of its models cannot.
    pub(crate) fn open(
        folder: Option<&Path>,
        name: &str,
        rewards: Option<RewardRange>,
        models: &ModelFactory,
        events: &dyn EventSink,
    ) -> Result<Self, AppError> {
        let (folder, file) = described(folder, name)?;
        let learned = read_state(&router_file(&folder, name, "json"))?.map(|stored| stored.router);
        let router = file.router(learned, rewards.unwrap_or(REWARDS))?;
        let mut opened = RoutedModels::new();
        for (alias, section) in &file.models {
            opened.insert(alias.clone(), models.model(&section.model, events)?);
        }
        Ok(Self { name: name.to_owned(), router, models: Arc::new(opened), folder })
    }

    /// The model that it chooses.
    ///
    /// # Errors
    /// A model of its table is missing.
    pub(crate) fn model(self) -> Result<RoutedModel, AppError> {
        Ok(RoutedModel::new(&self.name, Arc::new(self.router), self.models)?)
    }

    /// Takes what a run learned.
    pub(crate) fn result(&self) -> Arc<RouterResult> {
        Arc::new(RouterResult { folder: self.folder.clone(), name: self.name.clone(), learned: Mutex::default() })
    }
}

/// What a run learned about a router. Its files change when the run is complete: an interrupted one is resumed from the state that it
/// began with.
pub(crate) struct RouterResult {
    folder: PathBuf,
    name: String,
    learned: Mutex<Option<(Router, Vec<Logged>)>>,
}

impl RouterKeeper for RouterResult {
    fn keep(&self, router: &Router, log: &[Logged]) -> Result<(), String> {
        *self.learned.lock().unwrap_or_else(PoisonError::into_inner) = Some((router.clone(), log.to_vec()));
        Ok(())
    }
}

impl RouterResult {
    /// Writes it into the files of the router.
    ///
    /// # Errors
    /// They cannot be read or written.
    pub(crate) fn write(&self) -> Result<(), AppError> {
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner).take();
        learned.map_or(Ok(()), |(router, log)| add_to_router(&self.folder, &self.name, &router, &log))
    }
}
