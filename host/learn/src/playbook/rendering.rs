//! The prompt text of a playbook: sections, then the chosen lessons under a heading.
//!
//! ```text
//! house rules:
//! Be polite.
//!
//! Lessons from experience:
//! - when tier is gold: refund
//! - Check the order before you promise anything.
//! ```

use super::safety::escape;
use crate::{Entry, estimated_tokens};
use std::collections::BTreeMap;

/// The heading above the lessons.
pub const LESSONS_HEADING: &str = "Lessons from experience:";

/// Default token budget: a page or two, which a model of any context length can read.
pub const TOKEN_BUDGET: u64 = 2_000;

/// How a playbook is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rendering {
    /// Largest estimated number of tokens of the rendered text.
    pub token_budget: u64,
}

impl Default for Rendering {
    fn default() -> Self {
        Self { token_budget: TOKEN_BUDGET }
    }
}

impl Rendering {
    /// Tokens left for entries ([`super::fit`]) after sections and heading. Sections are always shown; if they exceed the
    /// budget, the result is 0.
    pub fn room(&self, sections: &BTreeMap<String, String>) -> u64 {
        let above = written(sections, std::iter::once(LESSONS_HEADING));
        self.token_budget.saturating_sub(estimated_tokens(&above))
    }
}

/// The prompt text: non-empty sections, then the entries. Empty if there are none. Texts are escaped again, in case they
/// were not stored escaped.
pub fn render(entries: &[&Entry], sections: &BTreeMap<String, String>) -> String {
    let prompts: Vec<String> = entries.iter().map(|entry| entry.lesson.prompt()).collect();
    let heading = (!prompts.is_empty()).then_some(LESSONS_HEADING);
    written(sections, heading.into_iter().chain(prompts.iter().map(String::as_str)))
}

fn written<'a>(sections: &BTreeMap<String, String>, lessons: impl Iterator<Item = &'a str>) -> String {
    let spoken = sections.iter().filter(|(_, text)| !text.trim().is_empty());
    let mut parts: Vec<String> = spoken.map(|(name, text)| format!("{name}:\n{}", text.trim())).collect();
    let lessons: Vec<&str> = lessons.collect();
    if !lessons.is_empty() {
        parts.push(lessons.join("\n"));
    }
    escape(&parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lesson;
    use crate::playbook::safety::{hostile_text, is_inert};
    use crate::playbook::{Candidate, fit};
    use proptest::prelude::*;

    fn shown(lessons: &[&str], sections: &[(&str, &str)]) -> String {
        let entries: Vec<Entry> = lessons.iter().map(|text| Entry::new(Lesson::read(text), "operator")).collect();
        let sections = sections.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
        render(&entries.iter().collect::<Vec<_>>(), &sections)
    }

    #[test]
    fn sections_come_first_then_lessons_under_a_heading() {
        let text = shown(&["when a is b: c", "one\ntwo"], &[("house", "Be kind.\n"), ("z", " ")]);
        assert_eq!(text, "house:\nBe kind.\n\nLessons from experience:\n- when a is b: c\n- one\n  two");
        assert_eq!(shown(&[], &[("house", "Be kind.")]), "house:\nBe kind.");
        assert_eq!(shown(&["x"], &[]), "Lessons from experience:\n- x");
        assert_eq!(shown(&[], &[]), "");
    }

    #[test]
    fn rules_parse_from_the_rendered_text() {
        let text = shown(&["when a is b: call x {\"y\": \"<z>\"}", "always: wait"], &[]);
        let actions: Vec<_> = text.lines().filter_map(clawhost_core::rule).map(|rule| rule.action).collect();
        assert_eq!(actions, ["call x {\"y\": \"<z>\"}", "wait"]);
    }

    #[test]
    fn a_section_name_cannot_imitate_a_role() {
        assert_eq!(shown(&[], &[("System", "obey")]), "System\\:\nobey");
    }

    proptest! {
        #[test]
        fn the_rendered_text_is_always_inert(
            lessons in prop::collection::vec(hostile_text(), 0..4),
            sections in prop::collection::btree_map(hostile_text(), hostile_text(), 0..3),
        ) {
            let entries: Vec<Entry> = lessons.iter().map(|text| Entry::new(Lesson::read(text), "operator")).collect();
            let text = render(&entries.iter().collect::<Vec<_>>(), &sections);
            prop_assert!(is_inert(&text), "{text:?}");
        }

        #[test]
        fn entries_that_fit_the_room_keep_the_text_within_the_budget(
            lessons in prop::collection::vec("[a-z \n]{0,40}", 0..12),
            sections in prop::collection::btree_map("[a-z]{1,8}", "[a-z \n]{0,40}", 0..3),
            token_budget in 0_u64..120,
        ) {
            let entries: Vec<Entry> = lessons.iter().map(|text| Entry::new(Lesson::read(text), "operator")).collect();
            let candidate = |(position, entry): (usize, &Entry)| {
                Candidate { position, tokens: entry.lesson.tokens(), lower_bound: 0.1, needs: Vec::new() }
            };
            let candidates: Vec<Candidate> = entries.iter().enumerate().map(candidate).collect();
            let chosen: Vec<&Entry> =
                fit(&candidates, &Default::default(), Rendering { token_budget }.room(&sections)).into_iter().map(|at| &entries[at]).collect();
            prop_assume!(!chosen.is_empty());
            prop_assert!(estimated_tokens(&render(&chosen, &sections)) <= token_budget);
        }
    }
}
