//! A run that learns is taken up again: with what it was begun with, or with what has changed since then being named.

use crate::data::Claim;
use crate::exit::UsageError;
use crate::run::unfinished;
use clawhost_core::{Digest, RunId, Usage, escaped};
use clawhost_store::{Reader, RunRow};
use serde_json::Value;
use std::path::Path;

/// Differences that are told; others follow from the same mistake, mostly.
const SHOWN: usize = 3;
/// Characters of a value that is told.
const CHARACTERS: usize = 40;
/// What may be another: it is no part of what is compared.
const MAY_DIFFER: [&str; 3] = ["device", "deterministic", "version"];

/// The run to take up again, claimed for this process. `now`: everything that is asked for.
///
/// # Errors
/// There is none like it. What has changed since it was begun is named.
pub(crate) fn taken_up(
    folder: &Path,
    digest: &Digest,
    wanted: &str,
    now: &Value,
) -> anyhow::Result<(RunId, Claim, Usage)> {
    let reader = Reader::open(folder)?;
    let meant = |run: &RunRow| wanted.is_empty() || run.id == wanted;
    let run =
        reader.runs(None)?.into_iter().find(|run| stopped(run) && run.config.get("learn").is_some() && meant(run));
    let is_there = reader.unfinished(digest)?.iter().any(|(run, _)| wanted.is_empty() || run == wanted);
    if let (Some(run), false) = (run, is_there) {
        changed_plugins(&run, now)?;
        let all = differences("", &run.config, now);
        if !all.is_empty() {
            let more = all.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(", and {more} more differ") } else { String::new() };
            let told = all.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
            return Err(UsageError(format!(
                "no run of this configuration was interrupted here. {} was, but {told}{more}; give it the command and the files that \
                 it was begun with, or begin a new run without --resume",
                run.id
            ))
            .into());
        }
    }
    unfinished(folder, digest, wanted)
}

fn stopped(run: &RunRow) -> bool {
    run.summary.as_ref().is_none_or(|summary| summary.get("stopped").is_some_and(|why| !why.is_null()))
}

/// Where two configurations differ, in words.
fn differences(place: &str, then: &Value, now: &Value) -> Vec<String> {
    let inside = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    match (then, now) {
        (Value::Object(was), Value::Object(is)) => {
            let names = was.keys().chain(is.keys().filter(|name| !was.contains_key(*name)));
            let names = names.filter(|name| !place.is_empty() || !MAY_DIFFER.contains(&name.as_str()));
            let of =
                |fields: &serde_json::Map<String, Value>, name: &str| fields.get(name).cloned().unwrap_or_default();
            names.flat_map(|name| differences(&inside(name), &of(was, name), &of(is, name))).collect()
        }
        (then, now) if equal(then, now) => Vec::new(),
        (then, now) => vec![format!("{place} was {} and is {}", shown(then), shown(now))],
    }
}

/// What was written down as text may have lost the last digit of a number.
fn equal(then: &Value, now: &Value) -> bool {
    match (then.as_f64(), now.as_f64()) {
        (Some(then), Some(now)) => (then - now).abs() <= 1e-12 * then.abs().max(now.abs()),
        _ => then == now,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => escaped(text, CHARACTERS),
        other => escaped(&other.to_string(), CHARACTERS),
    }
}

/// A run that is taken up again must have the plugins that it was begun with: names those that have changed.
fn changed_plugins(run: &RunRow, now: &Value) -> Result<(), UsageError> {
    let plugins = |config: &Value| -> Vec<(String, String, String)> {
        let digest = |role: &str, plugin: &Value| {
            let text = |key: &str| plugin.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            (role.to_owned(), text("name"), text("digest"))
        };
        let list = |key: &str| config.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let environment = config.get("environment").map(|plugin| digest("environment", plugin));
        let rewards = list("reward_rules").into_iter().map(|rule| digest("reward", &rule));
        let mut reflectors = list("reflectors");
        reflectors.extend(list("evolver"));
        let reflectors = reflectors.iter().filter_map(|one| Some(digest("reflector", one.get("plugin")?)));
        environment.into_iter().chain(rewards).chain(reflectors).collect()
    };
    let (then, now) = (plugins(&run.config), plugins(now));
    let changed: Vec<String> = then
        .iter()
        .zip(&now)
        .filter(|((_, name, was), (_, other, is))| name == other && was != is)
        .map(|((role, name, was), (_, _, is))| {
            let short = |digest: &str| digest.chars().skip(7).take(12).collect::<String>();
            format!("{role} {name} was {} and is {}", short(was), short(is))
        })
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    Err(UsageError(format!(
        "{} cannot be taken up again: {}; give it the file that it was begun with, or begin a new run without --resume",
        run.id,
        changed.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_named_with_what_it_was() {
        let check = |then: Value, now: Value, expect: &[&str]| assert_eq!(differences("", &then, &now), expect);
        let plan = |rate: f64| json!({ "learn": { "weights": { "peak": rate } }, "weights_before": "sha256:1" });
        check(plan(0.002), plan(0.002), &[]);
        check(plan(0.1 + 0.2), plan(0.3), &[]);
        check(plan(0.002), plan(0.001), &["learn.weights.peak was 0.002 and is 0.001"]);
        check(json!({ "playbook": null }), json!({ "playbook": "shop" }), &["playbook was none and is shop"]);
        check(json!({ "groups": [1] }), json!({ "groups": [1, 2] }), &["groups was [1] and is [1,2]"]);
        check(json!({}), json!({ "more": 1 }), &["more was none and is 1"]);
        check(json!({ "device": "cpu", "version": 1 }), json!({ "device": "vulkan:0", "version": 2 }), &[]);
    }
}
