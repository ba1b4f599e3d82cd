//! `clawhost score --history`: which components of a reward have judged episodes.

use crate::context::Context;
use crate::episodes::{print, table, tell_damaged};
use crate::exit::Exit;
use clawhost_app::{RewardUses, RunChoice, reward_history, time};
use clawhost_core::{escaped, thousands};
use clawhost_play::{Interval, RewardUse};
use comfy_table::CellAlignment;

/// Longest text of options, in bytes.
const OPTIONS_BYTES: usize = 60;

pub(crate) fn run(context: &Context, name: &str, runs: &RunChoice) -> anyhow::Result<Exit> {
    let reader = context.reader()?;
    let RewardUses { name, uses, damaged } = reward_history(&*reader, name, runs)?;
    if context.json() {
        let document = serde_json::json!({ "format": 1, "name": name, "uses": uses, "damaged": damaged });
        crate::terminal::json(&document)?;
    } else {
        let mut rows =
            table(&["digest", "version", "options", "first", "last", "runs", "verdicts", "without score", "mean"]);
        for one in &uses {
            rows.add_row(row(one));
        }
        for column in [5, 6] {
            if let Some(column) = rows.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        print(&mut crate::terminal::stdout(), &rows)?;
    }
    tell_damaged(&damaged);
    Ok(if damaged.is_empty() { Exit::Ok } else { Exit::Store })
}

fn row(one: &RewardUse) -> [String; 9] {
    let options: Vec<String> = one.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let options = if options.is_empty() { "-".to_owned() } else { escaped(&options.join("&"), OPTIONS_BYTES) };
    let without = [(one.not_applicable, "not applicable"), (one.failed, "failed")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", thousands(count)))
        .collect::<Vec<_>>();
    let interval = one.interval.map(|Interval { low, high }| format!(" ({low:.3} to {high:.3})")).unwrap_or_default();
    [
        one.reward.digest.short(),
        one.reward.version.clone(),
        options,
        time(one.first_at),
        time(one.last_at),
        thousands(one.runs),
        thousands(one.verdicts),
        if without.is_empty() { "-".to_owned() } else { without.join(", ") },
        one.mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.3}{interval}")),
    ]
}
