//! `clawhost tasks`: lists the tasks of an environment.

use crate::args::{MachineArgs, TasksArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::summary;
use crate::terminal::Progress;
use clawhost_app::{
    ListedSplit, ListedTask, TASKS_LISTED, TASKS_SEED, TaskListing, TasksRequest, list_tasks, plugin_spec,
};
use clawhost_core::{counted, escaped, thousands};
use std::io::Write;

/// Characters of a task that a row shows.
const SHOWN: usize = 100;

pub(crate) async fn run(context: &Context, args: &TasksArgs) -> anyhow::Result<Exit> {
    let plugin = args.plugin.as_deref().unwrap_or(clawhost_app::HERE);
    let machine = MachineArgs::trying(plugin, args.allow_interpreters);
    let (folder, host) = (context.folder()?, context.host_settings(&machine)?);
    let request = TasksRequest {
        plugin: plugin_spec(plugin)?,
        split: args.split.clone(),
        limit: args.limit.unwrap_or(TASKS_LISTED),
        seed: args.seed.unwrap_or(TASKS_SEED),
        with_references: args.reference,
    };
    let progress = Progress::new(context, false, "listed");
    let listing = list_tasks(&folder, &host, &request, &progress).await;
    progress.finish();
    let listing = listing?;
    let mut out = crate::terminal::stdout();
    if context.json() {
        let document = serde_json::json!({ "format": 1, "tasks": listing });
        crate::terminal::json(&document)?;
    } else {
        text(&mut out, &listing, args.reference)?;
    }
    Ok(Exit::Ok)
}

fn row(label: &str) -> String {
    format!("\x1b[2m{label:<12}\x1b[0m")
}

fn text(out: &mut impl Write, listing: &TaskListing, with_references: bool) -> std::io::Result<()> {
    let TaskListing { environment, options, seed, splits } = listing;
    let query = summary::query(options);
    let (name, version, digest) = (&environment.name, &environment.version, environment.digest.short());
    writeln!(out, "{}{name} {version} ({digest}){query}, seed {seed}", row("environment"))?;
    for ListedSplit { split, tasks, listed } in splits {
        writeln!(out, "{}{}: {}", row("split"), escaped(split, 80), counted(*tasks, "task"))?;
        for ListedTask { id, input, tags, extra, reference, .. } in listed {
            let mut parts = vec![escaped(id, 80)];
            let first = input.lines().next().unwrap_or_default();
            let more = if input.lines().nth(1).is_some() { " ..." } else { "" };
            parts.extend((!first.is_empty()).then(|| format!("{}{more}", escaped(first, SHOWN))));
            let tags = tags.iter().map(|tag| escaped(tag, 60));
            let said: Vec<String> =
                tags.chain(extra.iter().map(|(name, value)| escaped(&format!("{name}={value}"), 60))).collect();
            parts.extend((!said.is_empty()).then(|| format!("[{}]", said.join(", "))));
            writeln!(out, "  {}", parts.join("  "))?;
            if let Some(reference) = reference {
                writeln!(out, "    reference {}", escaped(reference, 1000))?;
            }
        }
        let left = tasks.saturating_sub(listed.len() as u64);
        if left > 0 && !listed.is_empty() {
            writeln!(out, "  and {} more; --limit shows more", thousands(left))?;
        }
    }
    let mut listed = splits.iter().flat_map(|split| &split.listed).peekable();
    if listed.peek().is_some() && listed.all(|task| task.input.is_empty()) {
        writeln!(out, "these tasks have no text of their own: an episode's first observation tells what to do")?;
    }
    let has_references = splits.iter().flat_map(|split| &split.listed).any(|task| task.has_reference);
    if has_references && !with_references {
        writeln!(out, "references are left out; --reference shows them")?;
    }
    Ok(())
}
