//! The learning rate of each step.

use serde::{Deserialize, Serialize};

/// A linear warm-up from 0, then a linear decay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The highest rate.
    pub peak: f64,
    /// Steps of the warm-up.
    pub warmup: u64,
    /// Steps in total. After them the rate stays at its final value.
    pub total: u64,
    /// The final rate as a share of the highest, 0 to 1. 1: no decay.
    pub floor: f64,
}

impl Schedule {
    /// A constant rate.
    pub fn constant(rate: f64) -> Self {
        Self { peak: rate, warmup: 0, total: 1, floor: 1.0 }
    }

    /// The rate of a step, from 0 on.
    pub fn rate(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        let left = self.total.saturating_sub(self.warmup).max(1) as f64;
        let done = ((step - self.warmup) as f64 / left).min(1.0);
        self.peak * (1.0 - done * (1.0 - self.floor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_rise_then_fall_then_stay_constant() {
        let schedule = Schedule { peak: 1.0, warmup: 4, total: 14, floor: 0.1 };
        let check = |step, expect: f64| assert!((schedule.rate(step) - expect).abs() < 1e-12, "{step}");
        check(0, 0.25);
        check(3, 1.0);
        check(4, 1.0);
        check(9, 0.55);
        check(14, 0.1);
        check(99, 0.1);
        assert_eq!([0, 5, 900].map(|step| Schedule::constant(0.3).rate(step)), [0.3; 3]);
    }
}
