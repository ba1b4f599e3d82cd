//! Import and export of models (transformers, llama.cpp) and adapters (PEFT, llama.cpp).

use super::card::{self, Card};
use super::folder::{LocalSource, check_empty, read};
use crate::proof::{ProofError, ProofSummary, proof_summary};
use crate::{AppError, EventSink, RequestError, folder_name};
use clawhost_core::Digest;
use clawhost_model::tokens::TextHost;
use clawhost_model::{AdapterFolder, GgufNumbers, HubCache, LocalModelError, ModelFolder, Stored, digest};
use std::path::{Path, PathBuf};

/// The ending of a target that becomes a GGUF file.
const GGUF: &str = "gguf";

/// What an import or an export has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangedForm {
    /// A folder for transformers, with the adapter for PEFT.
    Folder,
    /// A GGUF file with a whole model.
    GgufModel,
    /// A GGUF file with the adapter alone, which llama.cpp uses beside the model.
    GgufAdapter,
}

/// A model that was imported or exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchanged {
    /// The folder or file that was written.
    pub target: PathBuf,
    /// What it is.
    pub form: ExchangedForm,
    /// The name of its architecture.
    pub architecture: &'static str,
    /// Number of parameters.
    pub parameters: u64,
    /// Whether it has an adapter.
    pub has_adapter: bool,
    /// The digest of its weights.
    pub weights: Digest,
}

impl Exchanged {
    fn of(model: &ModelFolder, target: &Path, form: ExchangedForm) -> Self {
        Self {
            target: target.to_owned(),
            form,
            architecture: model.config.architecture.name(),
            parameters: model.config.parameters(),
            has_adapter: model.weights.has_adapter(),
            weights: digest(&model.weights),
        }
    }
}

/// Imports a Hugging Face model: every weight is checked by name and shape, then its files are copied, with the
/// adapter, if one is given.
///
/// # Errors
/// The source is not a supported model, the adapter does not fit, or the target is not empty or cannot be written.
pub fn import_model(
    source: &Path,
    target: &Path,
    adapter: Option<&Path>,
    texts: &TextHost,
) -> Result<Exchanged, AppError> {
    let shown = source.display().to_string();
    if !source.is_dir() && !ModelFolder::is_one(source).unwrap_or_default() {
        let why = format!("{shown} is not a folder; download all files of the model first");
        return Err(RequestError::Target(why).into());
    }
    check_empty(target, false)?;
    let refused = |error: LocalModelError| match &error {
        // The error names the file. An error in the target is not the request's fault.
        LocalModelError::File { path, .. } if !path.starts_with(source) => AppError::from(error),
        LocalModelError::File { .. } => RequestError::Other(error.to_string()).into(),
        _ => RequestError::ModelFolder { folder: shown.clone(), error }.into(),
    };
    let model = ModelFolder::import(source, target, adapter, texts).map_err(refused)?;
    Ok(Exchanged::of(&model, target, ExchangedForm::Folder))
}

/// The settings of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The model's folder.
    pub source: PathBuf,
    /// The target: a new or an empty folder, or a new file that ends in `.gguf`.
    pub target: PathBuf,
    /// An adapter that replaces the one in the model's folder.
    pub adapter: Option<PathBuf>,
    /// Whether the adapter is merged into the weights.
    pub merge: bool,
    /// The number format of the weights. A folder has no Q8_0.
    pub numbers: GgufNumbers,
    /// Largest size of a weight file of a folder. `None`: one file.
    pub shard_bytes: Option<u64>,
    /// A bundle of the run that learned the weights, for the card of a folder.
    pub proof: Option<PathBuf>,
}

/// The number format of weights in a folder.
fn of_folder(numbers: GgufNumbers) -> Result<Stored, RequestError> {
    match numbers {
        GgufNumbers::F32 => Ok(Stored::F32),
        GgufNumbers::F16 => Ok(Stored::F16),
        GgufNumbers::BF16 => Ok(Stored::BF16),
        GgufNumbers::Q8_0 => {
            Err(RequestError::Target("q8_0 is a format of GGUF files; name a target that ends in .gguf".into()))
        }
    }
}

/// Exports a model for transformers, with its adapter for PEFT, or merged; or, if the target ends in `.gguf`, for llama.cpp: one file with the model, or
/// with the adapter alone unless it is merged. A folder has a model card.
///
/// # Errors
/// There is no such model, there is no adapter to merge, the target is not empty or cannot be written, a GGUF file cannot hold the model, or the proof is
/// damaged or about other weights.
pub fn export_model(export: &Export, events: &dyn EventSink) -> Result<Exchanged, AppError> {
    let Export { target, numbers, .. } = export;
    let is_gguf = target.extension().is_some_and(|ending| ending == GGUF);
    if is_gguf && target.exists() {
        return Err(RequestError::Target(format!("{} exists already; name a new file", target.display())).into());
    }
    if is_gguf && export.shard_bytes.is_some() {
        return Err(RequestError::Target("a GGUF file is one file; leave out the size of shards".into()).into());
    }
    if is_gguf && export.proof.is_some() {
        return Err(RequestError::Target("a GGUF file has no model card for a proof; export a folder".into()).into());
    }
    let proof = export.proof.as_deref().map(proof_summary).transpose()?;
    if !is_gguf {
        of_folder(*numbers)?;
        check_empty(target, false)?;
    }
    // Their texts are copied, and not interpreted.
    let source = LocalSource { folder: &export.source, adapter: export.adapter.as_deref(), dtype: None };
    let mut model = read(source, &TextHost::InProcess, events)?;
    let learned = digest(&model.weights);
    if let Some(there) = proof.as_ref().and_then(|proof| proof.weights).filter(|there| *there != learned) {
        let (there, here) = (there.to_string(), learned.to_string());
        return Err(ProofError::OtherWeights { there, here }.into());
    }
    if export.merge {
        if !model.weights.has_adapter() {
            return Err(RequestError::NoAdapter { folder: export.source.display().to_string() }.into());
        }
        model.weights = model.weights.merged();
    }
    let form = match (is_gguf, model.weights.has_adapter()) {
        (false, _) => {
            let stored = of_folder(*numbers)?;
            model.write_as(target, stored, export.shard_bytes)?;
            if stored != Stored::F32 {
                // Rounding changes numbers, and with them the digest.
                model.weights = ModelFolder::read(target, &TextHost::InProcess)?.weights;
            }
            write_card(export, (&model, learned), stored, proof.as_ref())?;
            ExchangedForm::Folder
        }
        (true, has_adapter) => {
            let name = folder_name(&export.source);
            match has_adapter {
                true => model.write_gguf_adapter(target, &name, *numbers)?,
                false => model.write_gguf(target, &name, *numbers)?,
            }
            if has_adapter { ExchangedForm::GgufAdapter } else { ExchangedForm::GgufModel }
        }
    };
    Ok(Exchanged::of(&model, target, form))
}

/// Writes the card of an exported folder. `learned`: the digest of the weights before they were merged.
fn write_card(
    export: &Export,
    (model, learned): (&ModelFolder, Digest),
    stored: Stored,
    proof: Option<&ProofSummary>,
) -> Result<(), AppError> {
    let weights = digest(&model.weights);
    let adapter = model.weights.has_adapter().then(|| AdapterFolder::of(&model.weights, "")).transpose()?;
    let of_adapter = || Some(AdapterFolder::read(export.adapter.as_deref()?).ok()?.base);
    let base = HubCache::hub_name(&export.source).or_else(|| HubCache::hub_name(Path::new(&of_adapter()?)));
    let name = folder_name(&export.source);
    let card = Card {
        name: &name,
        base,
        architecture: model.config.architecture.name(),
        parameters: model.config.parameters(),
        numbers: stored.name(),
        weights,
        adapter: adapter.map(|adapter| adapter.settings),
        merged_from: export.merge.then_some(learned),
        proof: export.proof.as_deref().map(card::proof_name).zip(proof),
    };
    card::write(&export.target, &card, export.proof.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local_models::{NewModel, create_model};
    use crate::{ErrorKind, Silent};

    #[test]
    fn a_model_is_imported_and_exported_with_equal_weights() {
        let folder = tempfile::tempdir().unwrap();
        let [made, imported, exported] = ["made", "imported", "exported"].map(|name| folder.path().join(name));
        let created = create_model(&NewModel { width: 16, ..NewModel::new(&made) }).unwrap();
        assert_eq!(import_model(&made, &imported, None, &TextHost::InProcess).unwrap().weights, created.weights);
        let export = Export {
            source: imported,
            target: exported,
            adapter: None,
            merge: false,
            numbers: GgufNumbers::F32,
            shard_bytes: None,
            proof: None,
        };
        assert_eq!(export_model(&export, &Silent).unwrap().weights, created.weights);
        let refused = |export: &Export, expect: &str| {
            let error = export_model(export, &Silent).unwrap_err();
            assert!(error.to_string().contains(expect), "{error}");
            assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        };
        refused(&export, "is not empty; name a new folder");
        let to = |name: &str| Export { target: folder.path().join(name), ..export.clone() };
        refused(&Export { merge: true, ..to("merged") }, "has no adapter to merge");
        refused(&Export { numbers: GgufNumbers::Q8_0, ..to("q8") }, "q8_0 is a format of GGUF files; name a target");
        refused(
            &Export { shard_bytes: Some(1), ..to("a.gguf") },
            "a GGUF file is one file; leave out the size of shards",
        );
        refused(&to("a.gguf"), "a GGUF file cannot hold this model: its tokenizer is of the kind WordLevel");
        let proof = Some(folder.path().join("no.claw"));
        refused(&Export { proof: proof.clone(), ..to("c.gguf") }, "a GGUF file has no model card for a proof");
        assert!(export_model(&Export { proof, ..to("c") }, &Silent).is_err());
        let card = std::fs::read_to_string(export.target.join("README.md")).unwrap();
        assert!(card.contains(&created.weights.to_string()) && card.contains("The export had no proof"), "{card}");
        std::fs::write(folder.path().join("b.gguf"), "").unwrap();
        refused(&to("b.gguf"), "exists already; name a new file");
        let [nowhere, target] = ["nowhere", "x"].map(|name| folder.path().join(name));
        let error = import_model(&nowhere, &target, None, &TextHost::InProcess).unwrap_err();
        assert!(error.to_string().contains("is not a folder; download all files"), "{error}");
    }
}
