//! `clawhost router promote`: judges the candidate of a router, and serves it if it passes.

use super::replay::{interval, refusal};
use super::{money, number};
use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::routers::{Promoted, Promotion, WaitingCandidate, discard_candidate, promote_router};
use clawhost_app::time;
use clawhost_core::{counted, escaped, thousands};
use clawhost_learn::router::offline::{Evaluation, Refusal, Value};
use clawhost_learn::router::promotion::Verdict;
use std::io::Write as _;

/// Longest name that is shown.
const NAME: usize = 80;

pub(super) fn run(context: &Context, name: &str) -> anyhow::Result<Exit> {
    let found = promote_router(&context.folder()?, name)?;
    if context.json() {
        let mut document = serde_json::to_value(&found)?;
        if let Some(fields) = document.as_object_mut() {
            fields.insert("format".to_owned(), 1.into());
            fields.insert("router".to_owned(), name.into());
        }
        crate::terminal::json(&document)?;
    } else {
        text(name, &found)?;
    }
    match found.promoted {
        Some(_) => Ok(Exit::Ok),
        None => Err(anyhow::anyhow!("not promoted: {}", advice(&found))),
    }
}

pub(super) fn discard(context: &Context, name: &str) -> anyhow::Result<Exit> {
    let (dropped, next) = discard_candidate(&context.folder()?, name)?;
    if context.json() {
        let document = serde_json::json!({ "format": 1, "router": name, "discarded": dropped, "candidate": next });
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    writeln!(out, "dropped     {}", told(&dropped))?;
    if let Some(next) = next {
        writeln!(out, "candidate   {}", told(&next))?;
    }
    Ok(Exit::Ok)
}

/// A candidate in one line.
pub(super) fn told(candidate: &WaitingCandidate) -> String {
    let WaitingCandidate { run, learned_ms, identity, learned, later, .. } = candidate;
    format!(
        "{} ({}) of {}, {}; {} logged since",
        escaped(run, NAME),
        identity.short(),
        time(*learned_ms),
        counted(*learned, "outcome"),
        counted(*later, "decision")
    )
}

fn text(name: &str, found: &Promotion) -> anyhow::Result<()> {
    let mut out = crate::terminal::stdout();
    writeln!(out, "candidate   {}", told(&found.candidate))?;
    if let Some(evaluation) = &found.evaluation {
        writeln!(out)?;
        let share = (1.0 - found.alpha) * 100.0;
        let header = format!("{share:.1} % interval");
        let mut table = crate::episodes::table(&["", "utility", &header, "SNIPS", "reward", "cost", "sample"]);
        let row = |name: &str, value: &Value| {
            [
                name.to_owned(),
                number(value.utility.value),
                interval(value.utility.interval),
                number(value.snips),
                number(value.reward.value),
                money(value.cost.value),
                format!("{:.0}", value.effective_sample),
            ]
        };
        table.add_row(row("candidate", &evaluation.candidate));
        table.add_row(row("served", &evaluation.served));
        crate::episodes::print(&mut out, &table)?;
        let Evaluation { judged, left_out, .. } = evaluation;
        let left_out = match left_out {
            0 => String::new(),
            left_out => format!("; {} of models that have left the table are left out", thousands(*left_out as u64)),
        };
        writeln!(
            out,
            "judged on {} of them, the others only train a model of rewards{left_out}; sample: the effective one",
            thousands(*judged as u64)
        )?;
        writeln!(out, "utility, reward and cost are doubly robust, per request, at today's prices\n")?;
    }
    writeln!(out, "verdict     {}", verdict(found))?;
    if let Some(Promoted { before, now }) = &found.promoted {
        let name = escaped(name, NAME);
        writeln!(
            out,
            "served      version {} ({}), {}",
            now.version,
            now.identity.short(),
            counted(now.learned, "outcome")
        )?;
        writeln!(out, "before      version {}: `clawhost router rollback {name}` goes back to it", before.version)?;
    }
    Ok(())
}

fn gain(evaluation: Option<&Evaluation>) -> String {
    evaluation.map_or_else(String::new, |evaluation| {
        format!(": {:+.3} ({})", evaluation.gain.value, interval(evaluation.gain.interval))
    })
}

fn verdict(found: &Promotion) -> String {
    let gain = gain(found.evaluation.as_ref());
    match &found.verdict {
        Verdict::Better => format!("better than what is served{gain}"),
        Verdict::Cheaper => format!("cheaper than what is served, and its reward about as high{gain}"),
        Verdict::Keep => format!("not shown to be better than what is served{gain}"),
        Verdict::Refused(why) => format!("none: {}", refusal(why)),
    }
}

/// Why a candidate was not promoted, and what to do.
fn advice(found: &Promotion) -> String {
    let Promotion { verdict: found_verdict, missing, .. } = found;
    match found_verdict {
        Verdict::Refused(why @ Refusal::EffectiveSample { .. }) => format!(
            "{}; about {} with a reward are missing, of sessions that a gateway serves or of a learning run with another --seed; \
             then promote it again",
            refusal(why),
            counted(*missing, "decision"),
        ),
        Verdict::Refused(why @ Refusal::Unsupported { .. }) => format!(
            "{}; wait until the router has tried these models, or drop the candidate with --discard",
            refusal(why)
        ),
        Verdict::Refused(why @ Refusal::Disagreement { .. }) => format!(
            "{}, so the log does not tell; wait for as many decisions again, or drop the candidate with --discard",
            refusal(why)
        ),
        _ => format!("{}; wait for more decisions, or drop the candidate with --discard", verdict(found)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Digest;

    #[test]
    fn what_is_not_promoted_says_what_is_missing_and_what_to_do() {
        let check = |verdict: Verdict, missing: u64, expect: &str| {
            let candidate = WaitingCandidate {
                run: "run-1".into(),
                learned_ms: 0,
                identity: Digest::of(b""),
                learned: 1,
                logged: 1,
                later: 9,
            };
            let found =
                Promotion { candidate, verdict, number: 1, alpha: 0.03, missing, evaluation: None, promoted: None };
            assert_eq!(advice(&found), expect);
        };
        check(
            Verdict::Refused(Refusal::EffectiveSample { found: 43.4 }),
            1_234,
            "an effective sample of 43, below 200; about 1,234 decisions with a reward are missing, of sessions that a gateway \
             serves or of a learning run with another --seed; then promote it again",
        );
        check(
            Verdict::Refused(Refusal::Unsupported { share: 0.25 }),
            0,
            "25 % of its choices could not have been made in the log; wait until the router has tried these models, or drop the \
             candidate with --discard",
        );
        check(
            Verdict::Refused(Refusal::Disagreement { doubly_robust: 0.5, snips: 0.25 }),
            0,
            "doubly robust 0.500 and SNIPS 0.250 disagree, so the log does not tell; wait for as many decisions again, or drop \
             the candidate with --discard",
        );
        check(
            Verdict::Keep,
            0,
            "not shown to be better than what is served; wait for more decisions, or drop the candidate with --discard",
        );
    }
}
