//! The results of the harness: lessons, proposals, the gate, and cost.

use super::{entries, evolution, gate, gate_notes, legend, never_applied, terminal_columns};
use clawhost_app::Learned;
use clawhost_core::{counted, escaped, thousands};
use clawhost_learn::harness::EntryRow;
use clawhost_learning::HarnessReport;
use clawhost_play::FailureCount;
use std::collections::BTreeMap;
use std::io::Write;

/// Number of different failures that are shown.
const SHOWN_FAILURES: usize = 5;

/// States of lessons in the order of the table: those that the policy reads or may read next.
const SHOWN: [&str; 6] = ["deployed", "provisional", "admitted", "bundled", "on trial", "harmful"];

/// Largest number of lessons in the table: the result below it stays on the screen.
const ROWS: usize = 24;

/// The lessons of the table, and the others as a sentence.
fn shown(entries: &[EntryRow], playbook: &str) -> (Vec<EntryRow>, Option<String>) {
    let of = |status: &'static str| entries.iter().filter(move |row| row.status == status).cloned();
    let mut rows: Vec<EntryRow> = SHOWN.into_iter().flat_map(of).collect();
    rows.truncate(ROWS);
    let mut others = BTreeMap::<&str, u64>::new();
    for row in entries {
        if !rows.iter().any(|shown| shown.id == row.id) {
            *others.entry(&row.status).or_default() += 1;
        }
    }
    let parts: Vec<String> = others.iter().map(|(status, rows)| format!("{} {status}", thousands(*rows))).collect();
    let more = (!parts.is_empty())
        .then(|| format!("not shown: {}; `clawhost playbook show {playbook}` lists all lessons", parts.join(", ")));
    (rows, more)
}

/// Lessons and proposals.
pub(super) fn lessons(out: &mut impl Write, report: &HarnessReport) -> std::io::Result<()> {
    let (rows, more) = shown(&report.entries, &report.name);
    if !rows.is_empty() {
        crate::episodes::print(out, &entries(&rows, terminal_columns()))?;
        writeln!(out, "{}", legend())?;
    }
    more.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    let tried: Vec<EntryRow> = report.entries.iter().filter(|row| row.status != "queued").cloned().collect();
    never_applied(&tried).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    let counts = &report.proposals;
    let refused: u64 = counts.refused.values().sum();
    writeln!(
        out,
        "proposals   {} in all: {} taken up, {} known already, {} rejected before, {} refused, {} dropped",
        thousands(counts.proposed),
        thousands(counts.proposed.saturating_sub(counts.merged + counts.known + refused + counts.dropped)),
        thousands(counts.merged),
        thousands(counts.known),
        thousands(refused),
        thousands(counts.dropped)
    )?;
    for (why, times) in &counts.refused {
        writeln!(out, "            refused {}: {}", counted(*times, "time"), escaped(why, 200))?;
    }
    let reflections = &report.reflections;
    if reflections.calls > 0 && counts.proposed == 0 && reflections.failures() == 0 {
        writeln!(
            out,
            "            in {} no reflector proposed anything: does the environment's feedback explain mistakes?",
            counted(reflections.asked, "group")
        )?;
        writeln!(out, "            `clawhost inspect REFLECTOR.wasm` shows what it reads")?;
    }
    for (why, times) in &reflections.failed {
        let red = if reflections.failures() * 2 > reflections.calls { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        writeln!(
            out,
            "            {}{} of {} of reflectors failed{}: {}",
            red.0,
            thousands(*times),
            counted(reflections.calls, "call"),
            red.1,
            escaped(why, 300)
        )?;
    }
    if let Some(report) = &report.evolution {
        let [cost, found] = evolution(report);
        writeln!(out, "evolution   {cost}")?;
        writeln!(out, "            {found}")?;
        let notes = report.gate.as_ref().map(gate_notes).unwrap_or_default();
        notes.iter().try_for_each(|note| writeln!(out, "            {note}"))?;
    }
    Ok(())
}

/// Sessions of the gate, the cost of models, and failures.
pub(super) fn cost(out: &mut impl Write, learned: &Learned) -> std::io::Result<()> {
    let Learned { run, report, timing, .. } = learned;
    for one in report.iterations.iter().filter_map(|iteration| iteration.gate()) {
        writeln!(out, "gate        {}", gate(one))?;
        gate_notes(one).iter().try_for_each(|note| writeln!(out, "            {note}"))?;
    }
    let amount =
        learned.spec.harness().and_then(|harness| harness.allowance.as_ref()).map(|allowance| allowance.amount);
    if let (Some(amount), Some(spent)) = (amount, report.harness().and_then(|harness| harness.spent)) {
        let (whole, spent) = (amount.worded(amount.number()), amount.worded(spent));
        writeln!(out, "budget      {whole}; training and gate used {spent}")?;
    }
    if timing.spent.calls > 0 {
        let usage = timing.spent.usage;
        // Tokens of an interrupted session are known, and its calls are not.
        let of = if learned.is_resumed { " since it was resumed" } else { "" };
        let cost = if timing.is_priced { format!(", cost {:.4}", timing.spent.cost) } else { String::new() };
        writeln!(
            out,
            "models      {}{of}, {} read, {} written{cost}",
            counted(timing.spent.calls, "call"),
            counted(usage.prompt_tokens, "token"),
            thousands(usage.completion_tokens)
        )?;
    }
    for FailureCount { who, episodes, message, example, .. } in report.failures.iter().take(SHOWN_FAILURES) {
        writeln!(
            out,
            "\x1b[31mfailed\x1b[0m      {}: {} x {}",
            escaped(who, 80),
            thousands(*episodes),
            escaped(message, 1000)
        )?;
        writeln!(out, "            see `clawhost episodes show {run}/{example}`")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::{Entry, Lesson};

    #[test]
    fn lessons_that_the_policy_reads_come_first_and_the_others_are_counted() {
        let row = |number: usize, status: &str| EntryRow {
            status: status.into(),
            ..EntryRow::unmeasured(&Entry::new(Lesson::read(&format!("answer {number}")), "rules"))
        };
        let statuses = ["expired", "on trial", "queued", "deployed", "expired", "harmful", "admitted", "superseded"];
        let few: Vec<EntryRow> = statuses.iter().enumerate().map(|(number, status)| row(number, status)).collect();
        let (rows, more) = shown(&few, "shop");
        let shown_statuses: Vec<&str> = rows.iter().map(|row| row.status.as_str()).collect();
        assert_eq!(shown_statuses, ["deployed", "admitted", "on trial", "harmful"]);
        let expect = "not shown: 2 expired, 1 queued, 1 superseded; `clawhost playbook show shop` lists all lessons";
        assert_eq!(more.as_deref(), Some(expect));

        let many: Vec<EntryRow> = (0..ROWS + 6).map(|number| row(number, "on trial")).collect();
        let (rows, more) = shown(&many, "shop");
        assert!(rows.len() == ROWS && more.unwrap().starts_with("not shown: 6 on trial; "));
        assert_eq!(shown(&few[1..2], "shop").1, None, "everything is shown");
    }
}
