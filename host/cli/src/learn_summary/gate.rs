//! Sessions of the gate, and the evolution of a section, in one or two lines each.

use super::numbers::{readable, signed};
use clawhost_core::{counted, escaped, thousands};
use clawhost_learn::evolve::{EndReason, Point, Report};
use clawhost_learn::gate::{Decision, Test};
use clawhost_learning::{EvolutionReport, GateReport, GateUse};

/// A gate session in one line.
pub(crate) fn gate(report: &GateReport) -> String {
    let evidence = &report.evidence;
    let (odds, more) = match evidence.test {
        Test::Martingale => (
            format!("evidence {} to 1 of {} needed", readable(evidence.martingale), readable(evidence.threshold)),
            "--gate-pairs, or a larger --budget, gives more",
        ),
        Test::Sign => ("by the sign test".to_owned(), "a larger --budget gives more"),
    };
    let decision = match report.decision {
        // It counts when it is reached. Later pairs may lower the evidence again.
        Decision::Promote if evidence.test == Test::Martingale && evidence.martingale < evidence.threshold => {
            format!("passed, evidence reached the {} to 1 that are needed", readable(evidence.threshold))
        }
        Decision::Promote => format!("passed, {odds}"),
        Decision::Futile => "rejected".to_owned(),
        Decision::Undecided | Decision::Continue => match evidence.smallest_lift {
            Some(lift) => format!(
                "undecided, {odds} (this number of pairs detects a lift of {:.2} or more; {more})",
                lift * report.scale
            ),
            None => format!("undecided, {odds}"),
        },
    };
    let missing = match report.missing.all() {
        0 => String::new(),
        all if report.missing.second_fails_more() => {
            format!(", {} without a score: it fails more often", counted(all, "pair"))
        }
        all => format!(", {} without a score", counted(all, "pair")),
    };
    let rewritten: String = report.rewritten.iter().map(|section| format!(", section {section}")).collect();
    // In units of reward, as everywhere.
    let scaled = |value: f64| value * report.scale;
    let lift = match (evidence.lift.map(scaled), evidence.interval.map(|(low, high)| (scaled(low), scaled(high)))) {
        (Some(lift), Some((low, high))) => {
            format!("{} ({} to {})", signed(lift, 3), signed(low, 3), signed(high, 3))
        }
        (Some(lift), None) => signed(lift, 3),
        (None, _) => "unknown".to_owned(),
    };
    let clause = clause(report.decision, evidence.test, evidence.interval);
    format!(
        "candidate {} (+{} -{}{rewritten}): {decision}; lift {lift}{clause} over {}, {} won, {} lost{missing}",
        report.candidate,
        report.added.len(),
        report.removed.len(),
        counted(evidence.pairs, "pair"),
        thousands(evidence.wins),
        thousands(evidence.losses),
    )
}

/// Largest number of lessons that a session names.
const NAMED: usize = 8;
/// Characters of a lesson that are shown.
const LESSON: usize = 80;

/// Explanations of a session's evidence: both sides acted alike, or lessons never applied.
pub(crate) fn gate_notes(report: &GateReport) -> Vec<String> {
    let pairs = report.evidence.pairs;
    let mut notes = Vec::new();
    if pairs > 0 && report.alike == pairs {
        let changed = match (report.added.len(), report.removed.len(), report.rewritten.len()) {
            (1, 0, 0) => "the lesson",
            _ => "the candidate",
        };
        notes.push(format!("both sides played equally in all {} pairs: {changed} changed nothing", thousands(pairs)));
    }
    let dead: Vec<String> = report.uses.iter().filter_map(dead).collect();
    let more = dead.len().saturating_sub(NAMED);
    notes.extend(dead.into_iter().take(NAMED));
    if more > 0 {
        notes.push(format!("and {more} more lessons that never applied"));
    }
    notes
}

/// Why a lesson applied in no pair. `None`: it applied, or the reason is unknown.
fn dead(one: &GateUse) -> Option<String> {
    let GateUse { entry, lesson, usage } = one;
    let lesson: String = escaped(lesson, usize::MAX).chars().take(LESSON).collect();
    Some(format!("{entry} ({lesson}) applied in 0 of {} pairs: {}", thousands(usage.episodes), usage.why_dead()?))
}

/// Names the deciding test if a candidate is promoted although its interval contains 0: the interval is wider than the
/// test, and does not decide.
fn clause(decision: Decision, test: Test, interval: Option<(f64, f64)>) -> &'static str {
    let contains_zero = interval.is_some_and(|(low, high)| low <= 0.0 && high >= 0.0);
    match (decision, test) {
        (Decision::Promote, Test::Martingale) if contains_zero => {
            " (its e-value over single pairs decides; the interval is wider, and decides nothing)"
        }
        (Decision::Promote, Test::Sign) if contains_zero => {
            " (the number of pairs won and lost decides; the interval is wider, and decides nothing)"
        }
        _ => "",
    }
}

/// The result of evolving a section, in two lines: its cost, and its outcome.
pub(crate) fn evolution(report: &EvolutionReport) -> [String; 2] {
    let Report { evaluations, cached, candidates, children, failures, curve, .. } = &report.progress;
    let why = report.why.map_or("not finished", |why| match why {
        EndReason::Budget => "the budget is spent",
        EndReason::Perfect => "no better reward is possible",
        EndReason::Fruitless => "no new proposals for a long time",
        EndReason::Unscored => "too few tasks were scored",
    });
    let failed = match (failures.transient + failures.permanent, report.reflector.failed.values().sum::<u64>()) {
        (0, 0) => String::new(),
        (played, asked) => format!(", {} failed, the reflector {}", thousands(played), counted(asked, "time")),
    };
    let cost = format!(
        "{} ({} known already{failed}): {} tried, {}; {why}",
        counted(*evaluations, "evaluation"),
        thousands(*cached),
        counted(*children, "text"),
        counted(*candidates, "candidate"),
    );
    let mean = |point: Option<&Point>| point.map_or("not measured".to_owned(), |point| format!("{:.3}", point.mean));
    let (first, last) = (mean(curve.first()), mean(curve.last()));
    let judged = report.gate.as_ref().map_or("no candidate for the gate".to_owned(), gate);
    [cost, format!("{first} to {last} on the tasks that chose it; {judged}")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Digest;
    use clawhost_learn::gate::{Form, GateEvidence, Question};
    use clawhost_learn::{ConditionUse, Lesson, LessonUse};
    use std::num::NonZeroU32;

    fn report(alike: u64, uses: Vec<GateUse>) -> GateReport {
        let mut evidence = GateEvidence::new(NonZeroU32::MIN, Form::Binary, Question::Better, 0.05, 1_024).unwrap();
        for _ in 0..1_024 {
            evidence.observe(0.0).unwrap();
        }
        GateReport {
            candidate: 1,
            playbook: Digest::of(b""),
            added: uses.iter().map(|one| one.entry.clone()).collect(),
            removed: Vec::new(),
            rewritten: Vec::new(),
            merged_into: None,
            decision: evidence.decision(),
            evidence: evidence.report(),
            scale: 1.0,
            alike,
            uses,
            episodes: 2_048,
            tasks: 1_000,
            missing: Default::default(),
        }
    }

    fn dead_lesson(text: &str) -> GateUse {
        let lesson = Lesson::read(text);
        let mut usage = LessonUse { episodes: 1_024, ..LessonUse::new(&lesson) };
        let seen = ["silver", "bronze", "gold"].map(str::to_owned).to_vec();
        usage
            .conditions
            .iter_mut()
            .for_each(|condition| *condition = ConditionUse { seen: seen.clone(), ..condition.clone() });
        GateUse { entry: lesson.id(), lesson: lesson.line(), usage }
    }

    #[test]
    fn a_session_explains_lessons_that_never_applied() {
        let lesson = dead_lesson("when tier is sliver: call refund {}");
        let id = lesson.entry.clone();
        let expect = [
            "both sides played equally in all 1,024 pairs: the lesson changed nothing".to_owned(),
            format!(
                "{id} (when tier is sliver: call refund {{}}) applied in 0 of 1,024 pairs: no observation states \
                 `tier: sliver`; values seen for tier: bronze, gold, silver"
            ),
        ];
        assert_eq!(gate_notes(&report(1_024, vec![lesson])), expect);
    }

    #[test]
    fn lessons_in_prose_and_sessions_with_differences_have_no_notes() {
        assert!(gate_notes(&report(1_023, vec![dead_lesson("Be kind.")])).is_empty());
        let many: Vec<GateUse> = (0..10).map(|n| dead_lesson(&format!("when tier is t{n}: wait"))).collect();
        let notes = gate_notes(&report(0, many));
        assert_eq!((notes.len(), notes[8].as_str()), (9, "and 2 more lessons that never applied"));
    }

    #[test]
    fn a_promoted_candidate_with_an_interval_around_0_names_the_deciding_test() {
        let check = |decision, test, interval, expect: &str| {
            let told = clause(decision, test, interval);
            assert!(told.contains(expect) && told.is_empty() == expect.is_empty(), "{interval:?}: {told}");
        };
        let (bet, sign) = (Test::Martingale, Test::Sign);
        check(Decision::Promote, bet, Some((-0.01, 0.2)), "its e-value over single pairs decides");
        check(Decision::Promote, sign, Some((-0.01, 0.2)), "the number of pairs won and lost decides");
        check(Decision::Promote, bet, Some((0.01, 0.2)), "");
        check(Decision::Promote, bet, None, "");
        check(Decision::Undecided, sign, Some((-0.01, 0.2)), "");
    }
}
