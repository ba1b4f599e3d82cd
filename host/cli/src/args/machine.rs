//! Options of this machine: how models are called and computed, how plugins are hosted. They change no result, so files
//! do not have them.

use crate::device::DeviceOption;
use clap::Args;
use clawhost_app::{MODEL_TIMEOUT_SECONDS, RETRIES, STORE_BYTES};

/// Options of endpoints.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EndpointArgs {
    /// File that holds an endpoint's key; with two kinds of endpoints `openai=FILE` and `anthropic=FILE` [default: the
    /// variables OPENAI_API_KEY and ANTHROPIC_API_KEY, if set]
    #[arg(long, value_name = "[KIND=]FILE", help_heading = "Model")]
    pub(crate) api_key_file: Vec<String>,
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600), help = timeout_help(), help_heading = "Model")]
    pub(crate) model_timeout: Option<u64>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20), help = retries_help(), help_heading = "Model")]
    pub(crate) retries: Option<u32>,
}

fn timeout_help() -> String {
    format!("Longest wait for one answer, in seconds [default: {MODEL_TIMEOUT_SECONDS}]")
}

fn retries_help() -> String {
    format!("Tries after the first, for endpoints that are down or overloaded [default: {RETRIES}]")
}

/// Options of this machine.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct MachineArgs {
    #[command(flatten)]
    pub(crate) device: DeviceOption,
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
    /// Load components up to 32 MiB: guests that carry an interpreter (Python, JavaScript)
    #[arg(long, help_heading = "Host")]
    pub(crate) allow_interpreters: bool,
    /// Instantiate without a reserved pool: for machines with little address space
    #[arg(long, help_heading = "Host")]
    pub(crate) on_demand: bool,
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 43), help_heading = "Host", help = store_limit_help())]
    pub(crate) store_limit: Option<u64>,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl MachineArgs {
    /// The options of a command that tries a plugin: the folder of one that carries an interpreter is allowed to.
    pub(crate) fn trying(plugin: &str, allow_interpreters: bool) -> Self {
        Self { allow_interpreters, ..Self::default() }.with(Some(plugin))
    }

    /// The same options for these plugins.
    pub(crate) fn with<'p>(&self, plugins: impl IntoIterator<Item = &'p str>) -> Self {
        let is_allowed = self.allow_interpreters || plugins.into_iter().any(clawhost_app::is_interpreted);
        Self { allow_interpreters: is_allowed, ..self.clone() }
    }
}

fn store_limit_help() -> String {
    let mib = STORE_BYTES >> 20;
    format!("Largest size of the database, in MiB; reaching it ends the run as a full disk would [default: {mib}]")
}
