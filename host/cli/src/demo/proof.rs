//! What must hold for the proof to be given, and what is said where it does not.

use crate::args::DemoHarness;
use crate::demo::{ITERATIONS, SEED};
use clawhost_learn::harness::EntryRow;
use clawhost_runtime::learn::Verdict;

/// Retired as harmful, with an interval below 0.
pub(super) fn retired(planted: &EntryRow) -> bool {
    planted.status == "harmful" && planted.interval.is_some_and(|(_, high)| high < 0.0)
}

/// A number of groups, in words.
pub(super) fn groups(number: u64) -> String {
    format!("{number} {}", if number == 1 { "group" } else { "groups" })
}

/// What is wrong with the test reward.
fn not_improved(outcome: Verdict) -> Option<&'static str> {
    match outcome {
        Verdict::Improved => None,
        Verdict::NoSignificantChange => Some("the test reward did not measurably improve"),
        Verdict::Worse => Some("the test reward fell"),
        Verdict::NotMeasured => Some("the test reward could not be measured"),
    }
}

/// What is wrong with the planted entry.
fn not_retired(planted: Option<&EntryRow>) -> Option<String> {
    let Some(row) = planted else {
        return Some("this shop allows no lesson that looks helpful and harms, so none was planted".to_owned());
    };
    if retired(row) {
        return None;
    }
    let EntryRow { status, .. } = row;
    let after = groups(row.groups);
    Some(match status.as_str() {
        "harmful" => format!("the planted entry was retired after {after}, but its effect may be above 0"),
        "expired" => format!("the planted entry expired after {after}: no harm was found"),
        _ => format!("the planted entry is still {status} after {after}"),
    })
}

/// Whether the proof is given.
///
/// # Errors
/// It is not: why, and what to do.
pub(super) fn check(outcome: Verdict, planted: Option<&EntryRow>, options: &DemoHarness) -> anyhow::Result<()> {
    let reasons: Vec<String> =
        not_improved(outcome).map(str::to_owned).into_iter().chain(not_retired(planted)).collect();
    if reasons.is_empty() {
        return Ok(());
    }
    let advice = if options.iterations < ITERATIONS {
        format!("--iterations {} is few, the default of {ITERATIONS} shows it", options.iterations)
    } else if options.seed != SEED {
        format!("every --seed is another shop, the default of {SEED} shows it")
    } else {
        "build the plugins and the program again, from one version".to_owned()
    };
    Err(anyhow::anyhow!("the proof failed: {}; {advice}", reasons.join(", and ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::{Entry, Lesson};

    fn planted(status: &str, groups: u64, high: f64) -> EntryRow {
        let entry = Entry::new(Lesson::read("when a is b: c"), "planted");
        let (status, interval) = (status.to_owned(), Some((-1.0, high)));
        EntryRow { status, groups, interval, ..EntryRow::unmeasured(&entry) }
    }

    fn check(outcome: Verdict, row: Option<EntryRow>, (iterations, seed): (u64, u64), expect: Option<&str>) {
        let (plugins, svg) = (None, "a.svg".into());
        let options = DemoHarness { seed, iterations, plugins, svg, concurrency: 1, quiet: true };
        let said = super::check(outcome, row.as_ref(), &options).err().map(|error| error.to_string());
        assert_eq!(said.as_deref(), expect);
    }

    #[test]
    fn a_proof_is_given_where_the_reward_rose_and_the_planted_entry_was_retired() {
        check(Verdict::Improved, Some(planted("harmful", 15, -0.1)), (ITERATIONS, SEED), None);
        check(Verdict::Improved, Some(planted("harmful", 15, -0.1)), (1, 7), None);
    }

    #[test]
    fn a_proof_that_fails_says_why_and_what_to_do() {
        check(
            Verdict::NoSignificantChange,
            Some(planted("on trial", 12, 0.8)),
            (2, SEED),
            Some(
                "the proof failed: the test reward did not measurably improve, and the planted entry is still on trial after 12 groups; \
                 --iterations 2 is few, the default of 100 shows it",
            ),
        );
        check(
            Verdict::Improved,
            Some(planted("on trial", 1, 0.8)),
            (1, 7),
            Some(
                "the proof failed: the planted entry is still on trial after 1 group; --iterations 1 is few, the default of 100 shows it",
            ),
        );
        check(
            Verdict::Worse,
            None,
            (ITERATIONS, 7),
            Some(
                "the proof failed: the test reward fell, and this shop allows no lesson that looks helpful and harms, so none was planted; \
                 every --seed is another shop, the default of 1 shows it",
            ),
        );
        check(
            Verdict::NotMeasured,
            Some(planted("harmful", 9, 0.1)),
            (ITERATIONS, SEED),
            Some(
                "the proof failed: the test reward could not be measured, and the planted entry was retired after 9 groups, but its effect may be \
                 above 0; build the plugins and the program again, from one version",
            ),
        );
        check(
            Verdict::Improved,
            Some(planted("expired", 120, 0.1)),
            (ITERATIONS, SEED),
            Some(
                "the proof failed: the planted entry expired after 120 groups: no harm was found; build the plugins and the program again, from one \
                 version",
            ),
        );
    }
}
