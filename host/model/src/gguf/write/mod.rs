//! Writes a model, or its adapter, into a GGUF file: what `convert_hf_to_gguf.py` and `convert_lora_to_gguf.py` of llama.cpp write.
//!
//! ```text
//! shape, tokenizer.json, template, special tokens ─▶ values ─┐
//! weights by the names of Hugging Face ─▶ names of ggml ─────┴▶ a file beside ─▶ renamed
//! ```
//!
//! What the format cannot hold is refused by name.

mod file;
mod settings;
mod tensor;
#[cfg(test)]
mod tests;
mod tokenizer;

pub use tensor::GgufNumbers;

use super::{FACTORS, shape};
use crate::{AdapterFolder, LocalModelError, ModelConfig, ModelFolder, Weight};
use file::Values;
use std::path::Path;
use tensor::{Source, Tensor};

/// The version of ggml's quantised formats.
const QUANTISATION_VERSION: u32 = 2;

/// Something that a GGUF file cannot hold.
fn unheld(why: impl Into<String>) -> LocalModelError {
    LocalModelError::Unheld(why.into())
}

/// The values that every file begins with.
fn general(config: &ModelConfig, kind: &str, name: &str, numbers: GgufNumbers) -> Values {
    let mut values = Values::default();
    values.text("general.architecture", config.architecture.name());
    values.text("general.type", kind);
    values.text("general.name", name);
    values.whole("general.file_type", numbers.file_type());
    values.whole("general.quantization_version", QUANTISATION_VERSION);
    values
}

/// A tensor by its name in Hugging Face's format.
fn tensor(config: &ModelConfig, name: &str, source: Source, numbers: GgufNumbers) -> Result<Tensor, LocalModelError> {
    let name = shape::tensor_of(name).ok_or_else(|| unheld(format!("the weight {name} has no name there")))?;
    let paired = shape::is_paired(config.architecture.name(), &name).then_some(config.head_width);
    Ok(Tensor { name, source, numbers, paired })
}

impl ModelFolder {
    /// Writes the model without its adapter into a GGUF file of this path, with matrices in this format; `name`: what the file calls the model. To write a
    /// merged model see [`crate::HostDecoder::merged`].
    ///
    /// # Errors
    /// The format cannot hold the tokenizer or the shape, a value is too large for the format, or the file cannot be written. Then there is no new file.
    pub fn write_gguf(&self, path: &Path, name: &str, numbers: GgufNumbers) -> Result<(), LocalModelError> {
        let mut values = general(&self.config, "model", name, numbers);
        settings::shape(&self.config, &mut values);
        tokenizer::write(self, &mut values)?;
        let mut tensors = Vec::new();
        for (name, weight) in self.weights.without_adapters().weights() {
            let source = match weight {
                Weight::Matrix(matrix) => Source::Matrix(matrix),
                Weight::Vector(values) => Source::Vector(values),
            };
            tensors.push(tensor(&self.config, &name, source, numbers)?);
        }
        if let Some(factors) = settings::factors(&self.config)? {
            tensors.push(Tensor {
                name: FACTORS.to_owned(),
                source: Source::Vector(factors.into()),
                numbers,
                paired: None,
            });
        }
        file::write(path, &values, &tensors)
    }

    /// Writes the adapter of the model alone into a GGUF file of this path, which llama.cpp uses beside the file of the model.
    ///
    /// # Errors
    /// The model has no adapter, a value is too large for the format, or the file cannot be written. Then there is no new file.
    pub fn write_gguf_adapter(&self, path: &Path, name: &str, numbers: GgufNumbers) -> Result<(), LocalModelError> {
        let settings = AdapterFolder::of(&self.weights, "")?.settings;
        let mut values = general(&self.config, "adapter", name, numbers);
        values.text("adapter.type", "lora");
        values.float("adapter.lora.alpha", settings.alpha as f32);
        let mut tensors = Vec::new();
        for (name, weight) in self.weights.weights() {
            let parts = [(".lora_A.weight", ".lora_a"), (".lora_B.weight", ".lora_b")];
            let part = parts.iter().find_map(|(part, there)| Some((name.strip_suffix(part)?, *there)));
            let (Some((projection, there)), Weight::Matrix(matrix)) = (part, weight) else { continue };
            let mut one = tensor(&self.config, &format!("{projection}.weight"), Source::Matrix(matrix), numbers)?;
            // The rows of A are those of the rank.
            one.paired = one.paired.filter(|_| there == ".lora_b");
            one.name.push_str(there);
            tensors.push(one);
        }
        file::write(path, &values, &tensors)
    }
}
