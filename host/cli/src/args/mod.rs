//! The command line.

mod authoring;
mod commands;
mod given;
mod machine;
mod problems;
mod runs;
mod spec;

pub(crate) use authoring::{BuildArgs, CheckArgs, DevArgs, NewArgs, PlayArgs, TestArgs, here};
pub(crate) use commands::{
    EpisodesCommand, EvalArgs, FeedbackArgs, InspectArgs, LearnArgs, ReplayArgs, RunArgs, ScoreArgs, TasksArgs, Thumbs,
};
pub(crate) use given::{Place, placed, placed_by_flag};
pub(crate) use machine::{EndpointArgs, MachineArgs};
pub(crate) use problems::{LAYER, flag, option_flag, rendered};
pub(crate) use runs::{EpisodeFilterArgs, RunListArgs, RunsCommand, WhichRuns};

use crate::background::StartArgs;
use crate::collect::CollectArgs;
use crate::compare::CompareArgs;
use crate::config::ConfigCommand;
use crate::connect::ConnectArgs;
use crate::data_folder::DataCommand;
use crate::demo::DemoCommand;
use crate::endpoints::EndpointsCommand;
use crate::forget::ForgetArgs;
use crate::keys::KeysCommand;
use crate::memory::MemoryCommand;
use crate::model::ModelCommand;
use crate::modules::{AddArgs, ListArgs, PublishArgs, PullArgs, SearchArgs, UpdateArgs, YankArgs};
use crate::playbook::PlaybookCommand;
use crate::proof::{ProveArgs, VerifyArgs};
use crate::router::RouterCommand;
use crate::serve::ServeArgs;
use crate::setup::SetupArgs;
use crate::sweep::SweepArgs;
use crate::top::TopArgs;
use crate::train_step::TrainStepArgs;
use clap::{Args, Parser, Subcommand};
use clawhost_play::Sides;
use std::path::PathBuf;

const COMPLETIONS_HELP: &str = "For example, once per shell:
  bash  clawhost completions bash > ~/.local/share/bash-completion/completions/clawhost
  zsh   clawhost completions zsh > \"${fpath[1]}/_clawhost\"
  fish  clawhost completions fish > ~/.config/fish/completions/clawhost.fish";

/// Play, score, record and learn from environments, with sandboxed WebAssembly plugins
#[derive(Debug, Parser)]
#[command(name = "clawhost", version, max_term_width = 100, after_help = crate::exit::HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Common {
    /// Folder for episodes, plugins and compiled code [default: the platform's data folder]
    #[arg(long, value_name = "DIR", env = "CLAWHOST_HOME", global = true)]
    pub(crate) data: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Where modules come from that were not pulled yet [default: the folder `registry` of the data folder]
    #[arg(long, value_name = "REGISTRY", env = "CLAWHOST_REGISTRY", global = true, hide = true)]
    pub(crate) registry: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Play an environment with a policy, score it with rewards, and record every episode
    Run(Box<RunArgs>),
    /// Learn from episodes: a playbook of lessons, the weights of a local model, a router between models, or several
    Learn(Box<LearnArgs>),
    /// Evaluate a playbook on the test split, pair by pair, against no playbook or an older version
    Eval(Box<EvalArgs>),
    /// Serve models to agents, and record every conversation as an episode
    Serve(Box<ServeArgs>),
    /// Start a gateway in the background, with the options of `clawhost serve`
    Start(Box<StartArgs>),
    /// Stop the gateway of the data folder: its requests end, and everything is recorded
    Stop,
    /// Make the gateway of the data folder read gateway.toml and the keys again, and say what it thinks of them
    Reload,
    /// Say whether a gateway runs in the data folder, and whether it is ready (exit code 1 if not)
    Status,
    /// Ask what a gateway serves, and write its configuration
    Setup(Box<SetupArgs>),
    /// The gateway's configuration: show, get, set, unset
    Config(ConfigCommand),
    /// Make a client (openclaw, codex, claude-code, opencode, hermes) ask the gateway, or take that back
    Connect(Box<ConnectArgs>),
    /// Watch a gateway: requests, added latency, tokens, sessions, models; refreshed each second on a terminal
    Top(TopArgs),
    /// Run a command for every task of a file, and collect what its agent does for trainers
    Collect(Box<CollectArgs>),
    /// Score recorded episodes with other rewards, or repeat failed verdicts
    Score(Box<ScoreArgs>),
    /// Take one step of the weights that learn from live sessions, by hand
    TrainStep(Box<TrainStepArgs>),
    /// Judge a recorded episode yourself: a score, or a thumb up or down. Learning uses it
    Feedback(FeedbackArgs),
    /// Replay recorded episodes, and compare every turn and verdict byte for byte
    Replay(ReplayArgs),
    /// Pack a finished run into one file that others can verify: specification, components, episodes, reports, playbook
    Prove(ProveArgs),
    /// Verify such a file: play its episodes again, compute every number again, and say what only its author can know
    Verify(VerifyArgs),
    /// Make a new plugin: a folder with sources, tests and a manifest
    New(NewArgs),
    /// Build the plugin of a folder
    Build(BuildArgs),
    /// Build and try a plugin again whenever a source changes
    Dev(DevArgs),
    /// Play the test cases of a plugin against its component
    Test(TestArgs),
    /// Measure what a plugin promises: seeds, replay, hostile agents, oracle and floor; of a reward: order, padding, praise, labels
    Check(CheckArgs),
    /// Play an episode of an environment yourself, in the terminal
    Play(PlayArgs),
    /// Publish a plugin or a playbook in a registry: a server, or a folder
    Publish(PublishArgs),
    /// Add a module to the project: pull it, check it, show what it may do, and pin it in claw.lock
    Add(AddArgs),
    /// Say which newer versions claw.lock could pin, and what would change; or pin them
    Update(UpdateArgs),
    /// Pull a module without pinning it
    Pull(PullArgs),
    /// List modules: those that were pulled, or those of a registry
    List(ListArgs),
    /// Search the modules of a registry
    Search(SearchArgs),
    /// Withdraw or deprecate a version of a module
    Yank(YankArgs),
    /// Show a plugin and the permissions that it needs, before running it
    Inspect(InspectArgs),
    /// List the tasks of an environment, split by split
    Tasks(TasksArgs),
    /// Play or learn variants of one run within a budget of episodes: a grid, or successive halving
    Sweep(Box<SweepArgs>),
    /// Compare runs: rewards, lifts and costs in a table, differences with intervals, curves as a drawing
    Compare(CompareArgs),
    /// Recorded runs: list, show, name, tag, remove
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Recorded episodes: list, show, export, close
    #[command(subcommand)]
    Episodes(EpisodesCommand),
    /// Playbooks: list, show entries and their effects, versions, rollback, export and import
    #[command(subcommand)]
    Playbook(PlaybookCommand),
    /// Routers between models: show what one has learned, explain a decision, judge policies on a log
    #[command(subcommand)]
    Router(RouterCommand),
    /// Local models: create, describe, generate, chat, import and export
    #[command(subcommand)]
    Model(ModelCommand),
    /// Show the contents of the data folder, and remove old runs
    Data(DataCommand),
    /// Say which addresses may receive keys from the environment, beside the providers' own
    Endpoints(EndpointsCommand),
    /// Keys of the gateway's clients: list, add, remove; and keys that sign modules: new, trust, revoke, policy
    Keys(KeysCommand),
    /// What gateways remember of users, projects, agents and teams: list, add, forget, export and import
    #[command(subcommand)]
    Memory(MemoryCommand),
    /// Forget what a user, a project, an agent or a key said: sessions, memory, and what came from them
    Forget(ForgetArgs),
    /// Demonstrations that need no key and no server
    #[command(subcommand)]
    Demo(DemoCommand),
    /// Check what this machine has and lacks: toolchains, data folder, memory limits, endpoints
    Doctor(Box<DoctorArgs>),
    /// Compile a component for another process of this program
    #[command(name = crate::subprocess::COMPILE, hide = true)]
    CompileComponent,
    /// Interpret the texts of a model folder for another process of this program
    #[command(name = crate::subprocess::TEXTS, hide = true)]
    InterpretTexts,
    /// Try a device for another process of this program
    #[command(name = crate::subprocess::PROBE, hide = true)]
    ProbeDevice {
        /// A device (vulkan:0), or a backend whose devices are listed (vulkan)
        #[arg(value_name = "DEVICE")]
        what: String,
    },
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Ask this model one word: a SPEC as in `clawhost run --policy`
    #[arg(long, value_name = "SPEC")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
}

/// Parses a number in a range.
fn in_range(text: &str, low: f64, high: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("expected a number between {low} and {high}")),
    }
}

/// Parses a share, 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    in_range(text, 0.0, 1.0)
}

/// Parses the scores from which on episodes pass: one for both judges, or one for each.
pub(crate) fn thresholds(text: &str) -> Result<Sides<f64>, String> {
    let (a, b) = text.split_once(',').unwrap_or((text, text));
    Ok(Sides { a: in_range(a, -1.0, 1.0)?, b: in_range(b, -1.0, 1.0)? })
}

/// Parses a sampling temperature, 0 to 2.
pub(crate) fn temperature(text: &str) -> Result<f32, String> {
    in_range(text, 0.0, 2.0)?;
    text.parse().map_err(|_| "expected a number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// The text of a command's help.
    fn help(command: &str) -> String {
        Arguments::try_parse_from(["clawhost", command, "--help"]).unwrap_err().to_string()
    }

    #[test]
    fn help_of_a_run_is_short_and_lists_only_its_own_options() {
        let text = help("run");
        assert!(text.lines().count() <= 120, "{} lines", text.lines().count());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for option in ["--reward", "--policy", "--group", "--max-tokens", "--device", "[default: follower]"] {
            assert!(text.contains(option), "{option}: {text}");
        }
        for option in ["--iterations", "--reflector", "--rate", "--pairs", "--layer"] {
            assert!(!text.contains(option), "{option}: {text}");
        }
    }

    #[test]
    fn help_of_learning_has_headings() {
        let text = help("learn").split_whitespace().collect::<Vec<_>>().join(" ");
        for part in
            ["Harness:", "Weights:", "--layer", "--reflector", "--rate", "[default: 0.002; of an adapter 0.0002]"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(help("eval").contains("--pairs") && !help("eval").contains("--branch-at"));
    }
}
