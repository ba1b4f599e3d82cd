//! The handbook's text about the house: its default, or every rule.

use crate::case::Case;
use crate::desk::{self, Talk};
use crate::house::{FACTS, House, RESOLUTIONS, told};
use clawhost_sdk::Random;

/// The content of the handbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handbook {
    /// The default resolution.
    Default,
    /// Every rule, and where to look: the best possible playbook.
    All,
}

/// When a line of a handbook applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum When {
    /// All of these facts have these values, as positions.
    Facts(Vec<(usize, usize)>),
    /// This fact is hidden and was not looked up.
    NotLookedUp(usize),
}

/// A line of a handbook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    when: When,
    tool: &'static str,
}

fn condition(of: &(usize, usize), talk: Talk) -> String {
    format!("{} is {}", FACTS.get(of.0).map_or("?", |fact| fact.name), told(of, talk))
}

impl Line {
    /// Every rule of a house, then where to look for its hidden facts.
    pub(crate) fn all(house: &House) -> Vec<Self> {
        let rules = house.rules.iter().map(|rule| Self {
            when: When::Facts(rule.conditions.clone()),
            tool: RESOLUTIONS.get(rule.resolution).copied().unwrap_or("deny"),
        });
        let looking = house.hidden.iter().zip([desk::LOOK_UP_CUSTOMER, desk::LOOK_UP_ORDER]);
        rules.chain(looking.map(|(fact, tool)| Self { when: When::NotLookedUp(*fact), tool })).collect()
    }

    /// As a lesson.
    pub(crate) fn text(&self, talk: Talk) -> String {
        let when = match &self.when {
            When::Facts(conditions) => {
                conditions.iter().map(|one| condition(one, talk)).collect::<Vec<_>>().join(" and ")
            }
            When::NotLookedUp(fact) => {
                format!("{} is not looked up", FACTS.get(*fact).map_or("?", |fact| fact.name))
            }
        };
        format!("when {when}: {}", desk::call(self.tool, talk))
    }

    /// Rewords the line as a reflector might propose it. Two conditions get a random order. With `narrow`, a single condition gets a second
    /// one: any value of a hidden fact, or the case's value of a visible one, so that the line may still apply.
    pub(crate) fn reword(&mut self, case: &Case, narrow: bool, random: &mut Random) {
        let When::Facts(conditions) = &mut self.when else { return };
        if let ([(known, _)], true) = (conditions.as_slice(), narrow) {
            let others: Vec<usize> = (0..FACTS.len()).filter(|fact| fact != known).collect();
            let Some(fact) = random.choose(&others).copied() else { return };
            let values = FACTS.get(fact).map_or(1, |fact| fact.values.len()) as u64;
            let value = match case.house.hidden.contains(&fact) {
                true => random.below(values) as usize,
                false => case.facts.get(fact).copied().unwrap_or(0),
            };
            conditions.push((fact, value));
        }
        if random.below(2) == 0 {
            conditions.reverse();
        }
    }

    /// Whether nothing that is visible before any look-up contradicts the line.
    pub(crate) fn may_apply(&self, case: &Case) -> bool {
        match &self.when {
            When::NotLookedUp(_) => true,
            When::Facts(conditions) => conditions
                .iter()
                .all(|(fact, value)| case.house.hidden.contains(fact) || case.facts.get(*fact) == Some(value)),
        }
    }

    /// Number of conditions, if the line applies to what is visible of a case.
    fn applies(&self, case: &Case, looked: [bool; 2]) -> Option<usize> {
        let hidden = |fact: &usize| case.house.hidden.iter().zip(looked).any(|(one, seen)| one == fact && !seen);
        match &self.when {
            When::NotLookedUp(fact) => hidden(fact).then_some(1),
            When::Facts(conditions) => {
                let holds = |(fact, value): &(usize, usize)| !hidden(fact) && case.facts.get(*fact) == Some(value);
                conditions.iter().all(holds).then_some(conditions.len())
            }
        }
    }
}

/// The tool that a reader of these lines uses next: that of the most specific line that applies, of equal ones the last, else the default.
/// The built-in rule follower reads lessons in the same way.
pub(crate) fn followed(lines: &[Line], case: &Case, looked: [bool; 2]) -> &'static str {
    let applying = lines.iter().filter_map(|line| Some((line.applies(case, looked)?, line.tool)));
    let default = RESOLUTIONS.get(case.house.default).copied().unwrap_or("deny");
    applying.max_by_key(|(conditions, _)| *conditions).map_or(default, |(_, tool)| tool)
}

impl Handbook {
    /// The system prompt.
    pub(crate) fn text(self, house: &House, talk: Talk) -> String {
        let default = desk::call(RESOLUTIONS.get(house.default).copied().unwrap_or("deny"), talk);
        let mut text = match talk {
            Talk::Terse => format!("always: {default}"),
            Talk::Full => format!(
                "You work at the desk of a shop and close cases with tools. The customer is told, in the tool's message, \
                 which order and which amount it is about. The house has rules of its own. Where you know of none, the \
                 handbook says:\nalways: {default}"
            ),
        };
        if self == Self::All {
            text.push('\n');
            Line::all(house).iter().for_each(|line| text.push_str(&format!("{}\n", line.text(talk))));
        }
        text
    }
}
