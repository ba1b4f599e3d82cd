//! The description of a run on the command line: an environment or a file, and one flag for each option of the table.

use super::problems::{LAYER, long_name, rendered};
use crate::exit::UsageError;
use crate::shell::quoted;
use clap::builder::ArgAction;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use clawhost_app::{AppError, PluginFolder, check_run_file};
use clawhost_run_config::{Key, Kind, Layer, RunSpec, RunSpecPatch, Source, Topic, Value, Verb};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// The environment, or a file.
const TARGET: &str = "target";
/// A second positional argument. No command takes one; it is parsed so that the message can explain the mistake.
const STRAY: &str = "stray";
/// The flag that resumes a run.
const RESUME: &str = "resume";
/// Prefix of run ids.
const RUN_PREFIX: &str = "run-";
/// The flag that lets a run file name files outside of its folder.
const TRUST: &str = "trust-run-file";
/// The flag that replaces a run.
const SAMPLE: &str = "sample";

/// The verb of a command.
pub(crate) trait Does: std::fmt::Debug {
    /// The verb.
    const VERB: Verb;
}

/// Playing.
#[derive(Debug)]
pub(crate) struct Plays;

/// Learning.
#[derive(Debug)]
pub(crate) struct Learns;

/// Evaluating a playbook.
#[derive(Debug)]
pub(crate) struct Evaluates;

impl Does for Plays {
    const VERB: Verb = Verb::Play;
}

impl Does for Learns {
    const VERB: Verb = Verb::Learn;
}

impl Does for Evaluates {
    const VERB: Verb = Verb::Evaluate;
}

/// The description of a run as it was typed.
#[derive(Debug)]
pub(crate) struct SpecArgs<V> {
    target: Option<String>,
    flags: RunSpecPatch,
    /// Flags whose text cannot be parsed, with the reason.
    unread: BTreeMap<Key, String>,
    /// Whether the file may name files outside of its folder.
    is_file_trusted: bool,
    verb: PhantomData<V>,
}

/// A described run, and the options that were set.
#[derive(Debug)]
pub(crate) struct Described {
    /// The run.
    pub(crate) spec: RunSpec,
    /// The options that were set on the command line and in the file; all others are defaults.
    pub(crate) said: RunSpecPatch,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
}

/// Largest run file: a text of keys and values.
const RUN_FILE_BYTES: u64 = 1 << 20;

/// Whether the name is that of a run file.
fn is_run_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "toml")
}

impl<V: Does> SpecArgs<V> {
    /// The run. Flags win over the file, the file over defaults.
    ///
    /// # Errors
    /// All problems.
    pub(crate) fn resolve(&self) -> Result<Described, UsageError> {
        match self.target.as_deref().filter(|name| is_run_file(name)) {
            None => self.resolved(None),
            Some(name) => {
                let path = Path::new(name);
                let text = clawhost_files::read_text(path, RUN_FILE_BYTES)
                    .map_err(|error| UsageError(format!("{}: {error}", path.display())))?;
                self.resolved(Some((path, &text)))
            }
        }
    }

    /// What the manifest of a plugin's folder says about its runs. Empty for a component.
    fn folder(&self) -> Result<RunSpecPatch, UsageError> {
        let target = self.target.as_deref().unwrap_or_default();
        let path = Path::new(target.split_once('?').map_or(target, |(path, _)| path));
        match path.is_dir() {
            true => Ok(PluginFolder::open(path)
                .map_err(|error| UsageError(crate::exit::message(&AppError::from(error).into())))?
                .defaults(V::VERB)),
            false => Ok(RunSpecPatch::new()),
        }
    }

    /// The run, with the contents of the file.
    fn resolved(&self, file: Option<(&Path, &str)>) -> Result<Described, UsageError> {
        let path = file.map(|(path, _)| path);
        let refused = |problems| UsageError(rendered(&problems, path, &self.unread));
        let lower = match file {
            None => self.folder()?,
            Some((path, text)) => {
                let folder = path.parent().unwrap_or(Path::new("")).display().to_string();
                let options = RunSpecPatch::from_toml(text, &folder).map_err(refused)?;
                if !self.is_file_trusted {
                    check_run_file(path, &options).map_err(|problems| {
                        let told = rendered(&problems, Some(path), &self.unread);
                        UsageError(format!("{told}; move it there, or trust the run file with --{TRUST}"))
                    })?;
                }
                options
            }
        };
        if let Some(path) = path.filter(|_| V::VERB == Verb::Play && learns(&lower)) {
            let name = path.display().to_string();
            return Err(UsageError(format!(
                "{name} names layers that learn, and `clawhost run` plays alone; learn with `clawhost learn {}`",
                quoted(&name)
            )));
        }
        let mut flags = self.flags.clone();
        // Of a plugin's folder, the manifest names the options; options behind it on the command line replace them.
        let has_own_options = self.target.as_deref().is_some_and(|target| !Path::new(target).is_dir());
        if let (None, Some(plugin)) = (path, &self.target)
            && has_own_options
        {
            flags.set(Key::Plugin, Value::Text(plugin.clone()), Source::Flag);
        }
        if V::VERB == Verb::Play && learns(&flags) {
            return Err(UsageError(format!("--{LAYER}: `clawhost run` plays alone; learn with `clawhost learn`")));
        }
        let said = flags.over(lower);
        let exists = |name: &str| Path::new(name).exists();
        let spec = said.clone().resolve_with(V::VERB, &exists).map_err(refused)?;
        Ok(Described { spec, said, file: path.map(Path::to_path_buf) })
    }
}

fn learns(patch: &RunSpecPatch) -> bool {
    patch.layers().is_some_and(|(layers, _)| !layers.is_empty())
}

/// The help of an option: its summary, whether it may be repeated, and its default.
fn help(key: Key) -> String {
    let repeated = if key.kind() == Kind::Texts && key != Key::AdapterTargets { "; may be repeated" } else { "" };
    let default = key.default_text().map(|text| format!(" [default: {text}]")).unwrap_or_default();
    format!("{}{repeated}{default}", key.summary())
}

/// The clap argument of an option. Options that the command does not have are hidden: the validator explains where they
/// belong.
fn argument(key: Key, verb: Verb) -> Arg {
    let argument = Arg::new(key.name())
        .long(long_name(key))
        .value_name(key.value_name())
        .help(help(key))
        .help_heading(key.topic().heading())
        .hide(!key.applies_to(verb));
    match key.kind() {
        Kind::Flag => argument.num_args(0..=1).require_equals(true).default_missing_value("true"),
        Kind::Texts if key == Key::AdapterTargets => argument.action(ArgAction::Append).value_delimiter(','),
        Kind::Texts => argument.action(ArgAction::Append),
        Kind::Whole { .. } | Kind::Number { .. } => argument.allow_negative_numbers(true),
        Kind::Text => argument,
    }
}

/// The problem of the positional arguments, if there is one.
fn astray([target, stray]: &[Option<String>; 2], resumes: bool) -> Option<String> {
    let is_run = |word: &&String| word.starts_with(RUN_PREFIX) && !Path::new(word).exists();
    match [target, stray].into_iter().flatten().find(is_run).filter(|_| resumes) {
        Some(run) => {
            Some(format!("unexpected argument '{run}': the run to resume needs an equals sign, as in --{RESUME}={run}"))
        }
        None => stray.as_ref().map(|word| format!("unexpected argument '{word}' found")),
    }
}

/// Options with a flag: all except the environment, which is positional.
fn flags() -> impl Iterator<Item = Key> {
    Key::ALL.iter().copied().filter(|key| *key != Key::Plugin)
}

impl<V: Does> Args for SpecArgs<V> {
    fn augment_args(command: Command) -> Command {
        let target = Arg::new(TARGET).value_name("PLUGIN.wasm|run.toml").help(
            "The environment, with options as in `PLUGIN.wasm?size=10&guesses=5`; the folder of a plugin; the name of a module; or a file that describes \
             the run",
        );
        let target = match V::VERB {
            Verb::Learn => target.required_unless_present(SAMPLE),
            Verb::Play | Verb::Evaluate => target.required(true),
        };
        let layers = Layer::ALL.map(Layer::name).join(" or ");
        let layer = Arg::new(LAYER)
            .long(LAYER)
            .value_name("LAYER")
            .action(ArgAction::Append)
            .help(format!("What learns: {layers}; may be repeated"))
            .help_heading(Topic::Learning.heading())
            .hide(V::VERB != Verb::Learn);
        let stray = Arg::new(STRAY).hide(true);
        let trust = Arg::new(TRUST)
            .long(TRUST)
            .action(ArgAction::SetTrue)
            .help("Let the run file name files outside of its folder: prompts, models and plugins")
            .help_heading(Topic::Run.heading());
        flags().fold(command.arg(target).arg(stray).arg(layer).arg(trust), |command, key| {
            command.arg(argument(key, V::VERB))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<V: Does> FromArgMatches for SpecArgs<V> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let texts = |name: &str| -> Option<Vec<String>> {
            matches.get_many::<String>(name).map(|texts| texts.cloned().collect())
        };
        let resumes = matches.try_contains_id(RESUME).unwrap_or(false);
        let words = [TARGET, STRAY].map(|name| texts(name).and_then(|texts| texts.into_iter().next()));
        if let Some(why) = astray(&words, resumes) {
            return Err(clap::Error::raw(clap::error::ErrorKind::UnknownArgument, format!("{why}\n")));
        }
        let mut read = Self {
            target: texts(TARGET).and_then(|texts| texts.into_iter().next()),
            flags: RunSpecPatch::new(),
            unread: BTreeMap::new(),
            is_file_trusted: matches.get_flag(TRUST),
            verb: PhantomData,
        };
        for key in flags() {
            let Some(texts) = texts(key.name()) else { continue };
            let value = match (key.kind(), texts.as_slice()) {
                (Kind::Texts, _) => Value::Texts(texts),
                // A value of a wrong shape, so that the validator refuses it without consequential problems.
                (_, [text]) => key.read(text).unwrap_or_else(|why| {
                    read.unread.insert(key, why);
                    Value::Text(text.clone())
                }),
                _ => continue,
            };
            read.flags.set(key, value, Source::Flag);
        }
        if let Some(layers) = texts(LAYER) {
            read.flags.set_layers(layers, Source::Flag);
        }
        Ok(read)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
