//! The plain grammar in which facts and rules are written, for whoever reads or writes playbooks.
//!
//! A *fact* is a line `NAME: VALUE`; of several lines with one name the last counts. A *rule* is a line
//! `when NAME is VALUE and NAME is VALUE: WHAT TO DO`, or `always: WHAT TO DO`. Case does not matter in names and values. Any
//! other text is prose: it is read by models, and has no conditions.

use std::collections::BTreeMap;

/// `NAME is VALUE`, both in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    /// The fact's name.
    pub fact: String,
    /// What it must be.
    pub value: String,
}

/// `when ...: what to do`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule<'a> {
    /// All of them must hold; none: it always applies.
    pub conditions: Vec<Condition>,
    /// What to do.
    pub action: &'a str,
}

/// Conditions joined by `and`. None: it is prose.
pub fn conditions(text: &str) -> Option<Vec<Condition>> {
    let text = text.trim().to_lowercase();
    let condition = |part: &str| {
        let (fact, value) = part.split_once(" is ")?;
        Some(Condition { fact: fact.trim().to_owned(), value: value.trim().to_owned() })
    };
    text.split(" and ").map(condition).collect()
}

/// One line as a rule, if it is one. A leading `- ` does not matter.
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

/// What is known of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts(BTreeMap<String, String>);

impl Facts {
    /// Reads the facts of another text; later ones count.
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
    fn rules_are_lines_with_conditions() {
        check("when Tier is Gold: refund", Some((&[("tier", "gold")], "refund")));
        check("- WHEN paid by is card and age is days: wait", Some((&[("paid by", "card"), ("age", "days")], "wait")));
        check("always: smile", Some((&[], "smile")));
        check("when in doubt: ask", None);
        check("tier: gold", None);
        check("wér: x", None);
    }

    #[test]
    fn of_several_lines_about_one_fact_the_last_counts() {
        let mut facts = Facts::default();
        facts.read("Tier: gold\nwhen tier is silver: wait");
        let tier = |value: &str| Condition { fact: "tier".into(), value: value.into() };
        assert!(facts.hold(&tier("gold")) && !facts.hold(&tier("silver")));
        facts.read("- tier: Silver");
        assert!(facts.hold(&tier("silver")));
        assert!(!facts.hold(&Condition { fact: "age".into(), value: "days".into() }));
    }
}
