//! Lessons: what an entry of a playbook says.
//!
//! A lesson is a text, or a *skill* with a condition (`when`), what to do, and what to avoid. A text of the form
//! `when X: Y` or `always: Y` is read as a skill. Conditions of the form `NAME is VALUE and ...` are understood by retrieval
//! ([`clawhost_core::conditions`]); other conditions are prose for models.

use crate::EntryId;
use clawhost_core::{Condition, Digest, conditions};
use serde::{Deserialize, Serialize};

/// What to do under some condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skill {
    /// For people; may be empty. Not shown to models.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The condition; empty: always.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub when: String,
    /// What to do.
    #[serde(rename = "do")]
    pub action: String,
    /// What not to do; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub avoid: String,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lesson {
    /// Free text.
    Text(String),
    /// A condition and what to do.
    Skill(Skill),
}

/// Characters that make up a token, about: models count differently, and the budget must not depend on one.
const CHARACTERS_PER_TOKEN: usize = 4;

impl Lesson {
    /// Reads a text; one of the form `when X: Y` or `always: Y` is a skill.
    pub fn read(text: &str) -> Self {
        let text = text.trim();
        let text = text.strip_prefix("- ").unwrap_or(text).trim_start();
        let one_line = !text.contains('\n');
        let skill = |when: &str, action: &str| {
            Self::Skill(Skill { when: when.trim().into(), action: action.trim().into(), ..Skill::default() })
        };
        let split = text.split_once(": ").filter(|_| one_line);
        match split.map(|(head, action)| (head.trim(), action)) {
            Some((head, action)) if head.eq_ignore_ascii_case("always") => skill("", action),
            Some((head, action)) if head.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("when ")) => {
                skill(head.get(5..).unwrap_or_default(), action)
            }
            _ => Self::Text(text.to_owned()),
        }
    }

    /// Its content address: what it tells a model, without the name.
    pub fn id(&self) -> EntryId {
        let mut hex = Digest::of(self.prompt().to_lowercase().as_bytes()).hex();
        hex.truncate(12);
        EntryId(format!("e-{hex}"))
    }

    /// As a model reads it: a line, or a few. Every line but the first is indented, so that it stays inside its entry.
    /// [`Lesson::read`] takes a single line back to the lesson that it came from.
    pub fn prompt(&self) -> String {
        let text = match self {
            Self::Text(text) => text.trim().to_owned(),
            Self::Skill(Skill { when, action, avoid, .. }) => {
                let head = if when.is_empty() { "always".to_owned() } else { format!("when {when}") };
                let avoid = if avoid.is_empty() { String::new() } else { format!("\navoid: {avoid}") };
                format!("{head}: {action}{avoid}")
            }
        };
        let mut lines = text.split('\n');
        let mut prompt = format!("- {}", lines.next().unwrap_or_default());
        for line in lines {
            prompt.push('\n');
            if !line.trim().is_empty() {
                prompt.push_str("  ");
                prompt.push_str(line);
            }
        }
        prompt
    }

    /// In one line, for people.
    pub fn line(&self) -> String {
        self.prompt().trim_start_matches("- ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Its conditions, where they are written so that a program can tell whether they hold. Empty: it always applies.
    /// None: prose.
    pub fn conditions(&self) -> Option<Vec<Condition>> {
        match self {
            Self::Skill(skill) if skill.when.is_empty() => Some(Vec::new()),
            Self::Skill(skill) => conditions(&skill.when),
            Self::Text(_) => None,
        }
    }

    /// What it costs in a prompt, about.
    pub fn tokens(&self) -> u64 {
        estimated_tokens(&self.prompt())
    }
}

/// What a text and a line end behind it cost in a prompt, about.
pub fn estimated_tokens(text: &str) -> u64 {
    (text.chars().count() + 1).div_ceil(CHARACTERS_PER_TOKEN) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, prompt: &str, conditions: Option<usize>) {
        let lesson = Lesson::read(text);
        assert_eq!(lesson.prompt(), prompt, "{text}");
        assert_eq!(lesson.conditions().map(|all| all.len()), conditions, "{text}");
        assert_eq!(Lesson::read(&lesson.prompt()), lesson, "it reads back as it is shown");
    }

    #[test]
    fn a_text_with_a_condition_is_a_skill() {
        check("when tier is gold: call refund {\"a\": 1}", "- when tier is gold: call refund {\"a\": 1}", Some(1));
        check("When tier is gold and age is days: wait", "- when tier is gold and age is days: wait", Some(2));
        check("always: be kind", "- always: be kind", Some(0));
        check("when in doubt: ask", "- when in doubt: ask", None);
        check("Be kind.", "- Be kind.", None);
    }

    #[test]
    fn every_line_of_a_lesson_stays_inside_its_entry() {
        let check = |lesson: Lesson, prompt: &str| assert_eq!(lesson.prompt(), prompt);
        check(Lesson::Text("one\ntwo\n \n- three\n".into()), "- one\n  two\n\n  - three");
        let skill = Skill { when: "asked".into(), action: "a\nb".into(), avoid: "c\nd".into(), ..Skill::default() };
        check(Lesson::Skill(skill), "- when asked: a\n  b\n  avoid: c\n  d");
    }

    #[test]
    fn names_are_for_people_and_change_no_id() {
        let plain = Lesson::read("when a is b: c");
        let Lesson::Skill(skill) = plain.clone() else { panic!("{plain:?}") };
        let named = Lesson::Skill(Skill { name: "n".into(), ..skill.clone() });
        assert_eq!(plain.id(), named.id());
        assert_ne!(plain.id(), Lesson::Skill(Skill { avoid: "d".into(), ..skill }).id());
    }
}
