//! `clawhost model init`: creates a tiny model from a seed.

use super::args::InitArgs;
use super::print_json;
use crate::context::Context;
use crate::exit::Exit;
use crate::shell::quoted;
use clawhost_app::local_models::{CreatedModel, NewModel, Vocabulary, create_model};
use std::io::Write as _;

pub(super) fn init(context: &Context, arguments: &InitArgs) -> anyhow::Result<Exit> {
    let usual = NewModel::new(&arguments.folder);
    let words = arguments.words.as_ref().map(|text| text.split_whitespace().map(str::to_owned).collect());
    let characters = arguments.alphabet.clone().map(Vocabulary::Characters);
    let vocabulary = words.map(Vocabulary::Words).or(characters);
    let created = create_model(&NewModel {
        seed: arguments.seed.unwrap_or(usual.seed),
        vocabulary,
        width: arguments.width.unwrap_or(usual.width),
        layers: arguments.layers.unwrap_or(usual.layers),
        heads: arguments.heads.unwrap_or(usual.heads),
        mlp_width: arguments.mlp,
        context: arguments.context.unwrap_or(usual.context),
        includes_system_prompt: arguments.system,
        overwrite: arguments.force,
        ..usual
    })?;
    let CreatedModel { folder, parameters, seed, weights, first_prompt } = created;
    if context.json() {
        return print_json(&serde_json::json!({
            "folder": folder, "parameters": parameters, "seed": seed, "weights": weights,
        }));
    }
    let mut out = crate::terminal::stdout();
    let folder = folder.display();
    writeln!(out, "{folder}: a model of {parameters} weights from seed {seed}, {weights}")?;
    writeln!(out, "it is untrained. Next:")?;
    writeln!(out, "  clawhost model info {folder}")?;
    if let Some(prompt) = first_prompt {
        writeln!(out, "  clawhost model generate {folder} {} --n 4", quoted(&prompt))?;
    }
    writeln!(out, "  clawhost learn PLUGIN.wasm --layer weights --model {folder}")?;
    if arguments.system {
        let both = "--layer harness --reflector REFLECTOR.wasm --layer weights";
        writeln!(out, "  clawhost learn PLUGIN.wasm {both} --model {folder}")?;
    }
    writeln!(out, "  clawhost demo weights    # how such a model learns")?;
    Ok(Exit::Ok)
}
