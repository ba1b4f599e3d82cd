//! `clawhost model pull`: an adapter comes from a registry.

use super::print_json;
use crate::context::Context;
use crate::exit::Exit;
use crate::modules::{modules, registry, request};
use clawhost_app::{AppError, PulledAdapter};
use clawhost_core::escaped;
use clawhost_registry::OciOptions;
use std::io::Write as _;

/// Most bytes of a text of others that are shown.
const SHOWN: usize = 200;

pub(super) async fn pull(context: &Context, module: &str, from: Option<&str>) -> anyhow::Result<Exit> {
    let modules = modules(context)?;
    let location = registry(&modules, from)?;
    let opened = clawhost_registry::open(&location, OciOptions::default()).map_err(AppError::from)?;
    let pulled = modules.pull_adapter(&*opened, &request(module)?).await?;
    if context.json() {
        return print_json(&serde_json::json!({ "format": 1, "pulled": pulled }));
    }
    let PulledAdapter { name, version, bytes, settings, base, signer } = pulled;
    let mut out = crate::terminal::stdout();
    let (rank, alpha, kib) = (settings.rank, settings.alpha, bytes.div_ceil(1024));
    writeln!(out, "{name} {version}: an adapter of rank {rank} with alpha {alpha}, {kib} KiB, from {location}")?;
    match signer {
        Some(signer) => writeln!(out, "signed by {} ({})", signer.name, signer.fingerprint)?,
        None => writeln!(out, "signed by nobody who is trusted; your policy permits that")?,
    }
    if !base.is_empty() {
        writeln!(out, "its author names the model {}", escaped(&base, SHOWN))?;
    }
    writeln!(out, "use it with its model: `clawhost model chat MODEL --adapter {name}@{version}`")?;
    Ok(Exit::Ok)
}
