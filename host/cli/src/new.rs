//! `clawhost new`: makes the folder of a plugin.

use crate::args::NewArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::shell::quoted;
use clawhost_core::counted;
use clawhost_devkit::{NewPlugin, Sdk, Template, create, own_sdk};
use clawhost_package::Kind;
use std::io::Write as _;

pub(crate) fn run(context: &Context, args: &NewArgs) -> anyhow::Result<Exit> {
    let new = NewPlugin {
        template: args.template.into(),
        name: args.name.clone(),
        language: args.language.map(Into::into).unwrap_or_default(),
        folder: args.folder.clone().unwrap_or_else(|| args.name.as_str().into()),
        sdk: args
            .sdk
            .clone()
            .map_or_else(own_sdk, |folder| Sdk::Folder(std::path::absolute(&folder).unwrap_or(folder))),
    };
    let created = create(&new)?;
    if context.json() {
        crate::terminal::json(&serde_json::json!({ "format": 1, "created": created }))?;
        return Ok(Exit::Ok);
    }
    let mut out = crate::terminal::stdout();
    let folder = created.folder.display().to_string();
    writeln!(out, "made        {folder}: {}", counted(created.files.len() as u64, "file"))?;
    let next = match new.template.kind() {
        // Its agent must know the rules, which the built-in follower can be told.
        Kind::Environment if new.template == Template::EnvironmentTools => {
            "clawhost build && clawhost test && clawhost run . --system-prompt-file rules.txt"
        }
        Kind::Environment => "clawhost build && clawhost test && clawhost run .",
        _ => "clawhost build && clawhost test",
    };
    writeln!(out, "next        cd {} && {next}", quoted(&folder))?;
    Ok(Exit::Ok)
}
