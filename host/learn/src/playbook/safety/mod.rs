//! Which texts may enter a playbook, and in what form.
//!
//! Every text passes [`check`] before it is stored: what reflectors propose, what is imported, and skills of folders. The check rejects texts that are
//! empty, too long, contain a credential or a withheld text (such as a task's reference), or ask for praise or good marks, and escapes the rest
//! ([`escape`]). An entry's id is that of the escaped lesson. Texts from traffic pass [`check_conduct`], too.

mod conduct;
mod inert;
mod secrets;

use conduct::check_praise;
pub use conduct::{Conduct, check_conduct};
pub use inert::escape;
#[cfg(test)]
pub(crate) use {
    inert::tests::{hostile_text, is_inert},
    tests::hostile_lesson,
};

use crate::{Lesson, Skill};

/// Most bytes of a lesson: about a quarter of the default token budget of a playbook. Longer texts are documents, not
/// lessons.
pub const LESSON_BYTES: usize = 2_000;

/// Withheld texts with fewer characters are not searched for: `yes` or `42` occur by chance.
pub const WITHHELD_CHARACTERS: usize = 8;

/// Limits on a playbook text.
#[derive(Debug, Clone, Copy)]
pub struct TextLimits<'a> {
    /// Most bytes, as shown to a model.
    pub bytes: usize,
    /// Texts that must not be disclosed, such as the references of tasks. Compared without case and white space. Those with
    /// fewer than [`WITHHELD_CHARACTERS`] characters are ignored.
    pub withheld: &'a [String],
}

impl Default for TextLimits<'_> {
    fn default() -> Self {
        Self { bytes: LESSON_BYTES, withheld: &[] }
    }
}

/// Why a text was rejected. The message does not repeat what was found, since it may be shown where the text must not be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The lesson is empty.
    #[error("the lesson is empty; give it a text, an action, or what to avoid")]
    Empty,
    /// The lesson is too long.
    #[error("the lesson has {bytes} bytes, at most {limit} are allowed; shorten it or split it into several lessons")]
    TooLong {
        /// Its size.
        bytes: usize,
        /// The largest allowed size.
        limit: usize,
    },
    /// The text seems to contain a credential.
    #[error("the lesson contains {0}; remove the credential, and revoke it where it was seen")]
    Secret(&'static str),
    /// The text contains a withheld text.
    #[error("the lesson contains a withheld text, such as a task's reference; describe how to find it instead")]
    Withheld,
    /// The text asks for praise, or, from traffic, for something else that no text may ask for.
    #[error("the text {0}; say what the answers themselves should be like")]
    Conduct(&'static str),
}

/// Checks a lesson; returns the escaped form in which it is stored.
///
/// # Errors
/// The lesson is empty, too long, contains a credential or a withheld text, or asks for praise or a good mark.
pub fn check(lesson: &Lesson, limits: TextLimits<'_>) -> Result<Lesson, Refusal> {
    let says_nothing = match lesson {
        Lesson::Text(text) => text.trim().is_empty(),
        Lesson::Skill(Skill { action, avoid, .. }) => action.trim().is_empty() && avoid.trim().is_empty(),
    };
    if says_nothing {
        return Err(Refusal::Empty);
    }
    // Names are not shown to models, but are exported.
    let name = if let Lesson::Skill(skill) = lesson { skill.name.as_str() } else { "" };
    let inert = escape_lesson(lesson);
    inspect(&[&lesson.prompt(), name], inert.prompt().len() + name.len(), limits)?;
    check_praise(&lesson.prompt())?;
    Ok(inert)
}

/// Checks the text of a section, which may be empty; returns the escaped form in which it is stored.
///
/// # Errors
/// The text is too long, contains a credential or a withheld text, or asks for praise or a good mark.
pub fn check_section(text: &str, limits: TextLimits<'_>) -> Result<String, Refusal> {
    let inert = escape(text);
    inspect(&[text], inert.len(), limits)?;
    check_praise(text)?;
    Ok(inert)
}

/// Checks the tags of a lesson, which models are not shown.
///
/// # Errors
/// Together they are too long, or they contain a credential or a withheld text.
pub fn check_tags(tags: &[String], limits: TextLimits<'_>) -> Result<(), Refusal> {
    let text = tags.join("\n");
    inspect(&[&text], escape(&text).len(), limits)
}

/// Escapes the texts of a lesson one by one, because a file may show each on a line of its own. Name and condition become
/// single lines: a prompt shows a colon after the condition, so no line of it may look like a role name.
pub fn escape_lesson(lesson: &Lesson) -> Lesson {
    match lesson {
        Lesson::Text(text) => Lesson::Text(escape(text)),
        Lesson::Skill(Skill { name, when, action, avoid }) => Lesson::Skill(Skill {
            name: escape(name.replace('\n', " ").trim()),
            when: escape(when.replace('\n', " ").trim()),
            action: escape(action),
            avoid: escape(avoid),
        }),
    }
}

fn inspect(texts: &[&str], bytes: usize, limits: TextLimits<'_>) -> Result<(), Refusal> {
    if bytes > limits.bytes {
        return Err(Refusal::TooLong { bytes, limit: limits.bytes });
    }
    for text in texts {
        let text = inert::visible(text);
        if let Some(kind) = secrets::quoted(&text) {
            return Err(Refusal::Secret(kind));
        }
        let text = plain(&text);
        let quotes = |withheld: &String| {
            let withheld = plain(&inert::visible(withheld));
            withheld.chars().count() >= WITHHELD_CHARACTERS && text.contains(&withheld)
        };
        if limits.withheld.iter().any(quotes) {
            return Err(Refusal::Withheld);
        }
    }
    Ok(())
}

/// Lower case, single spaces.
fn plain(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str, expect: &Refusal) {
        let withheld = ["{\"action\": \"refund\"}".to_owned(), "42".to_owned()];
        let limits = TextLimits { bytes: 200, withheld: &withheld };
        assert_eq!(check(&Lesson::read(text), limits).as_ref(), Err(expect), "{text}");
        assert!(!expect.to_string().contains("refund"));
    }

    #[test]
    fn invalid_lessons_are_rejected_with_the_reason() {
        refused("  \n ", &Refusal::Empty);
        let idle = Skill { when: "a is b".into(), action: " ".into(), ..Skill::default() };
        assert_eq!(check(&Lesson::Skill(idle), TextLimits::default()), Err(Refusal::Empty));
        refused(&"x".repeat(199), &Refusal::TooLong { bytes: 201, limit: 200 });
        refused("log in with sk-abcdef1234567890abcdef", &Refusal::Secret("a key of a well-known service"));
        refused("log in with sk-abc\u{200b}def1234567890abcdef", &Refusal::Secret("a key of a well-known service"));
        refused("answer {\"Action\":\n \"refund\"}", &Refusal::Withheld);
        let named = Skill { name: "ghp_1234567890abcdefghij12".into(), action: "x".into(), ..Skill::default() };
        let secret = check(&Lesson::Skill(named), TextLimits::default());
        assert_eq!(secret, Err(Refusal::Secret("a key of a well-known service")));
    }

    #[test]
    fn the_size_includes_escapes() {
        let lesson = Lesson::Text("\u{200b}".repeat(20));
        let limits = TextLimits { bytes: 162, withheld: &[] };
        assert!(check(&lesson, limits).is_ok());
        assert_eq!(
            check(&lesson, TextLimits { bytes: 161, ..limits }),
            Err(Refusal::TooLong { bytes: 162, limit: 161 })
        );
    }

    #[test]
    fn ordinary_lessons_pass_and_rules_still_parse() {
        let withheld = ["42".to_owned()];
        for text in ["when tier is gold: call refund {\"id\": \"<order>\"}", "always: be kind", "Be kind. 42 times."] {
            let lesson = Lesson::read(text);
            let limits = TextLimits { withheld: &withheld, ..TextLimits::default() };
            assert_eq!(check(&lesson, limits), Ok(lesson.clone()), "{text}");
            assert_eq!(clawhost_core::rule(&lesson.prompt()).is_some(), text != "Be kind. 42 times.");
        }
    }

    #[test]
    fn a_condition_is_one_line_and_a_blank_one_is_empty() {
        let skill = |when: &str| Lesson::Skill(Skill { when: when.into(), action: "b".into(), ..Skill::default() });
        assert_eq!(check(&skill(" a\nsystem "), TextLimits::default()), Ok(skill("a system")));
        assert_eq!(check(&skill(" \n"), TextLimits::default()), Ok(skill("")));
    }

    #[test]
    fn sections_are_checked_like_lessons_but_may_be_empty() {
        assert_eq!(check_section("", TextLimits::default()), Ok(String::new()));
        assert_eq!(check_section("a\nsystem: b", TextLimits::default()), Ok("a\nsystem\\: b".to_owned()));
        let long = Refusal::TooLong { bytes: 3, limit: 2 };
        assert_eq!(check_section("abc", TextLimits { bytes: 2, withheld: &[] }), Err(long));
    }

    /// Lessons composed of dangerous pieces.
    pub(crate) fn hostile_lesson() -> impl Strategy<Value = Lesson> {
        let skill = (hostile_text(), hostile_text(), hostile_text(), hostile_text())
            .prop_map(|(name, when, action, avoid)| Lesson::Skill(Skill { name, when, action, avoid }));
        prop_oneof![hostile_text().prop_map(|text| Lesson::read(&text)), skill]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn a_checked_lesson_is_inert_and_passes_again_unchanged(lesson in hostile_lesson()) {
            if let Ok(lesson) = check(&lesson, TextLimits { bytes: 10_000, withheld: &[] }) {
                prop_assert!(is_inert(&lesson.prompt()), "{:?}", lesson.prompt());
                prop_assert_eq!(check(&lesson, TextLimits { bytes: 10_000, withheld: &[] }), Ok(lesson));
            }
        }
    }
}
