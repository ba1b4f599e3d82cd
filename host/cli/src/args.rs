//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const COMPLETIONS_HELP: &str = "For example, once per shell:
  bash  clawhost completions bash > ~/.local/share/bash-completion/completions/clawhost
  zsh   clawhost completions zsh > \"${fpath[1]}/_clawhost\"
  fish  clawhost completions fish > ~/.config/fish/completions/clawhost.fish";

/// Environments, rewards and reflectors as sandboxed WebAssembly plugins: played, scored and recorded.
#[derive(Debug, Parser)]
#[command(name = "clawhost", version, max_term_width = 100, after_help = crate::exit::HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
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
    Run(Box<Run>),
    /// Show what a plugin is and what it asks for, before running it
    Inspect(Inspect),
    /// Judge recorded episodes with another reward, or again where a judge had failed
    Score(Box<Score>),
    /// Play recorded episodes again and compare every turn and verdict, byte for byte
    Replay(Replay),
    /// Judge a playbook on the test split, pair by pair against none or an older version
    Eval(Box<Eval>),
    /// Look at playbooks: all there are, entries with what they are worth, versions, rollback, export and import
    #[command(subcommand)]
    Playbook(Playbook),
    /// Local models: made, looked at, asked, taken over from Hugging Face and written for it
    #[command(subcommand)]
    Model(crate::model::args::Model),
    /// Proofs that run anywhere: no key, no server
    #[command(subcommand)]
    Demo(Demo),
    /// Look at recorded episodes
    #[command(subcommand)]
    Episodes(Episodes),
    /// Check what this machine has and lacks: toolchains, data folder, memory limits, endpoints
    Doctor(Box<Doctor>),
    /// Compile a component for another process of this program
    #[command(name = crate::hosting::COMPILE, hide = true)]
    CompileComponent,
    /// Try a device out for another process of this program
    #[command(name = crate::device::PROBE, hide = true)]
    ProbeDevice {
        /// A device (vulkan:0), or a backend whose devices are listed (vulkan)
        #[arg(value_name = "DEVICE")]
        what: String,
    },
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(Completions),
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP, after_long_help = run_help())]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) play: PlayOptions,
    /// Which tasks: a split of the environment [default: train]
    #[arg(long, value_name = "SPLIT")]
    pub(crate) tasks: Option<String>,
    /// How many episodes to play [default: 20; learning: 64 an iteration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) episodes: Option<u64>,
    /// Episodes per task and seed, judged together [default: 1; learning: 4; weights: 8]
    #[arg(long, value_name = "G", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) group: Option<u32>,
    /// Let the episodes of a group share their first K turns and go their own ways from there; needs --group
    #[arg(long, value_name = "K", requires = "group", conflicts_with = "learn", value_parser = clap::value_parser!(u32).range(1..10_000))]
    pub(crate) branch_at: Option<u32>,
    /// Take a run up again that was interrupted: the same command with --resume plays what is missing. The newest
    /// unfinished run of this configuration, or the one that is named
    #[arg(long, value_name = "RUN", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    /// The playbook that the policy is given, by name; with --learn harness the one that is learned [default with that: the
    /// environment's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) playbook: Option<String>,
    #[command(flatten)]
    pub(crate) learning: LearnOptions,
}

impl Run {
    /// Who acts: --model DIR is short for a policy.
    pub(crate) fn policy(&self) -> crate::setup::Policy {
        let folder = self.learning.weights.model.as_ref().map(|folder| format!("local:{}", folder.display()));
        crate::setup::Policy::Named(folder.unwrap_or_else(|| self.play.policy.clone()))
    }
}

/// What plays, who judges, and within which limits.
#[derive(Debug, Args)]
pub(crate) struct PlayOptions {
    /// The environment: PLUGIN.wasm, with options as in `PLUGIN.wasm?size=10&guesses=5`; `clawhost run` also takes a file
    /// run.toml that says everything
    #[arg(value_name = "PLUGIN.wasm")]
    pub(crate) plugin: String,
    /// A reward that judges the episodes, with options as above; may be repeated. `#weight=W` and `#source=S` (user, outcome,
    /// execution, judge) behind it say how much it counts: the first source with something to say decides, and in it the
    /// weighted mean
    #[arg(long, value_name = "R.wasm[?OPTION=VALUE][#weight=W]")]
    pub(crate) reward: Vec<String>,
    /// Who acts: `follower` (built in, no key), `openai:MODEL@http://HOST:PORT/v1` or `anthropic:MODEL@http://HOST:PORT/v1`
    /// (without an address: the provider's own), `local:DIR` (a model in a folder), or `script:FILE` (one answer per line)
    #[arg(long, value_name = "SPEC", default_value = "follower")]
    pub(crate) policy: String,
    /// Episodes at once; never changes a result. With --learn weights all of an iteration, 256 at most, unless it is named
    #[arg(long, value_name = "C", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrency: u16,
    /// Where all chance comes from: equal seeds, equal runs
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub(crate) seed: u64,
    /// Cut an episode short after so many turns
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max_turns: u32,
    /// Share of the episodes that may fail before the run stops, 0 to 1, rounded down: 0.1 of 9 is none
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    pub(crate) failure_budget: f64,
    /// What the model is told first [default: the environment's own hint]
    #[arg(long, value_name = "TEXT", help_heading = "Model")]
    pub(crate) system_prompt: Option<String>,
    /// The same, from a file
    #[arg(long, value_name = "FILE", conflicts_with = "system_prompt", help_heading = "Model")]
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// Sampling temperature, 0 to 2 [default: the model's own; with --learn weights 1]
    #[arg(long, value_name = "T", value_parser = temperature, help_heading = "Model")]
    pub(crate) temperature: Option<f32>,
    /// Most tokens per answer
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Model")]
    pub(crate) max_tokens: u32,
    #[command(flatten)]
    pub(crate) models: ModelOptions,
    #[command(flatten)]
    pub(crate) host: HostOptions,
    /// Largest size of the database, in MiB; reaching it ends the run as a full disk would
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Host")]
    pub(crate) store_limit: Option<u64>,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// The section that evolves, unless chosen otherwise.
pub(crate) const SECTION: &str = "rules";

/// What is learned, and how.
#[derive(Debug, Default, Args)]
pub(crate) struct LearnOptions {
    /// Learn: `harness` (a playbook of lessons, each measured), or `weights` (of the local model of --model)
    #[arg(long, value_name = "LAYER", value_parser = ["harness", "weights"], help_heading = "Learning")]
    pub(crate) learn: Option<String>,
    /// A reflector that proposes lessons, with options as above; may be repeated
    #[arg(long, value_name = "R.wasm[?OPTION=VALUE]", requires = "learn", help_heading = "Learning")]
    pub(crate) reflector: Vec<String>,
    /// How often to play, reflect and step
    #[arg(long, value_name = "N", requires = "learn", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000), help_heading = "Learning")]
    pub(crate) iterations: u64,
    /// Lessons on trial at once
    #[arg(long, value_name = "N", requires = "learn", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=16), help_heading = "Learning")]
    pub(crate) trial_slots: u8,
    /// Most tokens of lessons in one prompt
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = "Learning")]
    pub(crate) token_budget: u64,
    /// Ask reflectors at least after every N-th batch
    #[arg(long, value_name = "N", requires = "learn", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000), help_heading = "Learning")]
    pub(crate) reflect_every: u64,
    /// Iterations between two candidates for the gate
    #[arg(long, value_name = "N", requires = "learn", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000), help_heading = "Learning")]
    pub(crate) gate_every: u64,
    /// Pairs of episodes that one session of the gate may use
    #[arg(long, value_name = "N", requires = "learn", default_value_t = 512, value_parser = clap::value_parser!(u64).range(8..=1_000_000), help_heading = "Learning")]
    pub(crate) gate_pairs: u64,
    /// Chance of letting through anything that is no better, over all candidates of the run
    #[arg(long, value_name = "SHARE", requires = "learn", default_value_t = 0.05, value_parser = alpha, help_heading = "Learning")]
    pub(crate) alpha: f64,
    /// Evolve a section of the prompt first, with so many evaluations (a candidate on a training task each); 0: none
    #[arg(long, value_name = "BUDGET", default_value_t = 0, requires = "learn", value_parser = clap::value_parser!(u64).range(0..=1_000_000), help_heading = "Learning")]
    pub(crate) evolve: u64,
    /// The section that evolves
    #[arg(long, value_name = "NAME", default_value = SECTION, help_heading = "Learning")]
    pub(crate) evolve_section: String,
    /// Training tasks on which a new text is compared with the one that it came from
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=64), help_heading = "Learning")]
    pub(crate) evolve_minibatch: u64,
    /// Who rewrites the section [default: the first --reflector, with write=section]
    #[arg(long, value_name = "R.wasm[?OPTION=VALUE]", requires = "evolve", help_heading = "Learning")]
    pub(crate) evolve_reflector: Option<String>,
    /// Pairs of test episodes for the final report; 0: none
    #[arg(long, value_name = "N", requires = "learn", default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=1_000_000), help_heading = "Learning")]
    pub(crate) test_pairs: u64,
    /// A text of 8 characters or more that no lesson may quote; may be repeated. It is kept in the data folder
    #[arg(long, value_name = "TEXT", requires = "learn", value_parser = forbidden, help_heading = "Learning")]
    pub(crate) forbid: Vec<String>,
    /// Check everything, print the plan and what it costs at most, and play nothing
    #[arg(long, help_heading = "Learning")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) weights: crate::weights::WeightsOptions,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Eval {
    #[command(flatten)]
    pub(crate) play: PlayOptions,
    /// The playbook that is judged, by name [default: the environment's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) playbook: Option<String>,
    /// This version of it [default: the newest]
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
    /// Against this version of it [default: no playbook at all]
    #[arg(long, value_name = "N")]
    pub(crate) against: Option<u64>,
    /// Pairs of test episodes: with and without, on the same tasks with the same seeds
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    pub(crate) pairs: u64,
    /// Most tokens of lessons in one prompt
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) token_budget: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Playbook {
    /// Every playbook: its newest version, how many entries are served, and where they were learned
    List,
    /// Every entry: status, groups, lift with its interval, e-value, tokens
    Show {
        /// The playbook [default: the only one]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// What this version says, instead
        #[arg(long, value_name = "N")]
        version: Option<u64>,
        /// Whole lessons, on a terminal too; elsewhere they are never cut
        #[arg(long, conflicts_with = "version")]
        full: bool,
    },
    /// Every version, and how it came about
    Log {
        /// The playbook [default: the only one]
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// What changed between two versions
    Diff {
        /// The playbook [default: the only one]
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// From this version; before the first, as version 0, nothing is said [default: the one before]
        #[arg(value_name = "FROM")]
        from: Option<u64>,
        /// To this one [default: the newest]
        #[arg(value_name = "TO")]
        to: Option<u64>,
    },
    /// Serve what an older version says, as a new version
    Rollback {
        /// The playbook
        #[arg(value_name = "NAME")]
        name: String,
        /// To this version [default: the one before]
        #[arg(long, value_name = "N")]
        to: Option<u64>,
    },
    /// Write what is served: as JSON into a file, or as a folder of skills (SKILL.md)
    Export {
        /// The playbook
        #[arg(value_name = "NAME")]
        name: String,
        /// A file ending in .json, or a folder that is made (a name without an extension, or with a `/` behind it)
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// What this version says [default: the newest]
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// Serve what a JSON file, a skill or a folder of skills says, as a new version. Evidence does not come with it: it is measured anew
    Import {
        /// The playbook
        #[arg(value_name = "NAME")]
        name: String,
        /// A file ending in .json, a folder with SKILL.md files, or one file of a skill, ending in .md
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Demo {
    /// A playbook learned from nothing, measured against placebos: no key, no server
    Harness(DemoHarness),
    /// A tiny model taught by demonstrations, then by rewards alone, on this processor
    Weights(DemoWeights),
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::DEMO_HELP)]
pub(crate) struct DemoHarness {
    /// Where all chance comes from: house, tasks, draws
    #[arg(long, value_name = "S", default_value_t = crate::demo::SEED, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub(crate) seed: u64,
    /// Iterations of 64 episodes
    #[arg(long, value_name = "N", default_value_t = crate::demo::ITERATIONS, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) iterations: u64,
    /// Folder with env_shop.wasm, reward_state.wasm and reflector_rules.wasm [default: CLAWHOST_GUESTS, or target/guests]
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,
    /// Where the curve goes: a file that ends in .svg; a drawing that is there is overwritten
    #[arg(long, value_name = "FILE", default_value = "clawhost-harness.svg")]
    pub(crate) svg: PathBuf,
    /// Episodes at once; never changes a result
    #[arg(long, value_name = "C", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrency: u16,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::DEMO_HELP)]
pub(crate) struct DemoWeights {
    /// Where all chance comes from: weights, numbers, draws
    #[arg(long, value_name = "S", default_value_t = crate::demo::SEED, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub(crate) seed: u64,
    /// Fewer iterations, and no controls: whether it works at all
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder with env_guess.wasm, env_math.wasm, reward_signal.wasm and reward_exact.wasm [default: CLAWHOST_GUESTS, or
    /// target/guests]
    #[arg(long, value_name = "DIR")]
    pub(crate) plugins: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) device: crate::device::DeviceOption,
    /// Where the curves go: a file that ends in .svg; a drawing that is there is overwritten
    #[arg(long, value_name = "FILE", default_value = "clawhost-weights.svg")]
    pub(crate) svg: PathBuf,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What models may be asked, and how.
#[derive(Debug, Args)]
pub(crate) struct ModelOptions {
    /// Allow plugins more than computing and logging: `kv`, or `llm:ALIAS=SPEC` with SPEC as in --policy; may be repeated
    #[arg(long, value_name = "GRANT", help_heading = "Model")]
    pub(crate) grant: Vec<String>,
    /// Stop asking models after so many tokens in all, read and written; what is under way then is still paid for
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) max_tokens_total: Option<u64>,
    /// Stop asking models after so much money; needs --price
    #[arg(long, value_name = "MONEY", requires = "price", value_parser = money, help_heading = "Model")]
    pub(crate) max_cost: Option<f64>,
    /// Price per million tokens, read and written, as `0.15,0.60`
    #[arg(long, value_name = "IN,OUT", value_parser = prices, help_heading = "Model")]
    pub(crate) price: Option<(f64, f64)>,
    #[command(flatten)]
    pub(crate) device: crate::device::DeviceOption,
    #[command(flatten)]
    pub(crate) endpoint: EndpointOptions,
}

/// How endpoints are asked.
#[derive(Debug, Args)]
pub(crate) struct EndpointOptions {
    /// File that holds an endpoint's key; with two kinds of endpoints `openai=FILE` and `anthropic=FILE` [default: the
    /// variables OPENAI_API_KEY and ANTHROPIC_API_KEY, if set]
    #[arg(long, value_name = "[KIND=]FILE", help_heading = "Model")]
    pub(crate) api_key_file: Vec<String>,
    /// Longest wait for one answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600), help_heading = "Model")]
    pub(crate) model_timeout: u64,
    /// Tries after the first, for endpoints that are down or overloaded
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=20), help_heading = "Model")]
    pub(crate) retries: u32,
}

/// How plugins are hosted.
#[derive(Debug, Args)]
pub(crate) struct HostOptions {
    /// Load components up to 32 MiB: guests that carry an interpreter (Python, JavaScript)
    #[arg(long, help_heading = "Host")]
    pub(crate) allow_interpreters: bool,
    /// Instantiate without a reserved pool: for machines with little address space
    #[arg(long, help_heading = "Host")]
    pub(crate) on_demand: bool,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Score {
    /// A reward that judges the episodes, as in `clawhost run`; may be repeated
    #[arg(long, value_name = "R.wasm[?OPTION=VALUE]", required = true)]
    pub(crate) reward: Vec<String>,
    /// Of which run [default: the newest]
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Groups judged at once; never changes a result
    #[arg(long, value_name = "C", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrency: u16,
    /// Ask about verdicts that are there already too, and count those that would differ; the old ones stay
    #[arg(long)]
    pub(crate) again: bool,
    /// Share of the verdicts that may fail before it stops, 0 to 1, rounded down
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    pub(crate) failure_budget: f64,
    #[command(flatten)]
    pub(crate) models: ModelOptions,
    #[command(flatten)]
    pub(crate) host: HostOptions,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Replay {
    /// An episode: its id, or RUN/ID
    #[arg(value_name = "EPISODE", conflicts_with_all = ["all", "run"])]
    pub(crate) episode: Option<String>,
    /// All episodes of a run
    #[arg(long)]
    pub(crate) all: bool,
    /// Of which run [default: the newest]
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Groups replayed at once; never changes a result
    #[arg(long, value_name = "C", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrency: u16,
    /// Instantiate without a reserved pool: for machines with little address space
    #[arg(long, help_heading = "Host")]
    pub(crate) on_demand: bool,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Ask this model one word: a SPEC as in `clawhost run --policy`
    #[arg(long, value_name = "SPEC")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) endpoint: EndpointOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The component
    #[arg(value_name = "PLUGIN.wasm")]
    pub(crate) plugin: String,
    /// Load components up to 32 MiB: guests that carry an interpreter (Python, JavaScript)
    #[arg(long)]
    pub(crate) allow_interpreters: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Episodes {
    /// List episodes, newest run first
    List {
        /// Only of this run
        #[arg(long, value_name = "RUN")]
        run: Option<String>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u64,
        /// List runs instead
        #[arg(long, conflicts_with = "run")]
        runs: bool,
    },
    /// Show one episode: every turn, the verdicts, and what went wrong
    Show {
        /// Its id, or RUN/ID
        #[arg(value_name = "EPISODE")]
        episode: String,
    },
    /// Write episodes as JSON lines
    Export {
        /// Only of this run
        #[arg(long, value_name = "RUN")]
        run: Option<String>,
        /// Into this file [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// The options of the command that stand on the command line, by their ids.
pub(crate) fn given(matches: &clap::ArgMatches) -> Vec<String> {
    let Some((_, command)) = matches.subcommand() else { return Vec::new() };
    let typed = |id: &&clap::Id| {
        command.try_contains_id(id.as_str()).unwrap_or(false)
            && command.value_source(id.as_str()) == Some(clap::parser::ValueSource::CommandLine)
    };
    command.ids().filter(typed).map(|id| id.as_str().to_owned()).collect()
}

fn in_range(text: &str, low: f64, high: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("expected a number between {low} and {high}")),
    }
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    in_range(text, 0.0, 1.0)
}

fn forbidden(text: &str) -> Result<String, String> {
    let least = clawhost_learn::playbook::safety::WITHHELD_CHARACTERS;
    if text.chars().count() < least {
        return Err(format!("shorter texts stand in many lessons by chance; say at least {least} characters"));
    }
    Ok(text.to_owned())
}

fn alpha(text: &str) -> Result<f64, String> {
    in_range(text, 1e-6, 0.5)
}

pub(crate) fn temperature(text: &str) -> Result<f32, String> {
    in_range(text, 0.0, 2.0)?;
    text.parse().map_err(|_| "expected a number".to_owned())
}

fn money(text: &str) -> Result<f64, String> {
    in_range(text, 0.0, 1e9)
}

fn prices(text: &str) -> Result<(f64, f64), String> {
    let (input, output) = text.split_once(',').ok_or("expected two prices, as in 0.15,0.60")?;
    Ok((money(input.trim())?, money(output.trim())?))
}

/// What `run --help` says at its end: exit codes, and how a run is written down.
fn run_help() -> String {
    let sample: String = clawhost_package::sample().lines().map(|line| format!("  {line}\n")).collect();
    format!("{}\n\nA run as a file, with every key:\n\n{sample}", crate::exit::HELP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
