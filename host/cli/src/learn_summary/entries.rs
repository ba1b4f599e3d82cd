//! Entries of a playbook as a table.

use super::numbers::{readable, signed};
use clawhost_app::OPERATOR;
use clawhost_core::escaped;
use clawhost_core::thousands;
use clawhost_learn::EntryId;
use clawhost_learn::harness::EntryRow;
use clawhost_learn::playbook::exchange::IMPORT;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width};

/// The text of an unknown value.
const UNKNOWN: &str = "-";

/// A wider interval is from too few groups to be useful, and it would widen the table.
const WIDEST: f64 = 100.0;

/// Smallest width of a lesson in a table. On narrower terminals, lines are broken.
const LESSON: u16 = 30;

/// The width of the terminal. `None`: the output is not a terminal, so nothing is cut.
pub(crate) fn terminal_columns() -> Option<u16> {
    use std::io::IsTerminal as _;
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let chosen = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    chosen.or_else(|| Table::new().width())
}

/// All entries in one table. Lessons are cut to the remaining columns.
pub(crate) fn entries(rows: &[EntryRow], columns: Option<u16>) -> Table {
    let mut table = crate::episodes::table(&[
        "id",
        "status",
        "applies",
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
        // The evidence on which its status was decided.
        let e_value = if row.status == "harmful" { row.harms } else { row.helps };
        let mut line = Row::from([
            row.id.to_string(),
            row.status.clone(),
            known(row.usage.as_ref().and_then(|usage| Some(format!("{}/{}", usage.applicable?, usage.episodes)))),
            row.groups.to_string(),
            known(row.lift.map(|lift| signed(lift, 2))),
            known(
                row.interval
                    .filter(|(low, high)| high - low < WIDEST)
                    .map(|(low, high)| format!("{} to {}", signed(low, 2), signed(high, 2))),
            ),
            known(e_value.map(readable)),
            row.tokens.to_string(),
            // Entries that were planted, imported or made by the operator have no proposals.
            if ["planted", IMPORT, OPERATOR].contains(&row.created_by.as_str()) {
                row.created_by.clone()
            } else {
                row.support.to_string()
            },
            format!("{}{}", escaped(&row.lesson, usize::MAX), relations(row)),
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

/// What an entry needs, and what it took the place of.
fn relations(row: &EntryRow) -> String {
    let named = |what: &str, ids: &[EntryId]| match ids {
        [] => String::new(),
        ids => format!(" ({what} {})", ids.iter().map(EntryId::to_string).collect::<Vec<_>>().join(", ")),
    };
    named("needs", &row.needs) + &named("in the place of", &row.merges)
}

/// The meaning of the columns of [`entries`].
pub(crate) fn legend() -> &'static str {
    "applies  training episodes in which its condition held, of those since it was proposed; `-`: there was none, or no program can\n         \
     check its condition\n\
     lift     reward with the lesson minus reward without it, inside groups; its interval holds however often one looks\n\
     e-value  evidence that it helps (for a harmful lesson: that it harms); over 20 is strong. On trial: after the last\n         \
     batch. Decided: at the decision; lift and interval are measured further\n\
     times    how often it was proposed"
}

/// Largest number of lessons that are explained.
const EXPLAINED: usize = 8;

/// A line for every lesson that applied in no episode, with the reason.
pub(crate) fn never_applied(rows: &[EntryRow]) -> Vec<String> {
    let told = |row: &EntryRow| {
        let usage = row.usage.as_ref()?;
        Some(format!("{} applied in 0 of {} episodes: {}", row.id, thousands(usage.episodes), usage.why_dead()?))
    };
    let mut lines: Vec<String> = rows.iter().filter_map(told).collect();
    let more = lines.len().saturating_sub(EXPLAINED);
    lines.truncate(EXPLAINED);
    if more > 0 {
        lines.push(format!("and {more} more never applied"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::{Entry, Lesson, LessonUse};

    fn told(rows: &[EntryRow], columns: Option<u16>) -> String {
        let mut out = Vec::new();
        crate::episodes::print(&mut out, &entries(rows, columns)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lessons_are_whole_or_cut_to_the_terminal() {
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
    fn unknown_values_are_not_shown_as_numbers() {
        let unknown = EntryRow::unmeasured(&Entry::new(Lesson::read("wait"), IMPORT));
        let cells = |row: &EntryRow| -> Vec<String> {
            let text = told(std::slice::from_ref(row), None);
            text.lines().last().unwrap().split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(cells(&unknown)[2..], ["-", "0", "-", "-", "-", "2", "import", "wait"]);
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
        assert_eq!(
            cells(&harmful)[1..],
            ["harmful", "-", "9", "0.00", "-0.50", "to", "0.00", "40.00", "2", "1", "wait"]
        );
    }

    #[test]
    fn the_table_shows_where_lessons_apply_and_notes_explain_those_that_never_do() {
        let row = |text: &str, applicable: u64| {
            let lesson = Lesson::read(text);
            let mut usage = LessonUse { episodes: 1_536, applicable: Some(applicable), ..LessonUse::new(&lesson) };
            usage.applied = usage.applicable;
            EntryRow { usage: Some(usage), ..EntryRow::unmeasured(&Entry::new(lesson, IMPORT)) }
        };
        let (dead, alive) = (row("when tier is sliver: wait", 0), row("when tier is gold: wait", 12));
        let table = told(&[dead.clone(), alive.clone()], None);
        assert!(table.contains(" 0/1536 ") && table.contains(" 12/1536 "), "{table}");
        let id = &dead.id;
        let expect = format!("{id} applied in 0 of 1,536 episodes: no observation states a fact `tier`");
        assert_eq!(never_applied(&[dead.clone(), alive]), [expect]);
        assert_eq!(never_applied(&vec![dead; 10]).len(), EXPLAINED + 1);
    }
}
