//! `clawhost yank`: a version is withdrawn, or deprecated.

use super::{name_and_version, registry, row};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use clap::Args;
use clawhost_app::AppError;
use clawhost_registry::{OciOptions, State, set_status, versions};
use std::io::Write as _;

const HELP: &str = "A withdrawn version is not chosen any more; what claw.lock pins keeps working. A deprecated version is chosen, with a warning.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct YankArgs {
    /// The version: TEAM/NAME@VERSION
    #[arg(value_name = "MODULE@VERSION")]
    module: String,
    /// The registry: oci://HOST/PATH or file:FOLDER [default: --registry]
    #[arg(long, value_name = "REGISTRY")]
    from: Option<String>,
    /// The reason, which others read
    #[arg(long, value_name = "TEXT", required_unless_present = "undo")]
    why: Option<String>,
    /// Only deprecate it
    #[arg(long, conflicts_with = "undo")]
    deprecate: bool,
    /// Take it back
    #[arg(long)]
    undo: bool,
}

pub(crate) async fn yank(context: &Context, args: &YankArgs) -> anyhow::Result<Exit> {
    let modules = super::modules(context)?;
    let location = registry(&modules, args.from.as_deref())?;
    let registry = clawhost_registry::open(&location, OciOptions::default()).map_err(AppError::from)?;
    let (name, version) = name_and_version(&args.module)?;
    let version = version.ok_or_else(|| UsageError("name a version, as team/name@1.2.0".to_owned()))?;
    let known = versions(&*registry, &name).await.map_err(AppError::from)?;
    if !known.contains(&version) {
        let known: Vec<String> = known.iter().map(ToString::to_string).collect();
        return Err(UsageError(format!("{location} has no {name} {version}; it has {}", known.join(", "))).into());
    }
    let why = args.why.clone().unwrap_or_default();
    let (state, says) = match (args.undo, args.deprecate) {
        (true, _) => (None, "restored"),
        (false, true) => (Some(State::Deprecated { why }), "deprecated"),
        (false, false) => (Some(State::Yanked { why }), "withdrawn"),
    };
    set_status(&*registry, &name, &version, state.clone()).await.map_err(AppError::from)?;
    match context.json() {
        true => {
            let document = serde_json::json!({ "format": 1, "module": name, "version": version, "state": state });
            crate::terminal::json(&document)?;
        }
        false => writeln!(crate::terminal::stdout(), "{}{name} {version} in {location}", row(says))?,
    }
    Ok(Exit::Ok)
}
