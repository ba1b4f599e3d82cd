//! `clawhost model`: local models made, looked at, asked, taken over and handed on.

pub(crate) mod args;
mod chat;
mod exchange;
mod generate;
mod info;
mod init;

use crate::args::Common;
use crate::exit::{Exit, UsageError};
use args::Model as Command;
use clawhost_model::{AdapterFolder, ModelFolder};
use std::io::Write as _;
use std::path::Path;

pub(crate) fn main(common: &Common, command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Init(options) => init::init(common, options),
        Command::Info { folder } => info::info(common, folder),
        Command::Generate(options) => tokio::runtime::Runtime::new()?.block_on(generate::generate(common, options)),
        Command::Chat(options) => {
            let runtime = tokio::runtime::Runtime::new()?;
            let exit = runtime.block_on(chat::chat(common, options));
            // A thread may still wait for a line.
            runtime.shutdown_background();
            exit
        }
        Command::Import { source, folder, adapter } => exchange::import(common, source, folder, adapter.as_deref()),
        Command::Export(options) => exchange::export(common, options),
    }
}

/// A model with its own adapter, or with the one that is named.
fn read(folder: &Path, adapter: Option<&Path>) -> anyhow::Result<ModelFolder> {
    let mut model = crate::policy::local(folder)?;
    if let Some(adapter) = adapter {
        model.weights = AdapterFolder::read(adapter)?.attach(&model.weights)?;
    }
    Ok(model)
}

/// Refuses to mix a model with what lies in a folder already.
fn check_target(folder: &Path, hint: &str) -> anyhow::Result<()> {
    let unusable = |error: std::io::Error| UsageError(format!("{}: {error}", folder.display()));
    if folder.exists() && std::fs::read_dir(folder).map_err(unusable)?.next().is_some() {
        return Err(UsageError(format!("{} is not empty; {hint}", folder.display())).into());
    }
    Ok(())
}

fn print_json(value: &serde_json::Value) -> anyhow::Result<Exit> {
    writeln!(anstream::stdout(), "{value:#}")?;
    Ok(Exit::Ok)
}

/// What a model wrote, for a terminal: no sequence of it may steer the terminal.
fn harmless(text: &str) -> String {
    let replace = |character| match character {
        '\n' | '\t' => character,
        other if clawhost_core::is_hidden(other) => char::REPLACEMENT_CHARACTER,
        other => other,
    };
    text.chars().map(replace).collect()
}
