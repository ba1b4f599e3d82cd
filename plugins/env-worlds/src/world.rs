//! A generated world: its facts, tools, rules and wording.

use crate::names::Names;
use clawhost_sdk::Random;

/// Facts of a case that are shown at once.
const SHOWN: usize = 5;
/// Facts of a case that a look-up shows.
const HIDDEN: usize = 2;
/// Tools that close a case.
const CLOSING: usize = 5;

/// A fact of a case.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    /// Its name.
    pub(crate) name: String,
    /// Its two or three values.
    pub(crate) values: Vec<String>,
    /// The tool that shows it. `None`: it is shown at once.
    pub(crate) look: Option<String>,
}

/// Under these conditions this tool is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Fact and value, as positions; one or two.
    pub(crate) conditions: Vec<(usize, usize)>,
    /// Position in [`World::closing`].
    pub(crate) tool: usize,
}

impl Rule {
    fn holds(&self, values: &[usize]) -> bool {
        self.conditions.iter().all(|(fact, value)| values.get(*fact) == Some(value))
    }
}

/// Sentences of a world; `{}` is replaced.
#[derive(Debug, Clone)]
pub(crate) struct Wording {
    /// Begins a case.
    pub(crate) opening: String,
    /// The value of a fact that was not looked up.
    pub(crate) open: &'static str,
    /// Ends a case that was closed with the right tool.
    pub(crate) praise: &'static str,
    /// Ends another one.
    pub(crate) blame: &'static str,
    /// Names the right tool.
    pub(crate) hint: &'static str,
}

/// Everything that determines a world.
#[derive(Debug, Clone)]
pub(crate) struct World {
    /// The facts: those that are shown at once come first.
    pub(crate) facts: Vec<Fact>,
    /// The tools that close a case.
    pub(crate) closing: Vec<String>,
    /// The fact that names the case, and the argument of every tool.
    pub(crate) key: String,
    /// The tool that is right if no rule applies. The policy's prompt names it.
    pub(crate) default: usize,
    /// Two rules on one shown fact, an exception to the first, one rule on each hidden fact.
    pub(crate) rules: Vec<Rule>,
    /// Its sentences.
    pub(crate) wording: Wording,
}

const OPENINGS: [&str; 5] = [
    "A {} has come in.",
    "There is another {} to settle.",
    "Somebody left a {} on the counter.",
    "This {} is yours now.",
    "One more {}, please.",
];
/// All of them are read as "not known yet" where lessons are chosen for a task.
const OPEN: [&str; 5] = ["unknown", "not known", "hidden", "?", "not told"];
const PRAISE: [&str; 4] = ["That was fine.", "All are content.", "Settled.", "Nobody complained."];
const BLAME: [&str; 4] = ["That was not it.", "There were complaints.", "It came back the next day.", "Wrong."];
const HINTS: [&str; 5] = [
    "Better: {} next time.",
    "They had hoped for {} here.",
    "The old clerk would have used {}.",
    "Only {} would have helped.",
    "A note in the margin reads {}.",
];

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for position in (1..items.len()).rev() {
        items.swap(position, random.below(position as u64 + 1) as usize);
    }
}

impl World {
    /// The world with this number.
    pub(crate) fn new(number: u64) -> Self {
        let mut random = Random::new(number ^ 0x776f_726c_6473);
        let mut names = Names::new(random.next_u64());
        let mut facts = Vec::new();
        for position in 0..SHOWN + HIDDEN {
            let count = random.between(2, 3) as usize;
            let look = (position >= SHOWN).then(|| names.next());
            facts.push(Fact { name: names.next(), values: names.several(count), look });
        }
        let closing = names.several(CLOSING);
        let key = names.next();
        let default = random.below(CLOSING as u64) as usize;
        let rules = rules(&facts, default, &mut random);
        let mut choose = |texts: &[&'static str]| random.choose(texts).copied().unwrap_or("");
        let wording = Wording {
            opening: choose(&OPENINGS).replace("{}", &names.next()),
            open: choose(&OPEN),
            praise: choose(&PRAISE),
            blame: choose(&BLAME),
            hint: choose(&HINTS),
        };
        Self { facts, closing, key, default, rules, wording }
    }

    /// The rule that decides: the most specific one that applies. `None`: the default.
    pub(crate) fn governing(&self, values: &[usize]) -> Option<&Rule> {
        self.rules.iter().filter(|rule| rule.holds(values)).max_by_key(|rule| rule.conditions.len())
    }

    /// The right tool.
    pub(crate) fn right(&self, values: &[usize]) -> &str {
        self.tool(self.governing(values).map_or(self.default, |rule| rule.tool))
    }

    /// The name of a tool that closes a case.
    pub(crate) fn tool(&self, position: usize) -> &str {
        self.closing.get(position).map_or("", String::as_str)
    }

    /// Whether no two equally specific rules apply.
    fn is_clear(&self, values: &[usize]) -> bool {
        let most = self.governing(values).map_or(0, |rule| rule.conditions.len());
        self.rules.iter().filter(|rule| rule.conditions.len() == most && rule.holds(values)).count() <= 1
    }

    /// Values of a case. First the deciding rule is drawn (each, and the default, equally often), so that every rule matters; then values for
    /// which it decides.
    pub(crate) fn draw(&self, random: &mut Random) -> Vec<usize> {
        /// Tries before any values are accepted; in practice a few are enough.
        const TRIES: usize = 10_000;
        let wanted = random.below(self.rules.len() as u64 + 1).checked_sub(1);
        let rule = wanted.and_then(|position| self.rules.get(position as usize));
        let mut values = Vec::new();
        for _ in 0..TRIES {
            values = self.facts.iter().map(|fact| random.below(fact.values.len() as u64) as usize).collect();
            for (fact, value) in rule.iter().flat_map(|rule| &rule.conditions) {
                if let Some(place) = values.get_mut(*fact) {
                    *place = *value;
                }
            }
            if self.governing(&values) == rule && self.is_clear(&values) {
                break;
            }
        }
        values
    }

    /// The call of a tool, as a template.
    pub(crate) fn call(&self, tool: &str) -> String {
        format!(r#"call {tool} {{"{key}": "<{key}>"}}"#, key = self.key)
    }

    /// What is known without a lesson: the default.
    pub(crate) fn habit(&self) -> String {
        format!("always: {}", self.call(self.tool(self.default)))
    }

    /// All rules, and where to look: the best possible playbook.
    pub(crate) fn all(&self) -> String {
        let condition = |(fact, value): &(usize, usize)| {
            let fact = self.facts.get(*fact);
            let value = fact.and_then(|fact| fact.values.get(*value)).map_or("?", String::as_str);
            format!("{} is {value}", fact.map_or("?", |fact| fact.name.as_str()))
        };
        let rule = |rule: &Rule| {
            let conditions: Vec<String> = rule.conditions.iter().map(condition).collect();
            format!("when {}: {}\n", conditions.join(" and "), self.call(self.tool(rule.tool)))
        };
        let look = |fact: &Fact| {
            Some(format!("when {} is {}: {}\n", fact.name, self.wording.open, self.call(fact.look.as_deref()?)))
        };
        self.rules.iter().map(rule).chain(self.facts.iter().filter_map(look)).collect()
    }
}

/// Five rules on the facts of a world.
fn rules(facts: &[Fact], default: usize, random: &mut Random) -> Vec<Rule> {
    let value = |fact: usize, random: &mut Random| {
        (fact, random.below(facts.get(fact).map_or(1, |fact| fact.values.len()) as u64) as usize)
    };
    let mut shown: Vec<usize> = (0..SHOWN).collect();
    shuffle(&mut shown, random);
    let [first, second, against, beside, ..] = shown[..] else { return Vec::new() };
    let simple = value(first, random);
    let conditions = [
        vec![simple],
        vec![value(second, random)],
        vec![simple, value(against, random)],
        vec![value(SHOWN, random)],
        vec![value(SHOWN + 1, random), value(beside, random)],
    ];
    let mut rules: Vec<Rule> = Vec::new();
    for conditions in conditions {
        // The exception needs another tool than its rule.
        let above = rules.first().filter(|rule| conditions.len() > 1 && conditions.first() == rule.conditions.first());
        let above = above.map(|rule| rule.tool);
        let free: Vec<usize> = (0..CLOSING).filter(|tool| *tool != default && Some(*tool) != above).collect();
        rules.push(Rule { conditions, tool: random.choose(&free).copied().unwrap_or(default) });
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_world_has_five_rules_of_which_two_need_a_look_up() {
        for number in 0..300 {
            let world = World::new(number);
            let sizes: Vec<_> = world.rules.iter().map(|rule| rule.conditions.len()).collect();
            assert_eq!(sizes, [1, 1, 2, 1, 2], "world {number}");
            assert!(world.rules.iter().all(|rule| rule.tool != world.default));
            assert_ne!(world.rules[2].tool, world.rules[0].tool, "an exception to the first");
            assert!(world.rules[3..].iter().all(|rule| world.facts[rule.conditions[0].0].look.is_some()));
        }
    }

    #[test]
    fn every_rule_decides_its_share_without_doubt() {
        for number in 0..20 {
            let world = World::new(number);
            let mut random = Random::new(1);
            let mut counts = [0; 6];
            for _ in 0..1800 {
                let values = world.draw(&mut random);
                assert!(world.is_clear(&values), "world {number}: {values:?}");
                let governing = world.governing(&values);
                counts[world.rules.iter().position(|rule| Some(rule) == governing).map_or(0, |place| place + 1)] += 1;
            }
            assert!(counts.iter().all(|count| (230..=370).contains(count)), "world {number}: {counts:?}");
        }
    }

    #[test]
    fn worlds_share_no_names() {
        let names = |number| -> BTreeSet<String> {
            let world = World::new(number);
            world.facts.into_iter().map(|fact| fact.name).chain(world.closing).collect()
        };
        let shared = (0..50).map(|number| names(number).intersection(&names(number + 1)).count()).sum::<usize>();
        assert!(shared <= 2, "{shared}");
        let texts: BTreeSet<String> = (0..100).map(|number| World::new(number).all()).collect();
        assert_eq!(texts.len(), 100);
    }
}
