//! `clawhost model log` and `clawhost model rollback`: versions of weights that learn while they serve.

use super::print_json;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use clawhost_app::{LiveWeightsVersions, Scope, Workspace, WorkspaceSettings, live_weights, serve_live_weights, time};
use clawhost_core::{Digest, escaped};
use std::collections::BTreeSet;
use std::io::Write as _;

/// Longest note of a version that is shown, and longest name of a model with a scope.
const NOTE: usize = 120;
/// See [`NOTE`].
const NAME: usize = 600;

fn workspace(context: &Context) -> anyhow::Result<Workspace> {
    Ok(Workspace::open(WorkspaceSettings::new(context.folder()?))?)
}

fn named(model: &str, scope: Option<&Scope>) -> String {
    let whose = scope.map(|scope| format!(", {scope}")).unwrap_or_default();
    escaped(&format!("{model}{whose}"), NAME)
}

pub(super) fn log(context: &Context, wanted: Option<&str>) -> anyhow::Result<Exit> {
    context.reader()?;
    let mut all = live_weights(&workspace(context)?)?;
    if let Some(wanted) = wanted
        && !all.is_empty()
        && all.iter().all(|one| one.model != wanted)
    {
        let known: BTreeSet<String> = all.iter().map(|one| escaped(&one.model, NAME)).collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        let why = format!("no model {} has learned from live sessions; there is {known}", escaped(wanted, NAME));
        return Err(UsageError(why).into());
    }
    all.retain(|one| wanted.is_none_or(|wanted| one.model == wanted));
    if context.json() {
        return print_json(&serde_json::json!({ "format": 1, "weights": all }));
    }
    let mut out = crate::terminal::stdout();
    if all.is_empty() {
        writeln!(
            out,
            "no model has learned from live sessions; the section [weights] of gateway.toml says which one shall"
        )?;
    }
    for LiveWeightsVersions { model, scope, serves, versions } in &all {
        writeln!(out, "{}", named(model, scope.as_ref()))?;
        let mut table = crate::episodes::table(&["version", "from", "digest", "sessions", "when", "", "what happened"]);
        for version in versions {
            let state = match (version.is_kept, version.is_withdrawn) {
                (true, true) if version.number == *serves => "serves, confirmed",
                (true, false) if version.number == *serves => "serves",
                (true, true) => "withdrawn",
                (true, false) => "",
                (false, _) => "no version",
            };
            table.add_row([
                version.number.to_string(),
                version.from.to_string(),
                version.digest.parse().map_or_else(|_| "?".to_owned(), |digest: Digest| digest.short()),
                version.sessions.to_string(),
                time(version.at),
                state.to_owned(),
                escaped(&version.note, NOTE),
            ]);
        }
        crate::episodes::print(&mut out, &table)?;
    }
    Ok(Exit::Ok)
}

pub(super) fn roll_back(
    context: &Context,
    (model, scope): (&str, Option<&Scope>),
    to: u64,
    confirms: bool,
) -> anyhow::Result<Exit> {
    context.reader()?;
    serve_live_weights(&workspace(context)?, (model, scope), to, confirms)?;
    if context.json() {
        return print_json(&serde_json::json!({ "format": 1, "model": model, "scope": scope, "serves": to }));
    }
    let what = if to == 0 { "the configured weights".to_owned() } else { format!("version {to}") };
    writeln!(crate::terminal::stdout(), "{} serves {what}; learning goes on from there", named(model, scope))?;
    Ok(Exit::Ok)
}
