//! The grammar of facts and rules in playbooks.
//!
//! A *fact* is a line `NAME: VALUE`; the last line with a name counts. A *rule* is a line `when NAME is VALUE and NAME is
//! VALUE: ACTION`, or `always: ACTION`. Names and values are case-insensitive. Any other text is prose, without conditions.

use std::collections::BTreeMap;

/// `NAME is VALUE`, both in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    /// The fact's name.
    pub fact: String,
    /// The required value.
    pub value: String,
}

/// A rule: conditions and an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule<'a> {
    /// The conditions, all of which must hold; if empty, the rule always applies.
    pub conditions: Vec<Condition>,
    /// The action.
    pub action: &'a str,
}

/// Parses conditions joined by `and`; `None` for prose.
pub fn conditions(text: &str) -> Option<Vec<Condition>> {
    let text = text.trim().to_lowercase();
    let condition = |part: &str| {
        let (fact, value) = part.split_once(" is ")?;
        Some(Condition { fact: fact.trim().to_owned(), value: value.trim().to_owned() })
    };
    text.split(" and ").map(condition).collect()
}

/// Parses a line as a rule; `None` for other lines. A leading `- ` is ignored.
pub fn rule(line: &str) -> Option<Rule<'_>> {
    let line = line.trim().trim_start_matches("- ");
    let (head, action) = line.split_once(": ")?;
    let conditions = if head.eq_ignore_ascii_case("always") {
        Vec::new()
    } else {
        let when = head.get(..5).filter(|start| start.eq_ignore_ascii_case("when "))?;
        conditions(head.get(when.len()..)?)?
    };
    Some(Rule { conditions, action: action.trim() })
}

/// Known facts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts(BTreeMap<String, String>);

impl Facts {
    /// Adds the facts of a text; later values replace earlier ones.
    pub fn read(&mut self, text: &str) {
        for line in text.lines().filter(|line| rule(line).is_none()) {
            if let Some((fact, value)) = line.trim().trim_start_matches("- ").split_once(": ") {
                self.0.insert(fact.trim().to_lowercase(), value.trim().to_owned());
            }
        }
    }

    /// All facts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(fact, value)| (fact.as_str(), value.as_str()))
    }

    /// The value of a fact, by its name in lower case.
    pub fn get(&self, fact: &str) -> Option<&str> {
        self.0.get(fact).map(String::as_str)
    }

    /// Whether a condition holds.
    pub fn hold(&self, condition: &Condition) -> bool {
        self.get(&condition.fact).is_some_and(|known| known.to_lowercase() == condition.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Option<(&[(&str, &str)], &str)>) {
        let got = rule(line);
        let got = got.as_ref().map(|rule| {
            let conditions: Vec<_> = rule.conditions.iter().map(|c| (c.fact.as_str(), c.value.as_str())).collect();
            (conditions, rule.action)
        });
        assert_eq!(got, expect.map(|(conditions, action)| (conditions.to_vec(), action)), "{line}");
    }

    #[test]
    fn rules_parse_from_lines() {
        check("when Tier is Gold: refund", Some((&[("tier", "gold")], "refund")));
        check("- WHEN paid by is card and age is days: wait", Some((&[("paid by", "card"), ("age", "days")], "wait")));
        check("always: smile", Some((&[], "smile")));
        check("when in doubt: ask", None);
        check("tier: gold", None);
        check("wér: x", None);
    }

    #[test]
    fn the_last_value_of_a_fact_counts() {
        let mut facts = Facts::default();
        facts.read("Tier: gold\nwhen tier is silver: wait");
        let tier = |value: &str| Condition { fact: "tier".into(), value: value.into() };
        assert!(facts.hold(&tier("gold")) && !facts.hold(&tier("silver")));
        facts.read("- tier: Silver");
        assert!(facts.hold(&tier("silver")));
        assert!(!facts.hold(&Condition { fact: "age".into(), value: "days".into() }));
    }
}
