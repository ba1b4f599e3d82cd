//! Lessons: the content of playbook entries.
//!
//! A lesson is a text or a *skill*: a condition (`when`), an action, and what to avoid. A text of the form `when X: Y` or
//! `always: Y` is parsed as a skill. Retrieval evaluates conditions of the form `NAME is VALUE and ...`
//! ([`clawhost_core::conditions`]). Other conditions are free text, which only models interpret.

use crate::EntryId;
use clawhost_core::{Attributes, Condition, Digest, conditions};
use serde::{Deserialize, Serialize};

/// A conditional instruction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skill {
    /// A label for people; may be empty. Models do not see it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The condition; empty means always.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub when: String,
    /// The action to take.
    #[serde(rename = "do")]
    pub action: String,
    /// What to avoid; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub avoid: String,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lesson {
    /// Free text.
    Text(String),
    /// A conditional instruction.
    Skill(Skill),
}

/// Approximate number of characters per token. It is a constant because the budget must not depend on a model's tokenizer.
const CHARACTERS_PER_TOKEN: usize = 4;

impl Lesson {
    /// Parses a text; `when X: Y` and `always: Y` become skills.
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

    /// The lesson of a plugin's entry: from the fields of `extra` if they are set, otherwise parsed from the text.
    pub fn of_plugin(text: &str, extra: &Attributes) -> Self {
        let field = |name: &str| extra.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim());
        let (name, when, action, avoid) = (field("name"), field("when"), field("do"), field("avoid"));
        if !action.is_empty() {
            return Self::Skill(Skill {
                name: name.into(),
                when: when.into(),
                action: action.into(),
                avoid: avoid.into(),
            });
        }
        match Self::read(text) {
            Self::Skill(skill) => Self::Skill(Skill { name: name.into(), avoid: avoid.into(), ..skill }),
            text => text,
        }
    }

    /// Content address: a digest of [`Lesson::prompt`] in lower case. A skill's name is not part of it.
    pub fn id(&self) -> EntryId {
        let mut hex = Digest::of(self.prompt().to_lowercase().as_bytes()).hex();
        hex.truncate(12);
        EntryId(format!("e-{hex}"))
    }

    /// The text that a model sees. Every line but the first is indented, so that it stays inside its entry. [`Lesson::read`]
    /// inverts this for a lesson of one line.
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

    /// On one line, for people.
    pub fn line(&self) -> String {
        self.prompt().trim_start_matches("- ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The conditions, if a program can evaluate them. Empty: the lesson always applies. `None`: the condition is free text.
    pub fn conditions(&self) -> Option<Vec<Condition>> {
        match self {
            Self::Skill(skill) if skill.when.is_empty() => Some(Vec::new()),
            Self::Skill(skill) => conditions(&skill.when),
            Self::Text(_) => None,
        }
    }

    /// Estimated tokens in a prompt.
    pub fn tokens(&self) -> u64 {
        estimated_tokens(&self.prompt())
    }
}

/// Estimated tokens of a text with a line end.
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
        assert_eq!(Lesson::read(&lesson.prompt()), lesson, "the prompt parses to the same lesson");
    }

    #[test]
    fn text_with_a_condition_parses_as_a_skill() {
        check("when tier is gold: call refund {\"a\": 1}", "- when tier is gold: call refund {\"a\": 1}", Some(1));
        check("When tier is gold and age is days: wait", "- when tier is gold and age is days: wait", Some(2));
        check("always: be kind", "- always: be kind", Some(0));
        check("when in doubt: ask", "- when in doubt: ask", None);
        check("Be kind.", "- Be kind.", None);
    }

    #[test]
    fn continuation_lines_are_indented() {
        let check = |lesson: Lesson, prompt: &str| assert_eq!(lesson.prompt(), prompt);
        check(Lesson::Text("one\ntwo\n \n- three\n".into()), "- one\n  two\n\n  - three");
        let skill = Skill { when: "asked".into(), action: "a\nb".into(), avoid: "c\nd".into(), ..Skill::default() };
        check(Lesson::Skill(skill), "- when asked: a\n  b\n  avoid: c\n  d");
    }

    #[test]
    fn the_name_of_a_skill_does_not_change_its_id() {
        let plain = Lesson::read("when a is b: c");
        let Lesson::Skill(skill) = plain.clone() else { panic!("{plain:?}") };
        let named = Lesson::Skill(Skill { name: "n".into(), ..skill.clone() });
        assert_eq!(plain.id(), named.id());
        assert_ne!(plain.id(), Lesson::Skill(Skill { avoid: "d".into(), ..skill }).id());
    }
}
