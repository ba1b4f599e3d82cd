//! Local models, whose answers are generated again: equal weights, requests and seeds give equal tokens on processors of one class.

use super::claim::Claim;
use super::verify::VerifyRequest;
use super::{ProofError, claim::ClaimedRun};
use crate::drivers::drivers;
use crate::events::EventSink;
use crate::models::local_folder;
use crate::{AppError, ModelFactory, ModelSettings};
use clawhost_core::{KnownSecrets, Llm};
use clawhost_model::cpu::processor_class;
use clawhost_model::device::Backend;
use clawhost_run_config::{BudgetSpec, RunSpec};
use std::sync::Arc;

/// The class of this processor, if a local model answers the policy of a run, and this program computes on the processor alone: otherwise
/// nobody knows on what it was computed.
pub(super) fn processor_of(spec: &RunSpec) -> Option<String> {
    let is_local = local_folder(&spec.policy.model).is_some();
    (is_local && drivers().built() == [Backend::Cpu]).then(processor_class)
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
    let (Claim { run: ClaimedRun { id, .. }, processor, .. }, here) = (claim, processor_class());
    match processor {
        None => return Err(ProofError::NoLocalAnswers { run: id.0.clone() }.into()),
        Some(there) if *there != here => return Err(ProofError::OtherProcessor { there: there.clone(), here }.into()),
        Some(_) => {}
    }
    // Without a program that tries devices, models compute on the processor.
    let settings = ModelSettings { probe: None, ..request.model_settings.clone() };
    let concurrency = usize::from(request.concurrency);
    let factory = ModelFactory::new(settings, &BudgetSpec::default(), concurrency, KnownSecrets::default());
    let open = |folder: &String| Ok(factory.local(folder, 0, events)? as Arc<dyn Llm>);
    request.models.iter().map(open).collect()
}
