//! Modules of teams: publish, pull, add, update, list, search, yank.

mod add;
mod list;
mod publish;
mod withdraw;

pub(crate) use add::{AddArgs, PullArgs, UpdateArgs, add, pull, update};
pub(crate) use list::{ListArgs, SearchArgs, list, search};
pub(crate) use publish::{PublishArgs, publish};
pub(crate) use withdraw::{YankArgs, yank};

use crate::context::Context;
use clawhost_app::{AppError, ModuleError, Modules};
use clawhost_package::{LockedModule, ModuleName, ModuleNameError, ModuleRequest};
use clawhost_registry::{DEFAULT_TEAM, Location};
use std::str::FromStr;

/// Bytes of a text of others that is shown.
const SHOWN: usize = 300;

/// A label at the beginning of a line.
fn row(label: &str) -> String {
    format!("\x1b[2m{label:<12}\x1b[0m")
}

/// A module as on a command line: without a team it is of the default team.
pub(crate) fn request(text: &str) -> Result<ModuleRequest, AppError> {
    let name = text.split('@').next().unwrap_or_default();
    let with_team = if name.contains('/') { text.to_owned() } else { format!("{DEFAULT_TEAM}/{text}") };
    Ok(ModuleRequest::from_str(&with_team).map_err(ModuleError::from)?)
}

/// The registry that is named, or the usual one.
pub(crate) fn registry(modules: &Modules, named: Option<&str>) -> Result<Location, AppError> {
    match named {
        Some(text) => Ok(text.parse()?),
        None => Ok(modules.registry().clone()),
    }
}

pub(crate) fn modules(context: &Context) -> anyhow::Result<Modules> {
    let registry = context.registry()?;
    Ok(Modules::new(&context.folder()?, registry.as_ref()))
}

/// The module of claw.lock with this content. `None`: there is none, or the lock cannot be read, which commands that need it say.
pub(crate) fn pinned(context: &Context, content: &str) -> anyhow::Result<Option<LockedModule>> {
    let lock = modules(context)?.project().lock().ok();
    Ok(lock.and_then(|lock| lock.modules().iter().find(|pin| pin.content.to_string() == content).cloned()))
}

/// A module name with an optional version behind it.
fn name_and_version(text: &str) -> Result<(ModuleName, Option<semver::Version>), AppError> {
    let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    let with_team = if name.contains('/') { name.to_owned() } else { format!("{DEFAULT_TEAM}/{name}") };
    let wrong = |version: &str| ModuleError::from(ModuleNameError::Version(version.to_owned()));
    let version = version.map(|version| version.parse().map_err(|_| wrong(version))).transpose()?;
    Ok((with_team.parse().map_err(ModuleError::from)?, version))
}
