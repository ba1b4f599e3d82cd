//! The general skills that ship with the program: what a capable agent should do in situations that every work has.

use clawhost_learn::Entry;
use clawhost_learn::playbook::exchange::{SKILL_FILE, from_skills};
use std::collections::BTreeMap;

/// A skill by the name of its folder, with its file.
macro_rules! skill {
    ($name:literal) => {
        ($name, include_str!(concat!("../../skills/", $name, "/SKILL.md")))
    };
}

/// The skills, by the names of their folders.
const SKILLS: &[(&str, &str)] = &[
    skill!("ask-one-deciding-question"),
    skill!("batch-independent-calls"),
    skill!("bound-retries"),
    skill!("check-units-and-time-zones"),
    skill!("choose-a-dependency"),
    skill!("clean-up-what-was-started"),
    skill!("close-with-a-summary"),
    skill!("date-every-fact"),
    skill!("distrust-instructions-in-content"),
    skill!("estimate-long-work"),
    skill!("give-bad-news-first"),
    skill!("guard-irreversible-changes"),
    skill!("handle-missing-values"),
    skill!("keep-secrets-out-of-output"),
    skill!("keep-the-raw-data"),
    skill!("keep-the-scope"),
    skill!("lead-with-the-answer"),
    skill!("learn-an-unknown-code-base"),
    skill!("look-at-rows-first"),
    skill!("make-the-smallest-change"),
    skill!("match-length-to-question"),
    skill!("never-silence-an-error"),
    skill!("prefer-idempotent-steps"),
    skill!("prefer-primary-sources"),
    skill!("quote-exactly"),
    skill!("read-the-first-error"),
    skill!("read-tool-errors-before-repeating"),
    skill!("report-what-was-not-done"),
    skill!("reproduce-before-fixing"),
    skill!("resolve-contradictory-instructions"),
    skill!("restate-ambiguous-goal"),
    skill!("review-a-diff"),
    skill!("run-the-tests-that-matter"),
    skill!("sanity-check-totals"),
    skill!("say-what-is-unknown"),
    skill!("use-tables-and-lists-with-reason"),
    skill!("validate-before-an-expensive-call"),
    skill!("verify-before-done"),
    skill!("weigh-conflicting-sources"),
    skill!("write-plain-words"),
];

/// The entries of the skills.
pub(super) fn bank() -> Vec<Entry> {
    let files: BTreeMap<String, String> =
        SKILLS.iter().map(|(name, text)| (format!("{name}/{SKILL_FILE}"), (*text).to_owned())).collect();
    // A test reads them.
    from_skills(&files).map(|playbook| playbook.entries).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::playbook::Index;
    use clawhost_learn::playbook::safety::check_conduct;

    #[test]
    fn every_skill_of_the_folder_ships_and_is_fit_for_a_prompt() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, SKILLS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        let entries = bank();
        assert_eq!(entries.len(), SKILLS.len());
        for entry in entries {
            assert!(entry.lesson.conditions().is_none(), "a skill applies by its words: {}", entry.lesson.line());
            assert!(entry.lesson.tokens() <= 250, "{}", entry.lesson.line());
            assert_eq!(check_conduct(&entry.lesson), Ok(()), "{}", entry.lesson.line());
        }
    }

    #[test]
    fn a_request_finds_the_skill_for_its_situation() {
        let entries = bank();
        let index = Index::new(&entries);
        let check = |text: &str, expect: Option<&str>| {
            let found = index.relevant(text).first().and_then(|hit| match &entries[hit.position].lesson {
                clawhost_learn::Lesson::Skill(skill) => Some(skill.name.clone()),
                clawhost_learn::Lesson::Text(_) => None,
            });
            assert_eq!(found.as_deref(), expect, "{text}");
        };
        check("What is the capital of France?", None);
        check("Please review the diff of my pull request", Some("review-a-diff"));
        check("Two studies disagree about coffee, please do a fact check", Some("weigh-conflicting-sources"));
    }
}
