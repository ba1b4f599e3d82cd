//! What a router has spent, by the day: sessions that a gateway served, and episodes of learning runs.

use crate::time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Days that are kept, the latest ones with a spend: a month.
const DAYS: usize = 31;
/// Runs that are known to be counted. A run is counted again only if it was killed at its very end, and as many others ended before it
/// was resumed.
const RUNS: usize = 16;
/// Characters of a date.
const DATE: usize = "2000-01-01".len();

/// What was spent on a day, in the currency of the prices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DaySpent {
    /// By sessions that a gateway served, on the day on which they were settled.
    #[serde(default)]
    pub sessions: f64,
    /// By training episodes of learning runs, on the day on which their run ended.
    #[serde(default)]
    pub learning: f64,
}

impl DaySpent {
    /// Both.
    pub fn total(&self) -> f64 {
        self.sessions + self.learning
    }
}

/// What a router has spent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RouterSpending {
    /// By date (UTC).
    #[serde(default)]
    days: BTreeMap<String, DaySpent>,
    /// Runs that are counted, the oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    runs: VecDeque<String>,
}

impl RouterSpending {
    /// The days on which something was spent, the latest first.
    pub fn days(&self) -> impl Iterator<Item = (&str, &DaySpent)> {
        self.days.iter().rev().map(|(day, spent)| (day.as_str(), spent))
    }

    /// Adds the cost of sessions. `now`: Unix time in milliseconds.
    pub(super) fn add_sessions(&mut self, now: u64, cost: f64) {
        self.add(now, |day| day.sessions += cost, cost);
    }

    /// Adds the cost of a run, once.
    pub(super) fn add_run(&mut self, now: u64, run: &str, cost: f64) {
        if self.runs.iter().any(|known| known == run) {
            return;
        }
        self.runs.push_back(run.to_owned());
        self.runs.drain(..self.runs.len().saturating_sub(RUNS));
        self.add(now, |day| day.learning += cost, cost);
    }

    fn add(&mut self, now: u64, add: impl FnOnce(&mut DaySpent), cost: f64) {
        if cost <= 0.0 {
            return;
        }
        let date = time(now);
        add(self.days.entry(date.get(..DATE).unwrap_or(&date).to_owned()).or_default());
        while self.days.len() > DAYS {
            self.days.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 24 * 60 * 60 * 1000;

    #[test]
    fn what_is_spent_is_added_to_its_day_and_a_run_counts_once() {
        let mut spending = RouterSpending::default();
        spending.add_sessions(DAY_MS - 1, 1.0);
        spending.add_sessions(DAY_MS, 2.0);
        spending.add_sessions(DAY_MS + 5, 0.5);
        spending.add_sessions(9 * DAY_MS, 0.0);
        for _ in 0..2 {
            spending.add_run(DAY_MS, "run-1", 4.0);
        }
        spending.add_run(DAY_MS, "run-2", 0.25);
        let days: Vec<_> = spending.days().map(|(day, spent)| (day, spent.sessions, spent.learning)).collect();
        assert_eq!(days, [("1970-01-02", 2.5, 4.25), ("1970-01-01", 1.0, 0.0)]);
        let text = serde_json::to_string(&spending).unwrap();
        assert_eq!(serde_json::from_str::<RouterSpending>(&text).unwrap(), spending);
    }

    #[test]
    fn the_latest_days_and_runs_are_kept() {
        let mut spending = RouterSpending::default();
        for day in 0..40 {
            spending.add_run(day * DAY_MS, &format!("run-{day}"), 1.0);
        }
        let days: Vec<&str> = spending.days().map(|(day, _)| day).collect();
        assert_eq!((days.len(), days[0], days[30]), (31, "1970-02-09", "1970-01-10"));
        assert_eq!((spending.runs.len(), spending.runs[0].as_str()), (16, "run-24"));
    }
}
