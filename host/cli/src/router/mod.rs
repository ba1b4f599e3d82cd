//! `clawhost router`: shows routers, explains their decisions, judges policies on their logs, promotes candidates, and goes back to earlier
//! versions.

mod explain;
mod promote;
mod replay;
mod show;
mod versions;

use crate::context::Context;
use crate::exit::Exit;
use clap::Subcommand;
use clawhost_app::routers::EXPLAINED_SEED;
use std::path::PathBuf;

const SHOW_HELP: &str = "For example:
  clawhost demo router            # writes the router `demo`
  clawhost router show demo
  clawhost router show state.json --json";

const EXPLAIN_HELP: &str = "For example:
  clawhost router explain 'Prove that this query is slow.'
  clawhost router explain body.json --router demo
  curl ... | clawhost router explain -";

const REPLAY_HELP: &str = "The router of the log gives models, prices and settings. A fresh one learns from the earlier half of the log; \
every policy is judged on the later half, doubly robust beside SNIPS. Where the two disagree, or the effective sample is below 200, the \
figures are refused: the log does not tell. For example:
  clawhost demo router
  clawhost router replay ~/.local/share/clawhost/routers/demo.jsonl";

const PROMOTE_HELP: &str = "A learning run of a router that is served writes a candidate. It is judged on the decisions that were logged after it was \
learned, doubly robust beside SNIPS, and compared with what is served: decisions about sessions that a gateway serves, once they have a reward, \
and those of later learning runs. Nothing else counts: `clawhost run` and `clawhost eval` log no decisions, and a run that repeats \
another one, with its --seed, adds none. The candidate is served if it is better, or at least 10 % cheaper with a reward at most 0.02 lower. Where \
the effective sample is below 200, or both estimates disagree, it is refused. Exit codes: 0 promoted or dropped, 1 not promoted. For example:
  clawhost router promote NAME
  clawhost router promote NAME --discard
  clawhost router rollback NAME     # goes back to what was served before";

const VERSIONS_HELP: &str = "For example:
  clawhost router versions NAME
  clawhost router rollback NAME --to 200";

const ROLLBACK_HELP: &str = "The state that was served is kept as a version, so a second rollback without --to undoes the first. A gateway that runs \
takes the change over within seconds, and at once after `clawhost reload`. For example:
  clawhost router rollback NAME
  clawhost router rollback NAME --to 200 --json";

#[derive(Debug, Subcommand)]
pub(crate) enum RouterCommand {
    /// Show a router: models with prices, outcomes of every action, what the features weigh
    #[command(after_help = SHOW_HELP)]
    Show {
        /// A file (with a folder, or ending in .json), or the name of a router in the data folder [default: the only one]
        #[arg(value_name = "FILE|NAME")]
        router: Option<String>,
    },
    /// Explain which model a request would get: its features, and what is expected of every action
    #[command(after_help = EXPLAIN_HELP)]
    Explain {
        /// A file with the body of an OpenAI or an Anthropic request, `-` for standard input, or a text
        #[arg(value_name = "REQUEST")]
        request: String,
        /// The router, as in `router show` [default: the only one in the data folder]
        #[arg(long, value_name = "FILE|NAME")]
        router: Option<String>,
        #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = seed_help())]
        seed: Option<u64>,
    },
    /// Estimate from a log of decisions what other policies would have earned
    #[command(after_help = REPLAY_HELP)]
    Replay {
        /// The name of a router, or a log: one decision with its outcome per line
        #[arg(value_name = "LOG")]
        log: PathBuf,
        /// The router, as in `router show` [default: the file beside the log that ends in .json]
        #[arg(long, value_name = "FILE|NAME")]
        router: Option<String>,
    },
    /// Judge the candidate of a router on decisions that it did not learn from, and serve it if it is shown to be better
    #[command(after_help = PROMOTE_HELP)]
    Promote {
        /// The name of a router in the data folder
        #[arg(value_name = "NAME")]
        router: String,
        /// Drop the candidate instead
        #[arg(long)]
        discard: bool,
    },
    /// List the versions of a router: the served state, and those that were kept
    #[command(after_help = VERSIONS_HELP)]
    Versions {
        /// The name of a router in the data folder [default: the only one]
        #[arg(value_name = "NAME")]
        router: Option<String>,
    },
    /// Serve an earlier version of a router again
    #[command(after_help = ROLLBACK_HELP)]
    Rollback {
        /// The name of a router in the data folder
        #[arg(value_name = "NAME")]
        router: String,
        /// The version [default: the latest one that is kept]
        #[arg(long, value_name = "VERSION")]
        to: Option<u64>,
    },
}

fn seed_help() -> String {
    format!("Seed of the draw; the chances do not depend on it [default: {EXPLAINED_SEED}]")
}

pub(crate) async fn run(context: &Context, command: &RouterCommand) -> anyhow::Result<Exit> {
    match command {
        RouterCommand::Show { router } => show::run(context, router.as_deref()),
        RouterCommand::Explain { request, router, seed } => {
            explain::run(context, request, router.as_deref(), *seed).await
        }
        RouterCommand::Replay { log, router } => replay::run(context, log, router.as_deref()),
        RouterCommand::Promote { router, discard: false } => promote::run(context, router),
        RouterCommand::Promote { router, discard: true } => promote::discard(context, router),
        RouterCommand::Versions { router } => versions::list(context, router.as_deref()),
        RouterCommand::Rollback { router, to } => versions::roll_back(context, router, *to),
    }
}

/// A number with three decimals.
fn number(value: f64) -> String {
    format!("{value:.3}")
}

/// A price or a cost: four significant digits, so that a thousandth of a cent is seen.
fn money(value: f64) -> String {
    if value == 0.0 || value.abs() >= 0.01 { format!("{value:.3}") } else { format!("{value:.3e}") }
}
