//! `clawhost list` and `search`: which modules there are.

use super::{SHOWN, registry};
use crate::context::Context;
use crate::episodes::{print, table};
use crate::exit::Exit;
use clap::Args;
use clawhost_app::AppError;
use clawhost_core::escaped;
use clawhost_package::{LOCK_FILE, ModuleName};
use clawhost_registry::{OciOptions, Reference, Registry, State, versions};
use serde::Serialize;
use std::io::Write as _;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The modules of this registry: oci://HOST/PATH or file:FOLDER [default: what was pulled, and what claw.lock pins]
    #[arg(long, value_name = "REGISTRY")]
    from: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words that names, summaries or kinds contain, all of them [default: every module]
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// The registry: oci://HOST/PATH or file:FOLDER [default: --registry]
    #[arg(long, value_name = "REGISTRY")]
    from: Option<String>,
}

/// A module in a list.
#[derive(Debug, Serialize)]
struct Listed {
    name: ModuleName,
    newest: String,
    kind: Option<String>,
    description: Option<String>,
    versions: Vec<String>,
    state: Option<State>,
    pinned: Option<String>,
}

/// The modules of a registry that fit, with their newest versions.
async fn listed(
    registry: &dyn Registry,
    fits: impl Fn(&Listed) -> bool,
    pinned: impl Fn(&ModuleName) -> Option<String>,
) -> Result<Vec<Listed>, AppError> {
    let mut all = Vec::new();
    for name in registry.modules().await? {
        let Ok(versions) = versions(registry, &name).await else { continue };
        let states = clawhost_registry::statuses(registry, &name).await?;
        let newest = versions.iter().find(|version| !states.is_yanked(version)).or(versions.first());
        let Some(newest) = newest else { continue };
        let facts = match registry.manifest(&name, &Reference::Tag(newest.to_string())).await? {
            Some(document) => clawhost_registry::facts(&name, newest, &document).ok(),
            None => None,
        };
        let one = Listed {
            newest: newest.to_string(),
            kind: facts.as_ref().map(|facts| facts.kind.to_string()),
            description: facts.and_then(|facts| facts.description),
            versions: versions.iter().map(ToString::to_string).collect(),
            state: states.of(newest).cloned(),
            pinned: pinned(&name),
            name,
        };
        if fits(&one) {
            all.push(one);
        }
    }
    Ok(all)
}

fn shown(context: &Context, all: &[Listed], none: &str) -> anyhow::Result<Exit> {
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "modules": all }))?;
        return Ok(Exit::Ok);
    }
    if all.is_empty() {
        writeln!(crate::terminal::stdout(), "{none}")?;
        return Ok(Exit::Ok);
    }
    let mut rows = table(&["module", "newest", "kind", "pinned", "summary"]);
    for one in all {
        let newest = match &one.state {
            Some(State::Yanked { .. }) => format!("{} (withdrawn)", one.newest),
            Some(State::Deprecated { .. }) => format!("{} (deprecated)", one.newest),
            None => one.newest.clone(),
        };
        rows.add_row([
            one.name.to_string(),
            newest,
            one.kind.clone().unwrap_or_default(),
            one.pinned.clone().unwrap_or_default(),
            escaped(one.description.as_deref().unwrap_or_default(), SHOWN),
        ]);
    }
    print(&mut crate::terminal::stdout(), &rows)?;
    Ok(Exit::Ok)
}

pub(crate) async fn list(context: &Context, args: &ListArgs) -> anyhow::Result<Exit> {
    let modules = super::modules(context)?;
    let lock = modules.project().lock().map_err(AppError::from)?;
    let pinned = |name: &ModuleName| lock.module(name).map(|pin| pin.version.to_string());
    let all = match &args.from {
        Some(_) => {
            let location = registry(&modules, args.from.as_deref())?;
            let registry = clawhost_registry::open(&location, OciOptions::default()).map_err(AppError::from)?;
            listed(&*registry, |_| true, pinned).await?
        }
        None => listed(modules.shelf(), |_| true, pinned).await?,
    };
    let none =
        format!("no module was pulled yet, and {LOCK_FILE} pins none that is here; `clawhost add MODULE` adds one");
    shown(context, &all, if args.from.is_some() { "there is no module" } else { &none })
}

pub(crate) async fn search(context: &Context, args: &SearchArgs) -> anyhow::Result<Exit> {
    let modules = super::modules(context)?;
    let lock = modules.project().lock().map_err(AppError::from)?;
    let location = registry(&modules, args.from.as_deref())?;
    let registry = clawhost_registry::open(&location, OciOptions::default()).map_err(AppError::from)?;
    let words: Vec<String> = args.words.iter().map(|word| word.to_lowercase()).collect();
    let fits = |one: &Listed| {
        let text =
            [one.name.to_string(), one.kind.clone().unwrap_or_default(), one.description.clone().unwrap_or_default()];
        let text = text.join(" ").to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    let all = listed(&*registry, fits, |name| lock.module(name).map(|pin| pin.version.to_string())).await?;
    shown(context, &all, &format!("{location} has no module with these words"))
}
