//! The statements of a verification, in four classes, and the sentence at its end.

use super::claim::ClaimedAdapter;
use super::part::{Answers, Checked, named};
use super::report::{Proof, Statement, Verified};
use super::signature::Signature;
use super::statistics::Recomputed;
use crate::Tally;
use clawhost_core::{LlmIdentity, RunKind, counted};
use clawhost_play::Interval;

pub(super) fn statement(what: impl Into<String>, count: impl Into<Option<u64>>) -> Statement {
    Statement { what: what.into(), count: count.into() }
}

fn equal(tally: &Tally) -> u64 {
    tally.exact + tally.exact_turns + tally.not_begun
}

/// Computed again from the episodes.
pub(super) fn recomputed(checked: &Checked, numbers: &Recomputed, has_adapter: bool) -> Vec<Statement> {
    let mut all = vec![
        statement("verdicts of rewards", equal(&checked.replay.verdicts)),
        statement("numbers of summaries and reports, with content roots and intervals", numbers.numbers),
        statement("decisions of the gate, from the pairs of its sessions", numbers.decisions),
        statement("tasks, as their environment publishes them", checked.published),
        statement("answers of the policy, by the built-in model that gave them", checked.recomputed),
        statement("prompts of test episodes, from the playbook in the bundle", checked.shown),
    ];
    all.retain(|one| one.count != Some(0));
    for (model, turns) in &checked.generated {
        let model = clawhost_core::escaped(model, MODEL);
        all.push(statement(format!("answers of the policy, generated again by {model}"), *turns));
    }
    if has_adapter {
        all.push(statement("the learned weights, from the model that was given and the adapter in the bundle", None));
    }
    all
}

/// Bytes of a model's name that are shown.
const MODEL: usize = 200;

/// Played again in the components of the bundle.
pub(super) fn replayed(checked: &Checked) -> Vec<Statement> {
    let replay = &checked.replay;
    let mut all = vec![
        statement("episodes, turn by turn and byte for byte", equal(&replay.episodes)),
        statement("turns of their environments", replay.turns),
    ];
    all.retain(|one| one.count != Some(0));
    all
}

/// Recorded, and taken as it is.
pub(super) fn recorded_only(
    checked: &Checked,
    numbers: &Recomputed,
    (kind, given): (RunKind, &[LlmIdentity]),
    adapter: Option<&ClaimedAdapter>,
) -> Vec<Statement> {
    let mut all = Vec::new();
    if let Some(ClaimedAdapter { weights }) = adapter {
        let weights = weights.short();
        all.push(statement(
            format!("that the adapter in the bundle gives the weights {weights}: that needs its model"),
            None,
        ));
    }
    for model in given.iter().map(named).filter(|model| !checked.generated.contains_key(model)) {
        let model = clawhost_core::escaped(&model, MODEL);
        all.push(statement(
            format!("the model that was given, {model}, answered in none of the episodes that were played again"),
            None,
        ));
    }
    for (model, Answers { policy, plugins }) in &checked.recorded {
        let model = clawhost_core::escaped(model, MODEL);
        if *policy > 0 {
            all.push(statement(format!("answers of {model} to the policy's requests"), *policy));
        }
        if *plugins > 0 {
            all.push(statement(format!("answers of {model}"), *plugins));
        }
    }
    if checked.not_drawn > 0 {
        all.push(statement(
            "episodes outside of the sample: their numbers count, and they were not played again",
            checked.not_drawn,
        ));
    }
    all.extend(numbers.only_recorded.iter().map(|what| statement(what.clone(), None)));
    if kind == RunKind::Learn {
        all.push(statement("what reflectors proposed, and which lessons training showed to whom", None));
        all.push(statement("states of layers between iterations, and the numbers of candidates of the gate", None));
        all.push(statement("how many test tasks earlier runs of the playbook had used", None));
    }
    all
}

/// What no bundle can show.
pub(super) fn not_provable(checked: &Checked) -> Vec<Statement> {
    let mut all = vec![
        statement("whether other runs were discarded before this one was chosen", None),
        statement("when it was played, and by whom: a signature says who vouches for it", None),
    ];
    if !checked.recorded.is_empty() {
        all.insert(
            0,
            statement("who wrote the recorded answers: the model that is named, or somebody who knew the tasks", None),
        );
    }
    all
}

/// What was verified, in one sentence.
pub(super) fn conclusion(verified: &Verified, checked: &Checked) -> String {
    let Verified { run, replay, verdicts, differences, not_replayed, episodes, sample, .. } = verified;
    let signed = match &verified.signature {
        Signature::Nobody => "nobody has signed it".to_owned(),
        other => format!("its signature is {}", other.words()),
    };
    if verified.proof == Proof::Changed {
        let found = counted(differences.len() as u64, "difference");
        return format!("The bundle was changed, or its program does not repeat itself: {found} found in {run}.");
    }
    let of = match sample {
        None => format!("all {}", counted(*episodes, "episode")),
        Some(sample) => {
            format!("{} of {} drawn with seed {}", equal(replay), counted(*episodes, "episode"), sample.seed)
        }
    };
    let lift = verified.evaluation.as_ref().and_then(|evaluation| evaluation.lift.as_ref());
    let lift = lift.map_or_else(String::new, |lift| {
        let interval = Interval { low: lift.low, high: lift.high };
        format!(", so the lift is {:+.3} ({:+.3} to {:+.3}) on these episodes", lift.mean, interval.low, interval.high)
    });
    let generated = checked.recomputed + checked.generated.values().sum::<u64>();
    let answers = match (checked.recorded.is_empty(), generated) {
        (true, _) => "with answers that were computed again".to_owned(),
        (false, 0) => "with the recorded answers of models".to_owned(),
        (false, some) => {
            let recorded: u64 = checked.recorded.values().map(|Answers { policy, plugins }| policy + plugins).sum();
            format!("with {some} of {} computed again, the others as recorded,", counted(some + recorded, "answer"))
        }
    };
    let equal_verdicts = counted(equal(verdicts), "verdict");
    match verified.proof {
        Proof::Reproduced => format!(
            "Of {run}, {of} were played again {answers} and equal their records, {equal_verdicts} and every number that follows from them are as claimed{lift}; {signed}."
        ),
        _ => {
            let missing: u64 = not_replayed.iter().filter_map(|one| one.count).sum();
            format!(
                "Of {run}, only {} were played again: {} could not be, so the rest is recorded only; nothing differs, and {signed}.",
                counted(equal(replay), "episode"),
                counted(missing, "episode or verdict")
            )
        }
    }
}
