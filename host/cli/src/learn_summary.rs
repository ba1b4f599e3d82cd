//! What a learning run came to, for people and for machines.

use crate::args::{self, Common};
use crate::exit::Exit;
use crate::plot;
use crate::setup::Setup;
use clawhost_core::{Digest, Environment as _, RunId, escaped};
use clawhost_learn::evolve::{Point, Report, Why};
use clawhost_learn::gate::Decision;
use clawhost_learn::harness::EntryRow;
use clawhost_learn::playbook::exchange::IMPORT;
use clawhost_providers::Spending;
use clawhost_runtime::learn::{Evaluation, EvolutionReport, GateReport, IterationReport, LearnPlan, LearnReport, Mean};
use clawhost_runtime::{FailureCount, StopReason};
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width};
use std::io::Write as _;
use std::time::Duration;

/// Characters of a reason.
const REASON: usize = 500;
/// Different failures that are told.
const SHOWN_FAILURES: usize = 5;

/// What was learned, by whom, and what it cost.
pub(crate) struct Facts {
    pub(crate) run: RunId,
    pub(crate) playbook: String,
    /// The version of the playbook that it began with.
    pub(crate) began_with: Option<u64>,
    pub(crate) config: serde_json::Value,
    pub(crate) spent: Spending,
    pub(crate) priced: bool,
    pub(crate) started: u64,
    pub(crate) wall: Duration,
    /// That were asked for.
    pub(crate) iterations: u64,
    pub(crate) concurrency: u16,
}

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

fn mean(value: Option<&Mean>) -> String {
    value.map_or("not measured".to_owned(), |mean| format!("{:.3} ({:.3} to {:.3})", mean.mean, mean.low, mean.high))
}

/// Why there is no verdict.
pub(crate) fn stopped(reason: &StopReason) -> String {
    match reason {
        StopReason::Cancelled => "stopped".to_owned(),
        StopReason::ModelBudget => "the token or cost budget is spent".to_owned(),
        StopReason::FailureBudget { failed, allowed } => {
            format!("{failed} episodes failed where {allowed} may; see `clawhost episodes list`")
        }
        StopReason::Unscored { why } => format!(
            "nothing of the first iteration was scored, so there is nothing to learn from: {}",
            escaped(why, REASON)
        ),
        StopReason::Reflectors { failed, why } => {
            format!("all {failed} calls of reflectors failed: {}", escaped(why, REASON))
        }
    }
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

/// What the weights did in an iteration; none: they are not what learns.
pub(crate) fn weights(report: &IterationReport) -> Option<String> {
    let metric = |name: &str| report.metrics.get(&format!("weights.{name}")).copied();
    let without_variance = *report.metrics.get("train.zero_variance_share")?;
    let loss = metric("loss").map_or("no loss".to_owned(), |loss| format!("loss {loss:+.4}"));
    let number = |name: &str| metric(name).unwrap_or(0.0);
    let validated = report.metrics.get("val.reward").map(|reward| format!("  validation {reward:.3}"));
    let share = metric("truncation_share").filter(|share| *share > 0.0);
    let cut_off = share.map(|share| format!("  cut off {:.0} %", 100.0 * share));
    let refilled = report.metrics.get("train.refilled_groups").filter(|groups| **groups > 0.0);
    let refilled = refilled.map_or(String::new(), |groups| format!("({groups} groups played anew)  "));
    let refused = report.learned.as_ref().err().map(|why| format!("  NOT LEARNED: {}", escaped(why, 300)));
    let ends = [cut_off, validated, refused].map(Option::unwrap_or_default).concat();
    Some(format!(
        "{refilled}{loss}  KL {:.4}  entropy {:.3}  clipped {:.1} %  gradient {:.2}  without variance {:.0} %{ends}",
        number("approx_kl"),
        number("entropy"),
        100.0 * number("clip_fraction"),
        number("gradient_norm"),
        100.0 * without_variance,
    ))
}

/// Before, after and the difference.
pub(crate) fn proof(
    out: &mut impl std::io::Write,
    evaluation: &Evaluation,
    [first, second]: [&str; 2],
) -> std::io::Result<()> {
    let Evaluation { split, pairs, tasks, missing, before, after, lift } = evaluation;
    let lost = match missing.all() {
        0 => String::new(),
        all => format!(", {all} without a score ({} before, {} after)", missing.before, missing.after),
    };
    let about = if tasks == pairs { String::new() } else { format!(" about {tasks} tasks, which are the unit") };
    writeln!(out, "test        {split}, {pairs} pairs{about}{lost}: both on the same tasks with the same seeds")?;
    writeln!(out, "  before    {}, {first}", mean(before.as_ref()))?;
    writeln!(out, "  after     {}, {second}", mean(after.as_ref()))?;
    let lift = lift.as_ref().map_or("not measured".to_owned(), |lift| {
        format!("{} ({} to {}, 95 %)", signed(lift.mean, 3), signed(lift.low, 3), signed(lift.high, 3))
    });
    writeln!(out, "  lift      {lift}")
}

/// Numbers that people can read: very large and very small ones in powers of ten.
fn readable(value: f64) -> String {
    if value == 0.0 || (0.01..10_000.0).contains(&value) { format!("{value:.2}") } else { format!("{value:.0e}") }
}

/// A difference with its sign. What is rounded to nothing has none.
fn signed(value: f64, decimals: usize) -> String {
    let text = format!("{value:+.decimals$}");
    let is_nothing = text.bytes().all(|byte| b"+-0.".contains(&byte));
    if is_nothing { format!("{:.decimals$}", 0.0) } else { text }
}

/// What is said of what is not known.
const UNKNOWN: &str = "-";

/// Least width of a lesson in a table: on a terminal that leaves less, lines are broken.
const LESSON: u16 = 30;

/// The width of the terminal that is printed on; none: it is none, so that nothing is cut.
pub(crate) fn terminal_columns() -> Option<u16> {
    use std::io::IsTerminal as _;
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let chosen = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    chosen.or_else(|| Table::new().width())
}

/// Every entry in one table. Lessons are cut to what so many columns leave them.
pub(crate) fn entries(rows: &[EntryRow], columns: Option<u16>) -> Table {
    let mut table = crate::episodes::table(&[
        "id",
        "status",
        "groups",
        "lift",
        "95 %, always valid",
        "e-value",
        "tokens",
        "times",
        "lesson",
    ]);
    for row in rows {
        let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
        // The evidence for what it was decided as.
        let e_value = if row.status == "harmful" { row.harms } else { row.helps };
        let mut line = Row::from([
            row.id.to_string(),
            row.status.clone(),
            row.groups.to_string(),
            known(row.lift.map(|lift| signed(lift, 2))),
            known(row.interval.map(|(low, high)| format!("{} to {}", signed(low, 2), signed(high, 2)))),
            known(e_value.map(readable)),
            row.tokens.to_string(),
            // What was planted or imported was proposed by nobody.
            if ["planted", IMPORT].contains(&row.created_by.as_str()) {
                row.created_by.clone()
            } else {
                row.support.to_string()
            },
            escaped(&row.lesson, usize::MAX),
        ]);
        if columns.is_some() {
            line.max_height(1);
        }
        table.add_row(line);
    }
    if let Some(columns) = columns {
        table.set_width(columns).set_content_arrangement(ContentArrangement::Dynamic);
        let lessons = table.column_count().saturating_sub(1);
        for (position, column) in table.column_iter_mut().enumerate() {
            column.set_constraint(match position == lessons {
                true => ColumnConstraint::LowerBoundary(Width::Fixed(LESSON)),
                false => ColumnConstraint::ContentWidth,
            });
        }
    }
    table
}

/// What the columns of [`entries`] mean.
pub(crate) fn legend() -> &'static str {
    "lift     reward with the lesson less without it, inside groups; its interval holds however often one looks\n\
     e-value  evidence that it helps (of harmful ones: that it harms); over 20 is strong. While on trial that of the last\n         \
     batch, later that by which it was decided, whereas lift and interval go on being measured\n\
     times    how often it was proposed"
}

/// Share of the iterations that one point of the curve is a mean of.
const SMOOTHING: usize = 20;

/// The reward of every iteration that has one, smoothed.
pub(crate) fn curve(report: &LearnReport) -> Vec<(f64, f64)> {
    let scored = report.iterations.iter().filter_map(|one| Some((one.iteration as f64, one.reward?)));
    let (numbers, rewards): (Vec<f64>, Vec<f64>) = scored.unzip();
    let smoothed = plot::smoothed(&rewards, (rewards.len() / SMOOTHING).max(1));
    numbers.into_iter().zip(smoothed).map(|(number, (_, reward))| (number, reward)).collect()
}

/// What goes on from where it stopped, and with which command.
pub(crate) fn next(reason: &StopReason, done: usize, iterations: u64) -> String {
    let from = match done as u64 >= iterations {
        true => "goes on with the final test".to_owned(),
        false => format!("goes on from iteration {}", done + 1),
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
            format!("with --resume and a higher --max-tokens-total or --max-cost it {from}; what was spent counts")
        }
        StopReason::Unscored { .. } => {
            "mend what it says, or take a reward that judges these tasks, and begin a new run: --resume would stop here again"
                .to_owned()
        }
    }
}

/// What is different after the run, and what is not.
fn changed(lessons: bool, prompt: bool) -> &'static str {
    match (lessons, prompt) {
        (false, false) => "nothing changed: no candidate passed the gate",
        (true, false) => "the playbook alone changed: model and prompt are the same",
        (false, true) => "the evolved prompt alone changed: the model is the same",
        (true, true) => "the playbook and the evolved prompt changed: the model is the same",
    }
}

/// The outcome, and what it can have come from.
pub(crate) fn verdict(report: &LearnReport) -> String {
    let mut gates = report.iterations.iter().filter_map(|iteration| iteration.gate.as_ref());
    let lessons = gates.any(|gate| gate.decision == Decision::Promote);
    let prompt = report.layers.iter().any(|layer| layer == "evolution");
    format!("{} ({})", report.outcome.words(), changed(lessons, prompt))
}

/// For people.
pub(crate) fn text(facts: &Facts, report: &LearnReport) -> anyhow::Result<()> {
    let mut out = anstream::stdout();
    writeln!(out, "run         {}", facts.run)?;
    if let Some(plot) = plot::text(&curve(report), 0.0, 1.0) {
        writeln!(out, "training reward by iteration (while lessons are on trial, half of the episodes miss them)")?;
        writeln!(out, "{plot}")?;
    }
    let shown: Vec<EntryRow> = report.entries.iter().filter(|row| row.status != "queued").cloned().collect();
    let queued = report.entries.len() - shown.len();
    if !shown.is_empty() {
        crate::episodes::print(&mut out, &entries(&shown, terminal_columns()))?;
        writeln!(out, "{}", legend())?;
    }
    if queued > 0 {
        writeln!(out, "and {queued} lessons that wait for a trial")?;
    }
    let counts = &report.proposals;
    let refused: u64 = counts.refused.values().sum();
    writeln!(
        out,
        "proposals   {} in all: {} said what was there, {} were turned down before, {refused} refused, {} dropped",
        counts.proposed, counts.merged, counts.known, counts.dropped
    )?;
    for (why, times) in &counts.refused {
        writeln!(out, "            refused {times} times: {}", escaped(why, 200))?;
    }
    let reflections = &report.reflections;
    if reflections.calls > 0 && counts.proposed == 0 && reflections.failures() == 0 {
        writeln!(
            out,
            "            in {} groups no reflector found anything to say: does the environment's feedback tell what was wrong?",
            reflections.asked
        )?;
        writeln!(out, "            `clawhost inspect REFLECTOR.wasm` says what it reads")?;
    }
    for (why, times) in &reflections.failed {
        let red = if reflections.failures() * 2 > reflections.calls { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        writeln!(
            out,
            "            {}{times} of {} calls of reflectors failed{}: {}",
            red.0,
            reflections.calls,
            red.1,
            escaped(why, 300)
        )?;
    }
    if let Some(report) = &report.evolution {
        let [cost, found] = evolution(report);
        writeln!(out, "evolution   {cost}")?;
        writeln!(out, "            {found}")?;
    }
    writeln!(out, "batches     {} learned of {}", report.learned, report.iterations.len())?;
    let gates = report.iterations.iter().filter_map(|iteration| iteration.gate.as_ref());
    for one in gates {
        writeln!(out, "gate        {}", gate(one))?;
    }
    if facts.spent.calls > 0 {
        let usage = facts.spent.usage;
        let cost = if facts.priced { format!(", cost {:.4}", facts.spent.cost) } else { String::new() };
        writeln!(
            out,
            "models      {} calls, {} tokens read, {} written{cost}",
            facts.spent.calls, usage.prompt_tokens, usage.completion_tokens
        )?;
    }
    for FailureCount { who, episodes, message, example, .. } in report.failures.iter().take(SHOWN_FAILURES) {
        writeln!(out, "\x1b[31mfailed\x1b[0m      {}: {episodes} x {}", escaped(who, 80), escaped(message, 1000))?;
        writeln!(out, "            see `clawhost episodes show {example}`")?;
    }
    if let Some(evaluation) = &report.evaluation {
        let first = match facts.began_with {
            Some(number) => format!("with version {number} of the playbook, as the run began"),
            None => "without a playbook".to_owned(),
        };
        proof(&mut out, evaluation, [&first, "with the playbook as it is now"])?;
    }
    match &report.stopped {
        None => {
            writeln!(out, "verdict     {}", verdict(report))?;
        }
        Some(reason) => {
            let why = stopped(reason);
            writeln!(out, "verdict     none: {why}")?;
            writeln!(out, "            {}", next(reason, report.iterations.len(), facts.iterations))?;
        }
    }
    writeln!(out, "playbook    {}: see `clawhost playbook show {}`", facts.playbook, facts.playbook)?;
    Ok(())
}

/// One JSON document. What differs between equal runs stands under `timing`, and nowhere else.
pub(crate) fn json(facts: &Facts, report: &LearnReport) -> anyhow::Result<()> {
    let mut learn = serde_json::json!(report);
    // What was paid differs where a run was interrupted: calls under way were lost.
    let mut usage = Vec::new();
    if let Some(iterations) = learn.get_mut("iterations").and_then(serde_json::Value::as_array_mut) {
        usage = iterations.iter_mut().filter_map(|one| one.as_object_mut()?.remove("usage")).collect();
    }
    if let Some(learn) = learn.as_object_mut() {
        learn.remove("usage");
    }
    let document = serde_json::json!({
        "format": 1,
        "learn": learn,
        "config": facts.config,
        "timing": {
            "usage": report.usage,
            "usage_by_iteration": usage,
            "run": facts.run,
            "started": crate::data::time(facts.started),
            "wall_seconds": facts.wall.as_secs_f64(),
            "concurrency": facts.concurrency,
            "spent": {
                "calls": facts.spent.calls, "prompt_tokens": facts.spent.usage.prompt_tokens,
                "completion_tokens": facts.spent.usage.completion_tokens,
                "cost": facts.priced.then_some(facts.spent.cost),
            },
        },
    });
    writeln!(anstream::stdout(), "{document:#}")?;
    Ok(())
}

/// What would be done, and what it costs at most.
pub(crate) fn dry_run(
    common: &Common,
    setup: &Setup<'_>,
    options: &args::Run,
    plan: &LearnPlan,
    playbook: &str,
    digest: &Digest,
) -> anyhow::Result<Exit> {
    let evolution = plan.evolve.as_ref().map_or(0, |evolve| evolve.budget);
    let sessions = plan.iterations.div_ceil(plan.gate.every.max(1)) + u64::from(plan.evolve.is_some());
    let training = plan.iterations.saturating_mul(plan.play.episodes);
    let gate = sessions.saturating_mul(plan.gate.pairs).saturating_mul(2);
    let test = plan.test_pairs.saturating_mul(2);
    let episodes = training.saturating_add(evolution).saturating_add(gate).saturating_add(test);
    let calls = episodes.saturating_mul(u64::from(plan.play.max_turns));
    let written = calls.saturating_mul(u64::from(options.play.max_tokens));
    if common.json {
        let document = serde_json::json!({
            "format": 1, "dry_run": true, "plan": plan, "playbook": playbook, "digest": digest,
            "environment": setup.environment.identity(), "policy": setup.model.identity(),
            "at_most": {
                "evolution_episodes": evolution, "training_episodes": training, "gate_episodes": gate, "test_episodes": test, "episodes": episodes,
                "policy_calls": calls, "tokens_written": written,
            },
        });
        writeln!(anstream::stdout(), "{document:#}")?;
        return Ok(Exit::Ok);
    }
    let mut out = anstream::stdout();
    let identity = setup.environment.identity();
    let model = setup.model.identity();
    writeln!(out, "environment {} {} ({})", identity.name, identity.version, identity.digest.short())?;
    writeln!(out, "policy      {}:{}", model.provider, model.model)?;
    writeln!(out, "playbook    {playbook}")?;
    if let Some(evolve) = &plan.evolve {
        writeln!(out, "evolution   of section {}: {evolution} episodes at most", evolve.section)?;
    }
    writeln!(
        out,
        "training    {} iterations of {} episodes in groups of {}: {training}",
        plan.iterations, plan.play.episodes, plan.play.group
    )?;
    writeln!(out, "gate        {sessions} sessions of at most {} pairs: {gate} episodes at most", plan.gate.pairs)?;
    writeln!(out, "test        {} pairs: {test} episodes", plan.test_pairs)?;
    writeln!(
        out,
        "at most     {episodes} episodes; {calls} calls of the policy (of {} turns each), which write {written} tokens",
        plan.play.max_turns
    )?;
    if !setup.grants.models.is_empty() {
        writeln!(out, "            without what rewards and reflectors ask their models")?;
    }
    match (options.play.models.max_tokens_total, options.play.models.max_cost) {
        (None, None) if model.provider != "follower" && model.provider != "script" => {
            writeln!(out, "budget      none: set --max-tokens-total, or --max-cost with --price")?;
        }
        (tokens, cost) => {
            let tokens = tokens.map(|tokens| format!("{tokens} tokens"));
            let cost = cost.map(|cost| format!("cost {cost}"));
            let limits: Vec<String> = tokens.into_iter().chain(cost).collect();
            let nothing = || match setup.grants.models.is_empty() {
                true => "nothing to pay".to_owned(),
                false => "none, and plugins are granted models: set --max-tokens-total, or --max-cost with --price"
                    .to_owned(),
            };
            let limits = if limits.is_empty() { nothing() } else { limits.join(", ") };
            writeln!(out, "budget      {limits}")?;
        }
    }
    writeln!(out, "digest      {digest}")?;
    writeln!(out, "nothing was played: leave --dry-run out")?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::{Entry, Lesson};

    #[test]
    fn what_goes_on_from_where_depends_on_why_it_stopped() {
        let check = |reason: StopReason, done, expect: &str| {
            let told = next(&reason, done, 20);
            assert!(told.contains(expect), "{told}");
        };
        check(StopReason::Cancelled, 3, "the same command with --resume goes on from iteration 4");
        check(StopReason::Cancelled, 20, "the same command with --resume goes on with the final test");
        let budget = StopReason::FailureBudget { failed: 9, allowed: 8 };
        check(budget, 3, "with --resume and a higher --failure-budget it goes on from iteration 4");
        check(StopReason::ModelBudget, 0, "a higher --max-tokens-total or --max-cost it goes on from iteration 1");
        check(
            StopReason::Unscored { why: String::new() },
            0,
            "take a reward that judges these tasks, and begin a new run",
        );
    }

    #[test]
    fn a_verdict_names_what_changed_and_what_did_not() {
        let check = |lessons, prompt, expect: &str| assert_eq!(changed(lessons, prompt), expect);
        check(false, false, "nothing changed: no candidate passed the gate");
        check(true, false, "the playbook alone changed: model and prompt are the same");
        check(false, true, "the evolved prompt alone changed: the model is the same");
        check(true, true, "the playbook and the evolved prompt changed: the model is the same");
    }

    #[test]
    fn nothing_has_no_sign_and_evidence_is_never_rounded_to_none() {
        for (value, text) in
            [(0.0, "0.00"), (-0.0, "0.00"), (-0.004, "0.00"), (0.004, "0.00"), (-0.2, "-0.20"), (1.0, "+1.00")]
        {
            assert_eq!(signed(value, 2), text, "{value}");
        }
        assert_eq!([signed(-0.0004, 3), signed(-0.004, 3)], ["0.000", "-0.004"]);
        for (value, text) in
            [(0.0, "0.00"), (0.0099, "1e-2"), (1e-300, "1e-300"), (0.01, "0.01"), (20.0, "20.00"), (2e9, "2e9")]
        {
            assert_eq!(readable(value), text, "{value}");
        }
    }

    fn told(rows: &[EntryRow], columns: Option<u16>) -> String {
        let mut out = Vec::new();
        crate::episodes::print(&mut out, &entries(rows, columns)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lessons_are_whole_or_cut_to_what_a_terminal_leaves() {
        let lesson = format!("when tier is gold: {}\u{1b}[31m end", "wait ".repeat(60));
        let row = EntryRow::unmeasured(&Entry::new(Lesson::read(&lesson), IMPORT));
        let whole = told(std::slice::from_ref(&row), None);
        assert!(whole.contains("\\u{1b}[31m end") && whole.lines().count() == 2, "{whole}");
        for columns in [10, 120, 160, 200] {
            let cut = told(std::slice::from_ref(&row), Some(columns));
            let widest = cut.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(cut.lines().count() == 2 && cut.contains("when tier is gold: wait") && cut.contains('…'), "{cut}");
            assert!(
                widest <= usize::from(columns).max(130) && widest + 10 > usize::from(columns),
                "{columns}: {widest}"
            );
        }
    }

    #[test]
    fn what_is_not_known_is_not_told_as_a_number() {
        let unknown = EntryRow::unmeasured(&Entry::new(Lesson::read("wait"), IMPORT));
        let cells = |row: &EntryRow| -> Vec<String> {
            let text = told(std::slice::from_ref(row), None);
            text.lines().last().unwrap().split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(cells(&unknown)[2..], ["0", "-", "-", "-", "2", "import", "wait"]);
        let harmful = EntryRow {
            status: "harmful".into(),
            lift: Some(-0.001),
            interval: Some((-0.5, 0.001)),
            helps: Some(3.0),
            harms: Some(40.0),
            created_by: "rules".into(),
            groups: 9,
            ..unknown
        };
        assert_eq!(cells(&harmful)[1..], ["harmful", "9", "0.00", "-0.50", "to", "0.00", "40.00", "2", "1", "wait"]);
    }
}
