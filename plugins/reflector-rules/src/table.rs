//! Decisions as numbers, so that thousands of rules can be counted over thousands of decisions.

use crate::covering::Sample;
use crate::reading::{Decision, Decisions};
use clawhost_sdk::Random;
use clawhost_sdk::review::Condition;
use std::collections::{BTreeMap, BTreeSet};

/// Most values of a fact that are conditions. A fact with more names the case.
const MOST_VALUES: usize = 12;
/// Fewest observations in which a condition must hold. Fewer cannot be counted on two halves.
const LEAST_SEEN: usize = 6;
/// The first episodes, which were played before anything was proposed: the smallest batch of a budget.
const FIRST: usize = 8;
/// An action with this share of the first decisions is what the policy does by itself.
const HABIT: f64 = 0.8;
/// With so many decisions in an episode, its worth is that of one decision.
const ALONE: f64 = 1.2;
/// Worth of a policy about which nothing is known, and the number of decisions that this stands for: no action is hopeless because a few failed.
const BASE: f64 = 0.25;
const PRIOR: f64 = 4.0;
/// Share of uses after which an action shows a fact.
const SHOWS: f64 = 0.5;

/// An action that shows a fact.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shower {
    /// The fact.
    pub(crate) fact: String,
    /// Its value before: that it is not known.
    pub(crate) open: String,
    /// The action.
    pub(crate) deed: String,
    /// Decisions that show it.
    pub(crate) seen: Vec<usize>,
}

/// A decision that counts.
#[derive(Debug)]
pub(crate) struct Row {
    /// Index of the decision.
    pub(crate) decision: usize,
    /// The conditions that held: indices in ascending order.
    pub(crate) holds: Vec<u16>,
    /// The action.
    pub(crate) deed: u16,
    /// How good it was, from 0 to 1.
    pub(crate) worth: f64,
    /// What its worth was observed with: all decisions of an episode, if one number stands for all of them; else the decision alone. Rows of
    /// one observation stand together.
    pub(crate) observation: usize,
    /// The right action, if a text named it.
    pub(crate) hinted: Option<u16>,
    /// Which half of the tasks it is in.
    pub(crate) half: usize,
    /// The rule of the playbook that decides where these facts are known, from 1. 0: none does, so the policy chose by itself.
    pub(crate) stratum: u16,
}

/// All decisions that count, with names for their numbers.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The conditions.
    pub(crate) conditions: Vec<Condition>,
    /// The actions.
    pub(crate) deeds: Vec<String>,
    /// The rows.
    pub(crate) rows: Vec<Row>,
    /// Per condition, the rows in which it holds, in ascending order.
    pub(crate) places: Vec<Vec<u32>>,
    /// Actions that show facts. They are no rules of their own: looking is good only for what is done then.
    pub(crate) showers: Vec<Shower>,
    /// What the policy does by itself, if it is always the same.
    pub(crate) habit: Option<u16>,
    /// Whether right actions are named, so that what was not named was wrong.
    pub(crate) has_hints: bool,
    /// Mean worth of the first episodes, which the policy played by itself.
    pub(crate) base: f64,
    /// Whether a decision's worth is its own, and not that of several decisions together.
    pub(crate) is_direct: bool,
}

/// One of two halves, by the task's name, so that all decisions of a task are in one half. `again` halves the tasks in another way.
fn half(task: &str, again: u32) -> usize {
    let seed = task.bytes().fold(u64::from(again), |sum, byte| sum.wrapping_mul(257).wrapping_add(u64::from(byte)));
    Random::new(seed).below(2) as usize
}

/// Actions that showed a fact in most of the cases in which it was open.
fn showers(all: &[Decision]) -> Vec<Shower> {
    let mut uses: BTreeMap<(&str, &str, &str), (usize, Vec<usize>)> = BTreeMap::new();
    for (place, one) in all.iter().enumerate() {
        for (fact, open) in &one.open {
            let (times, seen) = uses.entry((fact, open, &one.deed)).or_default();
            *times += 1;
            if one.showed.contains(fact) {
                seen.push(place);
            }
        }
    }
    let found =
        uses.into_iter().filter(|(_, (times, seen))| !seen.is_empty() && seen.len() as f64 >= SHOWS * *times as f64);
    found
        .map(|((fact, open, deed), (_, seen))| Shower { fact: fact.into(), open: open.into(), deed: deed.into(), seen })
        .collect()
}

/// The decisions of the first episodes.
fn firsts<'a>(rows: &'a [Row], decisions: &'a Decisions) -> impl Iterator<Item = &'a Row> + 'a {
    let is_first = |row: &&Row| decisions.all.get(row.decision).is_some_and(|one| one.episode < FIRST);
    rows.iter().filter(is_first)
}

/// The conditions that can be counted, of decisions with their observations.
fn conditions(all: &[(usize, &Decision)]) -> Vec<Condition> {
    let mut values: BTreeMap<&str, BTreeMap<&str, BTreeSet<usize>>> = BTreeMap::new();
    for (observation, one) in all {
        for (fact, value) in &one.known {
            values.entry(fact).or_default().entry(value).or_default().insert(*observation);
        }
    }
    values.retain(|_, values| (2..=MOST_VALUES).contains(&values.len()));
    let often = values
        .into_iter()
        .flat_map(|(fact, values)| values.into_iter().map(move |(value, seen)| (fact, value, seen.len())));
    let often = often.filter(|(_, _, times)| *times >= LEAST_SEEN);
    often.map(|(fact, value, _)| Condition { fact: fact.into(), value: value.into() }).collect()
}

impl Table {
    /// A table of decisions. `stratum` says which rule of the playbook decides where these facts are known, from 1.
    pub(crate) fn new(decisions: &Decisions, stratum: impl Fn(&Decision) -> u16, again: u32) -> Self {
        let showers = showers(&decisions.all);
        let looks: BTreeSet<&str> = showers.iter().map(|shower| shower.deed.as_str()).collect();
        let counted: Vec<(usize, &Decision)> =
            decisions.all.iter().enumerate().filter(|(_, one)| !looks.contains(one.deed.as_str())).collect();
        let observation = |decision: usize, one: &Decision| if decisions.in_steps { decision } else { one.episode };
        let conditions =
            conditions(&counted.iter().map(|(place, one)| (observation(*place, one), *one)).collect::<Vec<_>>());
        let numbers: BTreeMap<(&str, &str), u16> =
            (0..).zip(&conditions).map(|(number, one)| ((one.fact.as_str(), one.value.as_str()), number)).collect();
        let mut deeds: Vec<String> = Vec::new();
        let mut deed = |text: &String| {
            let known = deeds.iter().position(|known| known == text);
            known.unwrap_or_else(|| {
                deeds.push(text.clone());
                deeds.len() - 1
            }) as u16
        };
        let mut rows = Vec::new();
        for (decision, one) in counted {
            let Some(worth) = one.worth else { continue };
            let holds =
                one.known.iter().filter_map(|(fact, value)| numbers.get(&(fact.as_str(), value.as_str())).copied());
            let mut holds: Vec<u16> = holds.collect();
            holds.sort_unstable();
            let hinted = one.hinted.as_ref().filter(|hinted| !looks.contains(hinted.as_str())).map(&mut deed);
            let task = decisions.tasks.get(one.episode).map_or("", String::as_str);
            let (deed, half, stratum) = (deed(&one.deed), half(task, again), stratum(one));
            let observation = observation(decision, one);
            rows.push(Row { decision, holds, deed, worth, observation, hinted, half, stratum });
        }
        let mut places = vec![Vec::new(); conditions.len()];
        for (number, row) in (0..).zip(&rows) {
            for condition in &row.holds {
                if let Some(place) = places.get_mut(usize::from(*condition)) {
                    place.push(number);
                }
            }
        }
        let first: Vec<&Row> = firsts(&rows, decisions).collect();
        let times = |deed: u16| first.iter().filter(|other| other.deed == deed).count() as f64;
        let habit = first.iter().map(|row| row.deed).find(|deed| times(*deed) >= HABIT * first.len() as f64);
        let mut own = Sample::default();
        first.iter().for_each(|row| own.add(row.worth, row.observation));
        let base = own.mean_with(BASE, PRIOR);
        let is_direct = decisions.in_steps || rows.len() as f64 <= ALONE * decisions.episodes.len() as f64;
        Self { conditions, deeds, rows, places, showers, habit, has_hints: decisions.has_hints, base, is_direct }
    }

    /// How good this action would have been here. `None`: nothing says so.
    pub(crate) fn worth(&self, row: &Row, deed: u16) -> Option<f64> {
        if row.deed == deed {
            return Some(row.worth);
        }
        match row.hinted {
            Some(hinted) => Some(if hinted == deed { 1.0 } else { 0.0 }),
            // One action is named where another one was taken, so where none is named this one was it.
            None => (self.has_hints && row.worth >= 1.0).then_some(0.0),
        }
    }

    /// How good the policy would have been here by itself. `None`: nothing says so.
    pub(crate) fn own_worth(&self, row: &Row) -> Option<f64> {
        match self.habit {
            Some(habit) => self.worth(row, habit),
            None => (row.stratum == 0).then_some(row.worth),
        }
    }

    /// The rows in which one or two conditions hold.
    pub(crate) fn covered(&self, conditions: &[u16]) -> Vec<u32> {
        let of = |condition: &u16| self.places.get(usize::from(*condition)).map_or(&[][..], Vec::as_slice);
        match conditions {
            [one] => of(one).to_vec(),
            [one, rest @ ..] => {
                let holds = |row: &&u32| {
                    let row = self.rows.get(**row as usize);
                    row.is_some_and(|row| rest.iter().all(|condition| row.holds.binary_search(condition).is_ok()))
                };
                of(one).iter().filter(holds).copied().collect()
            }
            [] => Vec::new(),
        }
    }
}
