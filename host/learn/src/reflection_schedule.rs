//! When reflectors are called. The schedule counts batches, never time, so equal runs call reflectors equally. Groups of a
//! batch without a call wait for the next call; layers learn from the batch in any case.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Number of recent mean rewards that are compared.
const WINDOW: usize = 5;
/// The reward is on a plateau if the recent means differ by less than this.
const AT_REST: f64 = 0.02;

/// Decides after which batches reflectors are called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReflectionSchedule {
    every: u64,
    since: u64,
    asked: u64,
    recent: VecDeque<f64>,
}

impl ReflectionSchedule {
    /// A schedule that calls reflectors at least after every `every`-th batch.
    pub fn new(every: u64) -> Self {
        Self { every: every.max(1), since: 0, asked: 0, recent: VecDeque::new() }
    }

    /// Notes a batch with its mean reward (`None` if nothing was scored) and returns whether to call reflectors now: after
    /// the first batch, after every n-th, and while the reward is on a plateau.
    pub fn ask(&mut self, mean: Option<f64>) -> bool {
        if let Some(mean) = mean {
            self.recent.push_back(mean);
            if self.recent.len() > WINDOW {
                self.recent.pop_front();
            }
        }
        self.since += 1;
        let highest = self.recent.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let lowest = self.recent.iter().copied().fold(f64::INFINITY, f64::min);
        let at_rest = self.recent.len() == WINDOW && highest - lowest < AT_REST;
        let ask = self.asked == 0 || self.since >= self.every || at_rest;
        if ask {
            self.since = 0;
            self.asked += 1;
        }
        ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(every: u64, means: &[f64], expect: &str) {
        let mut intensity = ReflectionSchedule::new(every);
        let asked: String = means.iter().map(|mean| if intensity.ask(Some(*mean)) { 'x' } else { '.' }).collect();
        assert_eq!(asked, expect);
    }

    #[test]
    fn it_asks_first_then_every_nth_batch_and_on_a_plateau() {
        let rising: Vec<f64> = (0..20).map(|batch| f64::from(batch) / 20.0).collect();
        check(3, &rising, "x..x..x..x..x..x..x.");
        check(1, &rising, "xxxxxxxxxxxxxxxxxxxx");
        check(6, &[0.5; 12], "x...xxxxxxxx");
        let mut unscored = ReflectionSchedule::new(2);
        let asked: Vec<bool> = (0..5).map(|_| unscored.ask(None)).collect();
        assert_eq!(asked, [true, false, true, false, true], "unscored batches count too");
    }
}
