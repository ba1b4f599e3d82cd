//! The adapter that a run learned: packed in PEFT's format, and compared with the weights that answered the test.

use super::ProofError;
use super::claim::{Claim, ClaimedAdapter, LearnedClaim};
use crate::Workspace;
use crate::learn::output_of;
use crate::models::weights_of;
use clawhost_bundle::limits::UNPACKED_BYTES;
use clawhost_bundle::{Bundle, EntryName};
use clawhost_core::{Digest, Discrepancy, Episode, RunId};
use clawhost_learn::CheckpointKind;
use clawhost_learning::{TestPhase, TestSide};
use clawhost_model::{AdapterFolder, CheckpointWriter};
use clawhost_run_config::RunSpec;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// Largest weights of an adapter in bytes: rank 64 in a model of six billion weights. `verify` needs three times as much memory to read them.
const ADAPTER_BYTES: u64 = 512 << 20;

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
) -> Option<(ProvedAdapter, Option<Files>)> {
    let weights = spec.weights().filter(|weights| weights.adapter.is_some())?;
    let left_out = |why: String| Some((ProvedAdapter::LeftOut { why }, None));
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
    let read = |name: &str| {
        let path = folder.join(name);
        clawhost_files::read(&path, ADAPTER_BYTES).map_err(|error| format!("{}: {error}", path.display()))
    };
    let [settings, weights] = AdapterFolder::FILES.map(read);
    let files = match (settings, weights) {
        (Ok(settings), Ok(weights)) => [settings, weights],
        (Err(why), _) | (_, Err(why)) => return left_out(why),
    };
    if let Err(error) = AdapterFolder::of_files(files.each_ref().map(Vec::as_slice)) {
        return left_out(error.to_string());
    }
    let [_, weights] = &files;
    let packed = ProvedAdapter::Packed { weights: digest, bytes: weights.len() as u64 };
    Some((packed, Some(files)))
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
    let is_of_adapter = |name| matches!(name, EntryName::AdapterSettings | EntryName::AdapterWeights(_));
    if !entries.iter().any(|entry| is_of_adapter(entry.name)) {
        return Ok(None);
    }
    let failed = |why: String| ProofError::Entry { entry: EntryName::AdapterSettings.to_string(), why };
    let of_weights = || entries.iter().filter(|entry| matches!(entry.name, EntryName::AdapterWeights(_)));
    let bytes = of_weights().fold(0_u64, |sum, entry| sum.saturating_add(entry.unpacked));
    if bytes > ADAPTER_BYTES {
        return Err(failed(format!("its weights have {bytes} bytes, and {ADAPTER_BYTES} are read")));
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
