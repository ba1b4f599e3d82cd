//! Rules from rewards: a list of rules such that as many decisions as possible would have been as good as possible.
//!
//! A rule is compared with what is done otherwise: the mean worth of the decisions with its action where its conditions held, against that of
//! the decisions of the list so far (at first: of the policy by itself) in the same place. Rules are added one by one, the one that gains most first; a more specific rule goes
//! before a more general one.
//!
//! Of thousands of rules some look good by chance. So a rule is *chosen* on one half of the tasks and *counted* on the other half, the halves
//! taking turns: it enters the list only if the lower bound of its gain there is above zero. The bound is that of a normal posterior whose
//! prior is one decision as good as the policy's own ones.

use crate::learning::Limits;
use crate::table::{Row, Table};

/// Standard deviations below the mean on the half that chooses. Small: what is chosen is counted again.
const CHOOSING: f64 = 0.25;
/// Standard deviations below the mean on the half that counts: an error of 31 % for a single rule without an effect. The list as a
/// whole is judged by the gate; a rule that is missed costs more than one that does nothing.
const COUNTING: f64 = 0.5;
/// The same if counting found nothing before: an error of 40 %, which is left to the trials.
const COUNTING_AGAIN: f64 = 0.25;
/// Fewest decisions with the action on the half that chooses.
const LEAST_TRIED: usize = 2;
/// Least mean worth of a rule's decisions, if each has a worth of its own.
const LEAST_WORTH: f64 = 0.5;
/// Decisions, as good as the policy's own ones, that the prior stands for.
const PRIOR: f64 = 1.0;
/// Most times that a list grows again after an exchange of rules.
const ROUNDS: usize = 3;
/// Most rules with which one is compared for an exchange.
const MOST_EXCHANGES: usize = 32;
/// Most rules that are compared; those with more decisions behind them come first.
const MOST_HYPOTHESES: usize = 2048;

/// A rule that is counted.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    /// Its conditions: one or two, as numbers of the table.
    pub(crate) conditions: Vec<u16>,
    /// Its action.
    pub(crate) deed: u16,
    /// The rows of each half in which its conditions hold.
    covers: [Vec<u32>; 2],
    /// Mean worth of its action where it decides.
    pub(crate) worth: f64,
}

impl Rule {
    /// The decisions that speak for it: its conditions held, and its action was right.
    pub(crate) fn rows<'a>(&self, table: &'a Table) -> Vec<&'a Row> {
        let rows = self.covers.iter().flatten().filter_map(|number| table.rows.get(*number as usize));
        rows.filter(|row| table.worth(row, self.deed).is_some_and(|worth| worth > 0.0)).collect()
    }
}

/// Where a rule stands among others with as many conditions.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Before them: they decide where both apply.
    First,
    /// After them: it decides.
    Last,
}

/// The mean reward of some decisions. Decisions that share one reward count as one observation: the reward is of all of them together, and
/// counting it for each would make the interval too narrow.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sample {
    /// Number of observations.
    pub(crate) count: f64,
    sum: f64,
    squares: f64,
    last: Option<usize>,
}

impl Sample {
    /// Adds a decision. Decisions of one observation come one after another.
    pub(crate) fn add(&mut self, worth: f64, observation: usize) {
        if self.last.replace(observation) == Some(observation) {
            return;
        }
        self.count += 1.0;
        self.sum += worth;
        self.squares += worth * worth;
    }

    /// The mean, together with a prior of this mean and weight.
    pub(crate) fn mean_with(&self, mean: f64, weight: f64) -> f64 {
        (self.sum + mean * weight) / (self.count + weight)
    }

    /// Mean and squared standard error of the posterior. The prior has this mean, and the variance of a coin with it.
    pub(crate) fn posterior(&self, mean: f64) -> (f64, f64) {
        let count = self.count + PRIOR;
        let posterior = (self.sum + PRIOR * mean) / count;
        // The mean square of a coin is its mean.
        let variance = ((self.squares + PRIOR * mean) / count - posterior * posterior).max(0.0);
        (posterior, variance / count)
    }
}

/// The decisions of a rule that the playbook's rules divide alike. Those that a rule of the playbook decided are no random sample of all: so
/// each stratum is counted by itself, as one would weight decisions by their propensities.
#[derive(Debug, Default, Clone, Copy)]
struct Stratum {
    rows: f64,
    with: Sample,
    without: Sample,
}

/// The list so far.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// Its rules, in order: of those with equally many conditions the last one that applies decides.
    pub(crate) rules: Vec<Rule>,
    /// The number of rules that were compared.
    pub(crate) hypotheses: usize,
    /// Per row, the rule that decides.
    decides: Vec<Option<usize>>,
}

/// The gain of a rule on some rows.
struct Gain {
    /// Decisions with its action.
    tried: usize,
    /// Lower bound of the gain, summed over the rows where it decides.
    low: f64,
    /// Mean worth of its action.
    worth: f64,
}

impl List {
    /// How good the list's decision is in a row. `None`: nothing says so.
    fn worth(&self, table: &Table, number: u32, row: &Row) -> Option<f64> {
        match self.decides.get(number as usize).copied().flatten().and_then(|rule| self.rules.get(rule)) {
            Some(rule) => Some(table.worth(row, rule.deed).unwrap_or(rule.worth)),
            None => table.own_worth(row),
        }
    }

    fn specific(&self, number: u32) -> usize {
        let rule = self.decides.get(number as usize).copied().flatten().and_then(|rule| self.rules.get(rule));
        rule.map_or(0, |rule| rule.conditions.len())
    }

    /// Whether a rule with this many conditions would decide in a row.
    fn is_taken(&self, size: usize, place: Place, number: u32) -> bool {
        match place {
            Place::Last => size >= self.specific(number),
            Place::First => size > self.specific(number),
        }
    }

    fn gain(&self, table: &Table, rule: &Rule, place: Place, half: usize, deviations: f64) -> Gain {
        let mut strata: Vec<Stratum> = Vec::new();
        for number in rule.covers.get(half).into_iter().flatten() {
            let Some(row) = table.rows.get(*number as usize) else { continue };
            if !self.is_taken(rule.conditions.len(), place, *number) {
                continue;
            }
            let place = usize::from(row.stratum);
            if strata.len() <= place {
                strata.resize(place + 1, Stratum::default());
            }
            let Some(stratum) = strata.get_mut(place) else { continue };
            stratum.rows += 1.0;
            if let Some(worth) = table.worth(row, rule.deed) {
                stratum.with.add(worth, row.observation);
            }
            if let Some(worth) = self.worth(table, *number, row) {
                stratum.without.add(worth, row.observation);
            }
        }
        let (mut tried, mut rows, mut total, mut gain, mut variance) = (0, 0.0, 0.0, 0.0, 0.0);
        for stratum in strata.into_iter().filter(|stratum| stratum.rows > 0.0) {
            let (worth, error) = stratum.with.posterior(table.base);
            let (now, uncertain) = stratum.without.posterior(table.base);
            tried += stratum.with.count as usize;
            rows += stratum.rows;
            total += stratum.rows * worth;
            gain += stratum.rows * (worth - now);
            variance += stratum.rows * stratum.rows * (error + uncertain);
        }
        Gain { tried, low: gain - deviations * variance.sqrt(), worth: total / f64::max(rows, 1.0) }
    }

    /// The better place of a rule on one half, and its gain there.
    fn best_place(&self, table: &Table, rule: &Rule, half: usize, deviations: f64) -> (Place, Gain) {
        let last = self.gain(table, rule, Place::Last, half, deviations);
        if self.rules.iter().all(|other| other.conditions.len() != rule.conditions.len()) {
            return (Place::Last, last);
        }
        let first = self.gain(table, rule, Place::First, half, deviations);
        if first.low > last.low { (Place::First, first) } else { (Place::Last, last) }
    }

    fn add(&mut self, table: &Table, rule: Rule, place: Place) {
        match place {
            Place::First => self.rules.insert(0, rule),
            Place::Last => self.rules.push(rule),
        }
        self.settle(table);
    }

    fn replace(&mut self, table: &Table, position: usize, rule: Rule) {
        self.rules.iter_mut().skip(position).take(1).for_each(|old| *old = rule.clone());
        self.settle(table);
    }

    /// Total worth of the list's decisions in each half, as far as something says how good they are.
    fn value(&self, table: &Table) -> [f64; 2] {
        let mut value = [0.0; 2];
        for (number, row) in (0..).zip(&table.rows) {
            if let Some(half) = value.get_mut(row.half) {
                *half += self.worth(table, number, row).unwrap_or(0.0);
            }
        }
        value
    }

    /// Finds out which rule decides where, and how good it is there.
    fn settle(&mut self, table: &Table) {
        self.decides = vec![None; table.rows.len()];
        for (position, rule) in self.rules.iter().enumerate() {
            for number in rule.covers.iter().flatten() {
                let Some(now) = self.decides.get_mut(*number as usize) else { continue };
                let specific = now.and_then(|now| self.rules.get(now)).map_or(0, |now| now.conditions.len());
                if rule.conditions.len() >= specific {
                    *now = Some(position);
                }
            }
        }
        // What a rule is worth where it decides.
        let mut samples = vec![Sample::default(); self.rules.len()];
        for (row, decides) in table.rows.iter().zip(&self.decides) {
            let Some(position) = *decides else { continue };
            if let Some(worth) = self.rules.get(position).and_then(|rule| table.worth(row, rule.deed))
                && let Some(sample) = samples.get_mut(position)
            {
                sample.add(worth, row.observation);
            }
        }
        for (rule, sample) in self.rules.iter_mut().zip(samples) {
            rule.worth = sample.posterior(table.base).0;
        }
    }

    /// How good the list is where these conditions hold, or only where one of its rules decides there: mean worth, and number of decisions.
    /// `None`: nothing says so.
    pub(crate) fn worth_where(&self, table: &Table, conditions: &[u16], is_ruled: bool) -> Option<(f64, usize)> {
        let mut sample = Sample::default();
        for number in table.covered(conditions) {
            if is_ruled && self.specific(number) == 0 {
                continue;
            }
            let Some(row) = table.rows.get(number as usize) else { continue };
            if let Some(worth) = self.worth(table, number, row) {
                sample.add(worth, row.observation);
            }
        }
        (sample.count > 0.0).then(|| (sample.sum / sample.count, sample.count as usize))
    }
}

/// All rules with enough decisions behind them.
fn hypotheses(table: &Table, facts: usize) -> Vec<Rule> {
    let count = table.conditions.len() as u16;
    let fact = |condition: u16| table.conditions.get(usize::from(condition)).map(|condition| &condition.fact);
    let singles = (0..count).map(|one| vec![one]);
    let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |other| vec![one, other]));
    let pairs = pairs.filter(|pair| {
        facts >= 2 && fact(pair.first().copied().unwrap_or(0)) != fact(pair.last().copied().unwrap_or(0))
    });
    let mut found = Vec::new();
    for conditions in singles.chain(pairs) {
        let covered = table.covered(&conditions);
        let mut samples = vec![Sample::default(); table.deeds.len()];
        for row in covered.iter().filter_map(|number| table.rows.get(*number as usize)) {
            let mut see = |deed: u16, worth: f64| {
                if let Some(sample) = samples.get_mut(usize::from(deed)) {
                    sample.add(worth, row.observation);
                }
            };
            see(row.deed, row.worth);
            row.hinted.into_iter().for_each(|hinted| see(hinted, 1.0));
        }
        let half = |number: &u32| table.rows.get(*number as usize).map_or(0, |row| row.half);
        let (second, first): (Vec<u32>, Vec<u32>) = covered.into_iter().partition(|number| half(number) == 1);
        let covers = [first, second];
        for (deed, sample) in (0..).zip(samples) {
            if sample.count as usize >= LEAST_TRIED && sample.sum > 0.0 {
                let rule = Rule { conditions: conditions.clone(), deed, covers: covers.clone(), worth: 0.0 };
                found.push((sample.sum, rule));
            }
        }
    }
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.truncate(MOST_HYPOTHESES);
    found.into_iter().map(|(_, rule)| rule).collect()
}

/// The rule that gains most on one half, of those that the other half confirms, and its place.
fn best<'a>(table: &Table, all: &'a [Rule], list: &List, (half, counting): (usize, f64)) -> Option<(&'a Rule, Place)> {
    let mut proposed: Vec<(f64, &Rule, Place)> = Vec::new();
    for rule in all {
        let (place, gain) = list.best_place(table, rule, half, CHOOSING);
        if gain.tried >= LEAST_TRIED && gain.low > 0.0 {
            proposed.push((gain.low, rule, place));
        }
    }
    // Of equal gains the more general rule, then the one with more decisions behind it.
    proposed.sort_by(|(low, one, _), (than, other, _)| {
        than.total_cmp(low).then(one.conditions.len().cmp(&other.conditions.len()))
    });
    let is_confirmed = |(_, rule, place): &(f64, &Rule, Place)| {
        let counted = list.gain(table, rule, *place, 1 - half, counting);
        // A rule that is wrong more often than right would end the search for a better one.
        let is_good = !table.is_direct || counted.worth >= LEAST_WORTH;
        counted.tried > 0 && counted.low > 0.0 && is_good
    };
    proposed.into_iter().find(is_confirmed).map(|(_, rule, place)| (rule, place))
}

/// Adds rules to a list until neither half proposes one that the other confirms.
fn grow(table: &Table, all: &[Rule], list: &mut List, (most, counting): (usize, f64)) {
    let mut half = 0;
    // Turns in a row in which nothing was added.
    let mut idle = 0;
    while list.rules.len() < most && idle < 2 {
        match best(table, all, list, (half, counting)) {
            Some((rule, place)) => {
                list.add(table, rule.clone(), place);
                idle = 0;
            }
            None => idle += 1,
        }
        half = 1 - half;
    }
}

/// Replaces rules by others with the same action that make more decisions right in both halves together, and no fewer in either: what was
/// best before the rules beside it were known need not be best beside them. Returns whether there was one.
fn exchange(table: &Table, all: &[Rule], list: &mut List) -> bool {
    let mut has_changed = false;
    for position in 0..list.rules.len() {
        let Some(old) = list.rules.get(position).cloned() else { continue };
        let mut best = (list.value(table), old.clone());
        let others = all.iter().filter(|rule| rule.deed == old.deed && rule.conditions != old.conditions);
        for rule in others.take(MOST_EXCHANGES) {
            list.replace(table, position, rule.clone());
            let [first, second] = list.value(table);
            let ([one, other], _) = &best;
            if first >= *one && second >= *other && first + second > one + other {
                best = ([first, second], rule.clone());
                has_changed = true;
            }
        }
        list.replace(table, position, best.1);
    }
    has_changed
}

/// The rules that make these decisions best, within these limits.
pub(crate) fn cover(table: &Table, Limits { facts, most, again }: Limits) -> List {
    let counting = if again == 0 { COUNTING } else { COUNTING_AGAIN };
    let all = hypotheses(table, facts);
    let mut list = List { hypotheses: all.len(), ..List::default() };
    for _ in 0..ROUNDS {
        grow(table, &all, &mut list, (most, counting));
        // Without hints, too little is known of what other rules would have done.
        if !table.has_hints || !exchange(table, &all, &mut list) {
            break;
        }
    }
    list
}
