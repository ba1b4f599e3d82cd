//! A run that learns is taken up again: with what it was begun with, or with what has changed since then being named.

use crate::data::Claim;
use crate::exit::UsageError;
use clawhost_core::{Digest, RunId, Usage, escaped};
use clawhost_store::{Reader, RunRow};
use serde_json::Value;
use std::path::Path;

/// Differences that are told; others follow from the same mistake, mostly.
const SHOWN: usize = 3;
/// Characters of a value that is told.
const CHARACTERS: usize = 40;
/// What may be another: it is no part of what is compared.
const MAY_DIFFER: [&str; 7] = [
    "device",
    "deterministic",
    "version",
    "plan.concurrency",
    "plan.failure_budget",
    "learn.play.concurrency",
    "learn.play.failure_budget",
];

/// A run with more differences than this is another one, and none that changed.
const ALIKE: usize = 8;

/// Differences by the option that decides them, or in words. Others are named by their place in the configuration.
const OPTIONS: [(&str, &str); 18] = [
    ("weights_before", "the digest of the model's weights"),
    ("policy.version", "the model (weights, or words around them)"),
    ("policy.model", "the model's name"),
    ("system_prompt", "--system-prompt"),
    ("sampling.temperature", "--temperature"),
    ("sampling.max_tokens", "--max-tokens"),
    ("learn.weights.settings.schedule.peak", "--rate"),
    ("learn.weights.settings.schedule.warmup", "--warmup"),
    ("learn.iterations", "--iterations"),
    ("learn.test_pairs", "--test-pairs"),
    ("learn.play.seed", "--seed"),
    ("learn.play.episodes", "--episodes"),
    ("learn.play.group", "--group"),
    ("learn.play.max_turns", "--max-turns"),
    ("plan.seed", "--seed"),
    ("plan.episodes", "--episodes"),
    ("plan.group", "--group"),
    ("plan.max_turns", "--max-turns"),
];

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
    let same = reader.unfinished(digest)?.into_iter().find(|(run, _)| wanted.is_empty() || run == wanted);
    if let Some((run, spent)) = same {
        let run = RunId(run);
        return match Claim::new(folder, &run)? {
            Some(claim) => Ok((run, claim, spent)),
            None => {
                Err(UsageError(format!("{run} is being played by another process; wait for it, or stop it")).into())
            }
        };
    }
    let learns = |config: &Value| config.get("learn").is_some();
    let of = |config: &Value| (config.pointer("/environment/name").cloned(), config.get("evaluation").is_some());
    let runs = reader.runs(None)?;
    let like = |run: &&RunRow| learns(&run.config) == learns(now) && of(&run.config) == of(now);
    let meant = |run: &&RunRow| if wanted.is_empty() { like(run) } else { run.id == wanted };
    let candidates = runs.iter().filter(|run| stopped(run)).filter(meant);
    // The newest of those that are most like it.
    let nearest = candidates.map(|run| (run, differences("", &run.config, now))).min_by_key(|(_, all)| all.len());
    if let Some((run, all)) = nearest
        && !all.is_empty()
        && (all.len() <= ALIKE || !wanted.is_empty())
        // It may be playing this moment.
        && Claim::shared(folder, &RunId(run.id.clone()))?.is_some()
    {
        changed_plugins(run, now)?;
        let more = all.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(", and {more} more differ") } else { String::new() };
        let told = all.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
        return Err(UsageError(format!(
            "no run of this configuration was interrupted here. {} was, but {told}{more}; give it the command and the files that it \
             was begun with, or begin a new run without --resume",
            run.id
        ))
        .into());
    }
    if !wanted.is_empty() {
        let why = match runs.iter().find(|run| run.id == wanted) {
            None => "there is no such run; `clawhost episodes list --runs` lists those that there are",
            Some(run) if stopped(run) => {
                "it is being played, or was begun with a playbook or models that have changed; wait for it, or begin a new run"
            }
            Some(_) => "it has come to its end, so there is nothing to take up again",
        };
        return Err(UsageError(format!("--resume={}: {why}", escaped(wanted, 80))).into());
    }
    let why = "no run of this configuration was interrupted here; without --resume a new one begins";
    Err(UsageError(why.to_owned()).into())
}

fn stopped(run: &RunRow) -> bool {
    run.summary.as_ref().is_none_or(|summary| summary.get("stopped").is_some_and(|why| !why.is_null()))
}

/// Where two configurations differ, in words: what an option decides comes first.
fn differences(place: &str, then: &Value, now: &Value) -> Vec<String> {
    let mut all = Vec::new();
    collect(place, then, now, &mut all);
    let known = |place: &str| OPTIONS.iter().find(|(known, _)| *known == place).map(|(_, option)| *option);
    all.sort_by_key(|(place, _)| known(place).is_none());
    all.into_iter().map(|(place, told)| format!("{} {told}", known(&place).unwrap_or(&place))).collect()
}

/// What an entry of a list is called: an option by its name, a plugin by its own.
fn entry<'a>(then: &'a Value, now: &'a Value) -> Option<(&'a str, &'a Value, &'a Value)> {
    match (then, now) {
        (Value::Array(then), Value::Array(now)) => match (then.as_slice(), now.as_slice()) {
            ([Value::String(name), was], [Value::String(same), is]) if name == same => Some((name, was, is)),
            _ => None,
        },
        (Value::Object(was), Value::Object(is)) => {
            let name = was.get("name")?.as_str()?;
            (is.get("name")?.as_str()? == name).then_some((name, then, now))
        }
        _ => None,
    }
}

fn collect(place: &str, then: &Value, now: &Value, all: &mut Vec<(String, String)>) {
    let inside = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    match (then, now) {
        (Value::Object(was), Value::Object(is)) => {
            let names = was.keys().chain(is.keys().filter(|name| !was.contains_key(*name)));
            for name in names.filter(|name| !MAY_DIFFER.contains(&inside(name).as_str())) {
                let of = |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                collect(&inside(name), &of(was), &of(is), all);
            }
        }
        (Value::Array(was), Value::Array(is)) if was.len() == is.len() => {
            for (number, (was, is)) in was.iter().zip(is).enumerate() {
                match entry(was, is) {
                    Some((name, was, is)) => collect(&inside(name), was, is, all),
                    None => collect(&inside(&number.to_string()), was, is, all),
                }
            }
        }
        (Value::Array(was), Value::Array(is)) => {
            all.push((place.to_owned(), format!("had {} entries and has {}", was.len(), is.len())));
        }
        (then, now) if equal(then, now) => {}
        (then, now) => {
            let (was, is) = (shown(then), shown(now));
            let alike = was.chars().zip(is.chars()).take_while(|(one, other)| one == other).count();
            all.push((place.to_owned(), format!("was {} and is {}", cut(&was, alike), cut(&is, alike))));
        }
    }
}

/// What was written down as text may have lost the last digit of a number.
fn equal(then: &Value, now: &Value) -> bool {
    match (then.as_f64(), now.as_f64()) {
        (Some(then), Some(now)) if !is_whole(then) || !is_whole(now) => {
            (then - now).abs() <= 1e-12 * then.abs().max(now.abs())
        }
        _ => then == now,
    }
}

/// Seeds and counts: they are exact.
fn is_whole(number: f64) -> bool {
    number.fract() == 0.0
}

fn shown(value: &Value) -> String {
    match (value, value.as_f64()) {
        (Value::Null, _) => "none".to_owned(),
        (Value::String(text), _) => text.clone(),
        // As people wrote it: 0.9 in f32 is 0.8999999761581421 in f64.
        (_, Some(number)) if !is_whole(number) && f64::from(number as f32) == number => (number as f32).to_string(),
        (other, _) => other.to_string(),
    }
}

/// A long value from a little before the place at which it differs.
fn cut(text: &str, alike: usize) -> String {
    let from = if text.chars().count() > CHARACTERS { alike.saturating_sub(CHARACTERS / 4) } else { 0 };
    let rest: String = text.chars().skip(from).collect();
    format!("{}{}", if from > 0 { "…" } else { "" }, escaped(&rest, CHARACTERS))
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
    fn what_differs_is_named_by_its_option_with_what_it_was() {
        let check = |then: Value, now: Value, expect: &[&str]| assert_eq!(differences("", &then, &now), expect);
        let plan = |rate: f64| json!({ "learn": { "weights": { "settings": { "schedule": { "peak": rate } } } } });
        check(plan(0.002), plan(0.002), &[]);
        check(plan(0.1 + 0.2), plan(0.3), &[]);
        check(plan(0.002), plan(0.001), &["--rate was 0.002 and is 0.001"]);
        check(json!({ "playbook": null }), json!({ "playbook": "shop" }), &["playbook was none and is shop"]);
        let seed = |seed: u64| json!({ "plan": { "seed": seed } });
        check(seed(1_700_000_000_000), seed(1_700_000_000_001), &["--seed was 1700000000000 and is 1700000000001"]);
        check(json!({ "groups": [1] }), json!({ "groups": [1, 2] }), &["groups had 1 entries and has 2"]);
        check(json!({ "groups": [1, 2] }), json!({ "groups": [1, 3] }), &["groups.1 was 2 and is 3"]);
        check(json!({}), json!({ "more": 1 }), &["more was none and is 1"]);
        let options = |talk: &str| json!({ "plan": { "options": [["size", "10"], ["talk", talk]] } });
        check(options("terse"), options("words"), &["plan.options.talk was terse and is words"]);
        let rewards = |weight: f64| json!({ "reward_rules": [{ "name": "exact", "weight": weight }] });
        check(rewards(1.0), rewards(0.5), &["reward_rules.exact.weight was 1.0 and is 0.5"]);
        let sampled = |temperature: f32| json!({ "a": 1, "sampling": { "temperature": temperature } });
        check(sampled(1.0), sampled(0.9), &["--temperature was 1.0 and is 0.9"]);
    }

    #[test]
    fn what_an_option_decides_comes_first_and_what_decides_nothing_never() {
        let then = json!({ "a": 1, "device": "cpu", "version": 1, "plan": { "concurrency": 1, "seed": 1 } });
        let now = json!({ "a": 2, "device": "vulkan:0", "version": 2, "plan": { "concurrency": 2, "seed": 2 } });
        assert_eq!(differences("", &then, &now), ["--seed was 1 and is 2", "a was 1 and is 2"]);
    }

    #[test]
    fn long_values_are_told_from_where_they_differ() {
        let model = |words: &str| json!({ "policy": { "version": format!("sha256:{}+{words}", "0".repeat(64)) } });
        let told = differences("", &model("abc"), &model("def"));
        assert_eq!(told, ["the model (weights, or words around them) was …000000000+abc and is …000000000+def"]);
    }
}
