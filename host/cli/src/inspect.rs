//! `clawhost inspect`.

use crate::args::{InspectArgs, MachineArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::terminal::Progress;
use clawhost_app::{Inspected, plugin_spec};
use clawhost_core::{counted, escaped};
use clawhost_package::{LOCK_FILE, LockedModule};
use std::io::Write as _;

/// Bytes of a line of a readme that are shown.
const README_LINE: usize = 2000;

pub(crate) async fn run(context: &Context, args: &InspectArgs) -> anyhow::Result<Exit> {
    let plugin = args.plugin.as_deref().unwrap_or(clawhost_app::HERE);
    let machine = MachineArgs::trying(plugin, args.allow_interpreters);
    let (folder, host) = (context.folder()?, context.host_settings(&machine)?);
    let progress = Progress::new(context, false, "inspected");
    let inspected = clawhost_app::inspect(&folder, &host, &plugin_spec(plugin)?, &progress).await;
    progress.finish();
    let Inspected { plugin: inspection, limits, readme } = inspected?;
    let module = crate::modules::pinned(context, &inspection.digest)?;
    let mut out = crate::terminal::stdout();
    if context.json() {
        let document = serde_json::json!({ "format": 1, "plugin": inspection, "module": module, "limits": limits,
            "readme": readme });
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    let row = |label: &str| format!("\x1b[2m{label:<12}\x1b[0m");
    let about = &inspection.about;
    let summary = if about.summary.is_empty() { String::new() } else { format!(": {}", about.summary) };
    writeln!(out, "{}\x1b[1m{}\x1b[0m {}{summary}", row(inspection.world), about.name, about.version)?;
    if let Some(LockedModule { name, version, registry, signed_by, .. }) = &module {
        writeln!(out, "{}{name} {version}, pinned in {LOCK_FILE}, from {}", row("module"), escaped(registry, 200))?;
        let by = signed_by.map_or_else(|| "no key that is trusted".to_owned(), |key| key.to_string());
        writeln!(out, "{}{by}", row("signed by"))?;
    }
    writeln!(out, "{}{}", row("track"), inspection.interface)?;
    writeln!(out, "{}{}", row("digest"), inspection.digest)?;
    writeln!(out, "{}{} KiB", row("size"), inspection.size.div_ceil(1024))?;
    if let Some(licence) =
        inspection.manifest.as_ref().map(|manifest| &manifest.plugin.license).filter(|one| !one.is_empty())
    {
        writeln!(out, "{}{}", row("licence"), escaped(licence, 200))?;
    }
    if !about.features.is_empty() {
        writeln!(out, "{}{}", row("features"), about.features.join(", "))?;
    }
    for split in &inspection.splits {
        writeln!(out, "{}{}, {}", row("split"), split.name, counted(split.tasks, "task"))?;
    }
    if let Some((low, high)) = inspection.range {
        let scope = inspection.scope.map(|scope| format!("{scope:?}").to_lowercase()).unwrap_or_default();
        writeln!(out, "{}{low} to {high}, depends on {scope}", row("range"))?;
        let source = inspection.source.map(clawhost_core::RewardSource::name).unwrap_or_default();
        writeln!(out, "{}{source}", row("source"))?;
    }
    let listed = |all: &[String]| all.iter().map(|one| escaped(one, 200)).collect::<Vec<_>>().join(", ");
    for (label, all) in [("gives", &inspection.gives), ("reads", &inspection.reads)] {
        if !all.is_empty() {
            writeln!(out, "{}{}", row(label), listed(all))?;
        }
    }
    for option in &about.options {
        writeln!(out, "{}{}={}: {}", row("option"), option.name, option.default_value, option.summary)?;
    }
    for permission in &inspection.permissions {
        // A manifest names its grants, below.
        let grant = permission
            .grant
            .as_ref()
            .filter(|_| inspection.manifest.is_none())
            .map(|grant| format!("  \x1b[33mneeds --grant {grant}\x1b[0m"))
            .unwrap_or_default();
        writeln!(out, "{}{}: {}{grant}", row("imports"), permission.import, permission.allows)?;
    }
    if let Some(manifest) = &inspection.manifest {
        let kv = manifest.grants.kv.then(|| ("kv".to_owned(), "kv".to_owned()));
        let models = manifest.grants.llm.iter().map(|alias| {
            let grant = format!("llm:{}", escaped(alias, 100));
            (grant.clone(), format!("{grant}=SPEC"))
        });
        for (asked, grant) in kv.into_iter().chain(models) {
            writeln!(out, "{}{asked}  \x1b[33mneeds --grant {grant}\x1b[0m", row("asks for"))?;
        }
    }
    let memory = match inspection.world {
        "reward" | "router" => limits.reward_memory_bytes,
        _ => limits.memory_bytes,
    };
    let (fuel, call) = match inspection.world {
        "router" => (limits.route.fuel, "choice"),
        _ => (limits.step.fuel, "step"),
    };
    writeln!(
        out,
        "{}memory {} MiB, stack {} KiB, fuel {} M a {call}, observation {} KiB, log {} lines (--json shows all)",
        row("limits"),
        memory >> 20,
        limits.stack_bytes >> 10,
        fuel / 1_000_000,
        limits.observation_bytes >> 10,
        limits.log_lines,
    )?;
    match (readme, args.readme) {
        (Some(text), true) => {
            writeln!(out)?;
            text.lines().try_for_each(|line| writeln!(out, "{}", escaped(line, README_LINE)))?;
        }
        (Some(text), false) => {
            writeln!(out, "{}{} (--readme shows them)", row("readme"), counted(text.lines().count() as u64, "line"))?;
        }
        (None, true) => writeln!(out, "{}none", row("readme"))?,
        (None, false) => {}
    }
    Ok(Exit::Ok)
}
