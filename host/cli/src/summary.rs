//! The results of a run, for people and for machines.

use clawhost_app::{Played, Timing, time};
use clawhost_core::{Attributes, LlmIdentity, PluginIdentity, RunId, counted, escaped, thousands};
use clawhost_play::{Branching, FailureCount, PartReport, Plan, RunReport, StopReason};
use clawhost_run_config::{PartSpec, PluginSpec, RewardSpec, RunSpec};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;

/// `?name=value&...`, or nothing.
pub(crate) fn query(options: &Attributes) -> String {
    let pairs: Vec<String> = options.iter().map(|(name, value)| format!("{name}={}", escaped(value, 80))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// A plugin by its name, version and digest, or by its path if it was not loaded.
pub(crate) fn plugin(plugin: &PluginSpec) -> String {
    match &plugin.plugin {
        Some(PluginIdentity { name, version, digest }) => format!("{name} {version} ({})", digest.short()),
        None => plugin.path.clone(),
    }
}

/// The environment with its options; of a mixture, all parts.
pub(crate) fn environments(spec: &RunSpec) -> String {
    let first = plugin(&spec.environment) + &query(&spec.environment.options);
    let total: f64 = spec.environments().map(|(_, weight)| weight).sum();
    let share = |weight: f64| format!("{:.0} %", 100.0 * weight / total);
    let part = |part: &PartSpec| {
        let named = part.name.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
        format!("{}{}{named}, {}", plugin(&part.plugin), query(&part.plugin.options), share(part.weight))
    };
    match spec.mix.as_slice() {
        [] => first,
        parts => format!("{first}, {}; {}", share(1.0), parts.iter().map(part).collect::<Vec<_>>().join("; ")),
    }
}

/// The parts of a mixture with their settings, for JSON; `None`: there is one environment.
pub(crate) fn mixed(spec: &RunSpec) -> Option<Value> {
    let part = |(name, (plugin, weight)): (String, (&PluginSpec, f64))| json!({ "part": name, "weight": weight, "environment": plugin.plugin, "options": plugin.options });
    (!spec.mix.is_empty()).then(|| spec.part_names().into_iter().zip(spec.environments()).map(part).collect())
}

/// A reward with its settings.
fn reward(reward: &RewardSpec) -> Value {
    let mut document = json!(reward.plugin.plugin);
    if let Some(document) = document.as_object_mut() {
        document.insert("options".to_owned(), json!(reward.plugin.options));
        document.insert("source".to_owned(), json!(reward.source));
        document.insert("weight".to_owned(), json!(reward.weight));
        if let Some(part) = &reward.part {
            document.insert("part".to_owned(), json!(part));
        }
    }
    document
}

/// The usage of all models, including those of plugins and of abandoned episodes.
pub(crate) fn spent(timing: &Timing) -> Value {
    let Timing { spent, is_priced, .. } = timing;
    json!({
        "calls": spent.calls, "estimated_calls": spent.estimated, "prompt_tokens": spent.usage.prompt_tokens,
        "completion_tokens": spent.usage.completion_tokens, "cost": is_priced.then_some(spent.cost),
    })
}

/// One JSON document. Only `timing` differs between equal runs.
pub(crate) fn json(played: &Played) -> anyhow::Result<()> {
    let Played { run, spec, report, timing, .. } = played;
    let seconds = timing.wall.as_secs_f64();
    let mut document = json!({
        "format": 1,
        "state_id": report.state_id,
        "content_root": report.content_root,
        "environment": spec.environment.plugin,
        "rewards": spec.rewards.iter().map(reward).collect::<Vec<_>>(),
        "policy": spec.policy.identity,
        "config": spec.published(),
        "split": report.split,
        "episodes": report.episodes,
        "reward_mean": report.reward_mean,
        "reward_interval": report.reward_interval,
        "scored": report.scored,
        "tries": report.tries,
        "by_reward": report.by_reward,
        "unread": report.unread,
        "endings": report.endings,
        "failed": report.failed,
        "failures": report.failures,
        "branching": report.branching,
        "stopped": report.stopped,
        "steps": report.steps,
        "peak_step_fuel": report.peak_step_fuel,
        "usage": report.usage,
        "timing": {
            "run": run,
            "started": time(timing.started_ms),
            "wall_seconds": seconds,
            "steps_per_second": report.steps as f64 / seconds.max(1e-9),
            "episodes_per_second": report.episodes.len() as f64 / seconds.max(1e-9),
            "concurrency": spec.play.concurrency,
            "spent": spent(timing),
        },
    });
    if let (Some(document), Some(mixed)) = (document.as_object_mut(), mixed(spec)) {
        document.insert("mixture".to_owned(), mixed);
        document.insert("parts".to_owned(), json!(report.parts));
    }
    crate::terminal::json(&document)?;
    Ok(())
}

/// Widest bar of the histogram.
const BAR: usize = 30;
/// Bins of the histogram if rewards have many values.
const BINS: usize = 8;

/// The distribution of rewards: their values if they are few, otherwise bins.
fn histogram(rewards: &[f64]) -> Vec<(String, usize)> {
    let mut values: BTreeMap<u64, (f64, usize)> = BTreeMap::new();
    for reward in rewards {
        // Bits as a key: equal values are counted together. 0.0 and -0.0 are equal.
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

/// Number of failures whose messages are shown.
const SHOWN_FAILURES: usize = 3;

/// The beginning of a line.
fn row(label: &str) -> String {
    format!("\x1b[2m{label:<12}\x1b[0m")
}

/// The text for people.
pub(crate) fn text(played: &Played) -> anyhow::Result<()> {
    let Played { run, spec, report, .. } = played;
    let mut out = crate::terminal::stdout();
    let environment = environments(spec);
    writeln!(out, "{}{environment}, split {}", row("environment"), escaped(&report.split, 80))?;
    if let Some(LlmIdentity { provider, model, version }) = &spec.policy.identity {
        let policy = if provider == model { provider.clone() } else { format!("{provider} {model} at {version}") };
        writeln!(out, "{}{policy}", row("policy"))?;
    }
    if let Some(playbook) = &played.playbook {
        writeln!(out, "{}{}", row("playbook"), clawhost_app::playbooks::described(playbook)?)?;
    }
    for (position, reward) in spec.rewards.iter().enumerate() {
        let mean = report.by_reward.get(position).and_then(|reward| reward.mean);
        let mean = mean.map_or_else(|| ": no value".to_owned(), |mean| format!(": {mean:.3}"));
        let weight = if reward.weight == 1.0 { String::new() } else { format!(", weight {}", reward.weight) };
        let source = reward.source.map(|source| format!(", {}", source.name())).unwrap_or_default();
        let part = reward.part.as_ref().map(|part| format!(" for {part}")).unwrap_or_default();
        let named = plugin(&reward.plugin) + &query(&reward.plugin.options) + &part;
        writeln!(out, "{}{named}{source}{weight}{mean}", row("scored by"))?;
    }
    let endings: Vec<String> =
        report.endings.iter().map(|(ending, count)| format!("{} {ending}", thousands(*count))).collect();
    let (recorded, planned) = (thousands(report.episodes.len() as u64), thousands(spec.play.episodes));
    writeln!(out, "{}{recorded} of {planned}: {}", row("episodes"), endings.join(", "))?;
    rewards(&mut out, spec, report)?;
    crate::tries::lines(&mut out, &row("tries"), &report.tries)?;
    if let Some(branching) = &report.branching {
        branched(&mut out, branching)?;
    }
    budgets(&mut out, played)?;
    writeln!(
        out,
        "{}{} (model, sampling, and the prompt and playbook that were chosen)",
        row("state"),
        report.state_id
    )?;
    writeln!(out, "{}{run} in {}", row("recorded"), played.database.display())?;
    failures(&mut out, run, report)?;
    if let Some(reason) = &report.stopped {
        stopped(&mut out, reason)?;
    }
    Ok(())
}

/// The mean reward, and the distribution of rewards.
fn rewards(out: &mut impl std::io::Write, spec: &RunSpec, report: &RunReport) -> std::io::Result<()> {
    match report.reward_mean {
        Some(mean) => {
            let interval = report.reward_interval;
            let interval =
                interval.map(|i| format!("  95 % interval {:.3} to {:.3}", i.low, i.high)).unwrap_or_default();
            writeln!(out, "{}\x1b[1m{mean:.3}\x1b[0m{interval}  ({} scored)", row("reward"), thousands(report.scored))?;
            let rewards: Vec<f64> = report.episodes.iter().filter_map(|episode| episode.reward).collect();
            let rows = histogram(&rewards);
            let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
            for (label, count) in rows {
                let bar = "█".repeat((count * BAR).div_ceil(most));
                writeln!(out, "{}{label:>14} {bar} {count}", row(""))?;
            }
            report.parts.iter().try_for_each(|of| part(out, of))
        }
        None if spec.rewards.is_empty() => {
            writeln!(out, "{}not scored: name a reward with --reward R.wasm", row("reward"))
        }
        None if report.failed > 0 => writeln!(out, "{}not scored: see the failures below", row("reward")),
        None => writeln!(out, "{}not scored: no reward was applicable", row("reward")),
    }
}

/// The rewards of one part of a mixture.
fn part(out: &mut impl std::io::Write, report: &PartReport) -> std::io::Result<()> {
    let PartReport { part, episodes, reward_mean, reward_interval, failed, .. } = report;
    let mean = reward_mean.map_or_else(|| "not scored".to_owned(), |mean| format!("{mean:.3}"));
    let interval =
        reward_interval.map(|i| format!("  95 % interval {:.3} to {:.3}", i.low, i.high)).unwrap_or_default();
    let failed = if *failed > 0 { format!(", {} failed", thousands(*failed)) } else { String::new() };
    writeln!(
        out,
        "{}{} {mean}{interval}  ({}{failed})",
        row("  of part"),
        escaped(part, 80),
        counted(*episodes, "episode")
    )
}

/// How episodes of groups shared turns.
fn branched(out: &mut impl std::io::Write, branching: &Branching) -> std::io::Result<()> {
    let Branching { by_snapshot, by_replay, unshared, reasons } = branching;
    let counts = [(by_snapshot, "from a snapshot"), (by_replay, "by taking the shared turns again"), (unshared, "not")];
    let counts: Vec<String> =
        counts.into_iter().filter(|(count, _)| **count > 0).map(|(count, how)| format!("{count} {how}")).collect();
    writeln!(out, "{}{}", row("branched"), counts.join(", "))?;
    for (reason, count) in reasons.iter().take(SHOWN_FAILURES) {
        writeln!(out, "{}{count} because {}", row(""), escaped(reason, 500))?;
    }
    Ok(())
}

/// Time, tokens, money, fuel and failures.
fn budgets(out: &mut impl std::io::Write, played: &Played) -> std::io::Result<()> {
    let Played { spec, report, timing, step_fuel, .. } = played;
    let seconds = timing.wall.as_secs_f64();
    writeln!(
        out,
        "{}{} in {seconds:.2} s: {} steps/s, {} episodes/s",
        row("steps"),
        thousands(report.steps),
        thousands((report.steps as f64 / seconds.max(1e-9)) as u64),
        thousands((report.episodes.len() as f64 / seconds.max(1e-9)) as u64),
    )?;
    let usage = timing.spent.usage;
    let tokens = usage.tokens();
    let of = spec.budget.max_tokens_total.map(|limit| format!(" of {}", thousands(limit))).unwrap_or_default();
    let cost = match spec.budget.max_cost {
        Some(limit) => format!(", cost {:.6} of {limit}", timing.spent.cost),
        None if timing.is_priced => format!(", cost {:.6}", timing.spent.cost),
        None => String::new(),
    };
    let fuel = report.peak_step_fuel.map_or_else(String::new, |fuel| {
        format!(", fuel {} of {} in the longest step", thousands(fuel), thousands(*step_fuel))
    });
    writeln!(
        out,
        "{}tokens {}{of}{cost}{fuel}, failures {} of {} allowed",
        row("budgets"),
        thousands(tokens),
        report.failed,
        failures_allowed(spec),
    )?;
    match timing.spent.estimated {
        0 => Ok(()),
        some => writeln!(out, "{}{} came without usage: their tokens are estimated", row(""), counted(some, "answer")),
    }
}

/// How many episodes may fail before the run stops.
fn failures_allowed(spec: &RunSpec) -> u64 {
    let plan = Plan { failure_budget: spec.play.failure_budget, ..Plan::new(spec.play.episodes, spec.play.group, 0) };
    plan.failures_allowed()
}

/// Why it stopped, and how to continue.
fn stopped(out: &mut impl std::io::Write, reason: &StopReason) -> std::io::Result<()> {
    match reason {
        StopReason::FailureBudget { failed, allowed } => writeln!(
            out,
            "\x1b[1;31mstopped:\x1b[0m {failed} failed, {allowed} may; fix the cause above and begin a new run, or, if it was temporary, raise --failure-budget and continue with --resume (failed episodes stay failed); episodes that were in progress then are recorded, and not counted above"
        ),
        // Of learning runs, which have a summary of their own.
        StopReason::Unscored { why } | StopReason::Reflectors { why, .. } => {
            writeln!(out, "stopped: {}", escaped(why, 500))
        }
        StopReason::ModelBudget => writeln!(
            out,
            "\x1b[1;33mstopped:\x1b[0m the token or cost budget is spent; raise --max-tokens-total, --max-grant-tokens or --max-cost and continue with --resume"
        ),
        StopReason::Cancelled => writeln!(
            out,
            "\x1b[1;33mstopped\x1b[0m by you; everything above is recorded, and the same command with --resume continues"
        ),
    }
}

/// The causes of failures, their numbers, and examples.
pub(crate) fn failures(out: &mut impl std::io::Write, run: &RunId, report: &RunReport) -> anyhow::Result<()> {
    for FailureCount { who, episodes, message, example, .. } in report.failures.iter().take(SHOWN_FAILURES) {
        let who = escaped(who, 80);
        writeln!(out, "\x1b[31mfailed\x1b[0m      {who}: {} x {}", thousands(*episodes), escaped(message, 1000))?;
        // With its run: equal configurations give equal episode ids.
        writeln!(out, "            see `clawhost episodes show {run}/{example}`")?;
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
    fn few_values_are_shown_individually_and_many_in_bins() {
        assert_eq!(histogram(&[1.0, 0.0, 1.0, -0.0]), [("0.000".to_owned(), 2), ("1.000".to_owned(), 2)]);
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        let bins = histogram(&many);
        assert_eq!(bins.len(), BINS);
        assert_eq!(bins.iter().map(|(_, count)| count).sum::<usize>(), 100);
        assert!(histogram(&[]).is_empty());
    }
}
