//! What a bundle claims, at the cost of reading it: its entries are compared with its manifest, and nothing is played again.

use super::{ProofError, archive};
use crate::AppError;
use clawhost_bundle::Bundle;
use clawhost_core::{Digest, RunId, RunKind};
use clawhost_engine::ENGINE_MAJOR;
use clawhost_learning::{Evaluation, Outcome};
use serde::de::DeserializeOwned;
use std::path::Path;

/// What a bundle claims.
#[derive(Debug, Clone, PartialEq)]
pub struct ProofSummary {
    /// The digest of the manifest, which stands for the bundle.
    pub bundle: Digest,
    /// The run, by its id in the bundle.
    pub run: RunId,
    /// Its purpose.
    pub kind: RunKind,
    /// The environment's name.
    pub environment: String,
    /// Episodes in the bundle.
    pub episodes: u64,
    /// Iterations of learning.
    pub iterations: u64,
    /// The test before and after learning. `None`: there was none.
    pub evaluation: Option<Evaluation>,
    /// The result of the run. `None`: it did not learn.
    pub outcome: Option<Outcome>,
    /// The digest of the weights after learning. `None`: the bundle does not name them; it does if an adapter was learned.
    pub weights: Option<Digest>,
}

/// Reads what a bundle claims.
///
/// # Errors
/// The file is no bundle of this format and engine, exceeds a limit, or an entry is not what the manifest says.
pub fn proof_summary(path: &Path) -> Result<ProofSummary, AppError> {
    let bundle = Bundle::open(path, ENGINE_MAJOR).map_err(ProofError::from)?;
    if let Some(changed) = archive::changed(&bundle)?.into_iter().next() {
        let why = "it differs from the manifest".to_owned();
        return Err(ProofError::Entry { entry: changed.record, why }.into());
    }
    let archive::Opened { claim, learned, .. } = archive::open(&bundle)?;
    let summary = &claim.run.summary;
    Ok(ProofSummary {
        bundle: bundle.digest(),
        episodes: bundle.manifest().runs.iter().fold(0, |sum, run| sum.saturating_add(run.episodes)),
        iterations: learned.iterations.len() as u64,
        evaluation: part(summary, "evaluation"),
        outcome: part(summary, "outcome"),
        weights: learned.adapter.map(|adapter| adapter.weights),
        run: claim.run.id,
        kind: claim.run.kind,
        environment: claim.run.environment,
    })
}

/// A part of a summary. `None`: it is not there, or of another form.
fn part<T: DeserializeOwned>(summary: &serde_json::Value, name: &str) -> Option<T> {
    summary.get(name).and_then(|part| T::deserialize(part).ok())
}
