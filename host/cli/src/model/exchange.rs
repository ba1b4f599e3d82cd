//! `clawhost model import|export`: models as transformers has them, adapters as PEFT has them.

use super::args::{Export, NumberType};
use super::{check_target, print_json, read};
use crate::args::Common;
use crate::exit::{Exit, UsageError};
use clawhost_model::{LocalModelError, ModelFolder, Stored, digest};
use std::io::Write as _;
use std::path::Path;

const NEW: &str = "name a new folder";

pub(super) fn import(common: &Common, source: &Path, folder: &Path, adapter: Option<&Path>) -> anyhow::Result<Exit> {
    if !source.is_dir() {
        let source = source.display();
        return Err(UsageError(format!("{source} is no folder; download the model first, all of its files")).into());
    }
    check_target(folder, NEW)?;
    let refused = |error: LocalModelError| match &error {
        // A file says itself which it is; one of the target is no fault of the command line.
        LocalModelError::File { path, .. } if !path.starts_with(source) => anyhow::Error::from(error),
        LocalModelError::File { .. } => UsageError(error.to_string()).into(),
        _ => UsageError(format!("{}: {error}", source.display())).into(),
    };
    let model = ModelFolder::import(source, folder, adapter).map_err(refused)?;
    tell(common, &model, folder, "checked and copied")
}

pub(super) fn export(common: &Common, options: &Export) -> anyhow::Result<Exit> {
    check_target(&options.folder, NEW)?;
    let mut model = read(&options.source, options.adapter.as_deref())?;
    if options.merge {
        if !model.weights.has_adapter() {
            let source = options.source.display();
            return Err(UsageError(format!("{source} has no adapter to merge; name one with --adapter")).into());
        }
        model.weights = model.weights.merged();
    }
    let stored = match options.dtype {
        NumberType::F32 => Stored::F32,
        NumberType::F16 => Stored::F16,
        NumberType::Bf16 => Stored::BF16,
    };
    model.write_as(&options.folder, stored, options.max_shard_size)?;
    tell(common, &model, &options.folder, &format!("written as {}", stored.name()))
}

fn tell(common: &Common, model: &ModelFolder, folder: &Path, done: &str) -> anyhow::Result<Exit> {
    let (parameters, adapter) = (model.config.parameters(), model.weights.has_adapter());
    if common.json {
        return print_json(&serde_json::json!({
            "folder": folder, "architecture": model.config.architecture.name(), "parameters": parameters,
            "adapter": adapter, "weights": digest(&model.weights),
        }));
    }
    let with = if adapter { ", its adapter in the folder `adapter`" } else { "" };
    let (folder, name) = (folder.display(), model.config.architecture.name());
    writeln!(anstream::stdout(), "{folder}: {name} of {parameters} weights, {done}{with}")?;
    Ok(Exit::Ok)
}
