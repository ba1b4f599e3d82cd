//! `clawhost endpoints`: the addresses to which keys from the environment may be sent.

use crate::context::Context;
use crate::exit::Exit;
use clap::{Args, Subcommand};
use clawhost_app::ConfirmedEndpoints;
use std::io::Write as _;

#[derive(Debug, Args)]
pub(crate) struct EndpointsCommand {
    #[command(subcommand)]
    verb: Option<EndpointsVerb>,
}

#[derive(Debug, Subcommand)]
enum EndpointsVerb {
    /// List the confirmed addresses; this is the default
    List,
    /// Let keys from OPENAI_API_KEY and ANTHROPIC_API_KEY go to this address, beside the providers' own
    Confirm {
        /// The address, as in `https://models.example/v1`, or the policy that names it
        #[arg(value_name = "ADDRESS")]
        address: String,
    },
    /// Take a confirmation back
    Forget {
        /// The address
        #[arg(value_name = "ADDRESS")]
        address: String,
    },
}

pub(crate) fn run(context: &Context, command: &EndpointsCommand) -> anyhow::Result<Exit> {
    let folder = context.folder()?;
    let said = match &command.verb {
        None | Some(EndpointsVerb::List) => None,
        Some(EndpointsVerb::Confirm { address }) => {
            let address = ConfirmedEndpoints::confirm(&folder, address)?;
            Some(format!("{address} may receive the keys in OPENAI_API_KEY and ANTHROPIC_API_KEY"))
        }
        Some(EndpointsVerb::Forget { address }) => {
            let address = ConfirmedEndpoints::forget(&folder, address)?;
            Some(format!("{address} receives no key from the environment any more"))
        }
    };
    let all = ConfirmedEndpoints::read(&folder)?;
    if context.json() {
        let confirmed: Vec<&str> = all.iter().collect();
        crate::terminal::json(&serde_json::json!({ "format": 1, "confirmed": confirmed }))?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    match said {
        Some(said) => writeln!(out, "{said}")?,
        None if all.iter().next().is_none() => {
            writeln!(
                out,
                "no address is confirmed; keys from the environment go to their providers' own addresses alone"
            )?;
        }
        None => all.iter().try_for_each(|address| writeln!(out, "{address}"))?,
    }
    Ok(Exit::Ok)
}
