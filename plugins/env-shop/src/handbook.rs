//! The handbook's text about the house: its default, or every rule.

use crate::desk;
use crate::house::{FACTS, House, RESOLUTIONS, Rule};

/// The content of the handbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handbook {
    /// The default resolution.
    Default,
    /// Every rule, and where to look: the best possible playbook.
    All,
}

impl Handbook {
    /// The system prompt.
    pub(crate) fn text(self, house: &House) -> String {
        let default = RESOLUTIONS.get(house.default).copied().unwrap_or("deny");
        let mut text = format!(
            "You work at the desk of a shop and close cases with tools. The customer is told, in the tool's message, which \
             order and which amount it is about. The house has rules of its own. Where you know of none, the handbook \
             says:\nalways: {}",
            desk::call(default)
        );
        if self == Self::All {
            text.push('\n');
            text.push_str(&rules(house));
            text.push_str(&looking(house));
        }
        text
    }
}

fn condition((fact, value): &(usize, usize)) -> String {
    let fact = FACTS.get(*fact);
    let value = fact.and_then(|fact| fact.values.get(*value)).copied().unwrap_or("?");
    format!("{} is {value}", fact.map_or("?", |fact| fact.name))
}

/// The house's rules, one per line.
pub(crate) fn rules(house: &House) -> String {
    let line = |rule: &Rule| {
        let conditions: Vec<String> = rule.conditions.iter().map(condition).collect();
        let resolution = RESOLUTIONS.get(rule.resolution).copied().unwrap_or("deny");
        format!("when {}: {}\n", conditions.join(" and "), desk::call(resolution))
    };
    house.rules.iter().map(line).collect()
}

/// Where to look for hidden facts, one rule per line.
pub(crate) fn looking(house: &House) -> String {
    let tools = [desk::LOOK_UP_CUSTOMER, desk::LOOK_UP_ORDER];
    let line = |(fact, tool): (&usize, &str)| {
        let name = FACTS.get(*fact).map_or("?", |fact| fact.name);
        format!("when {name} is not looked up: {}\n", desk::call(tool))
    };
    house.hidden.iter().zip(tools).map(line).collect()
}
