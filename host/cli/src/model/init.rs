//! `clawhost model init`: a tiny model from a seed.

use super::args::Init;
use super::{check_target, print_json};
use crate::args::Common;
use crate::exit::Exit;
use clawhost_model::{TinyModel, digest};
use std::io::Write as _;

pub(super) fn init(common: &Common, options: &Init) -> anyhow::Result<Exit> {
    if !options.force {
        check_target(&options.folder, "name a new folder, or overwrite what is there with --force")?;
    }
    let tiny = TinyModel {
        alphabet: options.alphabet.clone().unwrap_or_else(|| TinyModel::for_text().alphabet),
        width: options.width.into(),
        layers: options.layers.into(),
        heads: options.heads.into(),
        mlp_width: options.mlp.map(usize::from),
        context: options.context as usize,
        seed: options.seed,
    };
    let model = tiny.make()?;
    model.write(&options.folder)?;
    let (parameters, digest, folder) = (model.config.parameters(), digest(&model.weights), options.folder.display());
    if common.json {
        return print_json(&serde_json::json!({
            "folder": options.folder, "parameters": parameters, "seed": options.seed, "weights": digest,
        }));
    }
    let mut out = anstream::stdout();
    writeln!(out, "{folder}: a model of {parameters} weights from seed {}, {digest}", options.seed)?;
    writeln!(out, "it has learned nothing yet. Next:")?;
    writeln!(out, "  clawhost model info {folder}")?;
    writeln!(out, "  clawhost model generate {folder} '1+1=' --n 4")?;
    writeln!(out, "  clawhost run PLUGIN.wasm --learn weights --model {folder}")?;
    writeln!(out, "  clawhost demo weights    # how such a model learns")?;
    Ok(Exit::Ok)
}
