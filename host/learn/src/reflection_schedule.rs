//! When reflectors are called. The schedule counts batches, never time, so equal runs call reflectors equally. Groups of a
//! batch without a call wait for the next call; layers learn from the batch in any case.

use serde::{Deserialize, Serialize};

/// Decides after which batches reflectors are called: the first, and every n-th after it. The spacing is exact, because
/// calls cost money. It does not depend on rewards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReflectionSchedule {
    every: u64,
    /// Batches until the next call, this one excluded.
    left: u64,
}

impl ReflectionSchedule {
    /// A schedule with one round of calls per `every` batches; 0 is taken as 1.
    pub fn new(every: u64) -> Self {
        Self { every: every.max(1), left: 0 }
    }

    /// Notes a batch, and returns whether to call reflectors now.
    pub fn ask(&mut self) -> bool {
        let ask = self.left == 0;
        self.left = if ask { self.every - 1 } else { self.left - 1 };
        ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_after_the_first_batch_and_exactly_every_nth_from_there() {
        let check = |every: u64, expect: &str| {
            let mut schedule = ReflectionSchedule::new(every);
            let asked: String = expect.chars().map(|_| if schedule.ask() { 'x' } else { '.' }).collect();
            assert_eq!(asked, expect, "every {every}");
        };
        check(0, "xxxxxxxxxxxx");
        check(1, "xxxxxxxxxxxx");
        check(3, "x..x..x..x..");
        check(100, "x...........");
    }
}
