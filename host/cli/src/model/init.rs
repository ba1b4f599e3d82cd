//! `clawhost model init`: a tiny model from a seed.

use super::args::Init;
use super::{check_target, print_json};
use crate::args::Common;
use crate::exit::{Exit, UsageError};
use crate::shell::quoted;
use clawhost_model::{LocalModelError, TinyModel, digest};
use std::io::Write as _;

/// What a model may be asked first.
const SUM: &str = "1+1=";

/// Something that the model can read and go on with: a sum, or else its first letters or digits.
fn prompt(model: &TinyModel) -> Option<String> {
    let room = model.context.saturating_sub(1);
    let knows = |text: &str| text.chars().all(|character| model.alphabet.contains(character));
    let plain = || model.alphabet.chars().filter(|character| character.is_alphanumeric()).take(room.min(3)).collect();
    let prompt = if knows(SUM) && SUM.len() <= room { SUM.to_owned() } else { plain() };
    (!prompt.is_empty()).then_some(prompt)
}

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
    let model = tiny.make().map_err(|error| match error {
        // There is no config.json yet that it could be about.
        LocalModelError::Config(why) => UsageError(why),
        other => UsageError(other.to_string()),
    })?;
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
    if let Some(prompt) = prompt(&tiny) {
        writeln!(out, "  clawhost model generate {folder} {} --n 4", quoted(&prompt))?;
    }
    writeln!(out, "  clawhost run PLUGIN.wasm --learn weights --model {folder}")?;
    writeln!(out, "  clawhost demo weights    # how such a model learns")?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_first_can_be_read() {
        let check = |alphabet: &str, context, expect: Option<&str>| {
            let model = TinyModel { alphabet: alphabet.into(), context, ..TinyModel::default() };
            assert_eq!(prompt(&model).as_deref(), expect, "{alphabet} {context}");
        };
        check("0123456789+=#", 64, Some("1+1="));
        check("0123456789+=#", 3, Some("01"));
        check("abcd#", 64, Some("abc"));
        check("+-#", 64, None);
    }
}
