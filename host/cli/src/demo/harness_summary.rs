//! The result of the harness demo, as text and as JSON.

use super::commands::Commands;
use crate::context::Context;
use crate::{learn_summary, plot};
use clawhost_app::demo::{BudgetArm, BudgetPoint, EPISODES, HarnessDemo, HarnessProof, ITERATIONS, TEST_PAIRS};
use clawhost_app::plot::{Curve, svg};
use clawhost_app::time;
use clawhost_core::{Condition, counted};
use clawhost_learn::harness::EntryRow;
use clawhost_learn::playbook::Playbook;
use clawhost_learn::{Lesson, Status};
use clawhost_learning::{LearnReport, Mean};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// A note on the policy that the demo uses.
const POLICY: &str = "this policy is a rule follower, not a language model: what is shown is that the loop finds, measures \
and keeps rules from experience";
/// A note on lessons that contradict each other. The prompt contains all of them, in playbook order. Of rules that are equally
/// specific, the follower obeys the last one.
const DISAGREEMENT: &str = "where lessons with the same condition disagree, none is left out: the prompt has them in this \
order, and the rule follower does what the last one says";

fn before(report: &LearnReport) -> Option<Mean> {
    report.evaluation.as_ref().and_then(|evaluation| evaluation.before)
}

fn after(report: &LearnReport) -> Option<Mean> {
    report.evaluation.as_ref().and_then(|evaluation| evaluation.after)
}

pub(super) fn draw(path: &Path, found: &HarnessProof) -> anyhow::Result<()> {
    let curve = |name: &str, report| Curve { name: name.to_owned(), points: learn_summary::curve(report) };
    let curves = [
        curve("learning", &found.full),
        curve("silent reflector", &found.silent),
        curve("shuffled proposals", &found.shuffled),
        curve("everything admitted", &found.everything),
    ];
    let levels: Vec<(String, f64)> =
        found.ceiling.iter().map(|ceiling| ("told everything".to_owned(), ceiling.mean)).collect();
    let axes = (format!("iteration ({EPISODES} episodes)"), "mean reward");
    Ok(svg(path, "Training reward, env-shop", (&axes.0, axes.1), &curves, &levels)?)
}

/// More than the system reports about a process.
const STATUS_BYTES: u64 = 1 << 20;

/// Peak resident memory of this process. `None`: the system does not report it.
fn peak_memory_bytes() -> Option<u64> {
    let status = clawhost_files::read_text(Path::new("/proc/self/status"), STATUS_BYTES).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

pub(super) fn json(demo: &HarnessDemo, found: &HarnessProof, drawing: &Path) -> anyhow::Result<()> {
    let document = serde_json::json!({
        "format": 1,
        "harness": {
            "heldout_before": before(&found.full),
            "heldout_after": after(&found.full),
            "lift": found.full.evaluation.as_ref().and_then(|evaluation| evaluation.lift),
            "silent_after": after(&found.silent),
            "shuffled_after": after(&found.shuffled),
            "admit_all_after": after(&found.everything),
            "oracle": found.ceiling,
            "small_budgets": found.small,
            "outcome": found.full.outcome,
            "planted_entry_retired": found.is_plant_retired(),
            "planted_entry": found.planted(),
            "planted_made_of": found.plant.as_ref().map(|plant| serde_json::json!({
                "usual_is_right": plant.without, "plant_is_right": plant.with, "share_of_cases": plant.common,
            })),
            "playbook": found.kept(),
            "entries": found.entries(),
            "curve": found.full.iterations.iter().map(|iteration| iteration.reward).collect::<Vec<_>>(),
            "gate": found.full.iterations.iter().filter_map(|iteration| iteration.gate()).collect::<Vec<_>>(),
            "learned": found.full.learned,
            "iterations": demo.iterations,
            "episodes_per_iteration": EPISODES,
            "seeds": [demo.seed],
            "policy": POLICY,
        },
        "timing": {
            "started": time(found.started_ms), "wall_seconds": found.wall.as_secs_f64(), "drawing": drawing,
            "peak_memory_bytes": peak_memory_bytes(), "concurrency": demo.concurrency,
        },
    });
    crate::terminal::json(&document)?;
    Ok(())
}

fn shown(mean: Option<&Mean>) -> String {
    mean.map_or("not measured".to_owned(), |mean| format!("{:.3}  ({:.3} to {:.3})", mean.mean, mean.low, mean.high))
}

/// Explains a status to a reader who does not know it yet.
fn meaning(status: &str) -> &str {
    let is = |one: &Status| one.name() == status;
    match status {
        _ if is(&Status::Queued) => "waiting for a trial",
        _ if is(&Status::Admitted) => "admitted (helped in the trial, not let through by the gate yet)",
        _ if is(&Status::Expired) => "expired without evidence",
        _ => status,
    }
}

/// The number of lessons in each status. Each lesson is counted once.
fn lives(rows: &[EntryRow]) -> String {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *numbers.entry(&row.status).or_default() += 1);
    let planted = rows.iter().filter(|row| row.created_by == "planted").count();
    // Served lessons first. Other statuses, such as waiting lessons, follow.
    let order = [&Status::Deployed, &Status::Admitted, &Status::Harmful, &Status::Expired];
    let mut parts: Vec<String> = Vec::new();
    for status in order {
        numbers.remove(status.name()).into_iter().for_each(|n| parts.push(format!("{n} {}", meaning(status.name()))));
    }
    parts.extend(numbers.iter().map(|(status, number)| format!("{number} {}", meaning(status))));
    let whence = match planted {
        0 => "proposed".to_owned(),
        _ => format!("{} proposed, {planted} planted", rows.len() - planted),
    };
    let end = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    format!("{} in all ({whence}){end}", counted(rows.len() as u64, "lesson"))
}

/// Whether lessons with the same condition have different actions.
fn disagrees(playbook: &Playbook) -> bool {
    let mut said: BTreeMap<Vec<Condition>, &str> = BTreeMap::new();
    playbook.entries.iter().any(|entry| {
        let (Lesson::Skill(skill), Some(mut conditions)) = (&entry.lesson, entry.lesson.conditions()) else {
            return false;
        };
        // The order of conditions has no meaning.
        conditions.sort();
        *said.entry(conditions).or_insert(&skill.action) != skill.action
    })
}

/// The playbook, lesson by lesson.
fn playbook(out: &mut impl Write, playbook: &Playbook, kept: &[&EntryRow], all: &[EntryRow]) -> anyhow::Result<()> {
    if kept.is_empty() {
        let waits = all.iter().any(|row| row.status == Status::Admitted.name());
        let why = if waits { "no lesson has passed the gate yet" } else { "no lesson was admitted yet" };
        writeln!(out, "\nThe playbook is empty: {why}.")?;
    } else {
        let kept: Vec<EntryRow> = kept.iter().copied().cloned().collect();
        writeln!(out, "\nThe playbook, each lesson with what it was measured to add where it applies:")?;
        crate::episodes::print(out, &learn_summary::entries(&kept, learn_summary::terminal_columns()))?;
        writeln!(out, "{}", learn_summary::legend())?;
        if disagrees(playbook) {
            writeln!(out, "{DISAGREEMENT}")?;
        }
    }
    writeln!(out, "{}", lives(all))?;
    Ok(())
}

/// The curve of small budgets.
fn small(out: &mut impl Write, points: &[BudgetPoint]) -> anyhow::Result<()> {
    writeln!(
        out,
        "\nLift on the same test tasks with few episodes (`clawhost learn --budget N`), training and gate counted:"
    )?;
    writeln!(out, "  {:<10}{:<32}{:<12}shuffled proposals", "episodes", "lift (95 %)", "silent")?;
    for BudgetPoint { plan, rules, silent, shuffled } in points {
        let lift = |arm: &BudgetArm| arm.lift.map_or("not measured".to_owned(), |lift| format!("{:+.3}", lift.mean));
        let interval = rules.lift.map_or(String::new(), |lift| format!(" ({:+.3} to {:+.3})", lift.low, lift.high));
        let passed = if rules.passed { "" } else { ", nothing passed" };
        let main = format!("{}{interval}{passed}", lift(rules));
        writeln!(out, "  {:<10}{main:<32}{:<12}{}", plan.budget, lift(silent), lift(shuffled))?;
    }
    Ok(())
}

fn planted(out: &mut impl Write, found: &HarnessProof) -> anyhow::Result<()> {
    let (Some(plant), Some(row)) = (&found.plant, found.planted()) else { return Ok(()) };
    writeln!(out, "\nPlanted: {}", row.lesson)?;
    writeln!(
        out,
        "  right in {:.0} % of its cases, where the usual thing is right in {:.0} %: whoever sees it help, and does not compare, keeps it",
        plant.with * 100.0,
        plant.without * 100.0
    )?;
    let verdict = if found.is_plant_retired() {
        "retired as harmful".to_owned()
    } else {
        format!("NOT retired: {}", meaning(&row.status))
    };
    let effect = match (row.lift, row.interval) {
        (Some(lift), Some((low, high))) => format!("effect {lift:+.3} ({low:+.3} to {high:+.3}, always valid)"),
        _ => "effect not measured".to_owned(),
    };
    writeln!(out, "  {verdict}: {effect} after {}", counted(row.groups, "group"))?;
    Ok(())
}

pub(super) fn text(context: &Context, demo: &HarnessDemo, found: &HarnessProof, drawing: &Path) -> anyhow::Result<()> {
    let mut out = crate::terminal::stdout();
    let iterations = counted(demo.iterations, "iteration");
    let seed = demo.seed;
    writeln!(out, "A playbook learned from nothing: env-shop, seed {seed}, {iterations} of {EPISODES} episodes.")?;
    writeln!(out, "Note: {POLICY}.\n")?;
    if let Some(plot) = plot::text(&learn_summary::curve(&found.full), 0.0, 1.0) {
        writeln!(out, "training reward by iteration (lessons on trial are shown to half of the episodes only)")?;
        writeln!(out, "{plot}")?;
    }
    writeln!(out, "Reward on {TEST_PAIRS} test tasks that taught and decided nothing (mean, 95 % interval):")?;
    let rows = [
        ("before, no playbook", before(&found.full)),
        ("after learning", after(&found.full)),
        ("  silent reflector instead", after(&found.silent)),
        ("  shuffled proposals instead", after(&found.shuffled)),
        ("  everything proposed admitted", after(&found.everything)),
        ("told every rule (ceiling)", found.ceiling),
    ];
    for (name, mean) in rows {
        writeln!(out, "  {name:32}{}", shown(mean.as_ref()))?;
    }
    if let Some(lift) = found.full.evaluation.as_ref().and_then(|evaluation| evaluation.lift.as_ref()) {
        writeln!(out, "  {:32}{:+.3}  ({:+.3} to {:+.3})", "lift, pair by pair", lift.mean, lift.low, lift.high)?;
    }
    playbook(&mut out, &found.playbook, &found.kept(), found.entries())?;
    planted(&mut out, found)?;
    small(&mut out, &found.small)?;
    writeln!(out, "\nverdict     {}", learn_summary::verdict(&found.full, &[]))?;
    writeln!(out, "curve       {}", drawing.display())?;
    let memory = peak_memory_bytes().map_or(String::new(), |bytes| format!(", {} MiB at most", bytes >> 20));
    writeln!(out, "took        {:.1} s{memory}; nothing was recorded", found.wall.as_secs_f64())?;
    // If nothing was learned, suggest at least the default number of iterations.
    let least = if found.playbook.entries.is_empty() { ITERATIONS } else { 1 };
    let commands = Commands::new(&found.plugins, context.common.data.as_deref(), (least.max(demo.iterations), seed));
    writeln!(out, "\nLearn like this, with everything recorded:\n  {}", commands.learn)?;
    writeln!(out, "then measure what was learned, with and without it, on the test split:\n  {}", commands.evaluate)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::Entry;

    fn row(status: Status, by: &str) -> EntryRow {
        EntryRow::unmeasured(&Entry { status, ..Entry::new(Lesson::read("when a is b: c"), by) })
    }

    #[test]
    fn every_lesson_is_counted_once_in_any_status() {
        let check = |rows: &[EntryRow], expect: &str| assert_eq!(lives(rows), expect);
        check(&[], "0 lessons in all (proposed)");
        let superseded = Status::Superseded(row(Status::Queued, "r").id);
        let states = [
            (Status::Queued, 3),
            (Status::OnTrial, 2),
            (Status::Admitted, 1),
            (Status::Deployed, 4),
            (Status::Harmful, 1),
            (Status::Expired, 1),
            (superseded, 1),
        ];
        let mut rows: Vec<EntryRow> =
            states.iter().flat_map(|(status, times)| (0..*times).map(|_| row(status.clone(), "rules"))).collect();
        rows.push(row(Status::Harmful, "planted"));
        check(
            &rows,
            "14 lessons in all (13 proposed, 1 planted): 4 deployed, 1 admitted (helped in the trial, not let through by the gate yet), \
             2 harmful, 1 expired without evidence, 2 on trial, 3 waiting for a trial, 1 superseded",
        );
    }

    #[test]
    fn lessons_disagree_if_equal_conditions_have_different_actions() {
        let check = |lessons: &[&str], expect: bool| {
            let entries = lessons.iter().map(|text| Entry::new(Lesson::read(text), "rules")).collect();
            assert_eq!(disagrees(&Playbook { entries, ..Playbook::default() }), expect, "{lessons:?}");
        };
        check(&[], false);
        check(&["when a is b: c", "when a is d: e"], false);
        check(&["when a is b: c", "when a is b: e"], true);
        check(&["when a is b and x is y: c", "when x is y: d", "When X is Y and A is B: e"], true);
        check(&["when a is b: c", "when a is b and x is y: e"], false);
        check(&["when in doubt: ask", "when in doubt: wait", "one", "two"], false);
    }

    /// The note about lessons that disagree is true for the prompt and the follower.
    #[tokio::test]
    async fn the_follower_obeys_the_last_of_lessons_that_disagree() {
        use clawhost_core::{Llm as _, Message, ModelRequest, Origin, Role};
        for (lessons, expect) in [(["one", "two"], "two"), (["two", "one"], "one")] {
            let entries: Vec<Entry> = lessons
                .iter()
                .map(|answer| Entry::new(Lesson::read(&format!("when a is b: answer {answer}")), "r"))
                .collect();
            let playbook = Playbook { entries, ..Playbook::default() };
            let showing = clawhost_learn::harness::PlaybookView::serving(playbook, &BTreeMap::new(), 2_000);
            let prompt = showing.choose(0, 0, 2, "a: b").text;
            let message = |role, text: &str| Message::text(role, Origin::Environment, text);
            let request = ModelRequest {
                messages: vec![message(Role::System, &prompt), message(Role::User, "a: b")],
                tools: vec![],
                max_tokens: 100,
                temperature: None,
                seed: None,
                stop: vec![],
                ..ModelRequest::default()
            };
            let answer = clawhost_follower::Follower.complete(&request).await.unwrap();
            assert_eq!(answer.message.plain_text(), expect, "{prompt}");
        }
    }

    #[test]
    fn an_empty_playbook_says_so_instead_of_showing_a_table() {
        let check = |all: &[EntryRow], expect: &str| {
            let mut out = Vec::new();
            playbook(&mut out, &Playbook::default(), &[], all).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains(expect) && !text.contains("e-value"), "{text}");
        };
        check(&[row(Status::OnTrial, "rules")], "The playbook is empty: no lesson was admitted yet.\n1 lesson in all");
        check(&[row(Status::Admitted, "rules")], "The playbook is empty: no lesson has passed the gate yet.\n");
    }
}
