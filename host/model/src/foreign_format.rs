//! Words for folders whose model is in a format that is not read.

use crate::LocalModelError;
use crate::chat_folder::{CONFIG, TOKENIZER};
use std::path::Path;

/// Most entries of a folder that are looked at. A model of a thousand shards has fewer.
const MOST_ENTRIES: usize = 10_000;

/// Says what a folder holds in place of a file that is missing, if it is a known format.
///
/// # Errors
/// The configuration, the weights or the tokenizer are there in another format alone.
pub(crate) fn check(folder: &Path) -> Result<(), LocalModelError> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let ending = |endings: &[&str]| {
        let ends = |name: &&String| endings.iter().any(|ending| name.ends_with(ending));
        names.iter().find(ends).map(|name| clawhost_core::escaped(name, SHOWN))
    };
    let has = |name: &str| names.iter().any(|known| known == name);
    let wrong = |why: String| Err(LocalModelError::Format { folder: folder.to_owned(), why });
    if ending(&[".safetensors", ".safetensors.index.json"]).is_none() {
        if let Some(name) = ending(&[".gguf"]) {
            return wrong(format!("there are several GGUF files, or a {CONFIG} beside one ({name}); name the file"));
        }
        if let Some(name) = ending(&[".bin", ".pt", ".pth", ".ckpt"]) {
            return wrong(format!(
                "its weights are in PyTorch's own format ({name}), which can run code when it is read; write them with transformers: AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder)"
            ));
        }
        if let Some(name) = ending(&[".h5", ".msgpack", ".onnx", ".tflite"]) {
            return wrong(format!(
                "its weights are in a format that is not read ({name}); a folder with weights in safetensors is"
            ));
        }
        if has(CONFIG) {
            return wrong(format!("it has a {CONFIG} and no weights (*.safetensors); is the download complete?"));
        }
    }
    if !has(TOKENIZER) {
        if let Some(name) = ["tokenizer.model", "spiece.model", "vocab.json"].into_iter().find(|name| has(name)) {
            return wrong(format!(
                "its tokenizer is not in {TOKENIZER} ({name} is there); write it with transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
            ));
        }
        if has(CONFIG) {
            return wrong(format!("it has a {CONFIG} and no {TOKENIZER}; is the download complete?"));
        }
    }
    if !has(CONFIG) && ending(&[".safetensors"]).is_some() {
        let adapter = has("adapter_config.json");
        return wrong(match adapter {
            true => "it holds an adapter without its model; name the model's folder, and give the adapter beside it"
                .to_owned(),
            false => format!("it has weights and no {CONFIG}; is the download complete?"),
        });
    }
    Ok(())
}

/// Characters of a file's name in an error.
const SHOWN: usize = 80;

#[cfg(test)]
mod tests {
    #[test]
    fn a_folder_in_another_format_is_refused_with_what_to_do() {
        let check = |names: &[&str], expect: &str| {
            let folder = tempfile::tempdir().unwrap();
            names.iter().for_each(|name| std::fs::write(folder.path().join(name), "").unwrap());
            match super::check(folder.path()) {
                Ok(()) => assert_eq!(expect, "", "{names:?}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(!expect.is_empty() && error.contains(expect), "{names:?}: {error}");
                }
            }
        };
        check(&["config.json", "model.safetensors", "tokenizer.json"], "");
        check(&["config.json", "model.safetensors", "tokenizer.json", "pytorch_model.bin", "tokenizer.model"], "");
        check(&["a.gguf", "b.gguf"], "several GGUF files, or a config.json beside one (a.gguf); name the file");
        check(
            &["config.json", "pytorch_model-00001-of-00002.bin", "tokenizer.json"],
            "PyTorch's own format (pytorch_model-00001",
        );
        check(&["config.json", "flax_model.msgpack"], "not read (flax_model.msgpack)");
        check(
            &["config.json", "model.safetensors", "tokenizer.model"],
            "not in tokenizer.json (tokenizer.model is there)",
        );
        check(&["config.json", "model.safetensors", "vocab.json", "merges.txt"], "(vocab.json is there)");
        check(&["adapter_config.json", "adapter_model.safetensors"], "an adapter without its model");
        check(&["model.safetensors", "tokenizer.json"], "no config.json");
        check(&["config.json", "tokenizer.json"], "a config.json and no weights (*.safetensors)");
        check(&["config.json", "model.safetensors"], "a config.json and no tokenizer.json");
        check(&[], "");
    }
}
