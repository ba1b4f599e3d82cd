//! How a learning run ended, and how it continues.

use clawhost_core::{counted, escaped, thousands};
use clawhost_learn::gate::Decision;
use clawhost_learning::LearnReport;
use clawhost_play::StopReason;

/// Characters of a reason that are shown.
const REASON: usize = 500;

/// Why there is no verdict.
pub(crate) fn stopped(reason: &StopReason) -> String {
    match reason {
        StopReason::Cancelled => "stopped".to_owned(),
        StopReason::ModelBudget => "the token or cost budget is spent".to_owned(),
        StopReason::FailureBudget { failed, allowed } => {
            format!(
                "{} failed where {} may; see `clawhost episodes list --failure`",
                counted(*failed, "episode"),
                thousands(*allowed)
            )
        }
        StopReason::Unscored { why } => format!(
            "the first iteration, or a part of it, was not scored, so there is nothing to learn from: {}",
            escaped(why, REASON)
        ),
        StopReason::Reflectors { failed, why } => {
            format!("all {} of reflectors failed: {}", counted(*failed, "call"), escaped(why, REASON))
        }
    }
}

/// How the run continues after this stop, and with which command.
pub(crate) fn next(reason: &StopReason, done: u64, iterations: u64) -> String {
    let from = match done >= iterations {
        true => "continues with the final test".to_owned(),
        false => format!("continues from iteration {}", done + 1),
    };
    match reason {
        StopReason::Cancelled | StopReason::Reflectors { .. } => format!("the same command with --resume {from}"),
        StopReason::FailureBudget { .. } => {
            format!(
                "if that was chance: with --resume and a higher --failure-budget it {from}; what failed stays failed. If it \
                 must happen again: mend it and begin a new run"
            )
        }
        StopReason::ModelBudget => {
            format!("with --resume and a higher --max-tokens-total, --max-grant-tokens or --max-cost it {from}; what was spent still counts")
        }
        StopReason::Unscored { .. } => {
            "fix the cause, or use a reward that judges these tasks, and begin a new run: --resume would stop here again"
                .to_owned()
        }
    }
}

/// What the run changed, and what it did not.
fn changed(lessons: bool, prompt: bool, was_judged: bool) -> &'static str {
    match (lessons, prompt) {
        (false, false) if !was_judged => "nothing changed: there was no candidate for the gate",
        (false, false) => "nothing changed: no candidate passed the gate",
        (true, false) => "the playbook alone changed: model and prompt are the same",
        (false, true) => "the evolved prompt alone changed: the model is the same",
        (true, true) => "the playbook and the evolved prompt changed: the model is the same",
    }
}

/// The same, if other layers learn, too.
fn changed_together((lessons, prompt): (bool, bool), was_judged: bool, others: &[&str]) -> String {
    let parts = [(lessons, "the playbook"), (prompt, "the evolved prompt")];
    let parts = parts.into_iter().chain(others.iter().map(|other| (true, *other)));
    let parts: Vec<&str> = parts.filter(|(is_other, _)| *is_other).map(|(_, name)| name).collect();
    match parts.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} and {last} changed", all.join(", ")),
        alone if was_judged => format!("{} alone changed: no candidate passed the gate", alone.join(" and ")),
        alone => format!("{} alone changed: there was no candidate for the gate", alone.join(" and ")),
    }
}

/// The outcome, and its possible causes. `others` names what changed besides the playbook.
pub(crate) fn verdict(report: &LearnReport, others: &[&str]) -> String {
    let sessions: Vec<_> = report.iterations.iter().filter_map(|iteration| iteration.gate()).collect();
    let has_lessons = sessions.iter().any(|gate| gate.decision == Decision::Promote);
    let has_prompt = report.harness().is_some_and(|harness| harness.evolved());
    let was_judged = !sessions.is_empty()
        || report.harness().is_some_and(|harness| harness.evolution.as_ref().is_some_and(|one| one.gate.is_some()));
    let changed = match (report.harness().is_some(), others) {
        (true, []) => changed(has_lessons, has_prompt, was_judged).to_owned(),
        (true, others) => changed_together((has_lessons, has_prompt), was_judged, others),
        (false, []) => "no weight changed".to_owned(),
        (false, [alone]) => format!("{alone} alone changed"),
        (false, others) => format!("{} changed", others.join(" and ")),
    };
    format!("{} ({changed})", report.outcome.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_for_resuming_depends_on_the_stop_reason() {
        let check = |reason: StopReason, done, expect: &str| {
            let told = next(&reason, done, 20);
            assert!(told.contains(expect), "{told}");
        };
        check(StopReason::Cancelled, 3, "the same command with --resume continues from iteration 4");
        check(StopReason::Cancelled, 20, "the same command with --resume continues with the final test");
        let budget = StopReason::FailureBudget { failed: 9, allowed: 8 };
        check(budget, 3, "with --resume and a higher --failure-budget it continues from iteration 4");
        check(
            StopReason::ModelBudget,
            0,
            "a higher --max-tokens-total, --max-grant-tokens or --max-cost it continues from iteration 1",
        );
        check(
            StopReason::Unscored { why: String::new() },
            0,
            "use a reward that judges these tasks, and begin a new run",
        );
    }

    #[test]
    fn a_verdict_names_what_changed_and_what_did_not() {
        assert_eq!(changed(false, false, false), "nothing changed: there was no candidate for the gate");
        let check = |lessons, prompt, expect: &str| assert_eq!(changed(lessons, prompt, true), expect);
        check(false, false, "nothing changed: no candidate passed the gate");
        check(true, false, "the playbook alone changed: model and prompt are the same");
        check(false, true, "the evolved prompt alone changed: the model is the same");
        check(true, true, "the playbook and the evolved prompt changed: the model is the same");
        let check = |lessons, prompt, expect: &str| {
            assert_eq!(changed_together((lessons, prompt), true, &["the weights"]), expect);
        };
        let all = changed_together((true, false), true, &["the weights", "the router"]);
        assert_eq!(all, "the playbook, the weights and the router changed");
        check(false, false, "the weights alone changed: no candidate passed the gate");
        check(true, false, "the playbook and the weights changed");
        check(true, true, "the playbook, the evolved prompt and the weights changed");
    }
}
