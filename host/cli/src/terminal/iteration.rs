//! Progress lines of learning: one or two for each iteration, and one for demonstrations.

use crate::learn_summary::{gate, weights};
use clawhost_core::{counted, escaped, thousands};
use clawhost_learning::{IterationReport, PartReward, WarmStart, WarmStartReport};

/// The number of lessons in each status, with failures.
fn lessons(report: &IterationReport) -> Option<String> {
    let (_, harness) = report.harness()?;
    let metrics = report.metrics();
    let number = |name: &str| metrics.get(&format!("harness.{name}")).copied().unwrap_or(0.0);
    let mut text = format!(
        "lessons: {} on trial, {} admitted, {} deployed, {} harmful, {} expired",
        number("on_trial"),
        number("admitted"),
        number("deployed"),
        number("harmful"),
        number("expired"),
    );
    if report.removed > 0 {
        text.push_str(&format!("  ({} failed or not scored)", counted(report.removed, "episode")));
    }
    let (calls, failed) = (harness.reflections.calls, harness.reflections.failures());
    if failed > 0 {
        text.push_str(&format!("  (reflectors: {} of {} failed)", thousands(failed), counted(calls, "call")));
    }
    Some(text)
}

/// Whether an iteration should be shown at once: the gate decided, or something failed.
pub(super) fn has_news(report: &IterationReport) -> bool {
    let failed = report.harness().is_some_and(|(_, harness)| harness.reflections.failures() > 0);
    report.gate().is_some() || report.learned.is_err() || failed
}

/// The lines of an iteration. `pace` describes the speed of learning.
pub(super) fn lines(report: &IterationReport, of: u64, pace: Option<String>) -> Vec<String> {
    let reward = report.reward.map_or("not scored".to_owned(), |mean| format!("reward {mean:.3}"));
    let part = |one: &PartReward| {
        let reward = one.reward.map_or("-".to_owned(), |reward| format!("{reward:.3}"));
        format!("{} {reward}", escaped(&one.part, 80))
    };
    let by_part = report.parts.iter().map(part).collect::<Vec<_>>().join(", ");
    let reward = if by_part.is_empty() { reward } else { format!("{reward} ({by_part})") };
    let refused = report.learned.as_ref().err().map(|why| format!("NOT LEARNED: {}", escaped(why, 300)));
    let weights = weights(report);
    // The pace counts tokens, which exist only if weights learn.
    let pace = pace.filter(|_| weights.is_some());
    let begin = format!("iteration {}/{of}  {reward}", report.iteration);
    let parts = [Some(begin), lessons(report), weights, refused, pace];
    let line = parts.into_iter().flatten().collect::<Vec<_>>().join("  ");
    let gate = report.gate().map(|report| format!("  gate: {}", gate(report)));
    std::iter::once(line).chain(gate).collect()
}

/// The progress of learning from demonstrations.
pub(super) fn demonstrations(report: &WarmStartReport, plan: &WarmStart) -> Option<String> {
    let (steps, reward) = report.looks.last()?;
    let (loss, target) = (report.loss, plan.target);
    let reward = reward.map_or("unscored".to_owned(), |reward| format!("{reward:.3}"));
    Some(format!("demonstrations: {}, loss {loss:.3}, sampled reward {reward} of {target:.2}", counted(*steps, "step")))
}
