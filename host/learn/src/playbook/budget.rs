//! Selection of entries by token budget.

use std::collections::BTreeSet;

/// An entry that could be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Index in the playbook.
    pub position: usize,
    /// Estimated tokens in a prompt.
    pub tokens: u64,
    /// Lower bound of its effect on the reward, -2 to 2: measured, or a prior for an entry that was not measured. NaN ranks
    /// last.
    pub lower_bound: f64,
    /// The entries that it needs, with their tokens: it is chosen together with all of them, or not at all.
    pub needs: Vec<(usize, u64)>,
}

impl Candidate {
    /// Value per token, of all that it needs. For a bound of 0 or less the value falls with the length, hence the product.
    fn worth(&self) -> f64 {
        let tokens = self.needs.iter().fold(self.tokens, |sum, (_, tokens)| sum.saturating_add(*tokens)).max(1) as f64;
        match self.lower_bound {
            bound if bound.is_nan() => f64::NEG_INFINITY,
            bound if bound > 0.0 => bound / tokens,
            // Adding zero turns -0.0 into 0.0, so that equal bounds have one order.
            bound => bound * tokens + 0.0,
        }
    }
}

/// The indices of the chosen entries with all that they need, in playbook order. Candidates are taken by lower bound per token, ties by
/// position, if they still fit with what they need and is not chosen yet; one that does not fit is skipped. The sum of their tokens never
/// exceeds `budget`. `paid` are entries that are shown anyhow: they cost nothing here.
///
/// The greedy choice is not always optimal, but it is stable: a chosen entry rarely changes when other candidates appear or
/// vanish.
pub fn fit(candidates: &[Candidate], paid: &BTreeSet<usize>, budget: u64) -> Vec<usize> {
    let mut ordered: Vec<&Candidate> = candidates.iter().collect();
    ordered.sort_by(|one, other| other.worth().total_cmp(&one.worth()).then(one.position.cmp(&other.position)));
    let mut left = budget;
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    for candidate in ordered {
        let own = std::iter::once((candidate.position, candidate.tokens));
        let new = own.chain(candidate.needs.iter().copied());
        let new: Vec<(usize, u64)> =
            new.filter(|(position, _)| !chosen.contains(position) && !paid.contains(position)).collect();
        let tokens = new.iter().fold(0, |sum: u64, (_, tokens)| sum.saturating_add(*tokens));
        if let Some(rest) = left.checked_sub(tokens) {
            left = rest;
            chosen.extend(new.into_iter().map(|(position, _)| position));
        }
    }
    chosen.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(candidates: &[(u64, f64)], budget: u64, expect: &[usize]) {
        let candidate = |(position, (tokens, lower_bound)): (usize, &(u64, f64))| Candidate {
            position,
            tokens: *tokens,
            lower_bound: *lower_bound,
            needs: Vec::new(),
        };
        let candidates: Vec<Candidate> = candidates.iter().enumerate().map(candidate).collect();
        assert_eq!(fit(&candidates, &BTreeSet::new(), budget), expect, "{candidates:?}");
        let backwards: Vec<Candidate> = candidates.iter().rev().cloned().collect();
        assert_eq!(fit(&backwards, &BTreeSet::new(), budget), expect, "the order of the candidates does not matter");
    }

    #[test]
    fn an_entry_is_chosen_together_with_all_that_it_needs_or_not_at_all() {
        let look = |lower_bound| Candidate { position: 0, tokens: 10, lower_bound, needs: Vec::new() };
        let rule = |position| Candidate { position, tokens: 5, lower_bound: 0.3, needs: vec![(0, 10)] };
        let check = |candidates: &[Candidate], paid: &[usize], budget: u64, expect: &[usize]| {
            let paid = paid.iter().copied().collect();
            assert_eq!(fit(candidates, &paid, budget), expect, "{candidates:?} {budget}");
        };
        check(&[rule(1)], &[], 15, &[0, 1]);
        check(&[rule(1)], &[], 14, &[]);
        check(&[rule(1)], &[0], 5, &[1]);
        check(&[rule(1), rule(2)], &[], 20, &[0, 1, 2]);
        check(&[rule(1), rule(2)], &[], 19, &[0, 1]);
        check(&[look(0.1), rule(1)], &[], 15, &[0, 1]);
        check(&[look(0.1), rule(1)], &[], 14, &[0]);
    }

    #[test]
    fn the_best_bounds_per_token_are_chosen() {
        check(&[(10, 0.1), (10, 0.3), (10, 0.2)], 20, &[1, 2]);
        check(&[(10, 0.3), (5, 0.2), (5, 0.2)], 10, &[1, 2]);
        check(&[(10, 0.1), (10, 0.1), (10, 0.1)], 20, &[0, 1]);
        check(&[(30, 0.9), (10, 0.1)], 20, &[1]);
        check(&[(10, 0.1)], 9, &[]);
        check(&[], 9, &[]);
    }

    #[test]
    fn without_a_positive_bound_shorter_entries_rank_first_and_nan_ranks_last() {
        check(&[(10, -0.1), (5, -0.1)], 14, &[1]);
        check(&[(5, f64::NAN), (5, -1.0)], 5, &[1]);
        check(&[(5, -0.0), (5, 0.0)], 5, &[0]);
        check(&[(5, 0.1), (5, f64::INFINITY)], 5, &[1]);
        check(&[(0, 0.1), (u64::MAX, 0.1), (u64::MAX, 0.2)], u64::MAX, &[0, 2]);
    }

    proptest! {
        #[test]
        fn the_budget_is_never_exceeded_and_no_other_candidate_fits(
            parts in prop::collection::vec((0_u64..50, prop::num::f64::ANY), 0..30),
            budget in 0_u64..300,
        ) {
            let candidate = |(position, (tokens, lower_bound)): (usize, (u64, f64))| Candidate { position, tokens, lower_bound, needs: Vec::new() };
            let candidates: Vec<Candidate> = parts.into_iter().enumerate().map(candidate).collect();
            let chosen = fit(&candidates, &BTreeSet::new(), budget);
            let spent: u64 = chosen.iter().map(|at| candidates[*at].tokens).sum();
            prop_assert!(spent <= budget);
            prop_assert!(chosen.is_sorted_by(|one, other| one < other));
            for left_out in candidates.iter().filter(|candidate| !chosen.contains(&candidate.position)) {
                prop_assert!(spent + left_out.tokens > budget);
            }
        }
    }
}
