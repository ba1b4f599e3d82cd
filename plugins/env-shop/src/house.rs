//! The house: which facts a case has, which of them need a look-up, and the hidden rules for closing cases.
//!
//! All of it is drawn from one number, so that no text about one house is true of another.

use crate::desk::Talk;
use clawhost_sdk::Random;

/// The record of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// The order.
    Order,
    /// The customer.
    Customer,
}

/// A fact of a case.
#[derive(Debug)]
pub(crate) struct Fact {
    /// Its name for the policy.
    pub(crate) name: &'static str,
    /// Its possible values.
    pub(crate) values: &'static [&'static str],
    /// Its record.
    pub(crate) record: Record,
}

/// The eight facts of a case.
pub(crate) const FACTS: [Fact; 8] = [
    Fact { name: "tier", values: &["bronze", "silver", "gold"], record: Record::Customer },
    Fact { name: "region", values: &["north", "south", "islands"], record: Record::Customer },
    Fact { name: "paid by", values: &["card", "voucher", "transfer"], record: Record::Order },
    Fact { name: "age", values: &["days", "weeks", "months"], record: Record::Order },
    Fact { name: "item class", values: &["book", "toy", "garment"], record: Record::Order },
    Fact { name: "gift", values: &["yes", "no"], record: Record::Order },
    Fact { name: "damaged", values: &["yes", "no"], record: Record::Order },
    Fact { name: "coupon", values: &["yes", "no"], record: Record::Order },
];

/// The text of a value, by positions of fact and value. In terse talk each value is one word that no other fact has.
pub(crate) fn told((fact, value): &(usize, usize), talk: Talk) -> String {
    let fact = FACTS.get(*fact);
    let value = fact.and_then(|fact| fact.values.get(*value)).copied().unwrap_or("?");
    match (talk, fact) {
        (Talk::Terse, Some(Fact { name, .. })) if ["yes", "no"].contains(&value) => format!("{name}_{value}"),
        _ => value.to_owned(),
    }
}

/// Facts of the customer come first.
const CUSTOMER_FACTS: usize = 2;

/// The tools that close a case.
pub(crate) const RESOLUTIONS: [&str; 5] = ["refund", "replace", "escalate", "deny", "offer_credit"];

/// One value per fact, as positions in [`Fact::values`].
pub(crate) type Facts = [usize; FACTS.len()];

/// One house rule: under these conditions, close the case with this resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Fact and value, as positions; one or two.
    pub(crate) conditions: Vec<(usize, usize)>,
    /// Position in [`RESOLUTIONS`].
    pub(crate) resolution: usize,
}

impl Rule {
    /// Whether it applies to these facts.
    pub(crate) fn holds(&self, facts: &Facts) -> bool {
        self.conditions.iter().all(|(fact, value)| facts.get(*fact) == Some(value))
    }
}

/// Everything that determines a house.
#[derive(Debug, Clone)]
pub(crate) struct House {
    /// The resolution if no rule applies. The handbook states it.
    pub(crate) default: usize,
    /// Four rules on one fact, one on two facts, one exception to the first.
    pub(crate) rules: Vec<Rule>,
    /// Facts that are shown only after a look-up: one of the customer, one of the order.
    pub(crate) hidden: [usize; 2],
}

/// Shuffles (Fisher and Yates).
fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for position in (1..items.len()).rev() {
        items.swap(position, random.below(position as u64 + 1) as usize);
    }
}

impl House {
    /// The house with this number.
    pub(crate) fn new(number: u64) -> Self {
        let mut random = Random::new(number ^ 0x0068_6f75_7365);
        let value = |fact: usize, random: &mut Random| {
            random.below(FACTS.get(fact).map_or(1, |fact| fact.values.len()) as u64) as usize
        };
        let default = random.below(RESOLUTIONS.len() as u64) as usize;
        let other_than = |taken: &[usize], random: &mut Random| {
            let free: Vec<usize> = (0..RESOLUTIONS.len()).filter(|resolution| !taken.contains(resolution)).collect();
            random.choose(&free).copied().unwrap_or(0)
        };
        let hidden_customer = random.below(CUSTOMER_FACTS as u64) as usize;
        let hidden_order = random.between(CUSTOMER_FACTS as i64, FACTS.len() as i64 - 1) as usize;
        let mut open: Vec<usize> =
            (0..FACTS.len()).filter(|fact| ![hidden_customer, hidden_order].contains(fact)).collect();
        shuffle(&mut open, &mut random);
        // The hidden fact of the order decides a rule alone, that of the customer is one of two conditions: both are
        // useless without a look-up.
        let mut rules = Vec::new();
        for fact in open.iter().take(3).copied().chain([hidden_order]) {
            let conditions = vec![(fact, value(fact, &mut random))];
            rules.push(Rule { conditions, resolution: other_than(&[default], &mut random) });
        }
        if let [_, _, _, beside, against, ..] = open[..] {
            let conditions =
                vec![(hidden_customer, value(hidden_customer, &mut random)), (beside, value(beside, &mut random))];
            rules.push(Rule { conditions, resolution: other_than(&[default], &mut random) });
            if let Some(Rule { conditions, resolution }) = rules.first().cloned() {
                let conditions = [conditions, vec![(against, value(against, &mut random))]].concat();
                rules.push(Rule { conditions, resolution: other_than(&[resolution, default], &mut random) });
            }
        }
        Self { default, rules, hidden: [hidden_customer, hidden_order] }
    }

    /// The rule that decides a case: the most specific one that applies. `None`: the handbook's default.
    pub(crate) fn governing(&self, facts: &Facts) -> Option<&Rule> {
        self.rules.iter().filter(|rule| rule.holds(facts)).max_by_key(|rule| rule.conditions.len())
    }

    /// The expected resolution of a case.
    pub(crate) fn expected(&self, facts: &Facts) -> usize {
        self.governing(facts).map_or(self.default, |rule| rule.resolution)
    }

    /// Whether the decision is unambiguous: no two equally specific rules apply.
    fn is_clear(&self, facts: &Facts) -> bool {
        let most = self.governing(facts).map_or(0, |rule| rule.conditions.len());
        self.rules.iter().filter(|rule| rule.conditions.len() == most && rule.holds(facts)).count() <= 1
    }

    /// Facts of a case. First the deciding rule is drawn (the default in 30 of 100, each rule on one fact in 12, each
    /// on two in 11), so that every rule matters; then facts for which it decides.
    pub(crate) fn draw(&self, random: &mut Random) -> Facts {
        /// Tries before any case is accepted; in practice a few are enough.
        const TRIES: usize = 10_000;
        const SHARES: [u64; 7] = [30, 12, 12, 12, 12, 11, 11];
        let mut point = random.below(SHARES.iter().sum());
        let mut wanted = 0;
        for (position, share) in SHARES.iter().enumerate() {
            wanted = position;
            match point.checked_sub(*share) {
                Some(rest) => point = rest,
                None => break,
            }
        }
        let rule = wanted.checked_sub(1).and_then(|position| self.rules.get(position));
        let mut facts = Facts::default();
        for _ in 0..TRIES {
            for (place, fact) in facts.iter_mut().zip(&FACTS) {
                *place = random.below(fact.values.len() as u64) as usize;
            }
            for (fact, value) in rule.iter().flat_map(|rule| &rule.conditions) {
                if let Some(place) = facts.get_mut(*fact) {
                    *place = *value;
                }
            }
            if self.governing(&facts) == rule && self.is_clear(&facts) {
                break;
            }
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_house_has_six_rules_and_two_hidden_facts_that_matter() {
        for number in 0..300 {
            let house = House::new(number);
            let sizes: Vec<_> = house.rules.iter().map(|rule| rule.conditions.len()).collect();
            assert_eq!(sizes, [1, 1, 1, 1, 2, 2], "house {number}");
            assert!(house.rules.iter().all(|rule| rule.resolution != house.default));
            let (simple, exception) = (&house.rules[0], &house.rules[5]);
            assert_eq!(exception.conditions[0], simple.conditions[0], "the exception is one to the first rule");
            assert_ne!(exception.resolution, simple.resolution);
            let [customer, order] = house.hidden;
            assert_eq!(FACTS[customer].record, Record::Customer);
            assert_eq!(FACTS[order].record, Record::Order);
            assert_eq!(house.rules[3].conditions[0].0, order);
            assert_eq!(house.rules[4].conditions[0].0, customer);
        }
    }

    #[test]
    fn houses_differ_so_that_no_text_fits_all() {
        let houses: std::collections::BTreeSet<String> =
            (0..100).map(|number| format!("{:?}", House::new(number).rules)).collect();
        assert!(houses.len() >= 99);
    }

    #[test]
    fn every_rule_decides_its_share_of_cases_unambiguously() {
        for number in 0..20 {
            let house = House::new(number);
            let mut random = Random::new(1);
            let mut counts = [0; 7];
            for _ in 0..2000 {
                let facts = house.draw(&mut random);
                assert!(house.is_clear(&facts), "house {number}: {facts:?}");
                let governing = house.governing(&facts);
                let place = house.rules.iter().position(|rule| Some(rule) == governing).map_or(0, |place| place + 1);
                counts[place] += 1;
            }
            assert!((520..=680).contains(&counts[0]), "house {number}: {counts:?}");
            assert!(counts[1..].iter().all(|count| (160..=300).contains(count)), "house {number}: {counts:?}");
        }
    }
}
