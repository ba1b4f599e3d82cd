//! Where a playbook was learned, and whether it can be of use elsewhere.

use super::served::document;
use crate::{AppError, Warning};
use clawhost_core::{Attributes, PlaybookVersion, SpecDocument, StoreReader, escaped};
use clawhost_learn::playbook::{Playbook, Rendering};
use clawhost_run_config::RunSpec;
use serde::Serialize;

/// How much of a name or a value is shown, in bytes.
const SHOWN_BYTES: usize = 80;

/// What decides which tasks there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tasks {
    /// The environment's own name.
    pub environment: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// The environment's options, sorted by name.
    pub options: Attributes,
}

impl Tasks {
    /// Of a run; none: its environment was not loaded.
    pub fn of(spec: &RunSpec) -> Option<Self> {
        let mut options = spec.environment.options.clone();
        options.sort();
        let environment = spec.environment.plugin.as_ref()?.name.clone();
        Some(Self { environment, seed: spec.play.seed, options })
    }

    /// Of a stored run that learned; none: it did not learn, or another version of the program wrote it.
    fn learned(config: SpecDocument) -> Option<Self> {
        let spec = RunSpec::from_document(config.0).ok()?;
        spec.learn()?;
        Self::of(&spec)
    }

    /// What should be known of a playbook that was learned from these tasks and is given to others; none: they are the same.
    fn compared(&self, playbook: &str, now: &Self) -> Option<Warning> {
        let same_environment = self.environment == now.environment;
        let same_options = self.options == now.options;
        if same_environment && same_options && self.seed == now.seed {
            return None;
        }
        Some(Warning::PlaybookFromElsewhere {
            playbook: playbook.to_owned(),
            learned: self.to_string(),
            now: now.to_string(),
            seed: (same_environment && same_options).then_some(self.seed),
            same_environment,
        })
    }
}

impl std::fmt::Display for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&escaped(&self.environment, SHOWN_BYTES))?;
        for (position, (name, value)) in self.options.iter().enumerate() {
            let mark = if position == 0 { '?' } else { '&' };
            write!(f, "{mark}{}={}", escaped(name, SHOWN_BYTES), escaped(value, SHOWN_BYTES))?;
        }
        write!(f, " with seed {}", self.seed)
    }
}

/// Where what a version says was learned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The run that learned it.
    pub run: String,
    /// The tasks of that run.
    pub tasks: Tasks,
}

impl Origin {
    /// Of a version among all of its playbook, newest first; none: nobody learned it here. What was rolled back to was learned
    /// by the run that said it first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn of(
        reader: &dyn StoreReader,
        versions: &[PlaybookVersion],
        version: &PlaybookVersion,
    ) -> Result<Option<Self>, AppError> {
        let alike = versions.iter().filter(|other| other.digest == version.digest);
        let Some(run) = alike.filter_map(|version| version.run.as_ref()).next_back() else { return Ok(None) };
        let row = reader.run(run)?;
        let tasks = row.and_then(|row| Tasks::learned(row.config));
        Ok(tasks.map(|tasks| Self { run: run.0.clone(), tasks }))
    }
}

/// Whether no lesson has room beside the sections.
fn is_too_long(playbook: &Playbook, token_budget: u64) -> bool {
    let room = Rendering { token_budget }.room(&playbook.sections);
    !playbook.entries.is_empty() && playbook.entries.iter().all(|entry| entry.lesson.tokens() > room)
}

/// What the operator should know before this version is played with in this run.
///
/// # Errors
/// The version or the store cannot be read.
pub fn warnings(
    reader: &dyn StoreReader,
    spec: &RunSpec,
    version: &PlaybookVersion,
    token_budget: u64,
) -> Result<Vec<Warning>, AppError> {
    let origin = Origin::of(reader, &reader.versions(&version.name)?, version)?;
    let elsewhere = origin.zip(Tasks::of(spec)).and_then(|(origin, now)| origin.tasks.compared(&version.name, &now));
    let too_long = is_too_long(&document(version)?, token_budget);
    let mute = too_long.then(|| Warning::NoLessonFits { playbook: version.name.clone(), token_budget });
    Ok(elsewhere.into_iter().chain(mute).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::PluginIdentity;
    use clawhost_learn::{Entry, Lesson};
    use clawhost_run_config::{Key, RunSpecPatch, Source, Value, Verb};

    fn tasks(environment: &str, seed: u64, options: &[(&str, &str)]) -> Tasks {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Tasks { environment: environment.into(), seed, options }
    }

    #[test]
    fn other_tasks_than_those_that_taught_are_told() {
        let taught = tasks("env-shop", 1, &[]);
        let check = |now: Tasks, told: &str, seed: Option<u64>, same_environment: bool| {
            let expect = Warning::PlaybookFromElsewhere {
                playbook: "p".to_owned(),
                learned: "env-shop with seed 1".to_owned(),
                now: told.to_owned(),
                seed,
                same_environment,
            };
            assert_eq!(taught.compared("p", &now), Some(expect));
        };
        assert_eq!(taught.compared("p", &taught), None);
        check(tasks("env-shop", 0, &[]), "env-shop with seed 0", Some(1), true);
        let options = [("house", "7"), ("x", "1")];
        check(tasks("env-shop", 1, &options), "env-shop?house=7&x=1 with seed 1", None, true);
        check(tasks("env-shop", 2, &options), "env-shop?house=7&x=1 with seed 2", None, true);
        check(tasks("env-math", 1, &[]), "env-math with seed 1", None, false);
    }

    #[test]
    fn a_run_says_what_its_tasks_were() {
        let check = |verb: Verb, loaded: bool, expect: Option<Tasks>| {
            let mut patch = RunSpecPatch::new();
            let mut set = |key: Key, value: Value| patch.set(key, value, Source::Flag);
            set(Key::Plugin, Value::Text("shop.wasm?x=1&house=7".to_owned()));
            set(Key::Rewards, Value::Texts(vec!["state.wasm".to_owned()]));
            set(Key::Seed, Value::Whole(7));
            if verb == Verb::Learn {
                set(Key::Reflectors, Value::Texts(vec!["rules.wasm".to_owned()]));
                patch.set_layers(vec!["harness".to_owned()], Source::Flag);
            }
            let mut spec = patch.resolve(verb).unwrap();
            spec.environment.plugin = loaded.then(|| PluginIdentity::native("env-shop"));
            assert_eq!(Tasks::learned(SpecDocument(spec.to_document())), expect, "{verb:?}, loaded: {loaded}");
        };
        check(Verb::Learn, true, Some(tasks("env-shop", 7, &[("house", "7"), ("x", "1")])));
        check(Verb::Learn, false, None);
        check(Verb::Play, true, None);
        assert_eq!(Tasks::learned(SpecDocument::none()), None);
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
