//! The command line.

mod commands;
mod given;
mod machine;
mod problems;
mod runs;
mod spec;

pub(crate) use commands::{
    EpisodesCommand, EvalArgs, FeedbackArgs, InspectArgs, LearnArgs, ReplayArgs, RunArgs, ScoreArgs, TasksArgs, Thumbs,
};
pub(crate) use given::{Place, placed, placed_by_flag};
pub(crate) use machine::{EndpointArgs, MachineArgs};
pub(crate) use problems::{LAYER, flag, option_flag, rendered};
pub(crate) use runs::{EpisodeFilterArgs, RunListArgs, RunsCommand, WhichRuns};

use crate::data_folder::DataCommand;
use crate::demo::DemoCommand;
use crate::model::ModelCommand;
use crate::playbook::PlaybookCommand;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const COMPLETIONS_HELP: &str = "For example, once per shell:
  bash  clawhost completions bash > ~/.local/share/bash-completion/completions/clawhost
  zsh   clawhost completions zsh > \"${fpath[1]}/_clawhost\"
  fish  clawhost completions fish > ~/.config/fish/completions/clawhost.fish";

/// Environments, rewards and reflectors as sandboxed WebAssembly plugins: played, scored, recorded and learned from.
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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Play an environment with a policy, score it with rewards, and record every episode
    Run(Box<RunArgs>),
    /// Learn from episodes: a playbook of lessons, the weights of a local model, or both
    Learn(Box<LearnArgs>),
    /// Judge a playbook on the test split, pair by pair against none or an older version
    Eval(Box<EvalArgs>),
    /// Judge recorded episodes with another reward, or again where a judge had failed
    Score(Box<ScoreArgs>),
    /// Say what a recorded episode is worth: a score, or a thumb up or down. Learning takes it in
    Feedback(FeedbackArgs),
    /// Play recorded episodes again and compare every turn and verdict, byte for byte
    Replay(ReplayArgs),
    /// Show what a plugin is and what it asks for, before running it
    Inspect(InspectArgs),
    /// List the tasks of an environment, split by split
    Tasks(TasksArgs),
    /// Look at recorded runs: lists, one in full, names, tags, removal
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Look at recorded episodes
    #[command(subcommand)]
    Episodes(EpisodesCommand),
    /// Look at playbooks: all there are, entries with what they are worth, versions, rollback, export and import
    #[command(subcommand)]
    Playbook(PlaybookCommand),
    /// Local models: made, looked at, asked, taken over from Hugging Face and written for it
    #[command(subcommand)]
    Model(ModelCommand),
    /// What the data folder holds, and removing what is no longer needed
    Data(DataCommand),
    /// Proofs that run anywhere: no key, no server
    #[command(subcommand)]
    Demo(DemoCommand),
    /// Check what this machine has and lacks: toolchains, data folder, memory limits, endpoints
    Doctor(Box<DoctorArgs>),
    /// Compile a component for another process of this program
    #[command(name = crate::subprocess::COMPILE, hide = true)]
    CompileComponent,
    /// Try a device out for another process of this program
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

/// A number in a range.
fn in_range(text: &str, low: f64, high: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("expected a number between {low} and {high}")),
    }
}

/// A share, 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    in_range(text, 0.0, 1.0)
}

/// A sampling temperature, 0 to 2.
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

    /// What the help of a command says.
    /// What a user reads.
    fn help(command: &str) -> String {
        Arguments::try_parse_from(["clawhost", command, "--help"]).unwrap_err().to_string()
    }

    #[test]
    fn help_of_a_run_is_short_and_names_what_a_run_has() {
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
    fn help_of_learning_stands_under_headings() {
        let text = help("learn").split_whitespace().collect::<Vec<_>>().join(" ");
        for part in
            ["Harness:", "Weights:", "--layer", "--reflector", "--rate", "[default: 0.002; of an adapter 0.0002]"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(help("eval").contains("--pairs") && !help("eval").contains("--branch-at"));
    }
}
