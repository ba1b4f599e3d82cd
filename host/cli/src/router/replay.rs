//! `clawhost router replay`: what other policies would have earned on a recorded log.

use super::{money, number};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use clawhost_app::routers::{read_decisions, read_router, router_names, routers_folder};
use clawhost_core::{counted, escaped, thousands};
use clawhost_learn::router::offline::{LEAST_EFFECTIVE_SAMPLE, Refusal};
use clawhost_learn::router::promotion::Verdict;
use clawhost_learn::router::recorded::{GREEDY, Replay, Replayed, replay};
use std::io::Write as _;
use std::path::Path;

/// Longest name that is shown.
const NAME: usize = 80;

pub(super) fn run(context: &Context, log: &Path, router: Option<&str>) -> anyhow::Result<Exit> {
    let folder = context.folder()?;
    // The name of a router stands for its log.
    let named = log.to_str().filter(|name| !log.is_file() && router_names(&folder).iter().any(|known| known == name));
    let log = &named.map_or_else(|| log.to_owned(), |name| routers_folder(&folder).join(format!("{name}.jsonl")));
    let beside = log.with_extension("json");
    let stored = match (router, beside.to_str()) {
        (Some(named), _) => read_router(&folder, Some(named))?,
        (None, Some(beside)) if beside != log.to_string_lossy() => read_router(&folder, Some(beside))?,
        (None, _) => return Err(UsageError("name the router of this log with --router".to_owned()).into()),
    };
    let decisions = read_decisions(log)?;
    let found = replay(&stored.router, &decisions).map_err(clawhost_app::AppError::from)?;
    if context.json() {
        let mut document = serde_json::to_value(&found)?;
        if let Some(fields) = document.as_object_mut() {
            fields.insert("format".to_owned(), 1.into());
            fields.insert("router".to_owned(), stored.name.into());
        }
        crate::terminal::json(&document)?;
        return Ok(Exit::Ok);
    }
    text(&found)?;
    Ok(Exit::Ok)
}

fn text(found: &Replay) -> anyhow::Result<()> {
    let mut out = crate::terminal::stdout();
    let (learned, judged) = (thousands(found.learned), thousands(found.judged as u64));
    writeln!(
        out,
        "{}: learned from {learned} of the earlier half, judged on {judged} of the later",
        counted(found.outcomes as u64, "outcome")
    )?;
    if found.left_out > 0 {
        writeln!(out, "{} of models that have left the table are left out", thousands(found.left_out as u64))?;
    }
    writeln!(out)?;
    let header = ["policy", "utility", "95 % interval", "SNIPS", "reward", "cost", "sample", ""];
    let mut table = crate::episodes::table(&header);
    let recorded = &found.recorded;
    let none = String::new;
    table.add_row([
        recorded.policy.clone(),
        number(recorded.utility),
        none(),
        none(),
        number(recorded.reward),
        money(recorded.cost),
        none(),
        none(),
    ]);
    for Replayed { policy, value } in &found.policies {
        let sample = format!("{:.0}", value.effective_sample);
        let (name, refused) = (escaped(policy, NAME), value.refusal.as_ref().map(refusal));
        let row = match refused {
            Some(refused) => [name, none(), none(), none(), none(), none(), sample, format!("refused: {refused}")],
            None => [
                name,
                number(value.utility.value),
                interval(value.utility.interval),
                number(value.snips),
                number(value.reward.value),
                money(value.cost.value),
                sample,
                none(),
            ],
        };
        table.add_row(row);
    }
    crate::episodes::print(&mut out, &table)?;
    writeln!(
        out,
        "sample: the effective one; utility, reward and cost are doubly robust, per request, at today's prices\n"
    )?;
    writeln!(out, "verdict     {}", verdict(found))?;
    Ok(())
}

pub(super) fn interval((low, high): (f64, f64)) -> String {
    format!("{low:.3} to {high:.3}")
}

pub(super) fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::EffectiveSample { found } => {
            format!("an effective sample of {found:.0}, below {LEAST_EFFECTIVE_SAMPLE:.0}")
        }
        Refusal::Unsupported { share } => {
            format!("{:.0} % of its choices could not have been made in the log", share * 100.0)
        }
        Refusal::Disagreement { doubly_robust, snips } => {
            format!("doubly robust {doubly_robust:.3} and SNIPS {snips:.3} disagree")
        }
    }
}

fn verdict(found: &Replay) -> String {
    let other = escaped(&found.compared_with, NAME);
    let gain = format!("{:+.3} ({})", found.gain.value, interval(found.gain.interval));
    match &found.verdict {
        Verdict::Better => format!("{GREEDY} is better than {other}: {gain}"),
        Verdict::Cheaper => format!("{GREEDY} is cheaper than {other}, and its reward about as high: {gain}"),
        Verdict::Keep => format!("{GREEDY} is not shown to be better than {other}: {gain}"),
        Verdict::Refused(why) => format!("this log cannot compare {GREEDY} with {other}: {}", refusal(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_figure() {
        let check = |why: Refusal, expect: &str| assert_eq!(refusal(&why), expect);
        check(Refusal::EffectiveSample { found: 43.4 }, "an effective sample of 43, below 200");
        check(Refusal::Unsupported { share: 0.25 }, "25 % of its choices could not have been made in the log");
        let disagreement = Refusal::Disagreement { doubly_robust: 0.5, snips: 0.25 };
        check(disagreement, "doubly robust 0.500 and SNIPS 0.250 disagree");
    }
}
