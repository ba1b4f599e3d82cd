//! Sessions of the gate, and the evolution of a section, in a line or two.

use super::numbers::{readable, signed};
use clawhost_learn::evolve::{Point, Report, Why};
use clawhost_learn::gate::Decision;
use clawhost_learning::{EvolutionReport, GateReport};

/// A gate session in one line.
pub(crate) fn gate(report: &GateReport) -> String {
    let evidence = &report.evidence;
    let odds = format!("evidence {} to 1 of {} needed", readable(evidence.martingale), readable(evidence.threshold));
    let decision = match report.decision {
        Decision::Promote => format!("passed, {odds}"),
        Decision::Futile => "turned down".to_owned(),
        Decision::Undecided | Decision::Continue => match evidence.smallest_lift {
            Some(lift) => format!(
                "cannot tell, {odds} (so many pairs find a lift of {:.2} or more; --gate-pairs gives more)",
                lift * report.scale
            ),
            None => format!("cannot tell, {odds}"),
        },
    };
    let missing = match report.missing.all() {
        0 => String::new(),
        all if report.missing.second_fails_more() => format!(", {all} pairs without a score: it fails more often"),
        all => format!(", {all} pairs without a score"),
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
    format!(
        "candidate {} (+{} -{}{rewritten}): {decision}; lift {lift} over {} pairs, {} won, {} lost{missing}",
        report.candidate,
        report.added.len(),
        report.removed.len(),
        evidence.pairs,
        evidence.wins,
        evidence.losses,
    )
}

/// What came of evolving a section, in two lines: what it cost, and what came out.
pub(crate) fn evolution(report: &EvolutionReport) -> [String; 2] {
    let Report { evaluations, cached, candidates, children, failures, curve, .. } = &report.progress;
    let why = report.why.map_or("not finished", |why| match why {
        Why::Budget => "the budget is spent",
        Why::Perfect => "nothing is left to gain",
        Why::Fruitless => "nothing new was proposed for long",
        Why::Unscored => "too few tasks were scored",
    });
    let failed = match (failures.transient + failures.permanent, report.reflector.failed.values().sum::<u64>()) {
        (0, 0) => String::new(),
        (played, asked) => format!(", {played} failed, the reflector {asked} times"),
    };
    let cost = format!(
        "{evaluations} evaluations ({cached} known already{failed}): {children} texts tried, {candidates} candidates; {why}"
    );
    let mean = |point: Option<&Point>| point.map_or("not measured".to_owned(), |point| format!("{:.3}", point.mean));
    let (first, last) = (mean(curve.first()), mean(curve.last()));
    let judged = report.gate.as_ref().map_or("no candidate for the gate".to_owned(), gate);
    [cost, format!("{first} to {last} on the tasks that chose it; {judged}")]
}
