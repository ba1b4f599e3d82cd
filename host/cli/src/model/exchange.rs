//! `clawhost model import|export`: imports and exports models (transformers) and adapters (PEFT).

use super::args::ExportArgs;
use super::{notes, print_json};
use crate::context::{Context, texts};
use crate::exit::Exit;
use clawhost_app::local_models::{Exchanged, Export, Stored, export_model, import_model};
use std::io::Write as _;
use std::path::Path;

pub(super) fn import(context: &Context, source: &Path, folder: &Path, adapter: Option<&Path>) -> anyhow::Result<Exit> {
    let imported = import_model(source, folder, adapter, &texts()?)?;
    tell(context, &imported, "checked and copied")
}

pub(super) fn export(context: &Context, arguments: &ExportArgs, adapter: Option<&Path>) -> anyhow::Result<Exit> {
    let stored = arguments.dtype.map_or(Stored::default(), |dtype| dtype.stored());
    let export = Export {
        source: arguments.source.clone(),
        target: arguments.folder.clone(),
        adapter: adapter.map(Path::to_owned),
        merge: arguments.merge,
        stored,
        shard_bytes: arguments.max_shard_size,
    };
    let exported = export_model(&export, &notes(context))?;
    tell(context, &exported, &format!("written as {}", stored.name()))
}

fn tell(context: &Context, exchanged: &Exchanged, done: &str) -> anyhow::Result<Exit> {
    let Exchanged { folder, architecture, parameters, has_adapter, weights } = exchanged;
    if context.json() {
        return print_json(&serde_json::json!({
            "folder": folder, "architecture": architecture, "parameters": parameters, "adapter": has_adapter,
            "weights": weights,
        }));
    }
    let with = if *has_adapter { ", its adapter in the folder `adapter`" } else { "" };
    let folder = folder.display();
    writeln!(crate::terminal::stdout(), "{folder}: {architecture} of {parameters} weights, {done}{with}")?;
    Ok(Exit::Ok)
}
