//! The command line of `clawhost demo`.

use crate::device::DeviceOption;
use clap::{Args, Subcommand};
use clawhost_app::demo::{CONCURRENCY, ITERATIONS, LIVE_ROUNDS, LIVE_SESSIONS, SEED};
use std::path::PathBuf;

/// The default file name of the drawing of `clawhost demo harness`.
pub(super) const HARNESS_SVG: &str = "harness.svg";
/// The default file name of the drawing of `clawhost demo weights`.
pub(super) const WEIGHTS_SVG: &str = "weights.svg";

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// A playbook learned from nothing, measured against placebos: no key, no server
    Harness(HarnessArgs),
    /// A tiny model taught by demonstrations, then by rewards alone, on this processor
    Weights(WeightsArgs),
    /// A router that learns which request needs the dear model, in simulated worlds, beside every fixed policy
    Router(RouterArgs),
    /// A gateway that learns from a crowd of users while it serves, beside three that learn nothing
    Live(LiveArgs),
    /// All layers in one run: a playbook, a router and the weights of a tiny model, and what each of them contributes
    Full(FullArgs),
}

/// The help of an option, with its default.
fn with_default(what: &str, default: impl std::fmt::Display) -> String {
    format!("{what} [default: {default}]")
}

/// Describes a file with this name in the data folder.
fn in_data(name: &str) -> String {
    format!("demo/{name} in the data folder")
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::DEMO_HELP)]
pub(crate) struct HarnessArgs {
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Where all chance comes from: house, tasks, draws", SEED))]
    pub(super) seed: Option<u64>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000), help = with_default("Iterations of 64 episodes", ITERATIONS))]
    pub(super) iterations: Option<u64>,
    /// Folder with env_shop.wasm, reward_state.wasm and reflector_rules.wasm [default: CLAWHOST_GUESTS, or target/guests]
    #[arg(long, value_name = "DIR")]
    pub(super) plugins: Option<PathBuf>,
    #[arg(long, value_name = "FILE", help = with_default("Where the curve goes: a file that ends in .svg; a drawing that is there is overwritten", in_data(HARNESS_SVG)))]
    pub(super) svg: Option<PathBuf>,
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u16).range(1..=4096), help = with_default("Episodes at once; never changes a result", CONCURRENCY))]
    pub(super) concurrency: Option<u16>,
    /// No progress
    #[arg(long, short)]
    pub(super) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::DEMO_HELP)]
pub(crate) struct WeightsArgs {
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Where all chance comes from: weights, numbers, draws", SEED))]
    pub(super) seed: Option<u64>,
    /// Fewer iterations, and no controls: whether it works at all
    #[arg(long)]
    pub(super) quick: bool,
    /// Folder with env_guess.wasm, env_math.wasm, reward_signal.wasm and reward_exact.wasm [default: CLAWHOST_GUESTS, or
    /// target/guests]
    #[arg(long, value_name = "DIR")]
    pub(super) plugins: Option<PathBuf>,
    #[command(flatten)]
    pub(super) device: DeviceOption,
    #[arg(long, value_name = "FILE", help = with_default("Where the curves go: a file that ends in .svg; a drawing that is there is overwritten", in_data(WEIGHTS_SVG)))]
    pub(super) svg: Option<PathBuf>,
    /// No progress
    #[arg(long, short)]
    pub(super) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::DEMO_HELP)]
pub(crate) struct FullArgs {
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Where all chance comes from: weights, house, tasks, draws", SEED))]
    pub(super) seed: Option<u64>,
    /// Folder with env_shop.wasm, reward_state.wasm and reflector_rules.wasm [default: CLAWHOST_GUESTS, or target/guests]
    #[arg(long, value_name = "DIR")]
    pub(super) plugins: Option<PathBuf>,
    #[command(flatten)]
    pub(super) device: DeviceOption,
    /// No progress
    #[arg(long, short)]
    pub(super) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::ROUTER_DEMO_HELP)]
pub(crate) struct RouterArgs {
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Seed of the first of ten worlds; the others follow it", SEED))]
    pub(super) seed: Option<u64>,
    /// Folder for the router (demo.json) and its log (demo.jsonl); those that are there are replaced [default: routers in the
    /// data folder]
    #[arg(long, value_name = "DIR")]
    pub(super) into: Option<PathBuf>,
    /// No progress
    #[arg(long, short)]
    pub(super) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = crate::exit::DEMO_HELP)]
pub(crate) struct LiveArgs {
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Seed of what users want and ask; the draws of the gateways are new each time", SEED))]
    pub(super) seed: Option<u64>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000), help = with_default(&format!("Rounds of {LIVE_SESSIONS} sessions"), LIVE_ROUNDS))]
    pub(super) rounds: Option<u64>,
    /// Folder with reflector_rules.wasm [default: CLAWHOST_GUESTS, or target/guests]
    #[arg(long, value_name = "DIR")]
    pub(super) plugins: Option<PathBuf>,
    /// No progress
    #[arg(long, short)]
    pub(super) quiet: bool,
}
