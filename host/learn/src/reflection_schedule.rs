//! How often reflectors are asked. It counts batches, never time: equal runs ask alike. A batch about which nobody is asked
//! is learned from all the same; its groups wait for the next time.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Batches that are looked back on.
const WINDOW: usize = 5;
/// A mean reward that moved by less than this over the window has come to rest.
const AT_REST: f64 = 0.02;

/// Decides after which batches reflectors are asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReflectionSchedule {
    every: u64,
    since: u64,
    asked: u64,
    recent: VecDeque<f64>,
}

impl ReflectionSchedule {
    /// Asks at least after every `every`-th batch.
    pub fn new(every: u64) -> Self {
        Self { every: every.max(1), since: 0, asked: 0, recent: VecDeque::new() }
    }

    /// Takes note of a batch (its mean reward, if anything was scored), and says whether to ask now: after the first batch,
    /// after every n-th, and while the reward is at rest.
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
    fn it_counts_batches_and_goes_on_however_the_reward_moves() {
        let rising: Vec<f64> = (0..20).map(|batch| f64::from(batch) / 20.0).collect();
        check(3, &rising, "x..x..x..x..x..x..x.");
        check(1, &rising, "xxxxxxxxxxxxxxxxxxxx");
        check(6, &[0.5; 12], "x...xxxxxxxx");
        let mut unscored = ReflectionSchedule::new(2);
        let asked: Vec<bool> = (0..5).map(|_| unscored.ask(None)).collect();
        assert_eq!(asked, [true, false, true, false, true], "batches without a score count too");
    }
}
