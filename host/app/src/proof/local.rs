//! Local models, whose answers are generated again: equal weights, requests and seeds give equal tokens on processors of one class.

use super::ProofError;
use super::archive::Opened;
use super::claim::{ClaimedAdapter, LocalAnswers};
use super::verify::VerifyRequest;
use crate::drivers::drivers;
use crate::events::EventSink;
use crate::learn::learned_by;
use crate::model_folders::{folder_name, local_folder};
use crate::{AppError, ModelSettings};
use clawhost_bundle::EntryName;
use clawhost_core::{Discrepancy, Llm, LlmIdentity};
use clawhost_model::cpu::processor_class;
use clawhost_model::device::Backend;
use clawhost_model::generate::Sampling;
use clawhost_model::{LocalModel, ModelFolder};
use clawhost_run_config::{LocalModelText, RunSpec};
use std::path::Path;
use std::sync::Arc;

/// What generating answers again needs, if a local model answers the policy of a run, and this program computes on the processor alone:
/// otherwise nobody knows on what it was computed.
pub(super) fn answers_of(spec: &RunSpec) -> Option<LocalAnswers> {
    let folder = local_folder(&spec.policy.model).filter(|_| drivers().built() == [Backend::Cpu])?;
    Some(LocalAnswers { model: folder_name(Path::new(folder)), processor: processor_class() })
}

/// The local models of a verification.
#[derive(Default)]
pub(super) struct LocalModels {
    /// Those that answer again.
    pub(super) answering: Vec<Arc<dyn Llm>>,
    /// Those of the folders that were given.
    pub(super) given: Vec<LlmIdentity>,
    /// Whether the weights with the adapter were computed.
    pub(super) has_adapter: bool,
    /// How the adapter differs from what the run claims.
    pub(super) found: Vec<Discrepancy>,
}

/// Opens the local models of a verification on this processor, and where a run learned an adapter, its model with it.
///
/// # Errors
/// Their answers cannot be generated again here, or a folder holds no model.
pub(super) fn local_models(
    request: &VerifyRequest,
    Opened { claim, learned, adapter }: &Opened,
    events: &dyn EventSink,
) -> Result<LocalModels, AppError> {
    let mut local = LocalModels::default();
    if request.models.is_empty() {
        return Ok(local);
    }
    let (there, here) = (claim.local.as_ref(), processor_class());
    let there = there.ok_or_else(|| ProofError::NoLocalAnswers { run: claim.run.id.0.clone() })?;
    if there.processor != here {
        return Err(ProofError::OtherProcessor { there: there.processor.clone(), here }.into());
    }
    let spec = claim.spec();
    let trained = spec.as_ref().and_then(|spec| Some((spec, spec.weights()?)));
    // Without a program that tries devices, models compute on the processor.
    let settings = ModelSettings { probe: None, ..request.model_settings.clone() };
    // The verifier's folder may have another name.
    let open = |model: &ModelFolder| -> Result<Arc<LocalModel>, AppError> {
        Ok(model.open(&there.model, &settings.open_device(model.config.parameters(), events)?)?)
    };
    for folder in &request.models {
        // With the options of the run, in the verifier's folder.
        let claimed = spec.as_ref().and_then(|spec| LocalModelText::of(&spec.policy.model));
        let plain = LocalModelText { folder, dtype: None, arguments: Vec::new(), options: "" };
        let text = claimed.map_or(plain, |claimed| LocalModelText { folder, ..claimed });
        let mut model = settings.read_local(&text, events)?;
        if let Some((spec, weights)) = trained {
            // As learning opens it.
            model.sampling = Sampling::default();
            model = model.before_learning(learned_by(spec, weights)?)?;
        }
        let opened = open(&model)?;
        let before = opened.engine().current().digest;
        local.given.push(opened.identity());
        local.answering.push(opened);
        let claimed = learned.adapter.as_ref().zip(adapter.as_ref());
        let Some((ClaimedAdapter { weights }, adapter)) = claimed else { continue };
        if trained.is_none_or(|(_, weights)| weights.before != Some(before)) {
            // Another model than the one that learned.
            continue;
        }
        let unlike = |recorded: String| {
            let record = EntryName::AdapterSettings.to_string();
            Discrepancy::between(&record, "the weights with it", recorded, weights.to_string())
        };
        match model.with_adapter(adapter) {
            Ok(adapted) => {
                let adapted = open(&adapted)?;
                local.found.extend(unlike(adapted.engine().current().digest.to_string()));
                local.answering.push(adapted);
                local.has_adapter = true;
            }
            Err(error) => local.found.extend(unlike(error.to_string())),
        }
    }
    Ok(local)
}
