//! Arguments that name recorded runs, and the commands about them.

use clap::{Args, Subcommand, ValueEnum};
use clawhost_app::{EpisodeQuery, RunChoice};
use clawhost_core::{FailureFilter, RewardFilter, RunKind, RunName, RunState, RunTag};

/// Selects the runs of a command, by the same rule in all commands.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WhichRuns {
    /// Use this run: its id, its name, the beginning of its id, or `last` [default: the newest run]. A gateway has
    /// a run for each key and day: if the newest run is of a gateway, all runs of its day are used
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Use all runs of the data folder
    #[arg(long, conflicts_with = "run")]
    all: bool,
}

impl WhichRuns {
    /// The selected runs.
    pub(crate) fn choice(&self) -> RunChoice {
        match (&self.run, self.all) {
            (Some(run), _) => RunChoice::One(run.clone()),
            (None, true) => RunChoice::All,
            (None, false) => RunChoice::Newest,
        }
    }

    /// Whether all runs are selected: then the output has a part for each.
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }
}

/// Filters of episodes. They may be combined: all of them must hold.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EpisodeFilterArgs {
    /// Only failed episodes; with a kind or a code only these, as in --failure=limit, --failure=fuel,
    /// --failure='limit(fuel)'
    #[arg(long, value_name = "CODE", num_args = 0..=1, require_equals = true, help_heading = "Filters")]
    failure: Option<Option<String>>,
    /// Only episodes with a reward of at least R
    #[arg(long, value_name = "R", allow_negative_numbers = true, help_heading = "Filters")]
    min_reward: Option<f64>,
    /// Only episodes with a reward of at most R
    #[arg(long, value_name = "R", allow_negative_numbers = true, help_heading = "Filters")]
    max_reward: Option<f64>,
    /// Only episodes without a reward
    #[arg(long, conflicts_with_all = ["min_reward", "max_reward"], help_heading = "Filters")]
    unscored: bool,
    /// Only episodes of this task
    #[arg(long, value_name = "TASK", help_heading = "Filters")]
    task: Option<String>,
    /// Only episodes that wait for a verdict
    #[arg(long, help_heading = "Filters")]
    pending: bool,
}

impl EpisodeFilterArgs {
    /// The query for these runs.
    pub(crate) fn query(&self, runs: &WhichRuns) -> EpisodeQuery {
        let failure = self.failure.as_ref().map(|code| match code {
            Some(code) if !code.is_empty() => FailureFilter::Named(code.clone()),
            _ => FailureFilter::Any,
        });
        let reward = match (self.unscored, self.min_reward, self.max_reward) {
            (true, ..) => Some(RewardFilter::Unscored),
            (false, None, None) => None,
            (false, least, greatest) => Some(RewardFilter::Within {
                least: least.unwrap_or(f64::NEG_INFINITY),
                greatest: greatest.unwrap_or(f64::INFINITY),
            }),
        };
        EpisodeQuery { runs: runs.choice(), failure, reward, task: self.task.clone(), is_pending: self.pending }
    }
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateArg {
    /// It has finished, and everything is stored.
    Finished,
    /// It stopped early with a recorded reason; it can be resumed.
    Stopped,
    /// It has no recorded end: it is being played, or its process died.
    Open,
}

impl From<StateArg> for RunState {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Finished => Self::Finished,
            StateArg::Stopped => Self::Stopped,
            StateArg::Open => Self::Open,
        }
    }
}

/// The kind of a run: the command that began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindArg {
    /// It plays.
    #[value(alias = "play")]
    Run,
    /// It learns.
    Learn,
    /// It evaluates a playbook.
    #[value(alias = "evaluate")]
    Eval,
    /// It captures live episodes of external agents.
    Live,
}

impl From<KindArg> for RunKind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Run => Self::Play,
            KindArg::Learn => Self::Learn,
            KindArg::Eval => Self::Evaluate,
            KindArg::Live => Self::Live,
        }
    }
}

/// Units of time in milliseconds.
const UNITS: [(char, u64); 4] = [('d', 86_400_000), ('h', 3_600_000), ('m', 60_000), ('s', 1_000)];

/// Parses an age in milliseconds: `7` and `7d` are seven days.
fn age(text: &str) -> Result<u64, String> {
    let with_unit = UNITS.into_iter().find_map(|(unit, length)| Some((text.strip_suffix(unit)?, length)));
    let (digits, unit) = with_unit.unwrap_or((text, 86_400_000));
    let number: Option<u64> = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let expected = || "expected days, or a number with a unit: 30m, 24h, 7d".to_owned();
    number.and_then(|number| number.checked_mul(unit)).ok_or_else(expected)
}

fn run_name(text: &str) -> Result<RunName, String> {
    text.parse().map_err(|_| format!("expected {}", RunName::EXPECTED))
}

fn run_tag(text: &str) -> Result<RunTag, String> {
    text.parse().map_err(|_| format!("expected {}", RunTag::EXPECTED))
}

/// Filters of a list of runs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunListArgs {
    /// Only runs with this tag; may be repeated: a run must have all of them
    #[arg(long, value_name = "TAG", value_parser = run_tag)]
    pub(crate) tag: Vec<RunTag>,
    /// Only runs of the environment with this name, or of a component whose digest begins with this text
    #[arg(long, value_name = "NAME|DIGEST")]
    pub(crate) environment: Option<String>,
    /// Only runs in this state; may be repeated
    #[arg(long, value_enum)]
    pub(crate) state: Vec<StateArg>,
    /// Only runs of this kind; may be repeated
    #[arg(long, value_enum)]
    pub(crate) kind: Vec<KindArg>,
    /// Only runs that began after this age: days, or a number with a unit, as in 24h
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) newer_than: Option<u64>,
    /// Only runs that began before this age
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) older_than: Option<u64>,
    /// Largest number of runs [default: 20]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

const RUN_HELP: &str = "RUN is the id of a run, its name, a unique beginning of its id, or `last` for the newest.";

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first; filters may be combined
    List(RunListArgs),
    /// Show one run: what it plays, its progress, its rewards, its phases, and the command that resumes it
    #[command(after_help = RUN_HELP)]
    Show {
        /// The run [default: the newest]
        #[arg(value_name = "RUN")]
        run: Option<String>,
    },
    /// Name a run: every command accepts the name in place of the id
    #[command(after_help = RUN_HELP)]
    Rename {
        /// The run
        #[arg(value_name = "RUN")]
        run: String,
        /// Its name, unique in the data folder
        #[arg(value_name = "NAME", value_parser = run_name, required_unless_present = "clear")]
        name: Option<RunName>,
        /// Remove its name
        #[arg(long, conflicts_with = "name")]
        clear: bool,
    },
    /// Tag a run, so that lists can be filtered
    #[command(after_help = RUN_HELP)]
    Tag {
        /// The run
        #[arg(value_name = "RUN")]
        run: String,
        /// Tags to add
        #[arg(value_name = "TAG", value_parser = run_tag, required_unless_present = "remove")]
        tags: Vec<RunTag>,
        /// A tag to remove; may be repeated
        #[arg(long, value_name = "TAG", value_parser = run_tag)]
        remove: Vec<RunTag>,
    },
    /// Remove runs, even if they could be resumed; the same as `clawhost data prune --run`
    #[command(after_help = RUN_HELP)]
    Rm {
        /// The runs
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
        /// Show what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_in_days_or_has_a_unit() {
        let check = |text: &str, expect: Option<u64>| assert_eq!(age(text).ok(), expect, "{text}");
        check("7", Some(7 * 86_400_000));
        check("7d", Some(7 * 86_400_000));
        check("24h", Some(86_400_000));
        check("30m", Some(1_800_000));
        check("0s", Some(0));
        for text in ["", "d", "-1d", "+1", "1.5h", "1w", "1dd", "99999999999999999d"] {
            check(text, None);
        }
    }
}
