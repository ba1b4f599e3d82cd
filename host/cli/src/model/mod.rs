//! `clawhost model`: creates, lists, describes, runs, tunes, pulls, imports and exports local models, and rolls back what they learned live.

mod adapter;
mod args;
mod chat;
mod exchange;
mod generate;
mod info;
mod init;
mod list;
mod pull;
mod tune;
mod versions;

pub(crate) use args::ModelCommand;

use crate::args::MachineArgs;
use crate::context::{Context, hub_cache};
use crate::device::DeviceOption;
use crate::exit::Exit;
use crate::terminal::Progress;
use adapter::Located;
use clawhost_app::{Event, EventSink, ModelSettings, Warning, find_model_folder};

pub(crate) async fn run(context: &Context, mut command: ModelCommand) -> anyhow::Result<Exit> {
    if let Some(folder) = command.folder_mut() {
        *folder = find_model_folder(&hub_cache(), folder)?;
    }
    match &command {
        ModelCommand::Init(arguments) => init::init(context, arguments),
        ModelCommand::Info { folder, kept } => info::info(context, folder, kept.dtype()),
        ModelCommand::Generate(arguments) => generate::generate(context, arguments).await,
        ModelCommand::Chat(arguments) => chat::chat(context, arguments).await,
        ModelCommand::Tune(arguments) => tune::run(context, arguments),
        ModelCommand::Import { source, folder, adapter } => {
            let adapter = Located::find(context, adapter.as_deref()).await?;
            exchange::import(context, source, folder, adapter.folder())
        }
        ModelCommand::Export(arguments) => {
            let adapter = Located::find(context, arguments.adapter.as_deref()).await?;
            exchange::export(context, arguments, adapter.folder())
        }
        ModelCommand::List => list::list(context).await,
        ModelCommand::Pull { module, from } => pull::pull(context, module, from.as_deref()).await,
        ModelCommand::Log { alias } => versions::log(context, alias.as_deref()),
        ModelCommand::Rollback { alias, to, scope, confirm } => {
            versions::roll_back(context, (alias, scope.as_ref()), *to, *confirm)
        }
    }
}

/// The settings of a model.
fn settings(context: &Context, device: DeviceOption) -> anyhow::Result<ModelSettings> {
    context.model_settings(&MachineArgs { device, ..MachineArgs::default() })
}

/// Shows warnings, but not the device: only answers are wanted.
fn notes(context: &Context) -> impl EventSink {
    let progress = Progress::new(context, true, "answered");
    move |event: Event| {
        if let Event::Warning(warning) = &event
            && !matches!(warning, Warning::Device { .. })
        {
            progress.event(event);
        }
    }
}

fn print_json(value: &serde_json::Value) -> anyhow::Result<Exit> {
    crate::terminal::json(value)?;
    Ok(Exit::Ok)
}

/// Text of a model, safe for a terminal: control sequences are made visible.
fn harmless(text: &str) -> String {
    let replace = |character| match character {
        '\n' | '\t' => character,
        other if clawhost_core::is_hidden(other) => char::REPLACEMENT_CHARACTER,
        other => other,
    };
    text.chars().map(replace).collect()
}
