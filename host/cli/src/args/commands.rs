//! Arguments of commands that play, learn, evaluate and inspect.

use super::spec::{Evaluates, Learns, Plays, SpecArgs};
use super::{EpisodeFilterArgs, MachineArgs, WhichRuns, share, thresholds};
use clap::{Args, Subcommand};
use clawhost_app::{Start, TASKS_LISTED, TASKS_SEED};
use clawhost_play::Sides;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) spec: SpecArgs<Plays>,
    #[command(flatten)]
    pub(crate) resume: ResumeArgs,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct LearnArgs {
    #[command(flatten)]
    pub(crate) spec: SpecArgs<Learns>,
    #[command(flatten)]
    pub(crate) resume: ResumeArgs,
    /// Check everything, print the plan and what it costs at most, and play nothing
    #[arg(long, conflicts_with = "resume", help_heading = "Learning")]
    pub(crate) dry_run: bool,
    /// Print a run.toml with every key, to begin with
    #[arg(long, conflicts_with = "target", help_heading = "Learning")]
    pub(crate) sample: bool,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    pub(crate) spec: SpecArgs<Evaluates>,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

const FEEDBACK_HELP: &str = "Feedback is the most reliable source of a reward: from then on it is the episode's reward. Saying something else \
later is a correction. Nothing that was said is overwritten; `clawhost episodes show EPISODE` prints the history.";

#[derive(Debug, Args)]
#[command(after_help = FEEDBACK_HELP)]
#[command(group = clap::ArgGroup::new("worth").required(true).args(["score", "thumbs"]))]
pub(crate) struct FeedbackArgs {
    /// The episode: its id, or RUN/ID if several runs have this id, as in `clawhost episodes list`
    #[arg(value_name = "EPISODE")]
    pub(crate) episode: String,
    /// The score, -1 to 1
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) score: Option<f64>,
    /// up is a score of 1, down a score of -1
    #[arg(long, value_enum)]
    pub(crate) thumbs: Option<Thumbs>,
    /// The reason as text; recorded with the score, at most 16 KiB
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// A key of your choice: the same feedback with the same key is recorded once
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

/// A thumb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Thumbs {
    /// A score of 1.
    Up,
    /// A score of -1.
    Down,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Resume an interrupted run: the same command with --resume plays what is missing. Without a value the newest run
    /// of this specification, otherwise the run with this id, name, or beginning of an id
    #[arg(long, value_name = "RUN", num_args = 0..=1, require_equals = true)]
    resume: Option<Option<String>>,
}

impl ResumeArgs {
    /// How the run begins.
    pub(crate) fn start(&self) -> Start {
        match &self.resume {
            None => Start::New,
            Some(run) => Start::Resume(run.clone().filter(|run| !run.is_empty())),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct ScoreArgs {
    /// A reward that judges the episodes, as in `clawhost run`; may be repeated
    #[arg(long, value_name = "R.wasm[?OPTION=VALUE]", required_unless_present = "history")]
    pub(crate) reward: Vec<String>,
    /// Runs: ids, names, beginnings of ids, or `last` [default: the newest run]
    #[arg(value_name = "RUN", conflicts_with_all = ["run", "all"])]
    pub(crate) named: Vec<String>,
    /// Compare the one reward with this judge of the same episodes: another reward, as in --reward; `own`, the reward that each episode has
    /// already, without verdicts of the compared one; or `feedback`, the mean of what people said. Existing verdicts are used
    #[arg(long, value_name = "R.wasm[?OPTION=VALUE]|own|feedback", help_heading = "Comparison")]
    pub(crate) against: Option<String>,
    /// Scores from which on an episode passes: one for both judges, or `A,B` [default: the middle of each one's range]
    #[arg(long, value_name = "T[,T]", value_parser = thresholds, allow_negative_numbers = true, requires = "against", help_heading = "Comparison")]
    pub(crate) threshold: Option<Sides<f64>>,
    /// Most disagreements that are shown [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=1000), requires = "against", help_heading = "Comparison")]
    pub(crate) disagreements: Option<u16>,
    /// Show which components of the reward with this name have judged episodes, the newest last; judges nothing [default: of all runs]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["reward", "against", "again", "failure_budget", "grant", "max_tokens_total", "max_cost", "price", "concurrency"], help_heading = "History")]
    pub(crate) history: Option<String>,
    #[command(flatten)]
    pub(crate) runs: WhichRuns,
    /// Groups that are judged concurrently; never changes a result [default: 16]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrency: Option<u16>,
    /// Request existing verdicts again, and count those that would differ; the existing ones stay
    #[arg(long)]
    pub(crate) again: bool,
    /// Share of the verdicts that may fail before scoring stops, 0 to 1, rounded down [default: 0.1]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) failure_budget: Option<f64>,
    /// Permissions of rewards beyond computing and logging: `kv`, or `llm:ALIAS=SPEC` with SPEC as in --policy; may be
    /// repeated
    #[arg(long, value_name = "GRANT", help_heading = "Model")]
    pub(crate) grant: Vec<String>,
    /// Stop requests to models after this many tokens in total, read and generated
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) max_tokens_total: Option<u64>,
    /// Stop requests to models after this amount of money; needs --price
    #[arg(long, value_name = "MONEY", requires = "price", help_heading = "Model")]
    pub(crate) max_cost: Option<f64>,
    /// Price per million tokens, read and generated, as `0.15,0.60`
    #[arg(long, value_name = "IN,OUT", help_heading = "Model")]
    pub(crate) price: Option<String>,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct ReplayArgs {
    /// One episode: its id, or RUN/ID if several runs have this id [default: all of the newest run]
    #[arg(value_name = "EPISODE", conflicts_with_all = ["all", "run"])]
    pub(crate) episode: Option<String>,
    #[command(flatten)]
    pub(crate) runs: WhichRuns,
    /// Add the episode to this file as a test case, too: what happened is expected from then on (`clawhost test` plays it)
    #[arg(long, value_name = "FILE", requires = "episode")]
    pub(crate) save: Option<PathBuf>,
    /// Groups that are replayed concurrently; never changes a result [default: 16]
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrency: Option<u16>,
    /// Instantiate without a reserved pool, for machines with little address space
    #[arg(long, help_heading = "Host")]
    pub(crate) on_demand: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The component, or the folder of a plugin [default: the working folder]
    #[arg(value_name = "FOLDER|PLUGIN.wasm")]
    pub(crate) plugin: Option<String>,
    /// Also print its readme: the one in its folder, or the one that was published with it
    #[arg(long)]
    pub(crate) readme: bool,
    /// Load components up to 32 MiB, as guests with an interpreter (Python, JavaScript) are
    #[arg(long)]
    pub(crate) allow_interpreters: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TasksArgs {
    /// The environment, or its folder, with options as in `PLUGIN.wasm?size=10` [default: the working folder]
    #[arg(value_name = "FOLDER|PLUGIN.wasm")]
    pub(crate) plugin: Option<String>,
    /// Only this split [default: all splits]
    // `run` calls the split of a run `--tasks`.
    #[arg(long, value_name = "SPLIT", alias = "tasks")]
    pub(crate) split: Option<String>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000), help = tasks_help())]
    pub(crate) limit: Option<u64>,
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = tasks_seed_help())]
    pub(crate) seed: Option<u64>,
    /// Show references too: a model or a person that has seen them can no longer be measured on these tasks
    #[arg(long)]
    pub(crate) reference: bool,
    /// Load components up to 32 MiB, as guests with an interpreter (Python, JavaScript) are
    #[arg(long)]
    pub(crate) allow_interpreters: bool,
}

fn tasks_seed_help() -> String {
    format!("The seed, from which some environments draw their tasks [default: {TASKS_SEED}]")
}

fn tasks_help() -> String {
    format!("At most so many of each split [default: {TASKS_LISTED}]")
}

#[derive(Debug, Subcommand)]
pub(crate) enum EpisodesCommand {
    /// List episodes of the newest run, of a run, or of all; filters may be combined
    List {
        #[command(flatten)]
        runs: WhichRuns,
        #[command(flatten)]
        filter: EpisodeFilterArgs,
        /// Largest number of episodes [default: 20]
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Follow what agents say through the gateway that runs, exchange by exchange, until Ctrl-C
    Tail,
    /// End the open sessions of agents: each becomes an episode. A gateway that runs ends them by itself
    Close,
    /// Show one episode: every turn, the verdicts, and failures
    Show {
        /// Its id, or RUN/ID if several runs have this id; of an open episode also its session
        #[arg(value_name = "EPISODE")]
        episode: String,
    },
    /// Export episodes of the newest run, of a run, or of all as JSON lines; filters may be combined
    Export {
        #[command(flatten)]
        runs: WhichRuns,
        #[command(flatten)]
        filter: EpisodeFilterArgs,
        /// The file to write [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}
