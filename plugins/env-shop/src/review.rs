//! The review after an incorrectly closed case: the expected action, and at most two facts that may have mattered.
//!
//! It is a hint: it may omit a condition, add an irrelevant fact, or name only irrelevant facts. So a rule from one
//! review may be right, too narrow, too wide or wrong, and only measuring tells which.

use crate::case::Case;
use crate::desk::Talk;
use crate::house::FACTS;
use clawhost_sdk::{Random, Review};

/// Facts that the review names.
fn named(case: &Case, random: &mut Random) -> Vec<usize> {
    let relevant: Vec<usize> = case
        .house
        .governing(&case.facts)
        .map(|rule| rule.conditions.iter().map(|(fact, _)| *fact).collect())
        .unwrap_or_default();
    let others: Vec<usize> = (0..FACTS.len()).filter(|fact| !relevant.contains(fact)).collect();
    let other = random.choose(&others).copied();
    let chance = random.below(100);
    match relevant[..] {
        // Without a rule, all named facts are irrelevant.
        [] => other.into_iter().collect(),
        [only] => match chance {
            0..50 => vec![only],
            50..90 => [only].into_iter().chain(other).collect(),
            _ => other.into_iter().collect(),
        },
        [first, second, ..] => match chance {
            0..50 => vec![first, second],
            50..65 => vec![first],
            65..80 => vec![second],
            80..90 => [first].into_iter().chain(other).collect(),
            _ => [second].into_iter().chain(other).collect(),
        },
    }
}

/// The review of a case that was closed with another resolution than expected.
pub(crate) fn review(case: &Case, expected: &str, looked: &[bool; 2], talk: Talk, random: &mut Random) -> Review {
    let named = named(case, random);
    let name = |fact: &usize| FACTS.get(*fact).map_or("?", |fact| fact.name);
    let review = Review::expected(expected).remark("Review: not what the house wants.");
    let review = named.iter().fold(review, |review, fact| review.because(name(fact), case.value(*fact, talk)));
    let tools = [crate::desk::LOOK_UP_CUSTOMER, crate::desk::LOOK_UP_ORDER];
    let unseen = case.house.hidden.iter().zip(looked).zip(tools);
    let unseen = unseen.filter(|((hidden, looked), _)| named.contains(hidden) && !**looked);
    unseen.fold(review, |review, ((hidden, _), tool)| review.not_looked_up(name(hidden), crate::desk::call(tool, talk)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_two_facts_are_named_and_some_are_wrong() {
        let mut kinds = std::collections::BTreeMap::new();
        for position in 0..500 {
            let case = Case::new(3, "train", position);
            let mut random = Random::new(position);
            let named = named(&case, &mut random);
            assert!((1..=2).contains(&named.len()));
            let Some(rule) = case.house.governing(&case.facts) else { continue };
            let right = rule.conditions.iter().filter(|(fact, _)| named.contains(fact)).count();
            let kind = match (right == rule.conditions.len(), right == named.len()) {
                (true, true) => "true",
                (true, false) => "too narrow",
                (false, true) => "too wide",
                (false, false) => "wrong",
            };
            *kinds.entry(kind).or_insert(0) += 1;
        }
        assert!(
            kinds["true"] > 100 && kinds["too narrow"] > 50 && kinds["wrong"] > 15 && kinds["too wide"] > 10,
            "{kinds:?}"
        );
    }
}
