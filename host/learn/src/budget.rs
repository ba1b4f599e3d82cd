//! How a small number of episodes is divided: training that proposes lessons, then pairs of the gate for all of them together.
//!
//! Measuring every lesson alone takes thousands of episodes. With a few hundred, lessons are proposed from all training episodes at once,
//! played in training as they are proposed, and judged together by one exact sign test ([`crate::gate::sign`]).

use crate::LearnError;
use crate::gate::alpha_of;
use crate::gate::sign::smallest_lift;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// Fewest episodes of a budget: 16 in training, and the fewest pairs.
pub const FEWEST: u64 = 48;
/// Fewest pairs of the gate. With them, a candidate that wins half of its pairs passes; with fewer, hardly any does.
const FEWEST_PAIRS: u64 = 16;
/// Most pairs of the gate. They find a lift of .14; a candidate with a smaller one gains more from further training.
const MOST_PAIRS: u64 = 64;
/// One pair of the gate for this many episodes of the budget: a third of it is for the gate.
const EPISODES_PER_PAIR: u64 = 6;
/// Training episodes between two proposals. In fewer, few rules are seen twice; later episodes are played with the lessons of earlier ones.
const BATCH: u64 = 32;
/// Fewest batches. After the first one, episodes show what its lessons do.
const FEWEST_BATCHES: u64 = 2;
/// Share of lost pairs for which the plan is computed: what chance alone costs a good candidate.
const LOST: f64 = 0.03;
/// The plan names the lift that it finds with this probability.
const POWER: f64 = 0.8;

/// The division of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BudgetPlan {
    /// Episodes in all, at most.
    pub budget: u64,
    /// Batches of training episodes. After each, reflectors are called.
    pub batches: u64,
    /// Episodes per batch, each of another task.
    pub batch: u64,
    /// Pairs of the gate; each is two episodes.
    pub pairs: u64,
    /// Probability that a candidate that is not better passes.
    pub alpha: f64,
    /// Probability of passing for a candidate with the smallest lift.
    pub power: f64,
    /// The smallest lift that the gate finds with that probability, in shares of the rewards' range, if 3 % of the pairs are lost.
    pub smallest_lift: Option<f64>,
}

impl BudgetPlan {
    /// Divides `budget` episodes for the first candidate of a playbook. `alpha` is that of all its candidates.
    ///
    /// # Errors
    /// The budget is below [`FEWEST`]: nothing could be learned with it.
    pub fn new(budget: u64, alpha: f64) -> Result<Self, LearnError> {
        if budget < FEWEST {
            return Err(LearnError::Budget { budget, fewest: FEWEST });
        }
        let wanted = (budget / EPISODES_PER_PAIR).clamp(FEWEST_PAIRS, MOST_PAIRS);
        let training = budget - 2 * wanted;
        let batches = ((training + BATCH / 2) / BATCH).max(FEWEST_BATCHES);
        let batch = training / batches;
        // What does not fill a batch goes to the gate.
        let pairs = (budget - batches * batch) / 2;
        let alpha = alpha_of(NonZeroU32::MIN, alpha);
        let smallest_lift = smallest_lift(alpha, pairs, LOST, POWER);
        Ok(Self { budget, batches, batch, pairs, alpha, power: POWER, smallest_lift })
    }

    /// The same division after a number of tested candidates: the next one has less alpha, so its lift must be larger. `alpha` is that of
    /// all candidates.
    ///
    /// # Errors
    /// The pairs find no lift any more.
    pub fn after(self, candidates: u32, alpha: f64) -> Result<Self, LearnError> {
        let alpha = alpha_of(NonZeroU32::MIN.saturating_add(candidates), alpha);
        let smallest_lift = smallest_lift(alpha, self.pairs, LOST, POWER);
        let spent = LearnError::AlphaSpent { budget: self.budget, candidates, alpha };
        if smallest_lift.is_none() { Err(spent) } else { Ok(Self { alpha, smallest_lift, ..self }) }
    }

    /// Training episodes.
    pub fn training(&self) -> u64 {
        self.batches * self.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_divided_into_training_and_pairs() {
        let check = |budget: u64, training: u64, batches: u64, pairs: u64| {
            let plan = BudgetPlan::new(budget, 0.05).unwrap();
            assert_eq!((plan.training(), plan.batches, plan.pairs), (training, batches, pairs), "{budget}");
            assert!(plan.training() + 2 * plan.pairs <= budget, "{plan:?}");
            assert!(plan.smallest_lift.is_some(), "{plan:?}");
        };
        check(48, 16, 2, 16);
        check(100, 68, 2, 16);
        check(150, 99, 3, 25);
        check(300, 198, 6, 51);
        check(1_000, 864, 27, 68);
    }

    #[test]
    fn larger_budgets_find_smaller_lifts() {
        let lift = |budget| BudgetPlan::new(budget, 0.05).unwrap().smallest_lift.unwrap();
        assert!(lift(48) < 0.55 && lift(300) < lift(150) && lift(1_000) < 0.2, "{} {}", lift(48), lift(1_000));
        let later = BudgetPlan::new(300, 0.05).unwrap().after(9, 0.05).unwrap();
        assert!(later.smallest_lift.unwrap() > lift(300), "the tenth candidate has less alpha");
        assert_eq!((later.training(), later.pairs), (198, 51), "the division is the same, so that a run is resumed");
        let first = BudgetPlan::new(300, 0.05).unwrap();
        assert_eq!(first.after(0, 0.05), Ok(first));
    }

    #[test]
    fn a_budget_that_decides_nothing_after_many_candidates_is_refused() {
        let error = BudgetPlan::new(48, 0.05).unwrap().after(400, 0.05).unwrap_err().to_string();
        assert!(
            error.starts_with("48 episodes decide nothing about a playbook after 400 tested candidates"),
            "{error}"
        );
        assert!(BudgetPlan::new(1_000, 0.05).unwrap().after(400, 0.05).is_ok());
    }

    #[test]
    fn a_budget_that_cannot_teach_anything_is_refused() {
        let error = BudgetPlan::new(47, 0.05).unwrap_err();
        assert_eq!(error.to_string(), "47 episodes are too few to learn anything from: the smallest budget is 48");
    }
}
