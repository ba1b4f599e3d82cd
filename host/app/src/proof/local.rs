//! Local models, whose answers are generated again: equal weights, requests and seeds give equal tokens on processors of one class.

use super::ProofError;
use super::claim::{Claim, LocalAnswers};
use super::verify::VerifyRequest;
use crate::drivers::drivers;
use crate::events::EventSink;
use crate::models::{folder_name, local_folder};
use crate::{AppError, ModelFactory, ModelSettings};
use clawhost_core::{KnownSecrets, Llm};
use clawhost_model::cpu::processor_class;
use clawhost_model::device::Backend;
use clawhost_run_config::{BudgetSpec, RunSpec};
use std::path::Path;
use std::sync::Arc;

/// What generating answers again needs, if a local model answers the policy of a run, and this program computes on the processor alone:
/// otherwise nobody knows on what it was computed.
pub(super) fn answers_of(spec: &RunSpec) -> Option<LocalAnswers> {
    let folder = local_folder(&spec.policy.model).filter(|_| drivers().built() == [Backend::Cpu])?;
    Some(LocalAnswers { model: folder_name(Path::new(folder)), processor: processor_class() })
}

/// The local models of a verification, on this processor.
///
/// # Errors
/// Their answers cannot be generated again here, or a folder holds no model.
pub(super) fn local_models(
    request: &VerifyRequest,
    claim: &Claim,
    events: &dyn EventSink,
) -> Result<Vec<Arc<dyn Llm>>, AppError> {
    if request.models.is_empty() {
        return Ok(Vec::new());
    }
    let (there, here) = (claim.local.as_ref(), processor_class());
    let there = there.ok_or_else(|| ProofError::NoLocalAnswers { run: claim.run.id.0.clone() })?;
    if there.processor != here {
        return Err(ProofError::OtherProcessor { there: there.processor.clone(), here }.into());
    }
    // Without a program that tries devices, models compute on the processor.
    let settings = ModelSettings { probe: None, ..request.model_settings.clone() };
    let concurrency = usize::from(request.concurrency);
    let factory = ModelFactory::new(settings, &BudgetSpec::default(), concurrency, KnownSecrets::default());
    // The verifier's folder may have another name.
    let open = |folder: &String| Ok(factory.local_named(folder, &there.model, 0, events)? as Arc<dyn Llm>);
    request.models.iter().map(open).collect()
}
