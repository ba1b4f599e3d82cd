//! Rules counted over many tasks: a list of rules such that as many decisions as possible would have been right.
//!
//! Feedback of one episode suggests rules that may be right, too narrow, too wide or wrong. Over many tasks each of them can be counted:
//! wherever its conditions hold, was its action right? An episode with a review states what was right; in an episode without one, what the
//! policy did was right. Rules are added one by one (greedy covering, as in Rivest's decision lists, 1987): each time the rule that turns
//! most wrong decisions into right ones, less those that it turns into wrong ones, with a more specific rule going before a more general
//! one. So an exception is found beside its rule, and a rule that only coincides with another one adds nothing.

use crate::candidate::{Candidate, subsets};
use crate::case::{Case, kind};
use crate::learning::Limits;
use clawhost_sdk::review::Condition;
use std::collections::BTreeMap;

/// A rule must make at least this many more decisions right than wrong. With fewer, chance suffices.
const LEAST_GAIN: i64 = 3;
/// The same if counting found nothing before: chance is left to the trials.
const LEAST_GAIN_AGAIN: i64 = 2;
/// Feedback must have stated its conditions and action at least this often.
const LEAST_STATED: usize = 2;
/// Largest number of rules that are compared; those that feedback states most often come first.
const MOST_HYPOTHESES: usize = 4096;

/// A rule that is counted.
struct Hypothesis {
    conditions: Vec<Condition>,
    deed: String,
    /// Cases whose feedback stated it.
    stated: Vec<usize>,
    /// Cases in which its conditions hold.
    covers: Vec<usize>,
}

/// The decision in a case so far: the number of conditions of the deciding rule, and whether it is right.
#[derive(Clone, Copy)]
struct Decided {
    specific: usize,
    is_right: bool,
}

/// What was found.
pub(crate) struct Found {
    /// The rules: those on one fact first, then more specific ones, then those about looking.
    pub(crate) rules: Vec<Candidate>,
    /// The number of rules that were compared.
    pub(crate) hypotheses: usize,
}

fn holds(conditions: &[Condition], case: &Case) -> bool {
    conditions.iter().all(|condition| case.facts.get(&condition.fact) == Some(&condition.value))
}

/// Whether this action would have been right.
fn is_right(deed: &str, case: &Case) -> bool {
    match &case.expected {
        Some(expected) => expected == deed,
        None => kind(deed) == kind(&case.did),
    }
}

/// What the policy does where none of these rules applies: its most frequent action there.
fn habit<'a>(cases: &'a [Case], known: &[(Vec<Condition>, String)]) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases.iter().filter(|case| !known.iter().any(|(conditions, _)| holds(conditions, case))) {
        *counts.entry(case.did.as_str()).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(did, times)| (*times, std::cmp::Reverse(*did))).map(|(did, _)| did)
}

/// Whether the policy's habit would have been right.
fn habit_is_right(habit: Option<&str>, case: &Case) -> bool {
    habit.is_some_and(|habit| match &case.expected {
        Some(expected) => kind(expected) == kind(habit),
        None => kind(&case.did) == kind(habit),
    })
}

/// All rules that the feedback stated often enough.
fn hypotheses(cases: &[Case], facts: usize) -> Vec<Hypothesis> {
    let mut stated: BTreeMap<(Vec<String>, &str), (Vec<Condition>, Vec<usize>)> = BTreeMap::new();
    for (place, case) in cases.iter().enumerate() {
        let Some(expected) = &case.expected else { continue };
        let mut because = case.because.clone();
        because.sort_by(|one, other| one.fact.cmp(&other.fact));
        for conditions in subsets(&because, facts) {
            let name = (conditions.iter().map(Condition::to_string).collect(), expected.as_str());
            stated.entry(name).or_insert_with(|| (conditions, Vec::new())).1.push(place);
        }
    }
    let often = stated.into_iter().filter(|(_, (_, places))| places.len() >= LEAST_STATED);
    let mut found: Vec<Hypothesis> = often
        .map(|((_, deed), (conditions, stated))| Hypothesis {
            conditions,
            deed: deed.to_owned(),
            stated,
            covers: Vec::new(),
        })
        .collect();
    found.sort_by_key(|hypothesis| std::cmp::Reverse(hypothesis.stated.len()));
    found.truncate(MOST_HYPOTHESES);
    for hypothesis in &mut found {
        let covered = cases.iter().enumerate().filter(|(_, case)| holds(&hypothesis.conditions, case));
        hypothesis.covers = covered.map(|(place, _)| place).collect();
    }
    found
}

/// Right decisions won by this rule, less those lost.
fn gain(hypothesis: &Hypothesis, cases: &[Case], decided: &[Decided]) -> i64 {
    let change = |place: &usize| -> i64 {
        let (Some(case), Some(now)) = (cases.get(*place), decided.get(*place)) else { return 0 };
        if hypothesis.conditions.len() < now.specific {
            return 0;
        }
        i64::from(is_right(&hypothesis.deed, case)) - i64::from(now.is_right)
    };
    hypothesis.covers.iter().map(change).sum()
}

/// The search for a list of rules. Rules are named by their places among those that are compared.
struct Covering<'a> {
    cases: &'a [Case],
    /// The decisions without a rule.
    start: Vec<Decided>,
    compared: &'a [Hypothesis],
    /// Most rules of the list.
    most: usize,
    /// Fewest right decisions that a rule must win.
    least: i64,
}

impl Covering<'_> {
    /// The decisions that these rules make, in this order: the most specific one that applies decides, of equal ones the last.
    fn decide(&self, rules: &[usize]) -> Vec<Decided> {
        let mut decided = self.start.clone();
        for rule in rules.iter().filter_map(|place| self.compared.get(*place)) {
            for place in &rule.covers {
                if let (Some(case), Some(now)) = (self.cases.get(*place), decided.get_mut(*place))
                    && rule.conditions.len() >= now.specific
                {
                    *now = Decided { specific: rule.conditions.len(), is_right: is_right(&rule.deed, case) };
                }
            }
        }
        decided
    }

    fn right(&self, rules: &[usize]) -> i64 {
        self.decide(rules).iter().filter(|one| one.is_right).count() as i64
    }

    /// Adds rules one by one, as long as one wins enough. `left_out` is not added.
    fn grow(&self, mut rules: Vec<usize>, left_out: Option<usize>) -> Vec<usize> {
        while rules.len() < self.most {
            let decided = self.decide(&rules);
            let open = self.compared.iter().enumerate();
            let open = open.filter(|(place, _)| Some(*place) != left_out && !rules.contains(place));
            let gains = open.map(|(place, one)| (gain(one, self.cases, &decided), place));
            // Of equal gains the more general rule, then the one that was stated more often.
            let best = gains.filter(|(gain, _)| *gain >= self.least).max_by_key(|(gain, place)| {
                let size = self.compared.get(*place).map_or(0, |one| one.conditions.len());
                (*gain, std::cmp::Reverse(size), std::cmp::Reverse(*place))
            });
            let Some((_, place)) = best else { break };
            rules.push(place);
        }
        rules
    }

    /// A greedy list, improved by local search: leave out one rule, grow the list again, and keep it if more decisions are right, or as many
    /// with fewer rules. Greedy choice alone keeps a general rule that is often right by coincidence, because a rule and its exception
    /// each gain less than it does.
    fn search(&self) -> Vec<usize> {
        let mut best = self.grow(Vec::new(), None);
        let mut right = self.right(&best);
        'better: loop {
            for left_out in best.clone() {
                let others = best.iter().copied().filter(|place| *place != left_out).collect();
                let list = self.grow(others, Some(left_out));
                let now = self.right(&list);
                if (now, std::cmp::Reverse(list.len())) > (right, std::cmp::Reverse(best.len())) {
                    (best, right) = (list, now);
                    continue 'better;
                }
            }
            return best;
        }
    }
}

/// The rules about looking that reviews asked for.
fn looks(cases: &[Case]) -> Vec<Candidate> {
    let mut asked: BTreeMap<(String, &str), (&Condition, Vec<usize>)> = BTreeMap::new();
    for (place, case) in cases.iter().enumerate() {
        for (condition, action) in &case.looks {
            asked.entry((condition.to_string(), action)).or_insert((condition, Vec::new())).1.push(place);
        }
    }
    asked
        .into_iter()
        .map(|((_, action), (condition, places))| {
            candidate(vec![condition.clone()], action, &places, cases).showing(vec![condition.fact.clone()])
        })
        .collect()
}

fn candidate(conditions: Vec<Condition>, deed: &str, places: &[usize], cases: &[Case]) -> Candidate {
    let seen = places.iter().filter_map(|place| cases.get(*place));
    let seen = seen.map(|case| (case.episode.clone(), case.turn.into_iter().collect())).collect();
    Candidate::new(conditions, deed, seen)
}

/// The rules that make most decisions of these cases right. `known`: the rules with which some of them were played. At most `most` rules
/// on at most `facts` facts each; those about looking are added.
pub(crate) fn count(cases: &[Case], known: &[(Vec<Condition>, String)], limits: Limits) -> Found {
    let Limits { facts, most, again } = limits;
    let least = if again == 0 { LEAST_GAIN } else { LEAST_GAIN_AGAIN };
    let compared = hypotheses(cases, facts);
    let hypotheses = compared.len();
    let habit = habit(cases, known);
    let start = |case: &Case| Decided { specific: 0, is_right: habit_is_right(habit, case) };
    let covering = Covering { cases, start: cases.iter().map(start).collect(), compared: &compared, most, least };
    let mut chosen: Vec<&Hypothesis> = covering.search().into_iter().filter_map(|place| compared.get(place)).collect();
    chosen.sort_by_key(|one| one.conditions.len());
    let rules = chosen.into_iter().map(|one| candidate(one.conditions.clone(), &one.deed, &one.stated, cases));
    // Where a rule and a look-up apply alike, the later one does: look first.
    let looks = looks(cases);
    Found { rules: rules.chain(looks).collect(), hypotheses }
}

/// Whether these episodes are about more than one task.
pub(crate) fn has_many_tasks(mut tasks: impl Iterator<Item = String>) -> bool {
    tasks.next().is_some_and(|first| tasks.any(|task| task != first))
}
