//! Computes the numbers of a claim again from its episodes: summaries, content roots, training rewards, the lift of every arm.

use super::claim::{Claim, ClaimedRun, LearnedClaim};
use super::components::Components;
use super::part::{Checked, OfRun};
use crate::replay::records::{learned_root, specified};
use clawhost_core::{Digest, Discrepancy, RunId, RunKind, content_root, recorded_root};
use clawhost_learning::{Evaluation, GateAgain, RecordedPhase, Splits, evaluate_again, is_training_phase};
use clawhost_play::{Basis, Conditions, check_run, range};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What was computed again.
#[derive(Debug, Default)]
pub(super) struct Recomputed {
    /// Numbers of summaries and reports that were compared.
    pub(super) numbers: u64,
    /// Decisions of the gate that were computed again.
    pub(super) decisions: u64,
    /// Those that differ, and records that are missing or contradict each other.
    pub(super) found: Vec<Discrepancy>,
    /// The evaluation, computed from the episodes.
    pub(super) evaluation: Option<Evaluation>,
    /// What could not be computed again, and why.
    pub(super) only_recorded: Vec<String>,
}

impl Recomputed {
    /// Compares a value and everything in it. Each leaf that differs is a difference of its own.
    fn compare(&mut self, record: &str, path: &str, recorded: &Value, expected: &Value) {
        match (recorded, expected) {
            (Value::Object(one), Value::Object(other)) => {
                let more = other.keys().filter(|name| !one.contains_key(*name));
                for name in one.keys().chain(more) {
                    let of = |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or(Value::Null);
                    self.compare(record, &format!("{path}.{name}"), &of(one), &of(other));
                }
            }
            (Value::Array(one), Value::Array(other)) => {
                for place in 0..one.len().max(other.len()) {
                    let of = |items: &[Value]| items.get(place).cloned().unwrap_or(Value::Null);
                    self.compare(record, &format!("{path}[{place}]"), &of(one), &of(other));
                }
            }
            (one, other) => {
                self.numbers += 1;
                let text = |value: &Value| clawhost_core::escaped(&value.to_string(), 200);
                // Equal numbers may be written as `1` and `1.0`.
                let is_equal =
                    one == other || one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| one == other);
                if !is_equal {
                    self.found.extend(Discrepancy::between(record, path, text(one), text(other)));
                }
            }
        }
    }

    fn unlike(&mut self, record: &RunId, what: &str, recorded: impl ToString, expected: impl ToString) {
        self.numbers += 1;
        self.found.extend(Discrepancy::between(&record.0, what, recorded.to_string(), expected.to_string()));
    }
}

/// Computes everything that follows from the episodes, and compares it with what the claim says.
pub(super) fn recompute(
    claim: &Claim,
    learned: &LearnedClaim,
    components: &Components,
    checked: &mut Checked,
) -> Recomputed {
    let mut all = Recomputed::default();
    let mut roots = BTreeMap::new();
    let mut phases = BTreeMap::new();
    for row in claim.rows() {
        let Some(basis) = row.basis() else { continue };
        let of_run = checked.runs.remove(&row.id).unwrap_or_default();
        if let Some(name) = claim.phase_name(&row.id) {
            let phase = RecordedPhase { conditions: basis.conditions.clone(), results: of_run.results.clone() };
            phases.insert(name.to_owned(), phase);
        }
        let root = of_row(&mut all, (row, &basis), components, of_run);
        roots.extend(claim.phase_name(&row.id).map(str::to_owned).zip(root));
    }
    let row = claim.run.row();
    match row.kind {
        RunKind::Learn => {
            all.found.extend(check_run(&row, None));
            all.numbers += 1;
            all.found.extend(learned_root(&row, &roots));
            of_learning(&mut all, (claim, learned), components, &phases);
        }
        RunKind::Play | RunKind::Evaluate => {}
        kind => all.unlike(&row.id, "its kind", kind.name(), "one that can be proved"),
    }
    all.found.extend(specified(&row));
    all
}

/// Checks a row with episodes. Returns the content root of its episodes.
fn of_row(
    all: &mut Recomputed,
    (row, basis): (&ClaimedRun, &Basis),
    components: &Components,
    of_run: OfRun,
) -> Option<Digest> {
    let OfRun { summaries, contents, digests_only, .. } = of_run;
    let mut indices: Vec<u64> = contents.iter().map(|(_, index, _)| *index).collect();
    if indices.windows(2).any(|pair| pair.first() >= pair.last()) {
        all.unlike(&row.id, "the order of its episodes", "another", "that of their positions, each once");
    }
    indices.dedup();
    all.unlike(&row.id, "the number of its episodes", indices.len(), row.planned);
    let root = content_root(contents);
    match digests_only {
        0 => {
            // One of them is the content root.
            all.numbers += row.summary.as_object().map_or(0, serde_json::Map::len) as u64;
            all.found.extend(check_run(&row.row(), Some(summaries)));
        }
        _ => {
            all.found.extend(check_run(&row.row(), None));
            if let Some(recorded) = recorded_root(&row.summary) {
                all.unlike(&row.id, "summary.content_root", recorded, root);
            }
            all.only_recorded.push(format!("the summary of {}: its episodes are digests alone", row.id));
        }
    }
    match components.rules(basis) {
        Ok(rules) => {
            let recorded = row.summary.get("reward_range").cloned().unwrap_or(Value::Null);
            all.compare(&row.id.0, "summary.reward_range", &recorded, &json!(range(&rules)));
        }
        Err(why) => all.only_recorded.push(format!("the range of rewards of {}: {why}", row.id)),
    }
    Some(root)
}

/// Checks the numbers of a learning run.
fn of_learning(
    all: &mut Recomputed,
    (claim, learned): (&Claim, &LearnedClaim),
    components: &Components,
    phases: &BTreeMap<String, RecordedPhase>,
) {
    let run = &claim.run;
    let summary = |name: &str| run.summary.get(name).cloned().unwrap_or(Value::Null);
    if let Some(own) = run.conditions() {
        phases_unlike(all, claim, &own);
    }
    all.unlike(&run.id, "summary.iterations", summary("iterations"), learned.iterations.len());
    if let Some(last) = learned.iterations.last() {
        let reward = last.get("reward").cloned().unwrap_or(Value::Null);
        all.compare(&run.id.0, "summary.reward_mean", &summary("reward_mean"), &reward);
    }
    let rules = claim.phases.iter().find_map(ClaimedRun::basis).map(|basis| components.rules(&basis));
    let rules = rules.and_then(Result::ok).unwrap_or_default();
    let mut gate = stage_plan(run, "harness").and_then(|plan| GateAgain::new(plan, phases, &rules));
    for (place, iteration) in learned.iterations.iter().enumerate() {
        of_iteration(all, &run.id, (place, iteration), phases, gate.as_mut());
    }
    if let Some(playbooks) = &learned.playbooks {
        all.compare(&run.id.0, "summary.playbook", &summary("playbook"), &json!(playbooks.after.digest()));
    }
    let test_pairs = run.basis.pointer("/plan/test_pairs").and_then(Value::as_u64).unwrap_or(0);
    match evaluated(claim, components, phases) {
        Ok(Some(mut evaluation)) => {
            let recorded = summary("evaluation");
            // It follows from the earlier runs of the playbook, which are not in the bundle.
            evaluation.reused = recorded.get("reused").and_then(Value::as_u64).unwrap_or(0);
            all.compare(&run.id.0, "summary.evaluation", &recorded, &json!(evaluation));
            all.compare(&run.id.0, "summary.outcome", &summary("outcome"), &json!(evaluation.outcome()));
            let pairs = evaluation.pairs + evaluation.missing.all();
            all.unlike(&run.id, "the pairs of its test", pairs, test_pairs);
            all.evaluation = Some(evaluation);
        }
        Ok(None) if test_pairs == 0 => {
            all.compare(&run.id.0, "summary.evaluation", &summary("evaluation"), &Value::Null);
        }
        Ok(None) => all.unlike(&run.id, "the phases of its test", "missing", "there"),
        Err(why) => all.only_recorded.push(format!("the lift of {}: {why}", run.id)),
    }
}

/// Every phase plays the environment of the run, and is judged by its rewards.
fn phases_unlike(all: &mut Recomputed, claim: &Claim, own: &Conditions) {
    let shared = |conditions: &Conditions| {
        let Conditions { environment, parts, grants, options, rewards, max_turns, .. } = conditions;
        json!({ "environment": environment, "parts": parts, "grants": grants, "options": options, "rewards": rewards,
            "max_turns": max_turns })
    };
    let expected = shared(own);
    for phase in &claim.phases {
        if let Some(conditions) = phase.conditions() {
            all.compare(&phase.id.0, "its conditions", &shared(&conditions), &expected);
        }
    }
}

fn of_iteration(
    all: &mut Recomputed,
    run: &RunId,
    (place, iteration): (usize, &Value),
    phases: &BTreeMap<String, RecordedPhase>,
    gate: Option<&mut GateAgain<'_>>,
) {
    let number = iteration.get("iteration").and_then(Value::as_u64).unwrap_or(place as u64 + 1);
    let start = format!("i{number:05}-");
    let mut training = phases.iter().filter(|(name, _)| name.starts_with(&start) && is_training_phase(name));
    let Some((_, phase)) = training.next() else {
        all.only_recorded.push(format!("iteration {number} of {run}: its episodes are those of another run"));
        return;
    };
    let scored = phase.results.iter().filter(|result| result.reward.is_some()).count();
    let expected = [
        ("reward", json!(phase.mean_reward())),
        ("episodes", json!(scored)),
        ("removed", json!(phase.results.len() - scored)),
    ];
    for (name, expected) in expected {
        let recorded = iteration.get(name).cloned().unwrap_or(Value::Null);
        all.compare(&run.0, &format!("iterations[{place}].{name}"), &recorded, &expected);
    }
    let mut layers = iteration.get("layers").and_then(Value::as_array).into_iter().flatten();
    let session = layers.find_map(|layer| layer.pointer("/details/harness/gate").filter(|gate| !gate.is_null()));
    let numbers = match gate {
        Some(gate) => {
            gate.train(phase);
            session.map(|session| gate.session(number, session))
        }
        None => session.map(|_| None),
    };
    match (session, numbers) {
        (Some(session), Some(Some(numbers))) => {
            for (name, expected) in json!(numbers).as_object().into_iter().flatten() {
                let recorded = session.get(name).cloned().unwrap_or(Value::Null);
                all.compare(&run.0, &format!("iterations[{place}].gate.{name}"), &recorded, expected);
            }
            all.decisions += 1;
        }
        (Some(_), _) => all.only_recorded.push(format!("the decision of the gate after iteration {number}")),
        (None, _) => {}
    }
}

/// The plan of a layer in the basis of a learning run.
fn stage_plan<'a>(run: &'a ClaimedRun, layer: &str) -> Option<&'a Value> {
    let mut stages = run.basis.get("stages")?.as_array()?.iter();
    stages.find(|stage| stage.get(0).and_then(Value::as_str) == Some(layer))?.get(1)
}

/// The evaluation from the episodes. `None`: there was no test.
fn evaluated(
    claim: &Claim,
    components: &Components,
    phases: &BTreeMap<String, RecordedPhase>,
) -> Result<Option<Evaluation>, String> {
    let Some(basis) = claim.tests().find_map(|(row, ..)| row.basis()) else { return Ok(None) };
    let own = claim.run.conditions().ok_or("its basis cannot be read")?;
    let environments = components.environments(&basis)?;
    let rules = components.rules(&basis)?;
    let splits = Splits::of(&environments, Some(&own.split)).map_err(|error| error.to_string())?;
    let stages = claim.run.basis.get("stages").and_then(Value::as_array).ok_or("its basis names no layers")?;
    let layers: Option<Vec<String>> = stages.iter().map(|stage| Some(stage.get(0)?.as_str()?.to_owned())).collect();
    let layers = layers.ok_or("its basis names no layers")?;
    Ok(evaluate_again(&layers, phases, &splits, environments.parts(), &rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_that_differs_is_named_with_both_values() {
        let mut all = Recomputed::default();
        let recorded = json!({ "lift": { "mean": 0.9, "low": 0.1 }, "pairs": 4, "arms": [1, 2] });
        let expected = json!({ "lift": { "mean": 0.7, "low": 0.1 }, "pairs": 4.0, "arms": [1] });
        all.compare("run-a", "evaluation", &recorded, &expected);
        let found: Vec<String> = all.found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "run-a: evaluation.lift.mean is 0.9 and ought to be 0.7",
                "run-a: evaluation.arms[1] is 2 and ought to be null"
            ]
        );
        assert_eq!(all.numbers, 5);
    }
}
