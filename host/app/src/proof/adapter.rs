//! The adapter that a run learned: packed in PEFT's format, and compared with the weights that answered the test.

use super::ProofError;
use super::claim::{Claim, ClaimedAdapter, LearnedClaim};
use crate::learn::output_of;
use crate::models::weights_of;
use crate::{AppError, Workspace};
use clawhost_bundle::limits::{BUNDLE_BYTES, UNPACKED_BYTES};
use clawhost_bundle::{Bundle, EntryName};
use clawhost_core::{Digest, Discrepancy, Episode, RunId};
use clawhost_learn::CheckpointKind;
use clawhost_learning::{TestPhase, TestSide};
use clawhost_model::{AdapterFolder, CheckpointWriter};
use clawhost_run_config::RunSpec;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// What became of the adapter of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProvedAdapter {
    /// It is in the bundle.
    Packed {
        /// The digest of the model's weights with it.
        weights: Digest,
        /// The size of its weights in bytes.
        bytes: u64,
    },
    /// It is not.
    LeftOut {
        /// The reason.
        why: String,
    },
}

/// The files of an adapter, in the order of [`AdapterFolder::FILES`].
type Files = [Vec<u8>; 2];

/// The test episodes that were played after learning.
pub(super) struct AfterLearning(HashMap<RunId, TestPhase>);

impl AfterLearning {
    /// Those of a claim.
    pub(super) fn of(claim: &Claim) -> Self {
        Self(claim.tests().map(|(row, test, _)| (row.id.clone(), test)).collect())
    }

    /// Whether an episode is one of them.
    pub(super) fn has(&self, episode: &Episode) -> bool {
        let test = self.0.get(&episode.run);
        test.and_then(|test| test.side(episode.group(), episode.index)) == Some(TestSide::After)
    }
}

/// The adapter in the output of a run, if it learned one. `answered`: the weights that answered the test after learning.
pub(super) fn learned_adapter(
    workspace: &Workspace,
    (run, spec): (&RunId, &RunSpec),
    answered: &BTreeSet<Digest>,
) -> Result<Option<(ProvedAdapter, Option<Files>)>, AppError> {
    let Some(weights) = spec.weights().filter(|weights| weights.adapter.is_some()) else { return Ok(None) };
    let left_out = |why: String| Ok(Some((ProvedAdapter::LeftOut { why }, None)));
    let digest = match answered.iter().collect::<Vec<_>>().as_slice() {
        [one] => **one,
        [] => return left_out("no test was played with it, so nothing would say that the run learned it".to_owned()),
        _ => return left_out("the test after learning was answered by more than one version".to_owned()),
    };
    let last = CheckpointWriter::place(&output_of(workspace, weights.out.as_deref(), run), CheckpointKind::Last);
    let folder = AdapterFolder::inside(&last);
    if !AdapterFolder::is_one(&folder) {
        return left_out(format!("{} is not there any more", folder.display()));
    }
    if let Err(error) = AdapterFolder::read(&folder) {
        return left_out(error.to_string());
    }
    let read = |name: &str| {
        let path = folder.join(name);
        clawhost_files::read(&path, BUNDLE_BYTES)
            .map_err(|error| AppError::Io { path: path.display().to_string(), error })
    };
    let [settings, weights] = AdapterFolder::FILES;
    let (settings, weights) = (read(settings)?, read(weights)?);
    let packed = ProvedAdapter::Packed { weights: digest, bytes: weights.len() as u64 };
    Ok(Some((packed, Some([settings, weights]))))
}

/// The parts in which the weights of an adapter are packed.
pub(super) fn parts(weights: &[u8]) -> impl Iterator<Item = (EntryName, &[u8])> {
    let size = usize::try_from(UNPACKED_BYTES).unwrap_or(usize::MAX);
    (0..).map(EntryName::AdapterWeights).zip(weights.chunks(size))
}

/// Reads the adapter of a bundle. `None`: it has none.
///
/// # Errors
/// It is damaged, too large, or of a kind that is not supported.
pub(super) fn packed_adapter(bundle: &Bundle) -> Result<Option<AdapterFolder>, ProofError> {
    let entries = &bundle.manifest().entries;
    if !entries.iter().any(|entry| entry.name == EntryName::AdapterSettings) {
        return Ok(None);
    }
    let failed = |why: String| ProofError::Entry { entry: EntryName::AdapterSettings.to_string(), why };
    let of_weights = || entries.iter().filter(|entry| matches!(entry.name, EntryName::AdapterWeights(_)));
    let bytes = of_weights().fold(0_u64, |sum, entry| sum.saturating_add(entry.unpacked));
    if bytes > BUNDLE_BYTES {
        return Err(failed(format!("its weights have {bytes} bytes, and {BUNDLE_BYTES} are read")));
    }
    let mut weights = Vec::new();
    for entry in of_weights() {
        weights.extend(bundle.read(entry.name)?);
    }
    let settings = bundle.read(EntryName::AdapterSettings)?;
    AdapterFolder::of_files([&settings, &weights]).map(Some).map_err(|error| failed(error.to_string()))
}

/// The weights of which a claim says that they answered the test after learning.
pub(super) struct TestedWeights {
    weights: Digest,
    episodes: AfterLearning,
}

impl TestedWeights {
    /// `None`: the claim has no adapter.
    pub(super) fn of(claim: &Claim, learned: &LearnedClaim) -> Option<Self> {
        let ClaimedAdapter { weights } = learned.adapter.as_ref()?;
        Some(Self { weights: *weights, episodes: AfterLearning::of(claim) })
    }

    /// Compares them with the weights of an episode that they ought to have answered.
    pub(super) fn check(&self, episode: &Episode) -> Option<Discrepancy> {
        if !self.episodes.has(episode) {
            return None;
        }
        let recorded = clawhost_core::escaped(weights_of(&episode.policy.model.version), 100);
        let record = format!("{}/{}", episode.run, episode.id);
        Discrepancy::between(&record, "the weights that answered", recorded, self.weights.to_string())
    }
}
