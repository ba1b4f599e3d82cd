//! Arguments of commands for people who write plugins.

use clap::{Args, ValueEnum};
use clawhost_devkit::Template;
use clawhost_package::{Language, PluginName};
use std::path::{Path, PathBuf};

const NEW_HELP: &str = "For example:
  clawhost new environment tower && cd tower
  clawhost build && clawhost test && clawhost run .";

/// The folder that is named, or the working folder.
pub(crate) fn here(folder: Option<&Path>) -> &Path {
    folder.unwrap_or(Path::new(clawhost_app::HERE))
}

/// What a new plugin begins as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TemplateArg {
    /// An environment of text, with a reward beside it
    Environment,
    /// An environment with tools, tasks and files, with a reward beside it
    EnvironmentTools,
    /// A reward that compares with a reference
    Reward,
    /// A reward that asks a model
    RewardJudge,
    /// A reflector, which proposes lessons
    Reflector,
}

impl From<TemplateArg> for Template {
    fn from(template: TemplateArg) -> Self {
        match template {
            TemplateArg::Environment => Self::Environment,
            TemplateArg::EnvironmentTools => Self::EnvironmentTools,
            TemplateArg::Reward => Self::Reward,
            TemplateArg::RewardJudge => Self::RewardJudge,
            TemplateArg::Reflector => Self::Reflector,
        }
    }
}

/// The language of a new plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LanguageArg {
    /// With cargo
    Rust,
    /// With componentize-py
    Python,
    /// With componentize-qjs
    Js,
    /// With clang
    C,
}

impl From<LanguageArg> for Language {
    fn from(language: LanguageArg) -> Self {
        match language {
            LanguageArg::Rust => Self::Rust,
            LanguageArg::Python => Self::Python,
            LanguageArg::Js => Self::Js,
            LanguageArg::C => Self::C,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = NEW_HELP)]
pub(crate) struct NewArgs {
    /// What it begins as
    #[arg(value_enum, value_name = "KIND")]
    pub(crate) template: TemplateArg,
    /// Its name: small letters, digits and hyphens
    #[arg(value_name = "NAME")]
    pub(crate) name: PluginName,
    /// The language [default: rust]
    #[arg(long = "lang", value_enum, value_name = "LANGUAGE")]
    pub(crate) language: Option<LanguageArg>,
    /// The folder to make [default: NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// The SDK: the folder `sdk` of a checkout of clawhost [default: the one that this program was built from]
    #[arg(long, value_name = "DIR")]
    pub(crate) sdk: Option<PathBuf>,
}

const BUILD_HELP: &str = "A build runs code of the folder on this machine, as every build does: build scripts, macros, the command of claw.toml. It adds \
the WebAssembly target with rustup if it is missing, and gets the compiler of Python or JavaScript with pip or npm. What was built runs in the sandbox only (test, check, play, run).";

#[derive(Debug, Args)]
#[command(after_help = BUILD_HELP)]
pub(crate) struct BuildArgs {
    /// The folder of the plugin, which holds claw.toml [default: the working folder]
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Show what the compiler says only if it fails
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

const DEV_HELP: &str = "After each change it builds, plays an episode with the oracle of claw.toml (or at random), shows its turns, and plays the \
test cases. The component in build/ is replaced only by one whose episode did not fail. Like every build it runs code of the folder on this machine. \
Ctrl-C ends it.";

#[derive(Debug, Args)]
#[command(after_help = DEV_HELP)]
pub(crate) struct DevArgs {
    /// The folder of the plugin, which holds claw.toml [default: the working folder]
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// The seed of the episode [default: 0]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub(crate) seed: Option<u64>,
    /// Build and try once, and end: exit code 1 if the component was not taken
    #[arg(long)]
    pub(crate) once: bool,
    /// Load components up to 32 MiB, as guests with an interpreter (Python, JavaScript) are
    #[arg(long)]
    pub(crate) allow_interpreters: bool,
}

const TEST_HELP: &str = "Cases are tables [[case]] in tests/*.toml, see `clawhost new` for examples. Exit codes: 0 all passed, 1 a case failed, \
2 usage, 3 plugin refused.";

#[derive(Debug, Args)]
#[command(after_help = TEST_HELP)]
pub(crate) struct TestArgs {
    /// The folder of the plugin, which holds claw.toml [default: the working folder]
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Only cases whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Write what happened as what is expected, in cases that fail
    #[arg(long)]
    pub(crate) accept: bool,
    /// Write a report in the format JUnit into this file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Load components up to 32 MiB, as guests with an interpreter (Python, JavaScript) are
    #[arg(long)]
    pub(crate) allow_interpreters: bool,
}

const PLAY_HELP: &str = "You are the agent. A line is an answer; `calls TOOL {\"argument\": 1}` calls a tool; /tools shows the tools again; /quit ends. \
Nothing is recorded.";

#[derive(Debug, Args)]
#[command(after_help = PLAY_HELP)]
pub(crate) struct PlayArgs {
    /// The environment, or the folder of one, with options as in `PLUGIN.wasm?size=10` [default: the working folder]
    #[arg(value_name = "FOLDER|PLUGIN.wasm")]
    pub(crate) plugin: Option<String>,
    /// A reward that judges the episode, as in `clawhost run`; may be repeated [default: those of claw.toml]
    #[arg(long, value_name = "R.wasm[?OPTION=VALUE]")]
    pub(crate) reward: Vec<String>,
    /// The split of the task [default: the first one]
    #[arg(long, value_name = "SPLIT")]
    pub(crate) split: Option<String>,
    /// The task, as `clawhost tasks` lists it [default: the first one]
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,
    /// The seed [default: 0]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub(crate) seed: Option<u64>,
    /// Most turns [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max_turns: Option<u32>,
    /// Load components up to 32 MiB, as guests with an interpreter (Python, JavaScript) are
    #[arg(long)]
    pub(crate) allow_interpreters: bool,
}

const CHECK_HELP: &str = "It compares what claw.toml promises with what it measures: world and sections, splits, seeds, replay, tools, hostile agents, \
the oracle and an agent that does nothing; of a reward: equal episodes, order, padding, praise and form, labels. Exit codes: 0 nothing failed, \
1 a check failed, 2 usage, 3 plugin refused.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArgs {
    /// The folder of the plugin, or a component, with options as in `PLUGIN.wasm?size=10` [default: the working folder]
    #[arg(value_name = "FOLDER|PLUGIN.wasm")]
    pub(crate) plugin: Option<String>,
    /// A reward that judges an environment, as in `clawhost run`; may be repeated [default: those of claw.toml]
    #[arg(long, value_name = "R.wasm[?OPTION=VALUE]")]
    pub(crate) reward: Vec<String>,
    /// The seed from which everything is drawn [default: 1]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub(crate) seed: Option<u64>,
    /// Load components up to 32 MiB, as guests with an interpreter (Python, JavaScript) are
    #[arg(long)]
    pub(crate) allow_interpreters: bool,
}
