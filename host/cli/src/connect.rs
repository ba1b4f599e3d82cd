//! `clawhost connect`: changes a client's own configuration so that it asks the gateway.

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use clap::{Args, ValueEnum};
use clawhost_app::connect::{Client, ConnectRequest, KeyName, Restored, Surroundings, connect, disconnect};
use clawhost_core::escaped;
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;

const HELP: &str = "It sets the gateway as a provider, and the model, in the client's own file. Comments and all other settings stay. A copy of
the file is kept beside it; --undo restores it byte for byte, or takes only these settings back if the file was changed since.
No key is written: --key-env writes the name of a variable.";

/// Longest value that is shown, in bytes.
const SHOWN_BYTES: usize = 200;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ConnectArgs {
    /// The client
    #[arg(value_enum)]
    client: ClientName,
    /// The model's alias at the gateway [default: the only one of gateway.toml]
    #[arg(long, value_name = "ALIAS")]
    model: Option<String>,
    /// The gateway's address, as in http://127.0.0.1:8700 [default: that of the gateway of the data folder]
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// The variable of the environment that has the key which the client sends [default: it sends none]
    #[arg(long, value_name = "VARIABLE")]
    key_env: Option<String>,
    /// The client's file [default: where the client has it]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show what would be set, and write nothing
    #[arg(long, conflicts_with = "undo")]
    print: bool,
    /// Take the connection back
    #[arg(long, conflicts_with_all = ["model", "address", "key_env"])]
    undo: bool,
}

/// A client, as it is written on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClientName {
    #[value(name = "openclaw")]
    OpenClaw,
    Codex,
    ClaudeCode,
    #[value(name = "opencode")]
    OpenCode,
    Hermes,
}

impl ClientName {
    fn client(self) -> Client {
        match self {
            Self::OpenClaw => Client::OpenClaw,
            Self::Codex => Client::Codex,
            Self::ClaudeCode => Client::ClaudeCode,
            Self::OpenCode => Client::OpenCode,
            Self::Hermes => Client::Hermes,
        }
    }
}

pub(crate) fn run(context: &Context, arguments: &ConnectArgs) -> anyhow::Result<Exit> {
    let client = arguments.client.client();
    let surroundings = Surroundings::of_process()
        .ok_or_else(|| UsageError("there is no home folder; name the client's file with --file".to_owned()))?;
    if arguments.undo {
        return undo(context, client, arguments.file.clone(), &surroundings);
    }
    let found = ConnectRequest::of_folder(&context.folder()?, arguments.model.clone(), arguments.address.clone())?;
    let request = ConnectRequest {
        file: arguments.file.clone(),
        key: arguments
            .key_env
            .as_deref()
            .map(str::parse::<KeyName>)
            .transpose()
            .map_err(clawhost_app::AppError::from)?,
        ..found
    };
    let connection = connect(client, &request, &surroundings, arguments.print)?;
    if context.json() {
        crate::terminal::json(&json!({
            "format": 1, "client": client.name(), "file": connection.file, "backup": connection.backup,
            "written": !arguments.print, "changes": connection.changes,
        }))?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    writeln!(out, "{}", connection.file.display())?;
    for change in &connection.changes {
        let before = change.before.as_deref().map(|before| format!("   was {}", escaped(before, SHOWN_BYTES)));
        let (key, now) = (escaped(&change.key, SHOWN_BYTES), escaped(&change.now, SHOWN_BYTES));
        writeln!(out, "  {key} = {now}{}", before.unwrap_or_default())?;
    }
    match (connection.changes.is_empty(), arguments.print) {
        (true, _) => writeln!(out, "{} asks {} already", client.name(), request.address)?,
        (false, true) => writeln!(out, "nothing was written")?,
        (false, false) => {
            writeln!(out, "{} asks {} from its next start", client.name(), request.address)?;
            writeln!(out, "clawhost connect {} --undo takes it back", client.name())?;
        }
    }
    Ok(Exit::Ok)
}

fn undo(context: &Context, client: Client, file: Option<PathBuf>, surroundings: &Surroundings) -> anyhow::Result<Exit> {
    let (file, restored) = disconnect(client, file, surroundings)?;
    let (word, says) = match restored {
        Restored::Exactly => ("exactly", "is as it was"),
        Restored::Removed => ("removed", "was removed: there was none before"),
        Restored::Settings => {
            ("settings", "no longer has the settings of the connection; what was changed since is kept")
        }
    };
    if context.json() {
        crate::terminal::json(&json!({"format": 1, "client": client.name(), "file": file, "restored": word}))?;
    } else {
        writeln!(crate::terminal::stdout(), "{} {says}", file.display())?;
    }
    Ok(Exit::Ok)
}
