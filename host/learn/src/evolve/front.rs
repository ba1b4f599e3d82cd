//! The Pareto front and the selection of parents.

use crate::evolve::Candidate;
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};

/// A candidate that was evaluated on the whole fixed set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Admitted {
    pub(super) candidate: Candidate,
    /// Digest of its parent; `None` for the seed candidate.
    pub(super) parent: Option<Digest>,
    /// One score per item of the fixed set, in its order; `None` where the item failed.
    pub(super) scores: Vec<Option<f64>>,
}

impl Admitted {
    fn scored(&self) -> impl Iterator<Item = f64> {
        self.scores.iter().flatten().copied()
    }

    /// Mean over the scored items; `None` if there are none.
    pub(super) fn mean(&self) -> Option<f64> {
        let count = self.scored().count();
        (count > 0).then(|| self.scored().sum::<f64>() / count as f64)
    }

    /// Whether every scored item has reward 1.
    pub(super) fn is_perfect(&self) -> bool {
        self.scored().all(|score| score >= 1.0)
    }

    /// Whether this candidate is at least as good on every item that the other was scored on, and better on one. Items where
    /// the other failed are ignored.
    fn dominates(&self, other: &Self) -> bool {
        let mut better = false;
        for (own, other) in self.scores.iter().zip(&other.scores) {
            match (own, other) {
                (_, None) => {}
                (Some(own), Some(other)) if own >= other => better |= own > other,
                _ => return false,
            }
        }
        better
    }
}

/// Whether the sum over the items that both were scored on is strictly greater.
pub(super) fn is_better(own: &[Option<f64>], other: &[Option<f64>]) -> bool {
    let shared = own.iter().zip(other).filter_map(|(own, other)| own.zip(*other));
    let (own, other) = shared.fold((0.0, 0.0), |(own, other), (one, two)| (own + one, other + two));
    own > other
}

/// The candidate with the highest mean; ties to the earlier one.
pub(super) fn best(pool: &[Admitted]) -> Option<&Admitted> {
    pool.iter().reduce(|best, next| if is_better(&next.scores, &best.scores) { next } else { best })
}

/// Number of items on which each candidate is best; 0 for dominated candidates.
fn weights(pool: &[Admitted]) -> Vec<u64> {
    let items = pool.iter().map(|admitted| admitted.scores.len()).max().unwrap_or(0);
    let score = |admitted: &Admitted, item: usize| admitted.scores.get(item).copied().flatten();
    let most: Vec<Option<f64>> =
        (0..items).map(|item| pool.iter().filter_map(|admitted| score(admitted, item)).reduce(f64::max)).collect();
    let weight = |admitted: &Admitted| {
        if pool.iter().any(|other| other.dominates(admitted)) {
            return 0;
        }
        admitted.scores.iter().zip(&most).filter(|(own, most)| own.is_some() && own == most).count() as u64
    };
    pool.iter().map(weight).collect()
}

/// Draws a parent with probability proportional to the number of items on which it is best; `None` while nothing is scored.
/// `number` has 53 random bits, so the bias of the remainder is negligible.
pub(super) fn draw(pool: &[Admitted], number: u64) -> Option<&Admitted> {
    let weights = weights(pool);
    let mut left = number.checked_rem(weights.iter().sum())?;
    for (admitted, weight) in pool.iter().zip(weights) {
        match left.checked_sub(weight) {
            None => return Some(admitted),
            Some(rest) => left = rest,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NaN stands for a failure.
    fn pool(scores: &[&[f64]]) -> Vec<Admitted> {
        let admitted = |(place, scores): (usize, &&[f64])| Admitted {
            candidate: Candidate::default().with("rules", place.to_string()),
            parent: None,
            scores: scores.iter().map(|score| (!score.is_nan()).then_some(*score)).collect(),
        };
        scores.iter().enumerate().map(admitted).collect()
    }

    const FAILED: f64 = f64::NAN;

    #[test]
    fn the_weight_of_a_nondominated_candidate_is_the_number_of_items_it_is_best_on() {
        let check = |scores: &[&[f64]], expect: &[u64]| assert_eq!(weights(&pool(scores)), expect, "{scores:?}");
        check(&[&[0.0, 0.0]], &[2]);
        check(&[&[0.0, 0.0], &[1.0, 0.0]], &[0, 2]);
        check(&[&[1.0, 0.0, 0.0], &[0.0, 1.0, 1.0]], &[1, 2]);
        check(&[&[1.0, 0.0], &[0.0, 1.0], &[0.5, 0.5]], &[1, 1, 0]);
        check(&[&[1.0, 0.0], &[1.0, 0.0]], &[2, 2]);
        check(&[&[-1.0, -1.0], &[-1.0, -0.5]], &[0, 2]);
    }

    #[test]
    fn a_failure_is_never_best_and_never_dominates() {
        let check = |scores: &[&[f64]], expect: &[u64]| assert_eq!(weights(&pool(scores)), expect, "{scores:?}");
        check(&[&[FAILED, FAILED]], &[0]);
        check(&[&[0.0, FAILED], &[0.0, -1.0]], &[1, 2]);
        check(&[&[0.0, 0.5], &[1.0, FAILED]], &[1, 1]);
        check(&[&[0.0, FAILED], &[1.0, 0.0]], &[0, 2]);
    }

    #[test]
    fn parents_are_drawn_in_proportion_to_their_weights() {
        let pool = pool(&[&[0.0, 0.0, 0.0, 0.0], &[1.0, 0.0, 0.0, 0.0], &[0.0, 1.0, 1.0, 1.0]]);
        let drawn: Vec<&str> =
            (0..8).filter_map(|number| draw(&pool, number)).map(|drawn| drawn.candidate.section("rules")).collect();
        assert_eq!(drawn, ["1", "2", "2", "2", "1", "2", "2", "2"]);
        assert_eq!(draw(&[], 3), None);
    }

    #[test]
    fn the_best_has_the_highest_mean_and_ties_go_to_the_earlier() {
        let check = |scores: &[&[f64]], expect: &str| {
            let pool = pool(scores);
            assert_eq!(best(&pool).map(|best| best.candidate.section("rules")), Some(expect), "{scores:?}");
        };
        check(&[&[0.0, 0.0], &[0.0, 1.0], &[1.0, 0.0]], "1");
        check(&[&[0.5, 0.5], &[1.0, -1.0], &[0.9, 0.2]], "2");
        check(&[&[-0.5, -0.5], &[-1.0, -0.5]], "0");
        // The second has the higher mean over its own items, but is not better on the shared ones.
        check(&[&[1.0, 0.0], &[1.0, FAILED]], "0");
        check(&[&[0.0, 1.0], &[0.5, FAILED]], "1");
        check(&[&[FAILED, 0.0], &[1.0, FAILED]], "0");
    }
}
