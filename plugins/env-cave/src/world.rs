//! The world: which action opens the way, by what is seen in a chamber.
//!
//! All of it is drawn from one number, so that no text about one world is true of another.

use clawhost_sdk::Random;
use serde::{Deserialize, Serialize};

/// Something to see in a chamber.
#[derive(Debug)]
pub(crate) struct Fact {
    /// Its name for the policy.
    pub(crate) name: &'static str,
    /// Its possible values.
    pub(crate) values: &'static [&'static str],
    /// The action that shows it. `None`: it is seen at once.
    pub(crate) shown_by: Option<&'static str>,
}

/// The facts of a chamber.
pub(crate) const FACTS: [Fact; 6] = [
    Fact { name: "door", values: &["iron", "oak", "stone"], shown_by: None },
    Fact { name: "light", values: &["dark", "dim", "bright"], shown_by: None },
    Fact { name: "floor", values: &["wet", "sandy", "mossy"], shown_by: None },
    Fact { name: "sound", values: &["humming", "dripping", "silence"], shown_by: None },
    Fact { name: "rune", values: &["crescent", "star", "wave"], shown_by: Some("light the torch") },
    Fact { name: "draught", values: &["warm", "cold", "still"], shown_by: Some("wet a finger") },
];

/// The facts that are seen at once come first.
const SEEN: usize = 4;

/// The actions that may open the way.
pub(crate) const ACTIONS: [&str; 6] = ["push", "pull", "knock", "whistle", "wait", "kneel"];

/// One value per fact, as positions in [`Fact::values`].
pub(crate) type Facts = [usize; FACTS.len()];

/// Under these conditions this action opens the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Fact and value, as positions; one or two.
    pub(crate) conditions: Vec<(usize, usize)>,
    /// Position in [`ACTIONS`].
    pub(crate) action: usize,
}

impl Rule {
    fn holds(&self, facts: &Facts) -> bool {
        self.conditions.iter().all(|(fact, value)| facts.get(*fact) == Some(value))
    }
}

/// The dynamics of a world.
#[derive(Debug, Clone)]
pub(crate) struct World {
    /// What opens the way if no rule applies.
    pub(crate) default: usize,
    /// Two rules on one fact that is seen, one exception to the first of them, one rule on each fact that must be shown.
    pub(crate) rules: Vec<Rule>,
}

/// A chamber.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Chamber {
    /// What is in it.
    pub(crate) facts: Facts,
    /// The position of the action that opens the way.
    pub(crate) opens: usize,
}

/// Shuffles (Fisher and Yates).
fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for position in (1..items.len()).rev() {
        items.swap(position, random.below(position as u64 + 1) as usize);
    }
}

impl World {
    /// The world with this number.
    pub(crate) fn new(number: u64) -> Self {
        let mut random = Random::new(number ^ 0x0063_6176_6573);
        let value = |fact: usize, random: &mut Random| {
            (fact, random.below(FACTS.get(fact).map_or(1, |fact| fact.values.len()) as u64) as usize)
        };
        let other_than = |taken: &[usize], random: &mut Random| {
            let free: Vec<usize> = (0..ACTIONS.len()).filter(|action| !taken.contains(action)).collect();
            random.choose(&free).copied().unwrap_or(0)
        };
        let default = random.below(ACTIONS.len() as u64) as usize;
        let mut seen: Vec<usize> = (0..SEEN).collect();
        shuffle(&mut seen, &mut random);
        let mut rules = Vec::new();
        let mut rule = |conditions: Vec<(usize, usize)>, taken: &[usize], random: &mut Random| {
            let action = other_than(taken, random);
            rules.push(Rule { conditions, action });
            action
        };
        if let [first, second, against, beside] = seen[..] {
            let simple = value(first, &mut random);
            let action = rule(vec![simple], &[default], &mut random);
            let conditions = vec![value(second, &mut random)];
            rule(conditions, &[default], &mut random);
            let conditions = vec![simple, value(against, &mut random)];
            rule(conditions, &[default, action], &mut random);
            let conditions = vec![value(SEEN, &mut random)];
            rule(conditions, &[default], &mut random);
            let conditions = vec![value(SEEN + 1, &mut random), value(beside, &mut random)];
            rule(conditions, &[default], &mut random);
        }
        Self { default, rules }
    }

    /// The rule that decides: the most specific one that applies. `None`: the default.
    fn governing(&self, facts: &Facts) -> Option<&Rule> {
        self.rules.iter().filter(|rule| rule.holds(facts)).max_by_key(|rule| rule.conditions.len())
    }

    /// The action that opens the way.
    pub(crate) fn opens(&self, facts: &Facts) -> usize {
        self.governing(facts).map_or(self.default, |rule| rule.action)
    }

    /// Whether no two equally specific rules apply.
    fn is_clear(&self, facts: &Facts) -> bool {
        let most = self.governing(facts).map_or(0, |rule| rule.conditions.len());
        self.rules.iter().filter(|rule| rule.conditions.len() == most && rule.holds(facts)).count() <= 1
    }

    /// A chamber. First the deciding rule is drawn (each, and the default, equally often), so that every rule matters; then
    /// facts for which it decides.
    pub(crate) fn draw(&self, random: &mut Random) -> Chamber {
        /// Tries before any chamber is accepted; in practice a few are enough.
        const TRIES: usize = 10_000;
        let wanted = random.below(self.rules.len() as u64 + 1).checked_sub(1);
        let rule = wanted.and_then(|position| self.rules.get(position as usize));
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
        Chamber { facts, opens: self.opens(&facts) }
    }

    /// Everything that can be known, one rule per line: the best possible playbook. Where two apply alike the later one does, so looking
    /// comes last.
    pub(crate) fn all(&self) -> String {
        let condition = |(fact, value): &(usize, usize)| {
            let fact = FACTS.get(*fact);
            let value = fact.and_then(|fact| fact.values.get(*value)).copied().unwrap_or("?");
            format!("{} is {value}", fact.map_or("?", |fact| fact.name))
        };
        let action = |action: usize| ACTIONS.get(action).copied().unwrap_or("wait");
        let rule = |rule: &Rule| {
            let conditions: Vec<String> = rule.conditions.iter().map(condition).collect();
            format!("when {}: answer {}\n", conditions.join(" and "), action(rule.action))
        };
        // In a chamber, and not before the cave: there the light is not seen yet.
        let values = FACTS.get(1).map_or(&[][..], |light| light.values);
        let default = values.iter().map(|value| format!("when light is {value}: answer {}\n", action(self.default)));
        let looks = FACTS
            .iter()
            .filter_map(|fact| Some(format!("when {} is {UNSEEN}: answer {}\n", fact.name, fact.shown_by?)));
        default.chain(self.rules.iter().map(rule)).chain(looks).collect()
    }
}

/// The value of a fact that an action would show.
pub(crate) const UNSEEN: &str = "not seen";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_has_five_rules_of_which_two_need_a_look() {
        for number in 0..300 {
            let world = World::new(number);
            let sizes: Vec<_> = world.rules.iter().map(|rule| rule.conditions.len()).collect();
            assert_eq!(sizes, [1, 1, 2, 1, 2], "world {number}");
            assert!(world.rules.iter().all(|rule| rule.action != world.default));
            assert_eq!(world.rules[2].conditions[0], world.rules[0].conditions[0], "an exception to the first");
            assert_ne!(world.rules[2].action, world.rules[0].action);
            assert!(world.rules[3..].iter().all(|rule| FACTS[rule.conditions[0].0].shown_by.is_some()));
        }
    }

    #[test]
    fn every_rule_decides_its_share_without_doubt() {
        for number in 0..20 {
            let world = World::new(number);
            let mut random = Random::new(1);
            let mut counts = [0; 6];
            for _ in 0..1800 {
                let chamber = world.draw(&mut random);
                assert!(world.is_clear(&chamber.facts), "world {number}: {chamber:?}");
                let governing = world.governing(&chamber.facts);
                counts[world.rules.iter().position(|rule| Some(rule) == governing).map_or(0, |place| place + 1)] += 1;
            }
            assert!(counts.iter().all(|count| (230..=370).contains(count)), "world {number}: {counts:?}");
        }
    }

    #[test]
    fn worlds_differ_so_that_no_text_fits_all() {
        let worlds: std::collections::BTreeSet<String> = (0..100).map(|number| World::new(number).all()).collect();
        assert!(worlds.len() >= 99);
    }
}
