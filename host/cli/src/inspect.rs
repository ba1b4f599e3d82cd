//! `clawhost inspect`.

use crate::args::{self, Common};
use crate::data;
use crate::exit::Exit;
use crate::hosting;
use crate::plugin::PluginSpec;
use std::io::Write as _;

pub(crate) fn main(common: &Common, options: &args::Inspect) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Looking at a plugin makes no data folder; where there is one, compiled code is kept in it, as always.
    let folder = data::folder(common)?;
    let cache = if data::has_key(&folder) { Some(data::cache(&folder)?) } else { None };
    let host = hosting::host(cache, true, options.allow_interpreters)?;
    let spec = PluginSpec::parse(&options.plugin)?;
    let (name, bytes) = (spec.name(), host.read(&spec.path)?);
    let inspection = runtime.block_on(host.inspect(&name, &bytes))?;
    let mut out = anstream::stdout().lock();
    if common.json {
        let document = serde_json::json!({ "format": 1, "plugin": inspection, "limits": host.limits() });
        writeln!(out, "{document:#}")?;
        return Ok(Exit::Ok);
    }
    let row = |label: &str| format!("\x1b[2m{label:<12}\x1b[0m");
    let about = &inspection.about;
    let summary = if about.summary.is_empty() { String::new() } else { format!(": {}", about.summary) };
    writeln!(out, "{}\x1b[1m{}\x1b[0m {}{summary}", row(inspection.world), about.name, about.version)?;
    writeln!(out, "{}{}", row("track"), inspection.interface)?;
    writeln!(out, "{}{}", row("digest"), inspection.digest)?;
    writeln!(out, "{}{} KiB", row("size"), inspection.size.div_ceil(1024))?;
    if !about.features.is_empty() {
        writeln!(out, "{}{}", row("features"), about.features.join(", "))?;
    }
    for split in &inspection.splits {
        writeln!(out, "{}{}, {} tasks", row("split"), split.name, split.tasks)?;
    }
    if let Some((low, high)) = inspection.range {
        let scope = inspection.scope.map(|scope| format!("{scope:?}").to_lowercase()).unwrap_or_default();
        writeln!(out, "{}{low} to {high}, depends on {scope}", row("range"))?;
        let source = inspection.source.map(clawhost_core::RewardSource::name).unwrap_or_default();
        writeln!(out, "{}{source}", row("source"))?;
    }
    for option in &about.options {
        writeln!(out, "{}{}={}: {}", row("option"), option.name, option.default_value, option.summary)?;
    }
    for permission in &inspection.permissions {
        let grant =
            permission.grant.as_ref().map(|grant| format!("  \x1b[33mneeds {grant}\x1b[0m")).unwrap_or_default();
        writeln!(out, "{}{}: {}{grant}", row("imports"), permission.import, permission.allows)?;
    }
    let limits = host.limits();
    let memory = if inspection.world == "reward" { limits.reward_memory_bytes } else { limits.memory_bytes };
    writeln!(
        out,
        "{}memory {} MiB, stack {} KiB, fuel {} M a step, observation {} KiB, log {} lines (--json shows all)",
        row("limits"),
        memory >> 20,
        limits.stack_bytes >> 10,
        limits.step.fuel / 1_000_000,
        limits.observation_bytes >> 10,
        limits.log_lines,
    )?;
    Ok(Exit::Ok)
}
