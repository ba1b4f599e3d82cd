//! Distributions of durations in fixed ranges: counted without a lock, and never larger than their ranges.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper ends of the ranges in microseconds, about a third apart where a gateway is expected to be, and wider above. The last range has
/// no end.
const BOUNDS_US: [u64; 25] = [
    25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 7_500, 10_000, 25_000, 50_000,
    100_000, 250_000, 500_000, 1_000_000, 5_000_000, 30_000_000,
];

/// A distribution that is counted.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    ranges: [AtomicU64; BOUNDS_US.len()],
    above: AtomicU64,
    sum_us: AtomicU64,
}

impl Histogram {
    /// Counts a duration in microseconds.
    pub(crate) fn count(&self, us: u64) {
        let range = BOUNDS_US.partition_point(|bound| *bound < us);
        self.ranges.get(range).unwrap_or(&self.above).fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub(crate) fn read(&self) -> Durations {
        let counts = self.ranges.iter().chain([&self.above]).map(|count| count.load(Ordering::Relaxed)).collect();
        Durations { bounds_us: BOUNDS_US.to_vec(), counts, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

/// A distribution of durations as it was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durations {
    /// Upper ends of the ranges in microseconds, each part of its range.
    pub bounds_us: Vec<u64>,
    /// Durations in each range, and last those above all ranges.
    pub counts: Vec<u64>,
    /// Sum of all durations in microseconds.
    pub sum_us: u64,
}

impl Durations {
    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What was counted after `earlier`, a reading of the same distribution. A reading of another start of the gateway is no part of this
    /// one, and is left out of account.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let is_earlier = earlier.bounds_us == self.bounds_us
            && earlier.counts.len() == self.counts.len()
            && earlier.counts.iter().zip(&self.counts).all(|(before, now)| before <= now);
        if !is_earlier {
            return self.clone();
        }
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, before)| now - before).collect();
        let sum_us = self.sum_us.saturating_sub(earlier.sum_us);
        Self { bounds_us: self.bounds_us.clone(), counts, sum_us }
    }

    /// Adds the durations of another distribution with the same ranges.
    pub fn add(&mut self, other: &Self) {
        if self.counts.is_empty() {
            *self = other.clone();
        } else if self.bounds_us == other.bounds_us && self.counts.len() == other.counts.len() {
            self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
            self.sum_us += other.sum_us;
        }
    }

    /// The duration in microseconds below which a share of all lies, from 0 to 1: evenly spread within a range. Those above all ranges
    /// count as the end of the last one. `None`: nothing was counted.
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = share.clamp(0.0, 1.0) * count as f64;
        let (mut below, mut low) = (0.0, 0.0);
        for (bound, count) in self.bounds_us.iter().zip(&self.counts) {
            let (bound, count) = (*bound as f64, *count as f64);
            if count > 0.0 && below + count >= wanted {
                return Some(low + (bound - low) * ((wanted - below) / count).clamp(0.0, 1.0));
            }
            below += count;
            low = bound;
        }
        Some(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(durations: &[u64]) -> Durations {
        let histogram = Histogram::default();
        durations.iter().for_each(|us| histogram.count(*us));
        histogram.read()
    }

    #[test]
    fn a_duration_is_in_the_first_range_that_ends_at_it_or_above() {
        let check = |us: u64, range: usize| {
            let counts = of(&[us]).counts;
            let expect: Vec<u64> = (0..=BOUNDS_US.len()).map(|at| u64::from(at == range)).collect();
            assert_eq!(counts, expect, "{us}");
        };
        check(0, 0);
        check(25, 0);
        check(26, 1);
        check(30_000_000, BOUNDS_US.len() - 1);
        check(30_000_001, BOUNDS_US.len());
        assert_eq!(of(&[3, 4]).sum_us, 7);
    }

    #[test]
    fn a_quantile_is_spread_evenly_within_its_range() {
        let check = |durations: &[u64], share: f64, expect: Option<f64>| {
            assert_eq!(of(durations).quantile_us(share), expect, "{durations:?} {share}");
        };
        check(&[], 0.5, None);
        check(&[30, 30, 30, 30], 0.5, Some(37.5));
        check(&[30, 30, 30, 30], 1.0, Some(50.0));
        check(&[10, 30, 30, 450], 0.25, Some(25.0));
        check(&[10, 30, 30, 450], 0.99, Some(496.0));
        check(&[u64::MAX / 4], 0.5, Some(30_000_000.0));
    }

    #[test]
    fn the_difference_of_two_readings_is_what_came_between_them() {
        let (before, after) = (of(&[10, 30]), of(&[10, 30, 30, 450]));
        assert_eq!(after.since(&before), of(&[30, 450]));
        assert_eq!(before.since(&after), before, "the gateway was started again");
        assert_eq!(after.since(&Durations::default()), after);
        let mut sum = Durations::default();
        sum.add(&before);
        sum.add(&of(&[30, 450]));
        assert_eq!(sum, after);
    }
}
