//! Models in one GGUF file: shape, tokenizer, chat template and weights, for the families that run here.
//!
//! ```text
//! header ─▶ values ─▶ shape, tokenizer.json, template, special tokens
//!        └▶ tensors ─▶ names of Hugging Face ─▶ read piece by piece, as from safetensors
//! ```
//!
//! Everything else is refused by name: other architectures, tokenizers, ways to split texts, quantisations and settings. `write` goes the other way.

mod blocks;
mod header;
mod shape;
mod splitting;
mod values;
mod vocabulary;
mod write;

pub(crate) use blocks::{Q4_0, Q4_K, Q6_K, Q8_0, SUPER, q4_0, q4_k, q6_k, q8_0};
pub use write::GgufNumbers;

use crate::generate::Sampling;
use crate::stored_tensors::{Format, StoredTensors};
use crate::tokens::TextHost;
use crate::weight_files::file;
use crate::{Dtype, LocalModelError, ModelFolder};
use header::{Header, TensorInfo};
use shape::Seen;
use std::path::{Path, PathBuf};
use values::Values;
use vocabulary::Vocabulary;

/// The ending of such files.
const ENDING: &str = "gguf";
/// Factors of wavelengths, of Llama 3.1 and later.
const FACTORS: &str = "rope_freqs.weight";
/// Most of them: one for each pair of a head, of which the widest known ones have 128.
const MOST_FACTORS: usize = 4096;
/// What stands before the names of tensors that the families here do not have.
const FOREIGN: &str = "GGUF ";

/// The GGUF file that a path names: itself, or the only one of a folder without a config.json.
pub(crate) fn file_of(path: &Path) -> Option<PathBuf> {
    let is_one = |path: &Path| path.extension().is_some_and(|ending| ending == ENDING) && path.is_file();
    if is_one(path) {
        return Some(path.to_owned());
    }
    if path.join(crate::chat_folder::CONFIG).exists() {
        return None;
    }
    let mut found = std::fs::read_dir(path).ok()?.flatten().map(|entry| entry.path()).filter(|path| is_one(path));
    found.next().filter(|_| found.next().is_none())
}

/// The format of ggml's type with this number.
fn format(kind: u32) -> Result<Format, String> {
    Ok(match kind {
        0 => Format::F32,
        1 => Format::F16,
        2 => Format::Q4_0,
        8 => Format::Q8_0,
        12 => Format::Q4K,
        14 => Format::Q6K,
        30 => Format::BF16,
        3 => return Err("Q4_1".to_owned()),
        6 => return Err("Q5_0".to_owned()),
        7 => return Err("Q5_1".to_owned()),
        10 => return Err("Q2_K".to_owned()),
        11 => return Err("Q3_K".to_owned()),
        13 => return Err("Q5_K".to_owned()),
        other => return Err(format!("the type {other} of ggml")),
    })
}

/// Reads a file.
///
/// # Errors
/// It is damaged, or holds something that is not computed here; the error names it.
pub(crate) fn read(path: &Path, texts: &TextHost, dtype: Option<Dtype>) -> Result<ModelFolder, LocalModelError> {
    let (opened, size) = clawhost_files::open(path, u64::MAX).map_err(|error| file(path, error))?;
    let header = Header::read(path, &opened)?;
    let values = Values(&header.values);
    if values.whole("split.count")?.is_some_and(|count| count > 1) {
        return Err(file(path, "one part of several; join them with gguf-split of llama.cpp"));
    }
    if values.text("general.type")? == Some("adapter") {
        return Err(file(
            path,
            "it holds an adapter without its model; adapters are read from folders in PEFT's format",
        ));
    }
    let of_file = |error| match error {
        LocalModelError::Config(why) | LocalModelError::Tokenizer(why) => file(path, why),
        other => other,
    };
    let architecture = shape::architecture(&values).map_err(of_file)?;
    let mut stored = StoredTensors::default();
    let number = stored.add_file(path, opened);
    let mut places = Vec::with_capacity(header.tensors.len());
    for tensor in &header.tensors {
        let TensorInfo { name, shape, kind, offset } = tensor;
        // A name that is unknown is none of Hugging Face's.
        let known = shape::name(name)
            .unwrap_or_else(|| if name == FACTORS { name.clone() } else { format!("{FOREIGN}{name}") });
        let offset = header.start.saturating_add(*offset);
        let format = format(*kind);
        let bytes = match &format {
            Ok(format) => format.bytes(shape).ok_or_else(|| {
                let shown = clawhost_core::escaped(name, 80);
                file(path, format!("the tensor {shown} of the shape {shape:?} is not made of whole blocks"))
            })?,
            // It is refused by name if it is needed.
            Err(_) => 0,
        };
        if offset.checked_add(bytes).is_none_or(|end| end > size) {
            let shown = clawhost_core::escaped(name, 80);
            return Err(file(path, format!("it ends inside of the tensor {shown}; is the download complete?")));
        }
        places.push((offset, bytes));
        stored.add(known, number, (offset, bytes), format, shape.clone())?;
    }
    places.sort_unstable();
    if places.iter().zip(places.iter().skip(1)).any(|(one, next)| one.0 + one.1 > next.0) {
        return Err(file(path, "two tensors share bytes"));
    }
    let vocabulary = Vocabulary::read(&values).map_err(of_file)?;
    let factors = stored.take_numbers(FACTORS, MOST_FACTORS)?;
    let embedding = stored.shape("model.embed_tokens.weight").and_then(|shape| shape.first().copied());
    let seen = Seen {
        vocabulary: embedding.unwrap_or(vocabulary.tokens),
        has_head: stored.shape("lm_head.weight").is_some(),
        has_bias: stored.shape("model.layers.0.self_attn.q_proj.bias").is_some(),
        factors: factors.as_deref(),
    };
    let mut config = shape::shape(&values, &seen).map_err(of_file)?;
    config.end_tokens = vocabulary.end_tokens.clone();
    for tensor in header.tensors.iter().filter(|tensor| shape::is_paired(architecture, &tensor.name)) {
        if let Some(name) = shape::name(&tensor.name) {
            stored.pair(&name, config.head_width);
        }
    }
    let template = |name: &str| values.text(name).map(|text| text.map(str::to_owned));
    Ok(ModelFolder {
        weights: stored.read(&config, dtype).map_err(of_file)?,
        config,
        tokenizer_json: vocabulary.tokenizer_json,
        template: template("tokenizer.chat_template")?,
        tool_template: template("tokenizer.chat_template.tool_use")?,
        words: vocabulary.words,
        // As of a folder that does not say how to sample.
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        ignored: Vec::new(),
        arguments: crate::tokens::TemplateArguments::default(),
        texts: texts.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::header::tests::{Written, text};
    use super::*;

    #[test]
    fn tensors_that_share_bytes_or_a_name_are_refused() {
        let check = |names: [&str; 2], change: &dyn Fn(&mut Vec<u8>), expect: &str| {
            let mut written = Written::default();
            written.value("general.architecture", 8, &text("llama"));
            written.tensors = names.map(|name| (name.to_owned(), vec![8], 0, vec![0; 32])).to_vec();
            let mut bytes = written.bytes();
            change(&mut bytes);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("made.gguf");
            std::fs::write(&path, bytes).unwrap();
            let error = read(&path, &TextHost::InProcess, None).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        let last = "output_norm.weight";
        let moved = |bytes: &mut Vec<u8>| {
            let place = bytes.windows(last.len()).position(|part| part == last.as_bytes()).unwrap() + last.len();
            // Behind the count of dimensions, one dimension and the type.
            bytes[place + 16..place + 24].copy_from_slice(&0u64.to_le_bytes());
        };
        check(["blk.0.attn_norm.weight", last], &|_| (), "tokenizer.ggml.model is missing");
        check(["blk.0.attn_norm.weight", last], &moved, "two tensors share bytes");
        check([last, last], &|_| (), "model.norm.weight is there twice");
    }
}
