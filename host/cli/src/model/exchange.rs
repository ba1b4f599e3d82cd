//! `clawhost model import|export`: imports and exports models (transformers, llama.cpp) and adapters (PEFT, llama.cpp).

use super::args::ExportArgs;
use super::{notes, print_json};
use crate::context::{Context, texts};
use crate::exit::Exit;
use clawhost_app::local_models::{Exchanged, ExchangedForm, Export, GgufNumbers, export_model, import_model};
use std::io::Write as _;
use std::path::Path;

pub(super) fn import(context: &Context, source: &Path, folder: &Path, adapter: Option<&Path>) -> anyhow::Result<Exit> {
    let imported = import_model(source, folder, adapter, &texts()?)?;
    tell(context, &imported, "checked and copied")
}

pub(super) fn export(context: &Context, arguments: &ExportArgs, adapter: Option<&Path>) -> anyhow::Result<Exit> {
    let numbers = arguments.dtype.map_or(GgufNumbers::default(), |dtype| dtype.numbers());
    let export = Export {
        source: arguments.source.clone(),
        target: arguments.target.clone(),
        adapter: adapter.map(Path::to_owned),
        merge: arguments.merge,
        numbers,
        shard_bytes: arguments.max_shard_size,
        proof: arguments.proof.clone(),
    };
    let exported = export_model(&export, &notes(context))?;
    tell(context, &exported, &format!("written as {}", numbers.name()))
}

fn tell(context: &Context, exchanged: &Exchanged, done: &str) -> anyhow::Result<Exit> {
    let Exchanged { target, form, architecture, parameters, has_adapter, weights } = exchanged;
    if context.json() {
        let form = match form {
            ExchangedForm::Folder => "folder",
            ExchangedForm::GgufModel => "gguf",
            ExchangedForm::GgufAdapter => "gguf-adapter",
        };
        return print_json(&serde_json::json!({
            "folder": target, "form": form, "architecture": architecture, "parameters": parameters,
            "adapter": has_adapter, "weights": weights,
        }));
    }
    let mut out = crate::terminal::stdout();
    let shown = target.display();
    match form {
        ExchangedForm::GgufAdapter => writeln!(
            out,
            "{shown}: the adapter alone, {done}, which llama.cpp uses beside the model: --lora; with --merge the file has the whole model"
        )?,
        _ => {
            let with = if *has_adapter { ", its adapter in the folder `adapter`" } else { "" };
            writeln!(out, "{shown}: {architecture} of {parameters} weights, {done}{with}")?;
        }
    }
    Ok(Exit::Ok)
}
