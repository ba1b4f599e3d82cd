//! Rules from episodes without reviews: read, counted, and proposed together with the look-ups that they need.

use crate::candidate::Candidate;
use crate::covering::{Rule, cover};
use crate::exploring::{looks, searches, trials};
use crate::reading::{Decision, Decisions};
use crate::table::Table;
use clawhost_sdk::review::Condition;
use clawhost_sdk::{Episode, Random, ToolSpec};

/// What was found.
pub(crate) struct Learned {
    /// The rules, in the order in which they should stand.
    pub(crate) rules: Vec<Candidate>,
    /// The number of rules that were compared.
    pub(crate) hypotheses: usize,
    /// The number of decisions that were counted.
    pub(crate) decisions: usize,
}

/// How many rules, on how many facts, and how they are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most facts of a rule.
    pub(crate) facts: usize,
    /// Most rules.
    pub(crate) most: usize,
    /// How often counting found nothing that training confirmed. Every time the tasks are halved in another way, and after the first time less
    /// support is enough: trials measure what is proposed.
    pub(crate) again: u32,
}

fn holds(condition: &Condition, one: &Decision) -> bool {
    let value = one.known.get(&condition.fact).or_else(|| one.open.get(&condition.fact));
    value == Some(&condition.value)
}

/// The rule that decides, from 1: of those that apply the most specific one, of these the last. 0: none applies.
fn stratum(known: &[(Vec<Condition>, String)], one: &Decision) -> u16 {
    let applies =
        (1..).zip(known).filter(|(_, (conditions, _))| conditions.iter().all(|condition| holds(condition, one)));
    applies.max_by_key(|(number, (conditions, _))| (conditions.len(), *number)).map_or(0, |(number, _)| number)
}

/// The rules that would have made these episodes best. `known`: the rules of the playbook. `None`: nothing says how good a decision was.
pub(crate) fn learn(
    episodes: &[Episode],
    tools: &[ToolSpec],
    known: &[(Vec<Condition>, String)],
    signal: &str,
    limits: Limits,
    random: &mut Random,
) -> Option<Learned> {
    let decisions = Decisions::read(episodes, tools, signal);
    let table = Table::new(&decisions, |one| stratum(known, one), limits.again);
    if table.rows.is_empty() {
        return None;
    }
    let list = cover(&table, limits);
    let mut looks = looks(&table, &decisions, known);
    // Which fact is looked at first is drawn.
    if random.below(2) == 1 {
        looks.reverse();
    }
    let looked = looks.first().map(|look| look.fact().to_owned());
    let trials = trials(&table, &decisions, &list, looked.as_deref(), random);
    let searches = searches(&table, &decisions);
    let mut rules: Vec<&Rule> = list.rules.iter().collect();
    rules.sort_by_key(|rule| rule.conditions.len());
    let shown = |rule: &Rule| {
        let named = |number: &u16| table.conditions.get(usize::from(*number)).cloned();
        let deed = table.deeds.get(usize::from(rule.deed)).map_or("", String::as_str);
        let rows = rule.rows(&table).into_iter().filter_map(|row| decisions.all.get(row.decision));
        let seen = rows.filter_map(|one| Some((decisions.episodes.get(one.episode)?.clone(), vec![one.turn])));
        Candidate::new(rule.conditions.iter().filter_map(named).collect(), deed, seen.collect())
    };
    let rules: Vec<Candidate> = rules.into_iter().map(shown).collect();
    // Where two apply alike the later one does: what was counted before what is only tried, and looks before what needs them.
    let rules = trials.into_iter().chain(rules).chain(looks).chain(searches).collect();
    Some(Learned { rules, hypotheses: list.hypotheses, decisions: table.rows.len() })
}
