//! Compares the records of a run with each other: every part that follows from the others is computed again.
//!
//! A replay shows that what is recorded can be played again. This shows that nothing is missing, added or contradicted: ids, seeds
//! and verdicts follow from the basis of the run, its summary and its content root from its episodes.

use crate::basis::{Basis, BasisReward};
use crate::report::{EpisodeSummary, RunReport, StopReason};
use clawhost_core::{Digest, Discrepancy, Episode, RewardRecord, RunRow, RunState, StateId, revision};
use serde_json::Value;
use std::collections::BTreeSet;

/// Characters of a value that are shown.
const SHOWN: usize = 160;

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let part: String = text.chars().take(SHOWN).collect();
    format!("`{}`", clawhost_core::escaped(&part, 4 * SHOWN))
}

/// Collects discrepancies of one record.
struct Checks {
    record: String,
    found: Vec<Discrepancy>,
}

impl Checks {
    fn new(record: String) -> Self {
        Self { record, found: Vec::new() }
    }

    fn compare(&mut self, what: &str, recorded: &Value, expected: &Value) {
        if recorded != expected {
            self.note(what, Some(shown(recorded)), Some(shown(expected)));
        }
    }

    fn note(&mut self, what: &str, recorded: Option<String>, expected: Option<String>) {
        self.found.extend(Discrepancy::between(&self.record, what, recorded, expected));
    }
}

fn json(value: &impl serde::Serialize) -> Value {
    serde_json::json!(value)
}

/// Compares an episode with the basis of its run: what follows from the basis, and the verdicts that it ought to have.
pub fn check_episode(basis: &Basis, episode: &Episode) -> Vec<Discrepancy> {
    let mut checks = Checks::new(format!("{}/{}", episode.run, episode.id));
    checks.compare("id", &json(&episode.id), &json(&basis.id(episode.index)));
    let conditions = &basis.conditions;
    if let Some(simulated) = episode.simulated() {
        let seed = basis.seed(episode.index);
        match basis.environment(episode.task.part.as_deref()) {
            Some((environment, grants, options)) => {
                checks.compare("environment", &json(&simulated.environment.digest), &json(environment));
                checks.compare("grants", &json(&simulated.grants), &json(grants));
                checks.compare("options", &json(&simulated.options), &json(options));
            }
            None => {
                let part = json(&episode.task.part);
                checks.note("the part", Some(shown(&part)), Some("one of the run".to_owned()));
            }
        }
        checks.compare("max_turns", &json(&simulated.max_turns), &json(&conditions.max_turns));
        checks.compare("group", &json(&simulated.group), &json(&basis.group(episode.index)));
        checks.compare("seed", &json(&simulated.seed), &json(&seed));
    }
    checks.compare("split", &json(&episode.task.split), &json(&conditions.split));
    let applies = |BasisReward(.., part): &&BasisReward| part.is_none() || *part == episode.task.part;
    let rules: &[BasisReward] = if episode.ending.is_complete() { &conditions.rewards } else { &[] };
    let rules: Vec<&BasisReward> = rules.iter().filter(applies).collect();
    check_verdicts(&mut checks, &rules, &episode.verdicts);
    checks.found
}

/// Compares the verdicts of an episode with those that its run's rewards give, and the numbers of later ones with their count.
fn check_verdicts(checks: &mut Checks, rules: &[&BasisReward], records: &[RewardRecord]) {
    let mut left: Vec<&RewardRecord> = records.iter().filter(|record| record.later.is_none()).collect();
    for BasisReward(reward, options, _, source, weight, _) in rules {
        let options = Digest::of_json(&json(options));
        let is_asked = |record: &&RewardRecord| record.reward.digest == *reward && record.options_digest == options;
        let Some(place) = left.iter().position(is_asked) else {
            let what = format!("the verdict of the reward {}", reward.short());
            checks.note(&what, None, Some("there: the run has this reward".to_owned()));
            continue;
        };
        let record = left.remove(place);
        let name = &record.reward.name;
        checks.compare(&format!("the source of the verdict of {name}"), &json(&record.source), &json(source));
        checks.compare(&format!("the weight of the verdict of {name}"), &json(&record.weight), &json(weight));
    }
    for surplus in left {
        let name = clawhost_core::escaped(&surplus.reward.name, SHOWN);
        checks.note(&format!("a verdict of {name} {}", surplus.reward.digest.short()), Some("there".to_owned()), None);
    }
    let mut numbers = BTreeSet::new();
    for later in records.iter().filter_map(|record| record.later.as_ref()) {
        if !numbers.insert(later.revision) {
            checks.note(&format!("revision {}", later.revision), Some("there twice".to_owned()), None);
        }
    }
    for number in (1..=revision(records)).filter(|number| !numbers.contains(number)) {
        checks.note(&format!("revision {number}"), None, Some("there: a later one is".to_owned()));
    }
}

/// Compares the row of a run with its basis, and its summary with its episodes. `episodes`: all of them as they were recorded, in
/// any order; `None`: they are not complete, so that nothing follows from them.
pub fn check_run(row: &RunRow, episodes: Option<Vec<EpisodeSummary>>) -> Vec<Discrepancy> {
    let mut checks = Checks::new(row.id.to_string());
    checks.compare("digest", &json(&row.digest), &json(&Digest::of_json(&row.basis)));
    let stopped = row.summary.as_ref().and_then(|summary| summary.get("stopped")).filter(|why| !why.is_null());
    let state = match (&row.summary, stopped) {
        (None, _) => RunState::Open,
        (Some(_), Some(_)) => RunState::Stopped,
        (Some(_), None) => RunState::Finished,
    };
    checks.compare("state", &json(&row.state), &json(&state));
    // A learning run plays nothing itself: its phases do.
    let Ok(basis) = serde_json::from_value::<Basis>(row.basis.clone()) else { return checks.found };
    let state_id = basis.conditions.state_id;
    checks.compare("state_id", &json(&row.state_id), &json(&state_id));
    checks.compare("planned", &json(&row.planned), &json(&basis.episodes));
    if let (Some(summary), Some(episodes)) = (&row.summary, episodes) {
        check_summary(&mut checks, summary, (state_id, basis.conditions.split), episodes);
    }
    checks.found
}

fn check_summary(
    checks: &mut Checks,
    summary: &Value,
    (state_id, split): (StateId, String),
    episodes: Vec<EpisodeSummary>,
) {
    let part = |name: &str| summary.get(name).cloned().unwrap_or(Value::Null);
    let Ok(stopped) = serde_json::from_value::<Option<StopReason>>(part("stopped")) else {
        return checks.note("summary.stopped", Some(shown(&part("stopped"))), Some("a reason".to_owned()));
    };
    let Ok(range) = serde_json::from_value(part("reward_range")) else {
        return checks.note("summary.reward_range", Some(shown(&part("reward_range"))), Some("two numbers".to_owned()));
    };
    let episodes = crate::run::reported(episodes, stopped.as_ref());
    let again = RunReport::new(state_id, split, episodes, stopped, range).summary();
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (recorded, again) = (fields(summary), fields(&again));
    let names: BTreeSet<&String> = recorded.keys().chain(again.keys()).collect();
    for name in names {
        let value = |of: &serde_json::Map<String, Value>| of.get(name).cloned().unwrap_or(Value::Null);
        checks.compare(&format!("summary.{name}"), &value(&recorded), &value(&again));
    }
}
