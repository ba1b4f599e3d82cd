//! `clawhost keys`: the keys of the gateway's clients, and those that sign modules.

use crate::context::Context;
use crate::exit::Exit;
use crate::signing_keys::{self, NewKeyArgs, PolicyArgs, RevokeArgs, SigningKeys, TrustArgs};
use clap::{Args, Subcommand};
use clawhost_app::{
    ClientKey, NewKey, add_client_key, client_keys, dollars, limits_without_prices, remove_client_key, time,
    usd_micros, used_by_keys,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write as _;

const HELP: &str =
    "Keys of clients: without any, clients of this machine need none, and others cannot reach the gateway. A gateway that runs takes
changes over within a second. Only digests of keys are kept. If only this machine reaches the gateway, its clients may also send `clawhost`, which
counts as no key. What is used today (UTC) is what is recorded.

Keys that sign modules: `new` makes one, `trust` lets the signatures of another one count, `policy` says what must be signed. A private key is a file
that only its owner reads; it is not encrypted.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct KeysCommand {
    #[command(subcommand)]
    verb: Option<KeysVerb>,
}

#[derive(Debug, Subcommand)]
enum KeysVerb {
    /// List the keys with what they may do; this is the default
    List,
    /// Make a key, and print it this once
    Add(AddArgs),
    /// Remove a key: the gateway refuses it from then on
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Make a key that signs modules
    New(NewKeyArgs),
    /// Trust a public key: its signatures of modules count
    Trust(TrustArgs),
    /// Revoke a trusted key: what it signed is refused here, and it is never trusted again
    Revoke(RevokeArgs),
    /// Say which modules must be signed
    Policy(PolicyArgs),
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Its name, which owns its sessions and is the agent's name in records
    #[arg(value_name = "NAME")]
    name: String,
    /// Leave its traffic out of learning
    #[arg(long)]
    no_train: bool,
    /// Do not record its traffic at all
    #[arg(long)]
    no_record: bool,
    /// Most requests per minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_minute: Option<u32>,
    /// Most tokens per day (UTC), read and generated
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens_per_day: Option<u64>,
    /// Most US dollars per day (UTC), of models with prices in gateway.toml
    #[arg(long, value_name = "USD", value_parser = usd)]
    usd_per_day: Option<u64>,
    /// Remove its episodes and stored responses after this many days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep_days: Option<u32>,
    /// The team whose memory its sessions see (`clawhost memory add team:/NAME TEXT`)
    #[arg(long, value_name = "NAME")]
    team: Option<String>,
}

/// An amount of money, in millionths of a dollar.
fn usd(text: &str) -> Result<u64, String> {
    usd_micros(text)
        .ok_or_else(|| "must be an amount as 2.5, from 0.000001, with at most six decimal places".to_owned())
}

pub(crate) fn run(context: &Context, command: &KeysCommand) -> anyhow::Result<Exit> {
    let folder = context.folder()?;
    let mut out = crate::terminal::stdout();
    match &command.verb {
        None | Some(KeysVerb::List) => list(context, &folder)?,
        Some(KeysVerb::New(arguments)) => return signing_keys::new(context, arguments),
        Some(KeysVerb::Trust(arguments)) => return signing_keys::trust(context, arguments),
        Some(KeysVerb::Revoke(arguments)) => return signing_keys::revoke(context, arguments),
        Some(KeysVerb::Policy(arguments)) => return signing_keys::policy(context, arguments),
        Some(KeysVerb::Add(add)) => {
            let key = add_client_key(
                &folder,
                NewKey {
                    name: add.name.clone(),
                    no_train: add.no_train,
                    no_record: add.no_record,
                    requests_per_minute: add.requests_per_minute,
                    tokens_per_day: add.tokens_per_day,
                    usd_micros_per_day: add.usd_per_day,
                    keep_days: add.keep_days,
                    team: add.team.clone(),
                },
            )?;
            match context.json() {
                true => crate::terminal::json(&json!({"format": 1, "name": add.name, "key": key}))?,
                false => {
                    writeln!(out, "{key}")?;
                    writeln!(
                        crate::terminal::stderr(),
                        "this is shown once; send it as OPENAI_API_KEY or ANTHROPIC_API_KEY"
                    )?;
                }
            }
            if add.usd_per_day.is_some() {
                note_limits(&folder)?;
            }
        }
        Some(KeysVerb::Remove { name }) => {
            remove_client_key(&folder, name)?;
            match context.json() {
                true => crate::terminal::json(&json!({"format": 1, "removed": name}))?,
                false => writeln!(out, "removed {name}")?,
            }
        }
    }
    Ok(Exit::Ok)
}

/// Says which limits of money do not count which models.
pub(crate) fn note_limits(folder: &std::path::Path) -> anyhow::Result<()> {
    let mut notes = crate::terminal::stderr();
    for line in limits_without_prices(folder)?.iter().flat_map(crate::terminal::warning_lines) {
        writeln!(notes, "{line}")?;
    }
    Ok(())
}

fn list(context: &Context, folder: &std::path::Path) -> anyhow::Result<()> {
    let keys = client_keys(folder)?;
    let signing = SigningKeys::read(folder)?;
    let used = if keys.is_empty() { BTreeMap::new() } else { used_by_keys(folder)? };
    // What is not recorded is not known.
    let used = |key: &ClientKey| (!key.no_record).then(|| used.get(&key.name).copied().unwrap_or_default());
    if context.json() {
        let rows: Vec<_> = keys
            .iter()
            .map(|key| {
                json!({
                    "name": key.name, "created_at": key.created_at, "no_train": key.no_train, "no_record": key.no_record,
                    "requests_per_minute": key.requests_per_minute, "tokens_per_day": key.tokens_per_day, "usd_per_day": key.usd_micros_per_day.map(dollars),
                    "keep_days": key.keep_days, "team": key.team, "tokens_today": used(key).map(|used| used.tokens()),
                    "usd_today": used(key).map(|used| dollars(used.cost_micros)),
                })
            })
            .collect();
        return Ok(crate::terminal::json(&json!({"format": 1, "keys": rows, "signing": signing.json()}))?);
    }
    let mut out = crate::terminal::stdout();
    if keys.is_empty() {
        writeln!(out, "there is no key of a client; clients of this machine need none")?;
        return signing.text();
    }
    let mut table = crate::episodes::table(&[
        "name",
        "made",
        "learning",
        "recorded",
        "requests/min",
        "tokens today",
        "of",
        "USD today",
        "of",
        "days kept",
    ]);
    for key in keys.iter() {
        let yes = |denied: bool| if denied { "no" } else { "yes" };
        let limit = |limit: Option<u64>| limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        table.add_row([
            key.name.clone(),
            time(key.created_at),
            yes(key.no_train || key.no_record).to_owned(),
            yes(key.no_record).to_owned(),
            limit(key.requests_per_minute.map(u64::from)),
            limit(used(key).map(|used| used.tokens())),
            limit(key.tokens_per_day),
            used(key).map_or_else(|| "-".to_owned(), |used| dollars(used.cost_micros)),
            key.usd_micros_per_day.map_or_else(|| "-".to_owned(), dollars),
            limit(key.keep_days.map(u64::from)),
        ]);
    }
    crate::episodes::print(&mut out, &table)?;
    signing.text()
}
