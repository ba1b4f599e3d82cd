//! Where a playbook was learned, and whether it fits the tasks of another run.

use super::served::{contents, document, ledger};
use crate::{AppError, TaskDifference, Warning};
use clawhost_core::{Attributes, Digest, PlaybookVersion, RunId, RunKind, SpecDocument, StoreReader, counted, escaped};
use clawhost_learn::playbook::{Playbook, Rendering};
use clawhost_run_config::RunSpec;
use serde::Serialize;

/// Longest part of a name or a value that is shown, in bytes.
const SHOWN_BYTES: usize = 80;

/// Everything that determines the tasks of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tasks {
    /// The environment's own name.
    pub environment: String,
    /// The environment's component.
    pub digest: Digest,
    /// The seed of all random choices.
    pub seed: u64,
    /// The environment's options, sorted by name.
    pub options: Attributes,
}

impl Tasks {
    /// The tasks of a run. `None`: its environment was not loaded.
    pub fn of(spec: &RunSpec) -> Option<Self> {
        let plugin = spec.environment.plugin.as_ref()?;
        let mut options = spec.environment.options.clone();
        let mut digest = plugin.digest;
        for (name, part) in spec.part_names().into_iter().skip(1).zip(&spec.mix) {
            digest = digest.extended(part.plugin.plugin.as_ref()?.digest.to_string().as_bytes());
            let named = part.plugin.options.iter().map(|(option, value)| (format!("{name}/{option}"), value.clone()));
            options.extend(named);
        }
        options.sort();
        Some(Self { environment: spec.environment_name()?, digest, seed: spec.play.seed, options })
    }

    /// The tasks of a stored learning run. `None`: it did not learn, or another version of the program wrote it.
    fn learned(config: SpecDocument) -> Option<Self> {
        let spec = RunSpec::from_document(config.0).ok()?;
        spec.learn()?;
        Self::of(&spec)
    }

    /// The warning for a playbook that was learned on these tasks and is used on others. `None`: the tasks are equal.
    fn compared(&self, playbook: &str, now: &Self) -> Option<Warning> {
        let difference = if self == now {
            return None;
        } else if self.environment != now.environment {
            TaskDifference::Environment
        } else if self.options != now.options {
            TaskDifference::Options
        } else if self.seed != now.seed {
            TaskDifference::Seed { learned: self.seed }
        } else {
            TaskDifference::Component
        };
        // The digest is shown only if it differs under one name.
        let is_other = self.environment == now.environment && self.digest != now.digest;
        let told = |tasks: &Self| {
            let component = format!(" ({})", tasks.digest.short());
            format!("{tasks}{}", if is_other { component.as_str() } else { "" })
        };
        let (learned, now) = (told(self), told(now));
        Some(Warning::PlaybookFromElsewhere { playbook: playbook.to_owned(), learned, now, difference })
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

/// The origin of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The run that learned it.
    pub run: String,
    /// The tasks of that run.
    pub tasks: Tasks,
}

impl Origin {
    /// The last run other than `but` that learned this playbook. `None`: there is none, or its record cannot be read.
    fn last(reader: &dyn StoreReader, name: &str, but: Option<&RunId>) -> Result<Option<Self>, AppError> {
        let learned = reader.runs(None)?.into_iter().filter(|row| row.kind == RunKind::Learn && Some(&row.id) != but);
        let of_playbook = learned.filter_map(|row| {
            let spec = RunSpec::from_document(row.config.0.clone()).ok()?;
            (spec.harness().is_some() && spec.playbook_name()? == name).then_some(())?;
            Some(Self { run: row.id.0, tasks: Tasks::of(&spec)? })
        });
        Ok(of_playbook.into_iter().next())
    }

    /// The origin of one of the playbook's versions (newest first). `None`: it was not learned here. A version from a
    /// rollback has the origin of the first version with the same content.
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

/// The beginning of a learning run: the newest version of its playbook, and the ledger of earlier runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Beginning {
    playbook: String,
    version: Option<PlaybookVersion>,
    /// The origin of the version; without a version, of the remembered lessons.
    origin: Option<Origin>,
    is_remembering: bool,
    /// Candidates that earlier runs tested.
    candidates: u32,
}

impl Beginning {
    /// The beginning for the playbook with this name. `resumed`: the run whose own versions do not count.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn of(reader: &dyn StoreReader, name: &str, resumed: Option<&RunId>) -> Result<Self, AppError> {
        let versions = reader.versions(name)?;
        let is_older = |run: Option<&RunId>| resumed.is_none() || run != resumed;
        let version = versions.iter().find(|version| is_older(version.run.as_ref())).cloned();
        let known = ledger(reader, name)?;
        let is_remembering = version.is_none() && known.is_some();
        let candidates = known.map_or(0, |known| known.lineage.candidates);
        let origin = match &version {
            Some(version) => Origin::of(reader, &versions, version)?,
            None if is_remembering => Origin::last(reader, name, resumed)?,
            None => None,
        };
        Ok(Self { playbook: name.to_owned(), version, origin, is_remembering, candidates })
    }

    /// The number of the version.
    pub(crate) fn number(&self) -> Option<u64> {
        self.version.as_ref().map(|version| version.number)
    }

    /// Candidates that earlier runs tested.
    pub(crate) fn candidates(&self) -> u32 {
        self.candidates
    }

    /// Warnings for the operator before this run continues learning from the version.
    ///
    /// # Errors
    /// The version cannot be read.
    pub(crate) fn warnings(&self, spec: &RunSpec) -> Result<Vec<Warning>, AppError> {
        let origin = self.origin.as_ref();
        let elsewhere =
            origin.zip(Tasks::of(spec)).and_then(|(origin, now)| origin.tasks.compared(&self.playbook, &now));
        let mute = match &self.version {
            Some(version) => unread(version, spec.token_budget)?,
            None => None,
        };
        Ok(elsewhere.into_iter().chain(mute).collect())
    }

    /// A short description.
    ///
    /// # Errors
    /// The version cannot be read.
    pub(crate) fn title(&self) -> Result<String, AppError> {
        let Self { playbook, version, origin, is_remembering, candidates } = self;
        let tested = if *candidates > 0 {
            format!("; {} tested before", counted(u64::from(*candidates), "candidate"))
        } else {
            String::new()
        };
        let learned = |how: &str| origin.as_ref().map_or(String::new(), |origin| format!(", {how} {}", origin.tasks));
        Ok(match version {
            Some(version) => {
                let said = document(version)?;
                let said = contents(said.entries.len(), said.sections.len());
                let learned = learned("learned in");
                format!("playbook {playbook} continues from version {} ({said}{learned}){tested}", version.number)
            }
            None if *is_remembering => {
                let tried = learned("tried in");
                format!("playbook {playbook} has no version yet and remembers earlier lessons{tried}{tested}")
            }
            None => format!("playbook {playbook} begins empty"),
        })
    }
}

/// Whether no lesson fits beside the sections.
fn is_too_long(playbook: &Playbook, token_budget: u64) -> bool {
    let room = Rendering { token_budget }.room(&playbook.sections);
    !playbook.entries.is_empty() && playbook.entries.iter().all(|entry| entry.lesson.tokens() > room)
}

/// Warnings for the operator before this version is used in this run.
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
    Ok(elsewhere.into_iter().chain(unread(version, token_budget)?).collect())
}

/// The warning about a version none of whose lessons fits into the token budget.
fn unread(version: &PlaybookVersion, token_budget: u64) -> Result<Option<Warning>, AppError> {
    let too_long = is_too_long(&document(version)?, token_budget);
    Ok(too_long.then(|| Warning::NoLessonFits { playbook: version.name.clone(), token_budget }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::PluginIdentity;
    use clawhost_learn::{Entry, Lesson};
    use clawhost_run_config::{Key, RunSpecPatch, Source, Value, Verb};

    fn tasks(environment: &str, seed: u64, options: &[(&str, &str)]) -> Tasks {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let digest = PluginIdentity::native(environment).digest;
        Tasks { environment: environment.into(), digest, seed, options }
    }

    #[test]
    fn different_tasks_cause_a_warning() {
        let taught = tasks("env-shop", 1, &[]);
        let check = |now: Tasks, learned: &str, told: &str, difference: TaskDifference| {
            let (playbook, learned, told) = ("p".to_owned(), learned.to_owned(), told.to_owned());
            let expect = Warning::PlaybookFromElsewhere { playbook, learned, now: told, difference };
            assert_eq!(taught.compared("p", &now), Some(expect));
        };
        assert_eq!(taught.compared("p", &taught), None);
        let (here, other_seed) = ("env-shop with seed 1", TaskDifference::Seed { learned: 1 });
        check(tasks("env-shop", 0, &[]), here, "env-shop with seed 0", other_seed);
        let options = [("house", "7"), ("x", "1")];
        check(tasks("env-shop", 1, &options), here, "env-shop?house=7&x=1 with seed 1", TaskDifference::Options);
        check(tasks("env-shop", 2, &options), here, "env-shop?house=7&x=1 with seed 2", TaskDifference::Options);
        check(tasks("env-math", 1, &[]), here, "env-math with seed 1", TaskDifference::Environment);
    }

    #[test]
    fn another_component_with_the_same_name_is_shown_by_digest() {
        let taught = tasks("env-shop", 1, &[]);
        let rebuilt = |seed| Tasks { digest: Digest::of(b"rebuilt"), ..tasks("env-shop", seed, &[]) };
        let check = |now: Tasks, expect: TaskDifference| {
            let Some(Warning::PlaybookFromElsewhere { learned, now: told, difference, .. }) =
                taught.compared("p", &now)
            else {
                panic!("there is no warning");
            };
            assert_eq!(learned, format!("env-shop with seed 1 ({})", taught.digest.short()));
            assert_eq!((told, difference), (format!("{now} ({})", now.digest.short()), expect));
        };
        check(rebuilt(1), TaskDifference::Component);
        check(rebuilt(2), TaskDifference::Seed { learned: 1 });
    }

    #[test]
    fn the_tasks_of_a_run_are_read_from_its_specification() {
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
    fn a_budget_that_fits_no_lesson_is_detected() {
        let lesson = |text: &str| Entry::new(Lesson::read(text), "import");
        let playbook = |sections: &[(&str, &str)], lessons: &[&str]| Playbook {
            sections: sections.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
            entries: lessons.iter().map(|text| lesson(text)).collect(),
        };
        let long = "words ".repeat(100);
        assert!(is_too_long(&playbook(&[], &["short"]), 7));
        assert!(!is_too_long(&playbook(&[], &["short", &long]), 20), "one lesson that fits is sufficient");
        assert!(is_too_long(&playbook(&[("rules", &long)], &["short"]), 20), "sections come first");
        assert!(!is_too_long(&playbook(&[("rules", &long)], &[]), 20), "there is none");
    }
}
