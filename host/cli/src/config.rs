//! `clawhost config`: the keys of the gateway's configuration.

use crate::context::Context;
use crate::exit::Exit;
use clap::{Args, Subcommand};
use clawhost_app::{
    AppError, ConfiguredKey, GATEWAY_FILE, RequestError, configured_keys, default_of_key, set_configured_key,
    unset_configured_key,
};
use clawhost_core::escaped;
use serde_json::{Map, Value, json};
use std::io::Write as _;

const HELP: &str = "Keys are written as in the file, with dots: gateway.listen, models.fast.retries, models.\"gpt-4.1\".model. A gateway that runs
takes a change over within a second; `clawhost reload` says whether it did. Values that are keys, or look like ones, are not shown.";

/// Longest value that is shown, in bytes.
const SHOWN_BYTES: usize = 1000;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    /// Show all keys that are set
    Show,
    /// Show the value of a key, or all keys under it
    Get {
        /// The key
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Set a key. The file is written only if it is valid as a whole
    Set {
        /// The key
        #[arg(value_name = "KEY")]
        key: String,
        /// The value: a number, true or false, a text, or a list with commas
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
    },
    /// Remove a key, or all keys under it
    Unset {
        /// The key
        #[arg(value_name = "KEY")]
        key: String,
    },
}

/// A value as text.
fn plain(value: &Value) -> String {
    escaped(&value.as_str().map_or_else(|| value.to_string(), str::to_owned), SHOWN_BYTES)
}

pub(crate) fn run(context: &Context, command: &ConfigCommand) -> anyhow::Result<Exit> {
    let folder = context.folder()?;
    let mut out = crate::terminal::stdout();
    match &command.verb {
        ConfigVerb::Show => {
            let keys = configured_keys(&folder, None)?;
            match context.json() {
                true => shown(keys)?,
                false if keys.is_empty() => writeln!(out, "no key is set in {}", folder.join(GATEWAY_FILE).display())?,
                false => keys
                    .iter()
                    .try_for_each(|(key, value)| writeln!(out, "{} = {}", escaped(key, SHOWN_BYTES), plain(value)))?,
            }
        }
        ConfigVerb::Get { key } => {
            let keys = match (configured_keys(&folder, Some(key)), default_of_key(key)) {
                (Err(AppError::Request(RequestError::NotConfigured { .. })), Some(default)) if context.json() => {
                    crate::terminal::json(&json!({"format": 1, "keys": {key: default}, "is_default": true}))?;
                    return Ok(Exit::Ok);
                }
                (Err(AppError::Request(RequestError::NotConfigured { .. })), Some(default)) => {
                    writeln!(out, "{} (the default)", plain(&default))?;
                    return Ok(Exit::Ok);
                }
                (keys, _) => keys?,
            };
            match keys.as_slice() {
                _ if context.json() => shown(keys)?,
                [(_, value)] => writeln!(out, "{}", plain(value))?,
                keys => keys
                    .iter()
                    .try_for_each(|(key, value)| writeln!(out, "{} = {}", escaped(key, SHOWN_BYTES), plain(value)))?,
            }
        }
        ConfigVerb::Set { key, value } => {
            let ConfiguredKey { value, waits_for_restart } = set_configured_key(&folder, key, value)?;
            match context.json() {
                true => crate::terminal::json(
                    &json!({"format": 1, "keys": {key: value}, "waits_for_restart": waits_for_restart}),
                )?,
                false => {
                    writeln!(out, "{key} = {}", plain(&value.unwrap_or_default()))?;
                    waiting(&mut out, &waits_for_restart)?;
                }
            }
        }
        ConfigVerb::Unset { key } => {
            let ConfiguredKey { waits_for_restart, .. } = unset_configured_key(&folder, key)?;
            match context.json() {
                true => crate::terminal::json(
                    &json!({"format": 1, "removed": key, "waits_for_restart": waits_for_restart}),
                )?,
                false => {
                    writeln!(out, "removed {key}")?;
                    waiting(&mut out, &waits_for_restart)?;
                }
            }
        }
    }
    Ok(Exit::Ok)
}

/// Says which keys count from the next start of the gateway only.
pub(crate) fn waiting(out: &mut impl std::io::Write, keys: &[String]) -> std::io::Result<()> {
    if keys.is_empty() { Ok(()) } else { writeln!(out, "from the next start: {}", keys.join(", ")) }
}

fn shown(keys: Vec<(String, Value)>) -> anyhow::Result<()> {
    let keys: Map<String, Value> = keys.into_iter().collect();
    Ok(crate::terminal::json(&json!({"format": 1, "keys": keys}))?)
}
