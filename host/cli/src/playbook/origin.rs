//! Where a playbook was learned, and whether it can be of use elsewhere.

use super::document;
use crate::setup::Setup;
use clawhost_core::{Attributes, Environment as _, PlaybookVersion, escaped};
use clawhost_learn::playbook::{Playbook, Rendering};
use clawhost_store::Reader;
use serde::Serialize;

/// What decides which tasks there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Tasks {
    environment: String,
    seed: u64,
    options: Attributes,
}

impl Tasks {
    /// Of a run that learned, by what it was asked; none: it did not learn, or another version wrote it.
    fn of(config: &serde_json::Value) -> Option<Self> {
        let at = |path: &str| config.pointer(path);
        let mut options: Attributes = serde_json::from_value(at("/learn/play/options")?.clone()).ok()?;
        options.sort();
        Some(Self {
            environment: at("/environment/name")?.as_str()?.to_owned(),
            seed: at("/learn/play/seed")?.as_u64()?,
            options,
        })
    }

    /// What should be known of a playbook that was learned from these tasks and is given to others; none: they are the same.
    fn compared(&self, playbook: &str, now: &Self) -> Option<String> {
        let advice = if self.environment != now.environment {
            "what it says may not hold here".to_owned()
        } else if self.options != now.options {
            "where tasks come from the options, give it the same".to_owned()
        } else if self.seed != now.seed {
            format!("where tasks come from the seed, say --seed {}", self.seed)
        } else {
            return None;
        };
        Some(format!("note: playbook {playbook} was learned in {self}; this is {now}: {advice}"))
    }
}

impl std::fmt::Display for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&escaped(&self.environment, 80))?;
        for (position, (name, value)) in self.options.iter().enumerate() {
            let mark = if position == 0 { '?' } else { '&' };
            write!(f, "{mark}{}={}", escaped(name, 80), escaped(value, 80))?;
        }
        write!(f, " with seed {}", self.seed)
    }
}

/// Where what a version says was learned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Origin {
    pub(super) run: String,
    pub(super) tasks: Tasks,
}

impl Origin {
    /// Of a version among all of its playbook, newest first; none: nobody learned it here. What was rolled back to was learned by the run
    /// that said it first.
    pub(super) fn of(
        reader: &Reader,
        versions: &[PlaybookVersion],
        version: &PlaybookVersion,
    ) -> anyhow::Result<Option<Self>> {
        let alike = versions.iter().filter(|other| other.digest == version.digest);
        let Some(run) = alike.filter_map(|version| version.run.as_ref()).next_back() else { return Ok(None) };
        let config = reader.config(&run.0)?;
        let tasks = config.as_ref().and_then(Tasks::of);
        Ok(tasks.map(|tasks| Self { run: run.0.clone(), tasks }))
    }
}

/// Whether no lesson has room beside the sections.
fn is_too_long(playbook: &Playbook, token_budget: u64) -> bool {
    let room = Rendering { token_budget }.room(&playbook.sections);
    !playbook.entries.is_empty() && playbook.entries.iter().all(|entry| entry.lesson.tokens() > room)
}

/// What the operator should know before this version is played with.
pub(crate) fn notes(
    setup: &Setup<'_>,
    seed: u64,
    version: &PlaybookVersion,
    token_budget: u64,
) -> anyhow::Result<Vec<String>> {
    let reader = Reader::open(&setup.folder)?;
    let mut options = setup.environment_options.clone();
    options.sort();
    let now = Tasks { environment: setup.environment.identity().name.clone(), seed, options };
    let origin = Origin::of(&reader, &reader.versions(&version.name)?, version)?;
    let elsewhere = origin.and_then(|origin| origin.tasks.compared(&version.name, &now));
    let too_long = is_too_long(&document(version)?, token_budget);
    let mute = too_long
        .then(|| format!("note: no lesson of playbook {} fits into --token-budget {token_budget}", version.name));
    Ok(elsewhere.into_iter().chain(mute).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::{Entry, Lesson};

    fn tasks(environment: &str, seed: u64, options: &[(&str, &str)]) -> Tasks {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Tasks { environment: environment.into(), seed, options }
    }

    #[test]
    fn other_tasks_than_those_that_taught_are_told() {
        let learned = tasks("env-shop", 1, &[]);
        let check = |now: Tasks, expect: Option<&str>| {
            let told = learned.compared("p", &now);
            let expect =
                expect.map(|rest| format!("note: playbook p was learned in env-shop with seed 1; this is {rest}"));
            assert_eq!(told, expect);
        };
        check(learned.clone(), None);
        let seed = "env-shop with seed 0: where tasks come from the seed, say --seed 1";
        check(tasks("env-shop", 0, &[]), Some(seed));
        let options = "env-shop?house=7&x=1 with seed 1: where tasks come from the options, give it the same";
        check(tasks("env-shop", 1, &[("house", "7"), ("x", "1")]), Some(options));
        check(tasks("env-math", 1, &[]), Some("env-math with seed 1: what it says may not hold here"));
    }

    #[test]
    fn a_run_says_what_its_tasks_were() {
        let config = serde_json::json!({
            "environment": { "name": "env-shop" },
            "learn": { "play": { "seed": 7, "options": [["x", "1"], ["house", "7"]] } },
        });
        assert_eq!(Tasks::of(&config), Some(tasks("env-shop", 7, &[("house", "7"), ("x", "1")])));
        assert_eq!(Tasks::of(&serde_json::json!({ "environment": { "name": "env-shop" }, "plan": {} })), None);
    }

    #[test]
    fn a_budget_that_no_lesson_fits_is_noticed() {
        let lesson = |text: &str| Entry::new(Lesson::read(text), "import");
        let playbook = |sections: &[(&str, &str)], lessons: &[&str]| Playbook {
            sections: sections.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
            entries: lessons.iter().map(|text| lesson(text)).collect(),
        };
        let long = "words ".repeat(100);
        assert!(is_too_long(&playbook(&[], &["short"]), 7));
        assert!(!is_too_long(&playbook(&[], &["short", &long]), 20), "one is enough");
        assert!(is_too_long(&playbook(&[("rules", &long)], &["short"]), 20), "sections come first");
        assert!(!is_too_long(&playbook(&[("rules", &long)], &[]), 20), "there is none");
    }
}
