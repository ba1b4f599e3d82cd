//! What a run came to, for people and for machines.

use clawhost_core::{Attributes, LlmIdentity, PluginIdentity, RunId, escaped};
use clawhost_providers::Spending;
use clawhost_runtime::{Branching, FailureCount, Plan, RunReport, ScoringRule, StopReason};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// What was run.
pub(crate) struct Facts {
    pub(crate) environment: PluginIdentity,
    pub(crate) rewards: Vec<ScoringRule>,
    pub(crate) policy: LlmIdentity,
    /// The playbook that was served, in words.
    pub(crate) playbook: Option<String>,
    pub(crate) plan: Plan,
    pub(crate) run: RunId,
    pub(crate) database: PathBuf,
    pub(crate) step_fuel: u64,
    pub(crate) token_limit: Option<u64>,
    pub(crate) cost_limit: Option<f64>,
    pub(crate) priced: bool,
}

/// `?name=value&...`, or nothing.
fn query(options: &Attributes) -> String {
    let pairs: Vec<String> = options.iter().map(|(name, value)| format!("{name}={}", escaped(value, 80))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// A reward with everything that was decided about it.
pub(crate) fn rule(rule: &ScoringRule) -> serde_json::Value {
    let PluginIdentity { name, version, digest } = rule.reward.identity();
    serde_json::json!({
        "name": name, "version": version, "digest": digest, "options": rule.options, "source": rule.source,
        "weight": rule.weight,
    })
}

/// One JSON document. What differs between equal runs stands under `timing`, and nowhere else.
pub(crate) fn json(
    facts: &Facts,
    report: &RunReport,
    spent: &Spending,
    started_ms: u64,
    wall: Duration,
) -> anyhow::Result<()> {
    let seconds = wall.as_secs_f64();
    let mut plan = serde_json::to_value(&facts.plan)?;
    // Never changes a result, so it is no part of what is compared.
    let concurrency = plan.as_object_mut().and_then(|plan| plan.remove("concurrency"));
    let rewards: Vec<_> = facts.rewards.iter().map(rule).collect();
    let document = serde_json::json!({
        "format": 1,
        "state_id": report.state_id,
        "environment": facts.environment,
        "rewards": rewards,
        "policy": facts.policy,
        "plan": plan,
        "split": report.split,
        "episodes": report.episodes,
        "reward_mean": report.reward_mean,
        "reward_interval": report.reward_interval,
        "scored": report.scored,
        "by_reward": report.by_reward,
        "endings": report.endings,
        "failed": report.failed,
        "failures": report.failures,
        "branching": report.branching,
        "stopped": report.stopped,
        "steps": report.steps,
        "peak_step_fuel": report.peak_step_fuel,
        "usage": report.usage,
        "timing": {
            "run": facts.run,
            "started": crate::data::time(started_ms),
            "wall_seconds": seconds,
            "steps_per_second": report.steps as f64 / seconds.max(1e-9),
            "episodes_per_second": report.episodes.len() as f64 / seconds.max(1e-9),
            "concurrency": concurrency,
            // All model calls, those of plugins and of abandoned episodes included.
            "spent": {
                "calls": spent.calls, "prompt_tokens": spent.usage.prompt_tokens,
                "completion_tokens": spent.usage.completion_tokens, "cost": facts.priced.then_some(spent.cost),
            },
        },
    });
    writeln!(anstream::stdout(), "{document:#}")?;
    Ok(())
}

/// Widest bar of the histogram.
const BAR: usize = 30;
/// Bins of the histogram where rewards take many values.
const BINS: usize = 8;

/// How rewards are spread: their values if they are few, else bins.
fn histogram(rewards: &[f64]) -> Vec<(String, usize)> {
    let mut values: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
    for reward in rewards {
        // Bits as a key: equal values fall together. 0.0 and -0.0 are one.
        values.entry((reward + 0.0).to_bits()).or_insert((*reward, 0)).1 += 1;
    }
    if values.len() <= BINS {
        let mut rows: Vec<(f64, usize)> = values.into_values().collect();
        rows.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        return rows.into_iter().map(|(value, count)| (format!("{value:.3}"), count)).collect();
    }
    let low = rewards.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let width = (high - low) / BINS as f64;
    let mut bins = vec![0; BINS];
    for reward in rewards {
        let index = (((reward - low) / width) as usize).min(BINS - 1);
        if let Some(bin) = bins.get_mut(index) {
            *bin += 1;
        }
    }
    let label = |index: usize| format!("{:.3}..{:.3}", low + width * index as f64, low + width * (index + 1) as f64);
    bins.into_iter().enumerate().map(|(index, count)| (label(index), count)).collect()
}

/// A whole number with thousands apart.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Failures shown by their words.
const SHOWN_FAILURES: usize = 3;

/// Text for people.
pub(crate) fn text(facts: &Facts, report: &RunReport, spent: &Spending, wall: Duration) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let name = |plugin: &PluginIdentity| format!("{} {} ({})", plugin.name, plugin.version, plugin.digest.short());
    let row = |label: &str| format!("\x1b[2m{label:<12}\x1b[0m");
    let environment = name(&facts.environment) + &query(&facts.plan.options);
    writeln!(out, "{}{environment}, split {}", row("environment"), escaped(&report.split, 80))?;
    let LlmIdentity { provider, model, version } = &facts.policy;
    let policy = if provider == model { provider.clone() } else { format!("{provider} {model} at {version}") };
    writeln!(out, "{}{policy}", row("policy"))?;
    if let Some(playbook) = &facts.playbook {
        writeln!(out, "{}{playbook}", row("playbook"))?;
    }
    for (position, rule) in facts.rewards.iter().enumerate() {
        let mean = report.by_reward.get(position).and_then(|reward| reward.mean);
        let mean = mean.map_or_else(|| ": no value".to_owned(), |mean| format!(": {mean:.3}"));
        let weight = if rule.weight == 1.0 { String::new() } else { format!(", weight {}", rule.weight) };
        let reward = name(rule.reward.identity()) + &query(&rule.options);
        writeln!(out, "{}{reward}, {}{weight}{mean}", row("scored by"), rule.source.name())?;
    }
    let endings: Vec<String> = report.endings.iter().map(|(ending, count)| format!("{count} {ending}")).collect();
    writeln!(out, "{}{} of {}: {}", row("episodes"), report.episodes.len(), facts.plan.episodes, endings.join(", "))?;
    match (report.reward_mean, report.reward_interval) {
        (Some(mean), interval) => {
            let interval =
                interval.map(|i| format!("  95 % interval {:.3} to {:.3}", i.low, i.high)).unwrap_or_default();
            writeln!(out, "{}\x1b[1m{mean:.3}\x1b[0m{interval}  ({} scored)", row("reward"), report.scored)?;
            let rewards: Vec<f64> = report.episodes.iter().filter_map(|episode| episode.reward).collect();
            let rows = histogram(&rewards);
            let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
            for (label, count) in rows {
                let bar = "█".repeat((count * BAR).div_ceil(most));
                writeln!(out, "{}{label:>14} {bar} {count}", row(""))?;
            }
        }
        (None, _) if facts.rewards.is_empty() => {
            writeln!(out, "{}not scored: name a reward with --reward R.wasm", row("reward"))?;
        }
        (None, _) if report.failed > 0 => writeln!(out, "{}not scored: see the failures below", row("reward"))?,
        (None, _) => writeln!(out, "{}not scored: no reward had anything to say", row("reward"))?,
    }
    if let Some(Branching { by_snapshot, by_replay, unshared, reasons }) = &report.branching {
        let counts =
            [(by_snapshot, "from a snapshot"), (by_replay, "by taking the shared turns again"), (unshared, "not")];
        let counts: Vec<String> =
            counts.into_iter().filter(|(count, _)| **count > 0).map(|(count, how)| format!("{count} {how}")).collect();
        writeln!(out, "{}{}", row("branched"), counts.join(", "))?;
        for (reason, count) in reasons.iter().take(SHOWN_FAILURES) {
            writeln!(out, "{}{count} because {}", row(""), escaped(reason, 500))?;
        }
    }
    let seconds = wall.as_secs_f64();
    writeln!(
        out,
        "{}{} in {seconds:.2} s: {} steps/s, {} episodes/s",
        row("steps"),
        thousands(report.steps),
        thousands((report.steps as f64 / seconds.max(1e-9)) as u64),
        thousands((report.episodes.len() as f64 / seconds.max(1e-9)) as u64),
    )?;
    let tokens = spent.usage.prompt_tokens.saturating_add(spent.usage.completion_tokens);
    let of = facts.token_limit.map(|limit| format!(" of {}", thousands(limit))).unwrap_or_default();
    let cost = match facts.cost_limit {
        Some(limit) => format!(", cost {:.6} of {limit}", spent.cost),
        None if facts.priced => format!(", cost {:.6}", spent.cost),
        None => String::new(),
    };
    let fuel = report.peak_step_fuel.map_or_else(String::new, |fuel| {
        format!(", fuel {} of {} in the longest step", thousands(fuel), thousands(facts.step_fuel))
    });
    let allowed = facts.plan.failures_allowed();
    writeln!(
        out,
        "{}tokens {}{of}{cost}{fuel}, failures {} of {allowed} allowed",
        row("budgets"),
        thousands(tokens),
        report.failed
    )?;
    writeln!(out, "{}{} (model, prompt and sampling)", row("state"), report.state_id)?;
    writeln!(out, "{}{} in {}", row("recorded"), facts.run, facts.database.display())?;
    failures(&mut out, report)?;
    match &report.stopped {
        Some(StopReason::FailureBudget { failed, allowed }) => writeln!(
            out,
            "\x1b[1;31mstopped:\x1b[0m {failed} failed, {allowed} may; mend the cause above and begin a new run, or, if it was chance, raise --failure-budget and go on with --resume (what failed stays failed)"
        )?,
        // Of learning runs, which have a summary of their own.
        Some(StopReason::Unscored { why } | StopReason::Reflectors { why, .. }) => {
            writeln!(out, "stopped: {}", escaped(why, 500))?
        }
        Some(StopReason::ModelBudget) => writeln!(
            out,
            "\x1b[1;33mstopped:\x1b[0m the token or cost budget is spent; raise --max-tokens-total or --max-cost and go on with --resume"
        )?,
        Some(StopReason::Cancelled) => writeln!(
            out,
            "\x1b[1;33mstopped\x1b[0m by you; everything above is recorded, and the same command with --resume goes on"
        )?,
        None => {}
    }
    Ok(())
}

/// Who failed, how often, and where to look.
pub(crate) fn failures(out: &mut impl std::io::Write, report: &RunReport) -> anyhow::Result<()> {
    for FailureCount { who, episodes, message, example, .. } in report.failures.iter().take(SHOWN_FAILURES) {
        let who = escaped(who, 80);
        writeln!(out, "\x1b[31mfailed\x1b[0m      {who}: {episodes} x {}", escaped(message, 1000))?;
        writeln!(out, "            see `clawhost episodes show {example}`")?;
    }
    let others = report.failures.len().saturating_sub(SHOWN_FAILURES);
    if others > 0 {
        let episodes: u64 = report.failures.iter().skip(SHOWN_FAILURES).map(|count| count.episodes).sum();
        writeln!(out, "            and {episodes} by {others} other causes")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_shown_as_they_are_and_many_in_bins() {
        assert_eq!(histogram(&[1.0, 0.0, 1.0, -0.0]), [("0.000".to_owned(), 2), ("1.000".to_owned(), 2)]);
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        let bins = histogram(&many);
        assert_eq!(bins.len(), BINS);
        assert_eq!(bins.iter().map(|(_, count)| count).sum::<usize>(), 100);
        assert!(histogram(&[]).is_empty());
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(["7", "999", "1,000", "1,234,567"], [7, 999, 1000, 1_234_567].map(thousands));
    }
}
