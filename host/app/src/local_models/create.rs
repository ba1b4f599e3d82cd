//! Creates a tiny model from a seed.

use super::SEED;
use super::folder::check_empty;
use crate::{AppError, RequestError};
use clawhost_core::Digest;
use clawhost_model::{LocalModelError, TinyModel, Vocabulary, digest};
use std::path::PathBuf;

/// Default width of the residual stream.
pub const WIDTH: u16 = 64;
/// Default number of blocks.
pub const LAYERS: u16 = 2;
/// Default number of attention heads.
pub const HEADS: u16 = 4;
/// Default largest number of characters of a conversation.
pub const CONTEXT: u32 = 2048;

/// The settings of a new model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewModel {
    /// Its folder.
    pub folder: PathBuf,
    /// The seed of the weights: equal settings give equal weights.
    pub seed: u64,
    /// Its tokens. `None`: the characters of plain text.
    pub vocabulary: Option<Vocabulary>,
    /// Width of the residual stream, a multiple of twice the number of heads.
    pub width: u16,
    /// Blocks.
    pub layers: u16,
    /// Heads of attention.
    pub heads: u16,
    /// Width inside the MLP. `None`: 8/3 of the width.
    pub mlp_width: Option<u16>,
    /// Largest number of characters of a conversation.
    pub context: u32,
    /// Whether its chat template includes the system prompt, so that a playbook has an effect.
    pub includes_system_prompt: bool,
    /// Whether files of the same names in the folder are overwritten.
    pub overwrite: bool,
}

impl NewModel {
    /// A model of the default size in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            seed: SEED,
            vocabulary: None,
            width: WIDTH,
            layers: LAYERS,
            heads: HEADS,
            mlp_width: None,
            context: CONTEXT,
            includes_system_prompt: false,
            overwrite: false,
        }
    }
}

/// A created model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedModel {
    /// Its folder.
    pub folder: PathBuf,
    /// Number of parameters.
    pub parameters: u64,
    /// The seed of its weights.
    pub seed: u64,
    /// The digest of its weights.
    pub weights: Digest,
    /// An example prompt. `None`: its alphabet has no letters or digits.
    pub first_prompt: Option<String>,
}

/// An example prompt.
const SUM: &str = "1+1=";

/// An example prompt that the model can read: a sum, or else its first letters or digits.
fn first_prompt(model: &TinyModel) -> Option<String> {
    let room = model.context.saturating_sub(1);
    let prompt = match &model.vocabulary {
        Vocabulary::Words(words) => words.iter().take(room.min(1)).cloned().collect(),
        Vocabulary::Characters(alphabet) if SUM.chars().all(|one| alphabet.contains(one)) && SUM.len() <= room => {
            SUM.to_owned()
        }
        Vocabulary::Characters(alphabet) => {
            alphabet.chars().filter(|character| character.is_alphanumeric()).take(room.min(3)).collect()
        }
    };
    (!prompt.is_empty()).then_some(prompt)
}

/// Creates a model, and writes it into its folder.
///
/// # Errors
/// The folder has other contents, the sizes or the alphabet are invalid, or the folder cannot be written.
pub fn create_model(new: &NewModel) -> Result<CreatedModel, AppError> {
    if !new.overwrite {
        check_empty(&new.folder, true)?;
    }
    let tiny = TinyModel {
        vocabulary: new.vocabulary.clone().unwrap_or_else(|| TinyModel::for_text().vocabulary),
        width: new.width.into(),
        layers: new.layers.into(),
        heads: new.heads.into(),
        mlp_width: new.mlp_width.map(usize::from),
        context: new.context as usize,
        includes_system_prompt: new.includes_system_prompt,
        seed: new.seed,
    };
    let model = tiny.make().map_err(|error| match error {
        // There is no config.json yet to which the error could refer.
        LocalModelError::Config(why) => RequestError::Other(why),
        other => RequestError::Other(other.to_string()),
    })?;
    model.write(&new.folder)?;
    Ok(CreatedModel {
        folder: new.folder.clone(),
        parameters: model.config.parameters(),
        seed: new.seed,
        weights: digest(&model.weights),
        first_prompt: first_prompt(&tiny),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Silent};

    #[test]
    fn a_model_can_read_its_example_prompt() {
        let check = |alphabet: &str, context, expect: Option<&str>| {
            let model =
                TinyModel { vocabulary: Vocabulary::Characters(alphabet.into()), context, ..TinyModel::default() };
            assert_eq!(first_prompt(&model).as_deref(), expect, "{alphabet} {context}");
        };
        check("0123456789+=#", 64, Some("1+1="));
        check("0123456789+=#", 3, Some("01"));
        check("abcd#", 64, Some("abc"));
        check("+-#", 64, None);
    }

    #[test]
    fn a_template_with_system_prompt_changes_no_weight() {
        let folder = tempfile::tempdir().unwrap();
        let new = |name: &str, includes_system_prompt| {
            let (width, context) = (16, 32);
            let folder = folder.path().join(name);
            create_model(&NewModel { width, context, includes_system_prompt, ..NewModel::new(folder) }).unwrap()
        };
        let (plain, with_system) = (new("plain", false), new("system", true));
        assert_eq!(plain.weights, with_system.weights);
        let template = |made: &CreatedModel| {
            crate::read_folder(&made.folder, None, &clawhost_model::tokens::TextHost::InProcess, &Silent)
                .unwrap()
                .template
        };
        assert_ne!(template(&plain), template(&with_system));
    }

    #[test]
    fn a_folder_that_is_not_empty_is_written_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes.txt"), "a text").unwrap();
        let new = NewModel { width: 16, ..NewModel::new(folder.path()) };
        let error = create_model(&new).unwrap_err();
        assert!(error.to_string().contains("is not empty; name a new folder"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(!error.hints().is_empty());
        create_model(&NewModel { overwrite: true, ..new.clone() }).unwrap();
        let odd = create_model(&NewModel { heads: 3, overwrite: true, ..new }).unwrap_err().to_string();
        assert!(odd.contains("for 3 heads") && !odd.contains("config.json"), "{odd}");
    }
}
