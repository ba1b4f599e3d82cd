//! `clawhost build`: builds the plugin of a folder.

use crate::args::{BuildArgs, here};
use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::PluginFolder;
use clawhost_devkit::{BuildOptions, Built, build};
use std::io::Write;

/// The folder inside the data folder that plugins share while they are built.
pub(crate) const SHARED: &str = "build";

pub(crate) fn run(context: &Context, args: &BuildArgs) -> anyhow::Result<Exit> {
    let plugin = PluginFolder::open(here(args.folder.as_deref())).map_err(clawhost_app::AppError::from)?;
    let options =
        BuildOptions { shared: Some(context.folder()?.join(SHARED)), is_quiet: args.quiet, ..BuildOptions::default() };
    let built = build(&plugin, &options)?;
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "built": built }))?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    for one in &built {
        line(&mut out, one)?;
    }
    Ok(Exit::Ok)
}

/// What was built.
pub(crate) fn line(out: &mut impl Write, built: &Built) -> std::io::Result<()> {
    let (seconds, kib) = (built.took_ms as f64 / 1000.0, built.bytes.div_ceil(1024));
    let (component, digest) = (built.component.display(), built.digest.short());
    match built.unchanged {
        true => writeln!(out, "unchanged   {component} ({kib} KiB, {digest}), newer than its sources"),
        false => writeln!(out, "built       {component} ({kib} KiB, {digest}) in {seconds:.1} s"),
    }
}

/// Says that what is tried is older than its sources.
pub(crate) fn note_outdated(newer: Option<std::time::Duration>) -> std::io::Result<()> {
    let Some(newer) = newer else { return Ok(()) };
    let newer = humantime::format_duration(std::time::Duration::from_secs(newer.as_secs()));
    let mut notes = crate::terminal::stderr();
    writeln!(notes, "note: sources are newer than the component, by {newer}; `clawhost build` builds it")
}

/// The beginning of a digest, as it is shown everywhere.
pub(crate) fn short(digest: &str) -> &str {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex.get(..12).unwrap_or(hex)
}
