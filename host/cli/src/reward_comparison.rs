//! A comparison of two judges of stored episodes, as text.

use crate::episodes::{print, table};
use crate::learn_summary::signed;
use crate::words::Words;
use clawhost_app::{ComparedJudge, JudgeCost, JudgedBy, RewardComparison, RewardInUse, denied_alias};
use clawhost_core::{counted, escaped, thousands};
use clawhost_play::{
    AnswerCounts, Confusion, Coverage, Disagreement, Interval, Lacking, Measure, Passing, Rescored, Sides,
    SliceAgreement, SliceKind, TASKS_NEEDED,
};
use comfy_table::CellAlignment;
use std::io::{self, Write};

/// Most slices of a kind that are shown. JSON has all.
const SLICES: usize = 12;
/// Longest text of a slice or a task, in bytes.
const NAME_BYTES: usize = 60;
/// Longest shown rationale, in bytes: the transcript of the episode has all of it.
const RATIONALE_BYTES: usize = 300;

fn row(label: &str) -> String {
    format!("\x1b[2m{label:<12}\x1b[0m")
}

/// Prints a comparison.
pub(crate) fn text(out: &mut impl Write, compared: &RewardComparison) -> io::Result<()> {
    let RewardComparison { a, b, not_complete, agreement, runs, .. } = compared;
    writeln!(out, "{}{}", row("A"), judge(a, agreement.thresholds.a))?;
    writeln!(out, "{}{}", row("B"), judge(b, agreement.thresholds.b))?;
    coverage(out, &agreement.coverage, *not_complete)?;
    writeln!(out, "{}{}", row("rho"), measure(&agreement.spearman, number, "Spearman's rank correlation"))?;
    writeln!(out, "{}{}", row("tau"), measure(&agreement.kendall, number, "Kendall's tau-b"))?;
    let difference = |value: f64| signed(value, 3);
    writeln!(out, "{}{}", row("A - B"), measure(&agreement.difference, difference, "mean difference"))?;
    writeln!(out, "{}{}", row("kappa"), measure(&agreement.passing.kappa, number, "Cohen's kappa of passing"))?;
    writeln!(
        out,
        "{}{}",
        row("same"),
        measure(&agreement.passing.agreement, number, "share that both pass or both fail")
    )?;
    confusion(out, &agreement.passing.confusion)?;
    for kind in [SliceKind::Run, SliceKind::Policy, SliceKind::Tasks, SliceKind::Source] {
        let of_kind: Vec<&SliceAgreement> = agreement.slices.iter().filter(|one| one.by == kind).collect();
        // A single slice has the numbers of all episodes.
        if of_kind.len() > 1 {
            slices(out, kind, &of_kind)?;
        }
    }
    disagreements(out, &agreement.disagreements)?;
    writeln!(out, "\ncost of a call")?;
    cost(out, "A", a)?;
    cost(out, "B", b)?;
    failures(out, compared)?;
    crate::score::stopped(out, runs.last().and_then(|last| last.report.stopped.as_ref()))
}

fn judge(ComparedJudge { judge, range, .. }: &ComparedJudge, threshold: f64) -> String {
    let who = match judge {
        JudgedBy::Reward(RewardInUse { reward, options, source, .. }) => {
            let options: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let query =
                if options.is_empty() { String::new() } else { format!("?{}", escaped(&options.join("&"), 200)) };
            format!("{}{query} {} ({}), {}", reward.name, reward.version, reward.digest.short(), source.name())
        }
        JudgedBy::Own => "the episodes' own reward, without verdicts of A".to_owned(),
        JudgedBy::Feedback => "the feedback of people".to_owned(),
    };
    format!("{who}; {} to {}, passes from {threshold} on", range.0, range.1)
}

fn coverage(out: &mut impl Write, coverage: &Coverage, not_complete: u64) -> io::Result<()> {
    let Coverage { both, only_a, only_b, neither, tasks, answers } = coverage;
    let left_out = match not_complete {
        0 => String::new(),
        some => format!("; {} that had failed have no reward", thousands(some)),
    };
    writeln!(
        out,
        "{}{} scored by both ({}), {} by A only, {} by B only, {} by neither{left_out}",
        row("episodes"),
        thousands(*both),
        counted(*tasks, "task"),
        thousands(*only_a),
        thousands(*only_b),
        thousands(*neither),
    )?;
    for (name, AnswerCounts { not_applicable, failed, missing, .. }) in [("A", answers.a), ("B", answers.b)] {
        let reasons: Vec<String> = [(not_applicable, "not applicable"), (failed, "failed"), (missing, "no verdict")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", thousands(count)))
            .collect();
        if !reasons.is_empty() {
            writeln!(out, "{}without a score of {name}: {}", row(""), reasons.join(", "))?;
        }
    }
    Ok(())
}

fn number(value: f64) -> String {
    // No minus before a zero.
    let text = format!("{value:.3}");
    if text == "-0.000" { "0.000".to_owned() } else { text }
}

/// A value with its interval, or why there is none.
fn measure(Measure { value, interval, lacking }: &Measure, written: impl Fn(f64) -> String, what: &str) -> String {
    let why = lacking.map(reason).unwrap_or_default();
    let Some(value) = value else { return format!("-  {what}: {why}") };
    let interval = match interval {
        Some(Interval { low, high }) => format!("95 % interval {} to {}", written(*low), written(*high)),
        None => format!("no interval: {why}"),
    };
    format!("\x1b[1m{}\x1b[0m  {interval}  ({what})", written(*value))
}

fn reason(lacking: Lacking) -> String {
    match lacking {
        Lacking::TooFewEpisodes => "fewer than two episodes have both scores".to_owned(),
        Lacking::AIsConstant => "A says the same about every episode".to_owned(),
        Lacking::BIsConstant => "B says the same about every episode".to_owned(),
        Lacking::BothAreConstant => "A and B say the same about every episode".to_owned(),
        Lacking::TooFewTasks => format!("it needs {TASKS_NEEDED} tasks or more"),
        Lacking::RarelyVaries => "a score that differs is too rare".to_owned(),
        Lacking::NoSpread => "every resample of tasks gives this value".to_owned(),
    }
}

fn confusion(out: &mut impl Write, found: &Confusion) -> io::Result<()> {
    let Confusion { both, only_a, only_b, neither } = found;
    let mut rows = table(&["", "B passes", "B fails"]);
    rows.add_row(["A passes".to_owned(), thousands(*both), thousands(*only_a)]);
    rows.add_row(["A fails".to_owned(), thousands(*only_b), thousands(*neither)]);
    right(&mut rows, &[1, 2]);
    writeln!(out)?;
    print(out, &rows)
}

fn right(table: &mut comfy_table::Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn slices(out: &mut impl Write, kind: SliceKind, all: &[&SliceAgreement]) -> io::Result<()> {
    let what = match kind {
        SliceKind::Run => "run",
        SliceKind::Policy => "policy",
        SliceKind::Tasks => "tasks",
        SliceKind::Source => "own reward from",
    };
    let mut rows = table(&[what, "both pass", "A only", "B only", "neither", "same", "kappa"]);
    for SliceAgreement { value, passing: Passing { confusion, agreement, kappa }, .. } in all.iter().take(SLICES) {
        let Confusion { both, only_a, only_b, neither } = confusion;
        let [both, only_a, only_b, neither] = [both, only_a, only_b, neither].map(|count| thousands(*count));
        rows.add_row([escaped(value, NAME_BYTES), both, only_a, only_b, neither, short(agreement), short(kappa)]);
    }
    right(&mut rows, &[1, 2, 3, 4]);
    writeln!(out)?;
    print(out, &rows)?;
    match all.len().saturating_sub(SLICES) {
        0 => Ok(()),
        more => writeln!(out, "and {}; --json has all", counted(more as u64, "other slice")),
    }
}

/// A value with its interval in a table.
fn short(Measure { value, interval, .. }: &Measure) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let interval = interval.map(|Interval { low, high }| format!(" ({} to {})", number(low), number(high)));
    number(*value) + &interval.unwrap_or_default()
}

fn disagreements(out: &mut impl Write, all: &[Disagreement]) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nlargest disagreements, by the share of episodes that each judge places below")?;
    for Disagreement { run, episode, task, scores, places, rationales, .. } in all {
        let mut show = Words::of("episodes");
        show.word("show");
        show.word(format!("{run}/{episode}"));
        writeln!(out, "  \x1b[1m{}\x1b[0m  task {}", show.line(), escaped(task, NAME_BYTES))?;
        let Sides { a: text_a, b: text_b } = rationales;
        for (name, score, place, text) in [("A", scores.a, places.a, text_a), ("B", scores.b, places.b, text_b)] {
            let text = if text.is_empty() { String::new() } else { format!(": {}", escaped(text, RATIONALE_BYTES)) };
            writeln!(out, "    {name} {} (above {:.0} %){text}", number(score), 100.0 * place)?;
        }
    }
    Ok(())
}

fn cost(out: &mut impl Write, name: &str, ComparedJudge { judge, cost, .. }: &ComparedJudge) -> io::Result<()> {
    let JudgeCost { verdicts, calls, requests, prompt_tokens, completion_tokens, money, measured } = cost;
    let verdicts = counted(*verdicts, "verdict");
    if matches!(judge, JudgedBy::Feedback) {
        return writeln!(out, "  {name} {verdicts} of people");
    }
    let mut parts = vec![format!("{verdicts} by {}", counted(*calls, "call"))];
    let each = |sum: f64, calls: u64| sum / calls.max(1) as f64;
    if let Some(measured) = measured {
        let fuel = match measured.fuel {
            Some(fuel) => format!(" and {} fuel", thousands(each(fuel as f64, measured.calls).round() as u64)),
            None => String::new(),
        };
        let millis = 1000.0 * each(measured.seconds, measured.calls);
        parts.push(format!("{millis:.1} ms{fuel} for each of the {} made now", thousands(measured.calls)));
    }
    if *requests > 0 {
        let tokens = prompt_tokens.saturating_add(*completion_tokens);
        parts.push(format!("{:.1} requests to models", each(*requests as f64, *calls)));
        parts.push(format!("{} tokens", thousands(each(tokens as f64, *calls).round() as u64)));
    }
    if let Some(money) = money {
        parts.push(format!("{:.6} of money", each(*money, *calls)));
    }
    writeln!(out, "  {name} {}", parts.join(", "))
}

/// The first failure of each reward.
fn failures(out: &mut impl Write, compared: &RewardComparison) -> io::Result<()> {
    let mut told: Vec<&str> = Vec::new();
    for Rescored { reward, failure, .. } in compared.runs.iter().flat_map(|run| &run.report.rewards) {
        if let Some(failure) = failure.as_deref().filter(|_| !told.contains(&reward.name.as_str())) {
            told.push(&reward.name);
            let grant = denied_alias(failure).map(|alias| format!("; grant one with --grant llm:{alias}=SPEC"));
            writeln!(
                out,
                "\x1b[31mfailed\x1b[0m      {}: {}{}",
                reward.name,
                escaped(failure, 1000),
                grant.unwrap_or_default()
            )?;
        }
    }
    Ok(())
}
