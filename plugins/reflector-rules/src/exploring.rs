//! What is tried because nobody did it yet: actions that may show a fact, and other actions where what is done now fails.
//!
//! A rule on a fact that must be shown first is worth nothing without the look, and the look nothing without the rule. So both are proposed
//! together: wherever a rule needs a fact, the action that shows it stands beside the rule; and facts are looked at from the time at
//! which it is known how, because a rule on a fact can only be found where it is known.
//!
//! A policy that always does the same shows nothing about other actions. Where its decisions fail anyhow, other actions cost nothing: each
//! cell of two facts gets the action that looks best in a draw from its posterior (Thompson 1933).

use crate::candidate::Candidate;
use crate::covering::{List, Sample};
use crate::reading::Decisions;
use crate::table::{Shower, Table};
use clawhost_sdk::Random;
use clawhost_sdk::review::Condition;
use std::collections::{BTreeMap, BTreeSet};

/// A place is left alone if decisions there are at least this good.
const GOOD: f64 = 0.3;
/// An action that a policy takes by itself in this share of the cases needs no rule.
const BY_ITSELF: f64 = 0.9;
/// Fewest decisions in a place where others are tried.
const LEAST_CELL: usize = 4;
/// Most rules of one kind that are tried at once.
const MOST_TRIED: usize = 12;

/// For every fact that an action shows: the action that did so most often.
fn best_showers(table: &Table) -> Vec<&Shower> {
    let mut best: BTreeMap<(&str, &str), &Shower> = BTreeMap::new();
    for shower in &table.showers {
        let known = best.entry((&shower.fact, &shower.open)).or_insert(shower);
        if shower.seen.len() > known.seen.len() {
            *known = shower;
        }
    }
    best.into_values().collect()
}

fn candidate(conditions: Vec<Condition>, deed: &str, seen: &[usize], decisions: &Decisions) -> Candidate {
    let seen = seen.iter().filter_map(|place| {
        let one = decisions.all.get(*place)?;
        Some((decisions.episodes.get(one.episode)?.clone(), vec![one.turn]))
    });
    Candidate::new(conditions, deed, seen.collect())
}

/// Rules about looking: for every fact that an action shows, unless the policy does it by itself.
pub(crate) fn looks(table: &Table, decisions: &Decisions, known: &[(Vec<Condition>, String)]) -> Vec<Candidate> {
    let rule = |shower: &Shower| vec![Condition { fact: shower.fact.clone(), value: shower.open.clone() }];
    let is_needed = |shower: &&&Shower| {
        let is_known = |(conditions, deed): &(Vec<Condition>, String)| {
            *conditions == rule(shower) && *deed == shower.deed.to_lowercase()
        };
        let open = decisions.all.iter().filter(|one| one.open.get(&shower.fact) == Some(&shower.open));
        let (done, all) = open.fold((0, 0), |(done, all), one| (done + usize::from(one.deed == shower.deed), all + 1));
        known.iter().any(is_known) || (done as f64) < BY_ITSELF * f64::from(all)
    };
    let needed: Vec<&Shower> = best_showers(table).iter().filter(is_needed).copied().collect();
    // One action may show several facts.
    let mut shows: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for shower in &needed {
        shows.entry((&shower.deed, &shower.open)).or_default().push(shower.fact.clone());
    }
    let mut looks = Vec::new();
    for shower in needed {
        if let Some(shown) = shows.remove(&(shower.deed.as_str(), shower.open.as_str())) {
            looks.push(candidate(rule(shower), &shower.deed, &shower.seen, decisions).showing(shown));
        }
    }
    looks
}

/// Calls of tools on offer that nobody tried, and that no text named as right.
fn untried(decisions: &Decisions) -> Vec<String> {
    let Decisions { writing, opening, all, .. } = decisions;
    let done: BTreeSet<&str> =
        all.iter().flat_map(|one| [Some(one.deed.as_str()), one.hinted.as_deref()]).flatten().collect();
    let calls = writing.tools().filter_map(|tool| writing.derived(tool, opening));
    calls.filter(|call| !done.contains(call.as_str())).collect()
}

/// The facts of the table with their conditions' numbers; those with most values first.
fn facts(table: &Table) -> Vec<(&str, Vec<u16>)> {
    let mut facts: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for (number, condition) in (0..).zip(&table.conditions) {
        facts.entry(&condition.fact).or_default().push(number);
    }
    let mut facts: Vec<(&str, Vec<u16>)> = facts.into_iter().collect();
    facts.sort_by_key(|(_, values)| std::cmp::Reverse(values.len()));
    facts
}

fn named(table: &Table, numbers: &[u16]) -> Vec<Condition> {
    numbers.iter().filter_map(|number| table.conditions.get(usize::from(*number)).cloned()).collect()
}

/// Tools that may show a fact that nothing has shown yet: each is tried in a part of the cases.
pub(crate) fn searches(table: &Table, decisions: &Decisions) -> Vec<Candidate> {
    let shown: BTreeSet<&str> = table.showers.iter().map(|shower| shower.fact.as_str()).collect();
    let mut open: BTreeMap<&str, &str> = BTreeMap::new();
    for one in &decisions.all {
        open.extend(one.open.iter().map(|(fact, value)| (fact.as_str(), value.as_str())));
    }
    let Some((fact, value)) = open.into_iter().find(|(fact, _)| !shown.contains(fact)) else { return Vec::new() };
    let search = Condition { fact: fact.to_owned(), value: value.to_owned() };
    let calls = untried(decisions);
    let cells: Vec<Vec<u16>> = match (calls.len(), &facts(table)[..]) {
        (0, _) => Vec::new(),
        (1, _) | (_, []) => vec![Vec::new()],
        (_, [(_, one)]) => one.iter().map(|one| vec![*one]).collect(),
        (_, [(_, one), (_, other), ..]) => {
            one.iter().flat_map(|one| other.iter().map(|other| vec![*one, *other])).collect()
        }
    };
    let tried = cells.iter().zip(calls.iter().cycle()).take(MOST_TRIED);
    let rule = |cell: &Vec<u16>| [vec![search.clone()], named(table, cell)].concat();
    tried.map(|(cell, call)| candidate(rule(cell), call, &[], decisions)).collect()
}

/// A draw from the posterior of an action's worth.
fn drawn(sample: Sample, mean: f64, random: &mut Random) -> f64 {
    let (mean, variance) = sample.posterior(mean);
    // The sum of twelve uniform numbers, less six, is nearly normal.
    let normal: f64 = (0..12).map(|_| random.below(1 << 32) as f64 / f64::from(u32::MAX)).sum::<f64>() - 6.0;
    mean + normal * variance.sqrt()
}

/// Where the list fails: pairs of conditions, rather those with many failures. `looked`: the fact that is looked at last, so that all are known
/// where it is.
fn failing(table: &Table, list: &List, looked: Option<&str>, random: &mut Random) -> Vec<Vec<u16>> {
    let facts = facts(table);
    let looked = looked.filter(|looked| table.habit.is_some() && facts.iter().any(|(fact, _)| fact == looked));
    let pairs = facts.iter().enumerate().flat_map(|(at, one)| facts.iter().skip(at + 1).map(move |other| (one, other)));
    let is_after = |fact: &str| looked.is_none_or(|looked| looked == fact);
    let pairs = pairs.filter(|((one, _), (other, _))| is_after(one) || is_after(other));
    let pairs = pairs.map(|((_, one), (_, other))| (one, other));
    let mut cells: Vec<(f64, Vec<u16>)> = Vec::new();
    for (one, other) in pairs {
        for cell in one.iter().flat_map(|one| other.iter().map(move |other| vec![*one.min(other), *one.max(other)])) {
            match list.worth_where(table, &cell, table.habit.is_none()) {
                Some((worth, count)) if count >= LEAST_CELL && worth < GOOD => {
                    // Drawn, so that other cells come first another time.
                    cells.push(((1.0 - worth) * count as f64 * random.below(1000) as f64, cell));
                }
                _ => {}
            }
        }
    }
    cells.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    cells.into_iter().map(|(_, cell)| cell).take(MOST_TRIED).collect()
}

/// Other actions where those of the list fail: those that were done, and calls of tools that nobody tried. A policy that does various things
/// by itself needs them only where a rule decides.
pub(crate) fn trials(
    table: &Table,
    decisions: &Decisions,
    list: &List,
    looked: Option<&str>,
    random: &mut Random,
) -> Vec<Candidate> {
    if !table.is_direct || table.has_hints {
        return Vec::new();
    }
    let showers: BTreeSet<&str> = table.showers.iter().map(|shower| shower.deed.as_str()).collect();
    let calls = decisions.writing.tools().filter_map(|tool| decisions.writing.derived(tool, &decisions.opening));
    let calls = calls.filter(|call| table.habit.is_some() && !showers.contains(call.as_str()));
    let deeds: BTreeSet<String> = calls.chain(table.deeds.iter().cloned()).collect();
    let mut trials = Vec::new();
    for cell in failing(table, list, looked, random) {
        let rows = table.covered(&cell);
        let worth = |deed: &String| {
            let number =
                table.deeds.iter().position(|known| known == deed).and_then(|number| u16::try_from(number).ok());
            let mut sample = Sample::default();
            for row in rows.iter().filter_map(|row| table.rows.get(*row as usize)) {
                if let Some(worth) = number.and_then(|number| table.worth(row, number)) {
                    sample.add(worth, row.observation);
                }
            }
            sample
        };
        let draws = deeds.iter().map(|deed| (drawn(worth(deed), table.base, random), deed));
        if let Some((_, deed)) = draws.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
            trials.push(candidate(named(table, &cell), deed, &[], decisions));
        }
    }
    trials
}
