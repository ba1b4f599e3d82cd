//! `clawhost router versions` and `clawhost router rollback`.

use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::routers::{RolledBack, RouterVersion, roll_back_router, router_versions};
use clawhost_core::{counted, escaped, thousands};
use std::io::Write as _;

/// Longest name that is shown.
const NAME: usize = 80;

pub(super) fn list(context: &Context, named: Option<&str>) -> anyhow::Result<Exit> {
    let (name, versions) = router_versions(&context.folder()?, named)?;
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "router": name, "versions": versions }))?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    let mut table = crate::episodes::table(&["version", "identity", "outcomes", ""]);
    for one in &versions {
        let served = if one.served { "served" } else { "" };
        table.add_row([one.version.to_string(), one.identity.short(), thousands(one.learned), served.to_owned()]);
    }
    crate::episodes::print(&mut out, &table)?;
    Ok(Exit::Ok)
}

pub(super) fn roll_back(context: &Context, name: &str, to: Option<u64>) -> anyhow::Result<Exit> {
    let done = roll_back_router(&context.folder()?, name, to)?;
    let RolledBack { before, to, now } = &done;
    if context.json() {
        let document = serde_json::json!({ "format": 1, "router": name, "before": before, "to": to, "now": now });
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    writeln!(out, "{} serves version {} again, as version {}", escaped(name, NAME), to.version, now.version)?;
    writeln!(out, "before      {}", told(before))?;
    writeln!(out, "now         {}", told(now))?;
    Ok(Exit::Ok)
}

fn told(one: &RouterVersion) -> String {
    format!("version {} ({}), {}", one.version, one.identity.short(), counted(one.learned, "outcome"))
}
